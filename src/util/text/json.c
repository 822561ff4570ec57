/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON writer. Its state is the path of open objects and arrays, so that it handles commas,
 * newlines and the order of keys and values itself. Owns nothing. One thread at a time.
 * Invariant: the buffer is always a prefix of a valid JSON document.
 */
#include "base/checked.h"
#include "util/text/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "util/text/printable.h"
#include "util/text/utf8.h"

struct json json_to(struct buffer *out, enum json_style style)
{
	return (struct json){ .out = out, .style = style };
}

static bool get_bit(const uint64_t *bits, unsigned level)
{
	return bits[level / 64] >> level % 64 & 1;
}

static void set_bit(uint64_t *bits, unsigned level, bool value)
{
	uint64_t mask = UINT64_C(1) << level % 64;

	bits[level / 64] = value ? bits[level / 64] | mask : bits[level / 64] & ~mask;
}

UNUSED static bool in_object(const struct json *j)
{
	return j->depth > 0 && get_bit(j->is_object, j->depth - 1);
}

static void new_line(struct json *j)
{
	/* Indentation beyond the width of a screen is useless and would take quadratic space. */
	const unsigned deepest = 40;

	if (j->style == JSON_COMPACT)
		return;
	buffer_char(j->out, '\n');
	buffer_fill(j->out, ' ', 2 * (size_t)MIN(j->depth, deepest));
}

/* Writes the separator before the next item of the innermost object or array. */
static void separate(struct json *j)
{
	if (j->depth == 0)
		return;
	if (get_bit(j->has_items, j->depth - 1))
		buffer_char(j->out, ',');
	set_bit(j->has_items, j->depth - 1, true);
	new_line(j);
}

/* Once the buffer has failed, nothing is written and levels are not tracked: every call is a no-op. */
static bool has_failed(const struct json *j)
{
	return j->out->failed;
}

static void before_value(struct json *j)
{
	if (has_failed(j))
		return;
	if (j->after_key) {
		j->after_key = false;
		return;
	}
	ASSERT(!in_object(j));
	separate(j);
}

static void open_level(struct json *j, bool is_object)
{
	before_value(j);
	/* Depth depends on data, so exceeding it is a failure, not an assertion. */
	if (j->depth == JSON_MAX_DEPTH)
		j->out->failed = true;
	if (has_failed(j))
		return;
	buffer_char(j->out, is_object ? '{' : '[');
	set_bit(j->is_object, j->depth, is_object);
	set_bit(j->has_items, j->depth, false);
	j->depth++;
}

static void close_level(struct json *j, bool is_object)
{
	if (has_failed(j))
		return;
	ASSERT(j->depth > 0 && in_object(j) == is_object && !j->after_key);
	j->depth--;
	if (get_bit(j->has_items, j->depth))
		new_line(j);
	buffer_char(j->out, is_object ? '}' : ']');
	if (j->depth == 0 && j->style == JSON_PRETTY)
		buffer_char(j->out, '\n');
}

void json_object(struct json *j)
{
	open_level(j, true);
}

void json_end_object(struct json *j)
{
	close_level(j, true);
}

void json_array(struct json *j)
{
	open_level(j, false);
}

void json_end_array(struct json *j)
{
	close_level(j, false);
}

static void write_escaped(struct buffer *out, uint32_t c)
{
	static const char from[] = "\"\\\b\f\n\r\t";
	static const char to[] = "\"\\bfnrt";
	const char *found = c && c < 0x80 ? strchr(from, (int)c) : NULL;

	if (found) {
		buffer_char(out, '\\');
		buffer_char(out, to[found - from]);
	} else {
		buffer_printf(out, "\\u%04x", c); /* all are at most U+FFFF */
	}
}

static void write_string(struct buffer *out, struct span text)
{
	size_t plain = 0; /* start of the run that needs no escaping and is copied at once */
	size_t at = 0;

	buffer_char(out, '"');
	while (at < text.size) {
		struct span rest = span_of(text.data + at, text.size - at);
		bool printable; /* JSON permits more, but no terminal should get it raw */
		size_t length = printable_step(rest, &printable);

		if (printable && rest.data[0] != '"' && rest.data[0] != '\\') {
			at += length;
			continue;
		}
		buffer_append(out, text.data + plain, at - plain);
		if (utf8_sequence(rest) == 0)
			buffer_text(out, UTF8_REPLACEMENT);
		else
			write_escaped(out, utf8_code_point(rest.data, length));
		plain = at += length;
	}
	if (at > plain)
		buffer_append(out, text.data + plain, at - plain);
	buffer_char(out, '"');
}

void json_key(struct json *j, const char *key)
{
	if (has_failed(j))
		return;
	ASSERT(in_object(j) && !j->after_key);
	separate(j);
	write_string(j->out, span_of(key, strlen(key)));
	buffer_text(j->out, j->style == JSON_PRETTY ? ": " : ":");
	j->after_key = true;
}

void json_string(struct json *j, const char *text)
{
	if (text)
		json_bytes(j, span_of(text, strlen(text)));
	else
		json_null(j);
}

void json_bytes(struct json *j, struct span text)
{
	before_value(j);
	write_string(j->out, text);
}

/* Not by printf, which took half the time of writing stacks: they are lists of numbers. */
static void write_decimal(struct buffer *out, uint64_t value)
{
	char digits[sizeof "18446744073709551615"];
	size_t at = sizeof digits;

	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	buffer_append(out, digits + at, sizeof digits - at);
}

void json_u64(struct json *j, uint64_t value)
{
	before_value(j);
	write_decimal(j->out, value);
}

void json_i64(struct json *j, int64_t value)
{
	before_value(j);
	if (value < 0)
		buffer_char(j->out, '-');
	write_decimal(j->out, magnitude(value));
}

void json_double(struct json *j, double value)
{
	char text[32];

	if (!isfinite(value)) {
		json_null(j);
		return;
	}
	before_value(j);
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	buffer_text(j->out, text);
}

void json_bool(struct json *j, bool value)
{
	before_value(j);
	buffer_text(j->out, value ? "true" : "false");
}

void json_null(struct json *j)
{
	before_value(j);
	buffer_text(j->out, "null");
}

void json_field_schema(struct json *j)
{
	json_field_u64(j, "schema", JSON_SCHEMA);
}

void json_field_string(struct json *j, const char *key, const char *text)
{
	json_key(j, key);
	json_string(j, text);
}

void json_field_u64(struct json *j, const char *key, uint64_t value)
{
	json_key(j, key);
	json_u64(j, value);
}

void json_field_i64(struct json *j, const char *key, int64_t value)
{
	json_key(j, key);
	json_i64(j, value);
}

void json_field_double(struct json *j, const char *key, double value)
{
	json_key(j, key);
	json_double(j, value);
}

void json_field_bool(struct json *j, const char *key, bool value)
{
	json_key(j, key);
	json_bool(j, value);
}
