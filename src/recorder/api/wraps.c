/* SPDX-License-Identifier: Apache-2.0 */
/* Redirects calls of wrapped functions to us.
 *
 * An object calls a function of another object, or a preemptible one of its own, through a GOT slot or a pointer that the
 * loader fills in. Slots of the requested names get the address of a thunk of ours, which continues to the previous value: so
 * each object still reaches the very function that the loader chose for it, which no other definition of the name could
 * guarantee. Calls inside an object that use no slot are not seen.
 *
 * Slots are written when an object has been relocated but has not run yet: from our constructor, and from __gmon_start__, which
 * the start-up code of every object calls. Owns: wrap_targets, wrap_handlers. */
#include "recorder/api/wraps.h"

#include <elf.h>
#include <sys/mman.h>

#include "recorder/api/wrapped.h"
#include "recorder/lookup.h"
#include "recorder/memory.h"
#include "recorder/unwind/modules.h"
#include "recorder/sys.h"

struct item {
	struct wrap_item what;
	uint32_t group;
	bool reached;
};

static char text[WRAPS_TEXT_MAX + 1];
static struct item items[WRAPS_MAX];
static uint32_t item_count, target_count;
static bool first_letter[256]; /* first letters of the names */
static struct {
	char name[WRAPS_NAME_MAX + 1];
	struct wrapped_pool pool;
	bool by_prefix;
} groups[WRAPS_MAX];

struct wrap_target wrap_targets[WRAP_TARGETS];
const void *wrap_handlers[WRAP_TARGETS];

struct wrapped_pool *wraps_pool(uint32_t target)
{
	return &groups[items[wrap_targets[target].item].group].pool;
}

void wraps_start(void)
{
	const char *from = live_control_wraps((const struct live_control *)memory.control);
	struct wraps wraps = { .text = text };

	for (size_t i = 0; i < WRAPS_TEXT_MAX && from[i]; i++)
		text[i] = from[i];
	while (item_count < WRAPS_MAX && wraps_next(&wraps, &items[item_count].what)) {
		struct item *item = &items[item_count++];

		item->group = MIN(item->what.group, (unsigned)WRAPS_MAX - 1);
		groups[item->group].by_prefix = item->what.by_prefix;
		groups[item->group].pool.name = groups[item->group].name;
		__builtin_memcpy(groups[item->group].name, item->what.pool.at,
				 MIN(item->what.pool.bytes, (size_t)WRAPS_NAME_MAX));
		first_letter[(uint8_t)item->what.name.at[0]] = true;
	}
}

/* ---- names ---- */

static bool begins(const char *name, struct wrap_text with)
{
	for (size_t i = 0; i < with.bytes; i++) {
		if (name[i] == 0 || name[i] != with.at[i])
			return false;
	}
	return true;
}

/* The item of a name; WRAPS_MAX: none. */
static uint32_t item_of(const char *name)
{
	for (uint32_t i = 0; first_letter[(uint8_t)name[0]] && i < item_count; i++) {
		const struct wrap_item *what = &items[i].what;

		if (begins(name, what->name) && begins(name + what->name.bytes, what->rest) &&
		    name[what->name.bytes + what->rest.bytes] == 0)
			return i;
	}
	return WRAPS_MAX;
}

/* ---- objects ---- */

struct object {
	const struct libc_object *map;
	uintptr_t start, bytes;		/* its address range */
	uintptr_t sealed, sealed_bytes; /* what the loader has made read-only (RELRO) */
	struct lookup_relocations relocations;
};

static uintptr_t page_of(uintptr_t address)
{
	return address & ~(sys_page() - 1);
}

/* The program headers follow the ELF header at the start of the object. */
static void find_relro(struct object *object)
{
	const Elf64_Ehdr *head = (const Elf64_Ehdr *)object->start;

	if (object->bytes < ARCH_PAGE || __builtin_memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
	    head->e_phoff + head->e_phnum * sizeof(Elf64_Phdr) > ARCH_PAGE)
		return;
	const Elf64_Phdr *part = (const Elf64_Phdr *)(object->start + head->e_phoff);

	for (unsigned i = 0; i < head->e_phnum; i++) {
		if (part[i].p_type != PT_GNU_RELRO)
			continue;
		uintptr_t from = libc_bias(object->map) + part[i].p_vaddr;

		object->sealed = page_of(from);
		object->sealed_bytes = page_of(from + part[i].p_memsz) - object->sealed;
	}
}

static bool describe(const struct libc_object *map, struct object *ret)
{
	*ret = (struct object){ .map = map };
	modules_extent(libc_dynamic(map), &ret->start, &ret->bytes);
	find_relro(ret);
	return lookup_relocations(map, &ret->relocations) && ret->bytes != 0;
}

/* ---- GOT slots ---- */

/* What the loader will choose when it binds a call lazily. Objects loaded at start-up come first, in order; otherwise it must
 * be the only definition. 0: unknown. */
