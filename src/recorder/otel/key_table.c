/* SPDX-License-Identifier: Apache-2.0 */
/* See key_table.h.
 *
 * Owns: the requested keys and their indexes. An index never changes once it is known, so threads that read the table at the same time
 * store the same values. The publisher names its mapping by prctl, whether the kernel supports names or not: so its address is known
 * without a descriptor and without reading /proc. All of its memory is read through the kernel, in pieces, as the SDK may replace or
 * unmap it meanwhile; what was read counts only if the time of publication is the same afterwards. */
#include "recorder/otel/key_table.h"

#include "format/live/live_handover.h"
#include "recorder/memory.h"

enum { KEYS_MAX = 256, FIELDS_MAX = 4000, RETRY_SHIFT_MAX = 12 };

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

/* Atomics, except in otel_keys_start. */
static PROCESS_STATE struct {
	uintptr_t mapping;		/* 0: not published yet */
	uint32_t known;			/* number of keys read */
	uint16_t index[LIVE_OTEL_KEYS]; /* + 1; 0: not known yet */
	uint32_t failures, until_retry; /* in a row; refreshes to skip */
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
	return __atomic_load_n(&table.known, __ATOMIC_ACQUIRE);
}

void otel_mapping_is_named(uintptr_t mapping, uintptr_t name)
{
	char start[sizeof signature + 1];

	if (!memory_read_safely(name, start, sizeof start) || start[sizeof signature] != 0 ||
	    __builtin_memcmp(start, signature, sizeof signature) != 0)
		return;
	__atomic_store_n(&table.mapping, mapping, __ATOMIC_RELAXED);
	__atomic_store_n(&table.until_retry, 0, __ATOMIC_RELAXED);
}

/* ---- protobuf, as far as the table needs it ---- */

/* A message that is read in pieces. */
struct message {
	uintptr_t at; /* in the program's memory */
	uint8_t *window;
	uint32_t low, high;   /* the part in the window */
	uint32_t fields_left; /* bounds the work for a damaged message */
};
struct part {
	uint32_t at, end;
};

/* False: unreadable. */
static bool byte_at(struct message *m, uint32_t at, struct part in, uint8_t *ret)
{
	if (at >= in.end)
		return false;
	if (at < m->low || at >= m->high) {
		uint32_t bytes = MIN(in.end - at, (uint32_t)OTEL_WINDOW);

		m->low = m->high = 0;
		if (!memory_read_safely(m->at + at, m->window, bytes))
			return false;
		m->low = at;
		m->high = at + bytes;
	}
	*ret = m->window[at - m->low];
	return true;
}

static bool take_number(struct message *m, struct part *rest, uint64_t *ret)
{
	uint8_t byte = 0x80;

	*ret = 0;
	for (unsigned shift = 0; byte & 0x80; shift += 7) {
		if (shift > 63 || !byte_at(m, rest->at, *rest, &byte))
			return false;
		*ret |= (uint64_t)(byte & 0x7f) << shift;
		rest->at++;
	}
	return true;
}

/* Takes the next field of a message. ret_content: empty unless it is text or a message. False: there are no more. */
static bool take_field(struct message *m, struct part *rest, uint64_t *ret_number,
		       struct part *ret_content)
{
	enum { VARINT, EIGHT_BYTES, WITH_LENGTH, FOUR_BYTES = 5 };
	uint64_t tag, bytes = 0;

	if (m->fields_left == 0 || !take_number(m, rest, &tag))
		return false;
	m->fields_left--;
	*ret_number = tag >> 3;
	switch (tag & 7) {
	case VARINT:
	case WITH_LENGTH:
		if (!take_number(m, rest, &bytes))
			return false;
		bytes = (tag & 7) == VARINT ? 0 : bytes;
		break;
	case EIGHT_BYTES:
	case FOUR_BYTES:
		bytes = (tag & 7) == FOUR_BYTES ? 4 : 8;
		break;
	default:
		return false;
	}
	if (bytes > rest->end - rest->at)
		return false;
	*ret_content = (struct part){ rest->at, rest->at + (uint32_t)bytes };
	rest->at += (uint32_t)bytes;
	return true;
}

