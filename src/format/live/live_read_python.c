/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python frames -> names. Unlike those of native frames, they are known only in the running program, so the recording contains
 * them from the start: rows of chunk_names.
 *
 * The memory is untrusted: each text is checked, and their total length is bounded by the strings that exist.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "format/live/live_read_parts.h"

/* ---- lines ---- */

/* A location table: entries of a first byte (bit 7 set, 4 bits of kind, 3 bits of units - 1), followed by data that depends on
 * the kind. */
struct lines {
	const uint8_t *at, *end;
};
enum { LINES_DELTA_FIRST = 10, LINES_DELTA_LAST = 12, LINES_PLAIN = 13, LINES_LONG, LINES_NONE };

/* Groups of six bits, the lowest first; bit 6: more follow. */
static uint32_t take_number(struct lines *lines)
{
	uint32_t number = 0, byte = 0x40;

	for (unsigned shift = 0; lines->at < lines->end && (byte & 0x40); shift += 6) {
		byte = *lines->at++;
		if (shift < 32)
			number |= (byte & 0x3f) << shift;
	}
	return number;
}

static int64_t take_signed(struct lines *lines)
{
	uint32_t number = take_number(lines);

	return number & 1 ? -(int64_t)(number >> 1) : (int64_t)(number >> 1);
}

/* The line delta of an entry to the previous one. */
static int64_t take_delta(struct lines *lines, unsigned kind)
{
	int64_t delta = 0;

	switch (kind) {
	case LINES_NONE:
		break;
	case LINES_LONG:
		delta = take_signed(lines);
		for (int i = 0; i < 3; i++) /* the end line and the columns */
			take_number(lines);
		break;
	case LINES_PLAIN:
		delta = take_signed(lines);
		break;
	default:
		if (kind >= LINES_DELTA_FIRST)
			delta = kind - LINES_DELTA_FIRST;
		lines->at += MIN(kind >= LINES_DELTA_FIRST ? 2 : 1, lines->end - lines->at);
	}
	return delta;
}

uint32_t live_python_line(const uint8_t *table, size_t bytes, uint32_t first_line, uint32_t unit)
{
	struct lines lines = { table, table + bytes };
	int64_t line = first_line;
	uint64_t behind = 0;

	while (lines.at < lines.end) {
		uint8_t first = *lines.at++;
		unsigned kind = first >> 3 & 15;

		line += take_delta(&lines, kind);
		behind += (first & 7) + 1u;
		if (unit < behind)
			return kind == LINES_NONE || line < 1 || line > UINT32_MAX ? 0
										   : (uint32_t)line;
	}
	return 0;
}

/* ---- names ---- */

#define LINES_BYTES_MAX (UINT64_C(1) << 30) /* about two seconds */

struct naming {
	const struct live_view *view;
	struct process_rows *rows;
	const struct live_module *modules;
	const struct live_code *codes;
	const char *strings;
	size_t code_count, string_bytes;
	uint32_t *name_of_code, *file_of_module; /* offsets in the texts; 0 = not set yet */
	uint64_t
		lines_left; /* remaining bytes of location tables to scan: every frame scans its table from the start */
};

/* 0: unknown, also if a forged profile would take too long. */
static uint32_t line_of(struct naming *n, const struct live_code *code, uint32_t unit)
{
	if (code->lines_bytes > n->lines_left)
		return 0;
	n->lines_left -= code->lines_bytes;
	return live_python_line((const uint8_t *)n->strings + code->lines_at, code->lines_bytes,
				code->first_line, unit);
}

/* Returns the text's offset in the texts; 0: it is not valid. */
static uint32_t add_text(struct naming *n, uint32_t at, uint32_t bytes)
{
	struct process_rows *rows = n->rows;
	size_t place = rows->text_bytes;

	if (!range_within(at, bytes, n->string_bytes) ||
	    bytes > 2 * n->string_bytes + 1 - MIN(place, 2 * n->string_bytes + 1))
		return 0;
	memcpy(rows->texts + place, n->strings + at, bytes);
	rows->texts[place + bytes] = '\0';
	rows->text_bytes += bytes + 1u;
	return (uint32_t)place;
}

static void name_frame(struct naming *n, size_t frame)
{
	uint64_t word = n->rows->frames[frame];
	uint32_t module = live_frame_module(word), id = live_code_id(live_frame_offset(word));
	struct live_module file;
	struct live_code code;

	if (module == 0 || id == 0 || id >= n->code_count)
		return;
	memcpy(&file, &n->modules[module], sizeof file);
	memcpy(&code, &n->codes[id], sizeof code);
	if (file.kind != LIVE_MODULE_PYTHON || code.module != module ||
	    !range_within(code.lines_at, code.lines_bytes, n->string_bytes))
		return;
	if (n->name_of_code[id] == 0)
		n->name_of_code[id] = add_text(n, code.name_at, code.name_bytes);
	if (n->file_of_module[module] == 0)
		n->file_of_module[module] = add_text(n, file.path_at, file.path_bytes);
	if (n->name_of_code[id] == 0)
		return;
	n->rows->names[n->rows->name_count++] = (struct name_row){
		.frame = (uint32_t)frame,
		.function = n->name_of_code[id],
		.file = n->file_of_module[module],
		.line = line_of(n, &code, live_code_unit(live_frame_offset(word))),
	};
}

int live_read_python(const struct live_view *view, struct process_rows *rows)
{
	struct naming n = { .view = view,
			    .rows = rows,
			    .modules = live_view_at(view, LIVE_MODULES),
			    .codes = live_view_at(view, LIVE_CODES),
			    .strings = live_view_at(view, LIVE_STRINGS),
			    .lines_left = LINES_BYTES_MAX,
			    .code_count = live_view_used(view, LIVE_CODES),
			    .string_bytes = live_view_used(view, LIVE_STRINGS) };

	if (n.code_count < 2 || rows->frame_count == 0)
		return 0;
	/* Each text ends with a NUL: at most one for each code object and module. */
	rows->texts = calloc(2 * n.string_bytes + n.code_count + rows->module_count + 2, 1);
	rows->names = calloc(rows->frame_count, sizeof *rows->names);
	n.name_of_code = calloc(n.code_count, sizeof *n.name_of_code);
	n.file_of_module = calloc(rows->module_count, sizeof *n.file_of_module);
	bool made = rows->texts && rows->names && n.name_of_code && n.file_of_module;

	rows->text_bytes = 1; /* the empty text */
	for (size_t i = 1; made && i < rows->frame_count; i++)
		name_frame(&n, i);
	if (rows->name_count == 0)
		rows->text_bytes = 0;
	free(n.name_of_code);
	free(n.file_of_module);
	return made ? 0 : -1;
}