static uintptr_t choice_of_loader(const char *name)
{
	uintptr_t only = 0;
	int found = 0;

	for (const struct libc_object *map = libc_first_object(); map != NULL;
	     map = libc_next_object(map)) {
		const Elf64_Sym *symbol = lookup_in(map, name);

		if (symbol == NULL)
			continue;
		only = ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC
			       ? 0
			       : libc_bias(map) + symbol->st_value;
		if (lookup_was_there_at_start(map))
			return only;
		found++;
	}
	return found == 1 ? only : 0;
}

/* Where a slot leads now, or will after binding; 0: nowhere, or unknown. */
static uintptr_t end_of(const struct object *object, const char *name, uint32_t type,
			uintptr_t value)
{
	const Elf64_Sym *own = lookup_in(object->map, name);
	bool bound = type != ARCH_RELOCATION_CALL || value - object->start >= object->bytes ||
		     (own != NULL && value == libc_bias(object->map) + own->st_value);

	return bound ? value : choice_of_loader(name);
}

/* Finds or creates the target for a function; WRAP_TARGETS: table full. */
static uint32_t target_for(uint32_t item, uintptr_t function)
{
	uint32_t i = 0;

	while (i < target_count &&
	       (wrap_targets[i].item != item || wrap_targets[i].function != (void *)function))
		i++;
	if (i == target_count && i < WRAP_TARGETS) {
		wrap_targets[i] = (struct wrap_target){ (void *)function, item };
		wrap_handlers[i] = wrap_handler_of[items[item].what.shape];
		target_count++;
	}
	return i;
}

static bool write_word(const struct object *object, uintptr_t *word, uintptr_t value)
{
	bool sealed = (uintptr_t)word - object->sealed < object->sealed_bytes;
	void *page = (void *)page_of((uintptr_t)word);

	if (sealed && (!sys_may(SYS_MEMORY) ||
		       sys_failed(sys_mprotect(page, sys_page(), PROT_READ | PROT_WRITE))))
		return false;
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	if (sealed)
		sys_mprotect(page, sys_page(), PROT_READ);
	return true;
}

static void redirect_slot(const struct object *object, const Elf64_Rela *relocation)
{
	uint32_t type = (uint32_t)ELF64_R_TYPE(relocation->r_info);

	if (type != ARCH_RELOCATION_CALL && type != ARCH_RELOCATION_ADDRESS &&
	    (type != ARCH_RELOCATION_DATA || relocation->r_addend != 0))
		return;
	const char *name = lookup_relocation_name(&object->relocations, relocation);
	uint32_t item = item_of(name);

	if (item == WRAPS_MAX)
		return;
	uintptr_t *word = (uintptr_t *)(libc_bias(object->map) + relocation->r_offset);
	uintptr_t value = __atomic_load_n(word, __ATOMIC_RELAXED);

	if (value - (uintptr_t)wrap_thunks < ARCH_THUNK_BYTES * WRAP_TARGETS) {
		items[item].reached = true;
		return;
	}
	uintptr_t function = value != 0 ? end_of(object, name, type, value) : 0;
	uint32_t target = function != 0 ? target_for(item, function) : WRAP_TARGETS;

	if (target < WRAP_TARGETS &&
	    write_word(object, word, (uintptr_t)wrap_thunks + ARCH_THUNK_BYTES * (uintptr_t)target))
		items[item].reached = true;
}

static void visit(const struct libc_object *map)
{
	struct object object;

	if (!describe(map, &object) || modules_is_loader((uintptr_t)libc_dynamic(map)) ||
	    (!modules_is_linked_in() && modules_is_recorder((uintptr_t)libc_dynamic(map))))
		return;
	for (int k = 0; k < 2; k++) {
		for (uint64_t i = 0; i < object.relocations.table[k].count; i++)
			redirect_slot(&object, &object.relocations.table[k].at[i]);
	}
}

/* Counts requested functions that no visible call reaches yet. For a prefix, one reached function suffices. */
static void count_unreached(void)
{
	uint64_t unreached = 0;

	for (uint32_t i = 0; i < item_count; i++) {
		bool reached = items[i].reached;
		bool first = i == 0 || items[i - 1].group != items[i].group;

		if (groups[items[i].group].by_prefix && !first)
			continue;
		for (uint32_t j = i; groups[items[i].group].by_prefix && j < item_count; j++)
			reached |= items[j].group == items[i].group && items[j].reached;
		unreached += !reached;
	}
	memory.head->health[HEALTH_unreached_wraps] = unreached;
}

void wraps_visit_all(void)
{
	if (item_count == 0)
		return;
	for (const struct libc_object *map = libc_first_object(); map != NULL;
	     map = libc_next_object(map))
		visit(map);
	count_unreached();
}

void wraps_visit(uintptr_t address)
{
	const struct libc_object *map = item_count != 0 ? libc_first_object() : NULL;
	uintptr_t start = 0, bytes = 0;

	if (map == NULL)
		return;
	modules_extent((const void *)address, &start, &bytes);
	while (map != NULL && (uintptr_t)libc_dynamic(map) - start >= bytes)
		map = libc_next_object(map);
	if (map == NULL)
		return;
	visit(map);
	count_unreached();
}