/* The content of the first field with that number; empty: none. */
static struct part field(struct message *m, struct part in, uint64_t number)
{
	struct part content;
	uint64_t seen;

	while (take_field(m, &in, &seen, &content)) {
		if (seen == number)
			return content;
	}
	return (struct part){ 0 };
}

static bool text_is(struct message *m, struct part in, const char *other)
{
	uint8_t byte;

	for (; in.at < in.end; in.at++, other++) {
		if (!byte_at(m, in.at, in, &byte) || byte == 0 || byte != (uint8_t)*other)
			return false;
	}
	return *other == 0;
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

static struct part attribute(struct message *m, struct part context, const char *key)
{
	struct part pair;
	uint64_t number;

	while (take_field(m, &context, &number, &pair)) {
		if (number == CONTEXT_ATTRIBUTES && text_is(m, field(m, pair, PAIR_KEY), key))
			return field(m, pair, PAIR_VALUE);
	}
	return (struct part){ 0 };
}

/* ---- the table ---- */

struct found {
	uint32_t count;
	uint16_t index[LIVE_OTEL_KEYS]; /* + 1 */
};

static bool read_keys(struct message *m, struct part context, struct found *ret)
{
	struct part schema =
		field(m, attribute(m, context, "threadlocal.schema_version"), VALUE_TEXT);
	struct part value, array = field(m, attribute(m, context, "threadlocal.attribute_key_map"),
					 VALUE_ARRAY);
	uint64_t number;

	if (!text_is(m, schema, "tls_v1") && !text_is(m, schema, "tlsdesc_v1_dev"))
		return false;
	while (ret->count < KEYS_MAX && take_field(m, &array, &number, &value)) {
		if (number != ARRAY_VALUES)
			continue;
		struct part key = field(m, value, VALUE_TEXT);

		ret->count++;
		for (uint32_t i = 0; i < otel_key_count; i++) {
			if (ret->index[i] == 0 && text_is(m, key, keys[i]))
				ret->index[i] = (uint16_t)ret->count;
		}
	}
	return array.at == array.end && m->fields_left > 0;
}

static bool read_header(uintptr_t mapping, struct header *ret)
{
	return memory_read_safely(mapping, ret, sizeof *ret) &&
	       __builtin_memcmp(ret->signature, signature, sizeof signature) == 0 &&
	       ret->version == HEADER_VERSION && ret->published_ns != 0;
}

/* True if there are more keys than before. */
static COLD bool read_table(uint8_t *window)
{
	uintptr_t mapping = __atomic_load_n(&table.mapping, __ATOMIC_RELAXED);
	struct header header, after;
	struct found found = { 0 };

	if (mapping == 0 || !read_header(mapping, &header))
		return false;
	struct message message = { header.payload, window, .fields_left = FIELDS_MAX };

	if (!read_keys(&message, (struct part){ 0, header.payload_bytes }, &found) ||
	    !read_header(mapping, &after) || after.published_ns != header.published_ns ||
	    found.count <= otel_keys_known())
		return false;
	for (uint32_t i = 0; i < otel_key_count; i++) {
		if (found.index[i] != 0)
			__atomic_store_n(&table.index[i], found.index[i], __ATOMIC_RELAXED);
	}
	__atomic_store_n(&table.known, found.count, __ATOMIC_RELEASE);
	return true;
}

bool otel_keys_refresh(uint8_t *window)
{
	uint32_t skip = __atomic_load_n(&table.until_retry, __ATOMIC_RELAXED);
	uint32_t failed = __atomic_load_n(&table.failures, __ATOMIC_RELAXED);
	bool more = skip == 0 && read_table(window);

	if (more) {
		failed = 0;
	} else if (skip == 0) {
		skip = 1u << MIN(failed, (uint32_t)RETRY_SHIFT_MAX);
		failed++;
	} else {
		skip--;
	}
	__atomic_store_n(&table.failures, failed, __ATOMIC_RELAXED);
	__atomic_store_n(&table.until_retry, skip, __ATOMIC_RELAXED);
	return more;
}
