/* SPDX-License-Identifier: Apache-2.0 */
/* Protobuf's wire format: see protobuf.h. No state. */
#include "export/protobuf.h"

#include <string.h>

#include "base/varint.h"
#include "export/stacks.h"
#include "util/cleanup.h"

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };

void protobuf_element(struct buffer *b, uint64_t value)
{
	uint8_t bytes[VARINT_MAX_BYTES];

	buffer_append(b, bytes, varint_put(bytes, sizeof bytes, value));
}

static void put_key(struct buffer *b, unsigned field, enum wire_type type)
{
	protobuf_element(b, (uint64_t)field << 3 | type);
}

void protobuf_number(struct buffer *b, unsigned field, uint64_t value)
{
	if (value == 0)
		return;
	put_key(b, field, WIRE_VARINT);
	protobuf_element(b, value);
}

void protobuf_fixed64(struct buffer *b, unsigned field, uint64_t value)
{
	if (value == 0)
		return;
	put_key(b, field, WIRE_FIXED64);
	buffer_u64(b, value);
}

void protobuf_head(struct buffer *b, unsigned field, size_t size)
{
	put_key(b, field, WIRE_BYTES);
	protobuf_element(b, size);
}

void protobuf_bytes(struct buffer *b, unsigned field, struct span bytes)
{
	protobuf_head(b, field, bytes.size);
	buffer_append(b, bytes.data, bytes.size);
}

void protobuf_text(struct buffer *b, unsigned field, const char *text)
{
	size_t begin = protobuf_begin(b, field);

	buffer_safe(b, text);
	protobuf_end(b, begin);
}

size_t protobuf_begin(struct buffer *b, unsigned field)
{
	put_key(b, field, WIRE_BYTES);
	buffer_char(
		b,
		0); /* the length of most messages is one byte; protobuf_end makes room for more */
	return b->size;
}

void protobuf_end(struct buffer *b, size_t begin)
{
	uint8_t length[VARINT_MAX_BYTES];

	if (b->failed)
		return; /* `begin` may refer to bytes that were never written */
	size_t size = b->size - begin;
	size_t extra = varint_put(length, sizeof length, size) - 1;

	if (!buffer_reserve(b, extra))
		return;
	memmove(b->data + begin + extra, b->data + begin, size);
	b->size += extra;
	buffer_patch(b, begin - 1, length, extra + 1);
}

void protobuf_table_init(struct protobuf_table *table, unsigned field)
{
	*table = (struct protobuf_table){ .field = field };
	protobuf_table_add(table, (struct span){ 0 });
}

void protobuf_table_release(struct protobuf_table *table)
{
	buffer_release(&table->bytes);
	intern_release(&table->items);
}

uint64_t protobuf_table_add(struct protobuf_table *table, struct span item)
{
	struct intern_entry *e = intern_entry(&table->items, item);

	if (!e) {
		table->bytes.failed = true;
		return 0;
	}
	if (!e->value) {
		/* The index plus 1, because a new entry has NULL. */
		e->value =
			(void *)(uintptr_t)++table->count; /* NOLINT(performance-no-int-to-ptr) */
		protobuf_bytes(&table->bytes, table->field, item);
	}
	return (uintptr_t)e->value - 1;
}

uint64_t protobuf_table_text(struct protobuf_table *table, const char *text)
{
	AUTO(buffer_release) struct buffer safe = BUFFER_INIT;

	buffer_safe(&safe, text ? text : "");
	table->bytes.failed |= safe.failed;
	return protobuf_table_add(table, buffer_span(&safe));
}
