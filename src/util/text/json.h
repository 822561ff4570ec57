/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON incrementally, without a tree in memory:
 *
 *	struct json j = json_to(&buffer, JSON_PRETTY);
 *	json_object(&j);
 *	json_key(&j, "processes");
 *	json_array(&j);
 *	...
 *	json_end_array(&j);
 *	json_end_object(&j);
 *
 * Numbers are written in full: exact in any reader that supports 64 bits.
 * Strings may contain any bytes; those that are not UTF-8 become U+FFFD. A call out of order is a bug
 * and asserts; running out of memory, or nesting too deep, sets buffer.failed.
 */
#ifndef UTIL_TEXT_JSON_H
#define UTIL_TEXT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "util/buffer.h"

enum json_style { JSON_COMPACT, JSON_PRETTY };

/* A call tree nests as deep as its stacks, so this is generous; beyond it the buffer fails. */
#define JSON_MAX_DEPTH 8192

struct json {
	struct buffer *out; /* owned by the caller */
	enum json_style style;
	unsigned depth;
	bool after_key;
	/* One bit per open level: it is an object, it has items already. */
	uint64_t is_object[JSON_MAX_DEPTH / 64];
	uint64_t has_items[JSON_MAX_DEPTH / 64];
};

struct json json_to(struct buffer *out, enum json_style style);

void json_object(struct json *j);
void json_end_object(struct json *j);
void json_array(struct json *j);
void json_end_array(struct json *j);
void json_key(struct json *j, const char *key);

/* NULL is written as null. */
void json_string(struct json *j, const char *text);
void json_bytes(struct json *j, struct span text);
void json_u64(struct json *j, uint64_t value);
void json_i64(struct json *j, int64_t value);
/* The fewest digits that parse to the same number; null if it is not finite. */
void json_double(struct json *j, double value);
void json_bool(struct json *j, bool value);
void json_null(struct json *j);

/* The version of the keys and their meaning: docs/json.md. Incremented whenever one changes or is
 * removed. */
enum { JSON_SCHEMA = 1 };
/* "schema", the first key of every object that a command or the server returns. */
void json_field_schema(struct json *j);
/* A key and its value. */
void json_field_string(struct json *j, const char *key, const char *text);
void json_field_u64(struct json *j, const char *key, uint64_t value);
void json_field_i64(struct json *j, const char *key, int64_t value);
void json_field_double(struct json *j, const char *key, double value);
void json_field_bool(struct json *j, const char *key, bool value);

#endif
