/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes protobuf messages by hand into a buffer: the formats that we write have a dozen fields each, and a code generator would
 * be more code. Fields that have their default value are omitted, as proto3 does. Running out of memory is sticky in the buffer.
 *
 *	size_t sample = protobuf_begin(b, PROFILE_SAMPLE);
 *	protobuf_number(b, SAMPLE_STACK, stack);
 *	protobuf_end(b, sample);
 */
#ifndef EXPORT_PROTOBUF_H
#define EXPORT_PROTOBUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "util/buffer.h"
#include "util/intern.h"

/* int32, int64, uint64 or bool; a negative number as its 64-bit two's complement. */
void protobuf_number(struct buffer *b, unsigned field, uint64_t value);
void protobuf_fixed64(struct buffer *b, unsigned field, uint64_t value);
/* bytes, or a message that is already encoded; written also if empty. */
void protobuf_bytes(struct buffer *b, unsigned field, struct span bytes);
/* The head of a field of that many bytes, which the caller writes. */
void protobuf_head(struct buffer *b, unsigned field, size_t size);
/* A string, which must be UTF-8: other bytes and control characters are replaced. Written also if empty. */
void protobuf_text(struct buffer *b, unsigned field, const char *text);

/*
 * A nested message, or a packed array of bare numbers: what is appended between the two calls. Nests to any depth; begin returns
 * what end needs.
 */
size_t protobuf_begin(struct buffer *b, unsigned field);
void protobuf_end(struct buffer *b, size_t begin);
/* An element of a packed array. */
void protobuf_element(struct buffer *b, uint64_t value);

/* A table of strings or messages that others refer to by index. Equal items are one; item 0 is the empty one. */
struct protobuf_table {
	struct buffer bytes; /* the items, as fields of the message that has the table */
	struct intern items;
	unsigned field; /* their number there */
	size_t count;
};
void protobuf_table_init(struct protobuf_table *table, unsigned field);
void protobuf_table_release(struct protobuf_table *table);
/* The index of the item, which is added if it is new. Running out of memory is sticky in `bytes`. */
uint64_t protobuf_table_add(struct protobuf_table *table, struct span item);
/* The same for a string, whose bytes are replaced as by protobuf_text; NULL is empty. */
uint64_t protobuf_table_text(struct protobuf_table *table, const char *text);

#endif
