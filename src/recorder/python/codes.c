/* SPDX-License-Identifier: Apache-2.0 */
/* See codes.h. Owns: LIVE_CODES, and tables of the ids of code objects and their frames; all under rules_lock, like frames and
 * modules. Objects are read before the lock is taken. Invariant: a frame id denotes one instruction of one code object for ever. */
#include "recorder/python/codes.h"

#include "base/hash.h"
#include "recorder/table.h"
#include "recorder/unwind/modules.h"
#include "recorder/unwind/rules.h"

enum { OWN_ADDRESS, OWN_VERSION };
enum { ROOM = 64, TEXT_MAX = 1024, LINES_MAX = 64 << 10, PIECE = 64 };

static PROCESS_STATE struct table codes, frames;

void python_codes_reset(void)
{
	codes = frames = (struct table){ 0 };
}

/* ---- texts ---- */

static bool find_text(enum python_reading how, uintptr_t object, uint32_t limit,
		      struct python_text *ret)
{
	uint64_t length;
	uint32_t state;

	if (!python_read(how, object + PYTHON_LENGTH, &length, sizeof length) ||
	    !python_read(how, object + PYTHON_STATE, &state, sizeof state))
		return false;
	*ret = python_text(python_here->layout, object, MIN(length, (uint64_t)limit), state);
	return ret->width != 0;
}

static uint32_t character(const char *piece, uint32_t i, uint32_t width)
{
	uint32_t c = 0;

	__builtin_memcpy(&c, piece + (size_t)i * width, width);
	return c;
}

/* Encodes a character as UTF-8; returns the number of bytes. */
static uint32_t encode(uint32_t c, char to[4])
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	uint32_t more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;

	to[0] = (char)((0xf00 >> (more + 1) | c >> (6 * more)) & 0xff);
	for (uint32_t i = 1; i <= more; i++)
		to[i] = (char)(0x80 | (c >> (6 * (more - i)) & 0x3f));
	return more + 1;
}

enum use { COUNT, COMPARE, STORE };

/* Iterates over the text as UTF-8: counts its bytes, or compares or stores them at `at`, which has `limit` bytes. *ret: how many.
 * False: different, too long, or unreadable. Without the GIL the text may change between two calls. */
static bool use_text(enum python_reading how, const struct python_text *text, enum use use,
		     char *at, uint32_t limit, uint32_t *ret)
{
	char piece[PIECE * 4], bytes[4];

	*ret = 0;
	for (uint32_t i = 0; i < text->count; i++) {
		if (i % PIECE == 0 &&
		    !python_read(how, text->at + (uintptr_t)i * text->width, piece,
				 (size_t)MIN(text->count - i, (uint64_t)PIECE) * text->width))
			return false;
		uint32_t n = encode(character(piece, i % PIECE, text->width), bytes);

		if (n > limit - *ret)
			return false;
		if (use == COMPARE && __builtin_memcmp(at + *ret, bytes, n) != 0)
			return false;
		if (use == STORE)
			__builtin_memcpy(at + *ret, bytes, n);
		*ret += n;
	}
	return true;
}

bool python_copy_text(enum python_reading how, uintptr_t object, uint32_t limit, char *to,
		      uint32_t *ret)
{
	struct python_text text;

	return find_text(how, object, limit, &text) &&
	       use_text(how, &text, STORE, to, 4 * limit, ret);
}

static char *string_at(uint32_t at)
{
	return memory.region[LIVE_STRINGS] + at;
}

static bool store_text(enum python_reading how, const struct python_text *text, uint32_t *ret_at,
		       uint32_t *ret_bytes)
{
	if (!use_text(how, text, COUNT, NULL, UINT32_MAX, ret_bytes))
		return false;
	uint64_t at = memory_append(LIVE_STRINGS, *ret_bytes, 1);

	if (at == UINT64_MAX)
		return false;
	*ret_at = (uint32_t)at;
	return use_text(how, text, STORE, string_at(*ret_at), *ret_bytes, ret_bytes);
}

/* ---- code objects ---- */

/* The module entry of a source file. 0: none. */
static uint32_t file_of(struct slot *slot, enum python_reading how, uintptr_t object)
{
	struct python_text text;
	uint32_t bytes, at;

	if (!find_text(how, object, TEXT_MAX, &text) ||
	    !use_text(how, &text, COUNT, NULL, UINT32_MAX, &bytes))
		return 0;
	for (uint32_t id = 1; id < memory_used(LIVE_MODULES); id++) {
		const struct live_module *module = memory_module(id);
		uint32_t same;

		if (module->kind == LIVE_MODULE_PYTHON && module->path_bytes == bytes &&
		    use_text(how, &text, COMPARE, string_at(module->path_at), bytes, &same))
			return id;
	}
	return store_text(how, &text, &at, &bytes) ? modules_add_file(slot, at, bytes) : 0;
}

static void store_lines(enum python_reading how, uintptr_t object, struct live_code *code)
{
	uint64_t size, at;

	if (!python_read(how, object + PYTHON_SIZE, &size, sizeof size) || size > LINES_MAX ||
	    (at = memory_append(LIVE_STRINGS, size, 1)) == UINT64_MAX)
		return;
	code->lines_at = (uint32_t)at;
	if (python_read(how, object + PYTHON_BYTES, string_at(code->lines_at), size))
		code->lines_bytes = (uint32_t)size;
}

