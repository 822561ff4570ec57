/* SPDX-License-Identifier: Apache-2.0 */
/* See key_table.h.
 *
 * Owns: the requested keys and their indexes. A publisher must name its mapping by prctl as the last step of each publication, whether
 * the kernel supports names or not. So the table is read there, by the thread that publishes it: samples never wait for it, and neither
 * a descriptor nor /proc is needed. Only one thread publishes at a time. All of its memory is copied through the kernel, since it may
 * be anything. */
#include "recorder/otel/key_table.h"

#include <sys/mman.h>

#include "base/cursor.h"
#include "format/live/live_handover.h"
#include "recorder/memory.h"
#include "recorder/sys.h"

enum { KEYS_MAX = 256, PAYLOAD_MAX = 256 << 10 };

static const char signature[8] = { 'O', 'T', 'E', 'L', '_', 'C', 'T', 'X' };

/* The start of the mapping. */
struct header {
	char signature[sizeof signature];
	uint32_t version, payload_bytes;
	uint64_t published_ns; /* 0: it is being changed */
	uint64_t payload;
};
enum { HEADER_VERSION = 2 };

PROCESS_STATE uint32_t otel_key_count;
static char text[LIVE_OTEL_BYTES];
static const char *keys[LIVE_OTEL_KEYS];

static PROCESS_STATE struct table {
	uint32_t count;
	uint16_t index[LIVE_OTEL_KEYS]; /* + 1; 0: not in the table */
} table;

void otel_keys_start(const char *requested)
{
	bool starts = true;

	__builtin_memset(&table, 0, sizeof table);
	otel_key_count = 0;
	for (uint32_t i = 0; i < sizeof text - 1 && requested[i]; i++) {
		bool ends = requested[i] == ';' || requested[i] == ',';

		text[i] = ends ? 0 : requested[i];
		text[i + 1] = 0;
		if (starts && !ends && otel_key_count < LIVE_OTEL_KEYS)
			keys[otel_key_count++] = &text[i];
		starts = ends;
	}
}

const char *otel_key(uint32_t i)
{
	return keys[i];
}

bool otel_key_is(uint32_t i, uint8_t index)
{
	return __atomic_load_n(&table.index[i], __ATOMIC_RELAXED) == index + 1;
}

uint32_t otel_keys_known(void)
{
	return __atomic_load_n(&table.count, __ATOMIC_ACQUIRE);
}

/* ---- the payload: protobuf, as far as the table needs it ---- */

/* Takes the next field of a message. ret_content: empty for a number. False: there are no more, or it is damaged. */
static bool take_field(struct cursor *c, uint64_t *ret_number, struct span *ret_content)
{
	enum { VARINT, EIGHT_BYTES, WITH_LENGTH, FOUR_BYTES = 5 };
	uint64_t tag = cursor_varint(c);

	*ret_number = tag >> 3;
	*ret_content = (struct span){ 0 };
	if ((tag & 7) == VARINT)
		cursor_varint(c);
	else if ((tag & 7) == WITH_LENGTH)
		*ret_content = cursor_counted(c);
	else if ((tag & 7) == EIGHT_BYTES || (tag & 7) == FOUR_BYTES)
		cursor_skip(c, (tag & 7) == FOUR_BYTES ? 4 : 8);
	else
		cursor_fail(c);
	return !c->failed;
}

/* The content of the first field with that number; empty: none. */
static struct span field(struct span message, uint64_t number)
{
	struct cursor c = cursor_over(message);
	struct span content;
	uint64_t seen;

	while (take_field(&c, &seen, &content)) {
		if (seen == number)
			return content;
	}
	return (struct span){ 0 };
}

static bool is_text(struct span content, const char *other)
{
	return span_equal(content, span_of(other, __builtin_strlen(other)));
}

/* Field numbers of ProcessContext, KeyValue, AnyValue and ArrayValue. */
enum {
	CONTEXT_ATTRIBUTES = 2,
	PAIR_KEY = 1,
	PAIR_VALUE = 2,
	VALUE_TEXT = 1,
	VALUE_ARRAY = 5,
	ARRAY_VALUES = 1
};

/* The value of an attribute; empty: none. */
static struct span attribute(struct span context, const char *key)
{
	struct cursor c = cursor_over(context);
	struct span pair;
	uint64_t number;

	while (take_field(&c, &number, &pair)) {
		if (number == CONTEXT_ATTRIBUTES && is_text(field(pair, PAIR_KEY), key))
			return field(pair, PAIR_VALUE);
	}
	return (struct span){ 0 };
}

static struct table read_payload(struct span context)
{
	struct span schema = field(attribute(context, "threadlocal.schema_version"), VALUE_TEXT);
	struct cursor c = cursor_over(
		field(attribute(context, "threadlocal.attribute_key_map"), VALUE_ARRAY));
	struct table ret = { 0 };
	struct span value;
	uint64_t number;

	if (!is_text(schema, "tls_v1") && !is_text(schema, "tlsdesc_v1_dev"))
		return ret;
	while (ret.count < KEYS_MAX && take_field(&c, &number, &value)) {
		if (number != ARRAY_VALUES)
			continue;
		ret.count++;
		for (uint32_t i = 0; i < otel_key_count; i++) {
			if (ret.index[i] == 0 && is_text(field(value, VALUE_TEXT), keys[i]))
				ret.index[i] = (uint16_t)ret.count;
		}
	}
	return ret;
}

/* ---- publication ---- */

/* Empty: there is none, or it cannot be read. */
static struct table read_mapping(uintptr_t mapping)
{
	struct header header;
	struct table ret = { 0 };

	if (!memory_read_safely(mapping, &header, sizeof header) ||
	    __builtin_memcmp(header.signature, signature, sizeof signature) != 0 ||
	    header.version != HEADER_VERSION || header.published_ns == 0 ||
	    header.payload_bytes > PAYLOAD_MAX || !sys_may(SYS_OTHERS))
		return ret;
	long copy = sys_mmap(NULL, PAYLOAD_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			     -1, 0);

	if (sys_failed(copy))
		return ret;
	if (memory_read_safely(header.payload, (void *)copy, header.payload_bytes))
		ret = read_payload(span_of((const void *)copy, header.payload_bytes));
	sys_munmap((void *)copy, PAYLOAD_MAX);
	return ret;
}

void otel_mapping_is_named(uintptr_t mapping, uintptr_t name)
{
	char start[sizeof signature + 1];

	if (!memory_read_safely(name, start, sizeof start) || start[sizeof signature] != 0 ||
	    __builtin_memcmp(start, signature, sizeof signature) != 0)
		return;
	struct table found = read_mapping(mapping);

	for (uint32_t i = 0; i < otel_key_count; i++)
		__atomic_store_n(&table.index[i], found.index[i], __ATOMIC_RELAXED);
	__atomic_store_n(&table.count, found.count, __ATOMIC_RELEASE);
}