/* Reads a code object and stores its texts. False: unreadable, or no memory. */
static bool describe(struct slot *slot, enum python_reading how, uintptr_t at, uint64_t version,
		     struct live_code *ret)
{
	const struct python_layout *l = python_here->layout;
	uintptr_t type, file, name, lines;
	struct python_text text;

	*ret = (struct live_code){ .own = { [OWN_ADDRESS] = at, [OWN_VERSION] = version } };
	if (!python_read(how, at + PYTHON_TYPE, &type, sizeof type) ||
	    type != python_here->code_type ||
	    !python_read(how, at + l->code_first_line, &ret->first_line, sizeof ret->first_line) ||
	    !python_read(how, at + l->code_file, &file, sizeof file) ||
	    !python_read(how, at + l->code_name, &name, sizeof name) ||
	    !python_read(how, at + l->code_lines, &lines, sizeof lines) ||
	    !find_text(how, name, TEXT_MAX, &text))
		return false;
	/* First: without a usable file nothing is stored, or it would be stored again for every stack. */
	ret->module = file_of(slot, how, file);
	if (ret->module == 0 || !store_text(how, &text, &ret->name_at, &ret->name_bytes))
		return false;
	store_lines(how, lines, ret);
	return true;
}

static uint64_t code_hash(uintptr_t at, uint64_t version)
{
	return hash_mix(at + version * UINT64_C(0x9e3779b97f4a7c15));
}

/* 0: unknown. Under the lock. */
static uint32_t find_code(uintptr_t at, uint64_t version)
{
	uint32_t tag = table_tag(code_hash(at, version)), place = tag, id;

	do
		id = table_next(&codes, tag, &place);
	while (id != 0 && (memory_code(id)->own[OWN_ADDRESS] != at ||
			   memory_code(id)->own[OWN_VERSION] != version));
	return id;
}

/* 0: no memory. Under the lock. */
static uint32_t add_code(const struct live_code *code)
{
	uint64_t used = MAX(memory_used(LIVE_CODES), UINT64_C(1)); /* 0 is none */
	uint32_t known = find_code(code->own[OWN_ADDRESS], code->own[OWN_VERSION]);

	if (known != 0 || used >= LIVE_CODE_IDS ||
	    (used + 1) * sizeof *code > memory_opened(LIVE_CODES) || table_is_full(&codes))
		return known;
	*memory_code((uint32_t)used) = *code;
	__atomic_store_n(&memory.head->used[LIVE_CODES], used + 1, __ATOMIC_RELEASE);
	table_put(&codes, table_tag(code_hash(code->own[OWN_ADDRESS], code->own[OWN_VERSION])),
		  (uint32_t)used);
	return (uint32_t)used;
}

/* ---- frames ---- */

static uint64_t frame_word(uint32_t code, uintptr_t instruction)
{
	const struct live_code *of = memory_code(code);
	uintptr_t first = of->own[OWN_ADDRESS] + python_here->layout->code_units;
	uint64_t unit = instruction > first ? (instruction - first) / PYTHON_UNIT : 0;

	return live_frame_pack(of->module, live_code_offset(code, unit), true);
}

/* Under the lock. */
static uint32_t frame_of_code(uint32_t code, uintptr_t instruction)
{
	uint64_t word = frame_word(code, instruction), hash = hash_mix(word);
	uint32_t tag = table_tag(hash), place = tag, id;

	do
		id = table_next(&frames, tag, &place);
	while (id != 0 && *memory_frame(id) != word);
	if (id != 0 || table_is_full(&frames))
		return id != 0 ? id : LIVE_FRAME_OTHER;
	id = rules_add_frame(word);
	if (id != LIVE_FRAME_OTHER)
		table_put(&frames, tag, id);
	return id;
}

/* False: no memory, or the lock timed out. */
static bool grow(struct slot *slot, struct table *table)
{
	uint32_t mask = __atomic_load_n(&table->mask, __ATOMIC_RELAXED);
	struct table larger = mask == 0 ? table_new(TABLE_FIRST)
					: table_larger(table, ROOM, memory_scratch_above_reserve);

	if (larger.entry == NULL)
		return mask != 0;
	if (!lock_acquire(&rules_lock, slot->id))
		return false;
	if (table->mask == mask && mask == 0)
		table_replace(table, larger);
	else if (table->mask == mask) /* no other thread has grown it */
		table_move(table, larger);
	lock_release(&rules_lock);
	return true;
}

COLD uint32_t python_frame_id(struct slot *slot, enum python_reading how, uintptr_t at,
			      uint64_t version, uintptr_t instruction)
{
	uint32_t frame = LIVE_FRAME_OTHER, code;
	struct live_code added;

	memory_open(LIVE_CODES, (memory_used(LIVE_CODES) + ROOM) * sizeof(struct live_code));
	memory_open(LIVE_FRAMES, (memory_used(LIVE_FRAMES) + ROOM) * sizeof(uint64_t));
	if (!grow(slot, &codes) || !grow(slot, &frames) || !lock_acquire(&rules_lock, slot->id))
		return frame;
	code = find_code(at, version);
	if (code != 0)
		frame = frame_of_code(code, instruction);
	lock_release(&rules_lock);
	if (code != 0 || !describe(slot, how, at, version, &added) ||
	    !lock_acquire(&rules_lock, slot->id))
		return frame;
	code = add_code(&added);
	if (code != 0)
		frame = frame_of_code(code, instruction);
	lock_release(&rules_lock);
	return frame;
}
