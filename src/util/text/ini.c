/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over untrusted text, line by line, through the cursor. The file was written by hand, so every error names the line
 * and what was expected there. No state; all memory is from the caller's arena.
 */
#include "util/text/ini.h"

#include <stdbool.h>

#include "base/cursor.h"
#include "util/vector.h"

enum { ENTRIES_MAX = 10000 };

struct parser {
	struct cursor at;
	struct arena *arena;
	const char *name;
	const char *section;
	unsigned line;
	VECTOR(struct ini_entry) entries;
};

static bool is_blank(uint8_t c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static bool is_key(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '_' || c == '.';
}

static struct span trimmed(struct span text)
{
	while (text.size && is_blank(text.data[0]))
		text = span_of(text.data + 1, text.size - 1);
	while (text.size && is_blank(text.data[text.size - 1]))
		text.size--;
	return text;
}

/* The next line without its newline; false after the last. */
static bool next_line(struct parser *p, struct span *ret)
{
	size_t left = cursor_left(&p->at), length = 0;

	if (left == 0)
		return false;
	while (length < left && p->at.at[length] != '\n')
		length++;
	*ret = cursor_bytes(&p->at, length);
	if (length < left)
		cursor_skip(&p->at, 1);
	p->line++;
	return true;
}

static int complain(const struct parser *p, struct error *error, const char *what)
{
	return error_set(error, "%s:%u: %s", p->name, p->line, what);
}

static int take_section(struct parser *p, struct span line, struct error *error)
{
	struct span name;

	if (line.data[line.size - 1] != ']')
		return complain(p, error, "a section is a name in brackets: [name]");
	name = trimmed(span_of(line.data + 1, line.size - 2));
	if (name.size == 0)
		return complain(p, error, "a section needs a name: [name]");
	p->section = arena_string(p->arena, name);
	return p->section ? 0 : error_set(error, "out of memory");
}

static int take_entry(struct parser *p, struct span line, struct error *error)
{
	struct ini_entry entry = { .section = p->section, .line = p->line };
	size_t key_bytes = 0, equals;

	while (key_bytes < line.size && is_key(line.data[key_bytes]))
		key_bytes++;
	for (equals = key_bytes; equals < line.size && is_blank(line.data[equals]);)
		equals++;
	if (key_bytes == 0 || equals == line.size || line.data[equals] != '=')
		return complain(p, error, "expected 'key = value', '[section]' or a '# comment'");
	if (p->entries.count == ENTRIES_MAX)
		return complain(p, error, "too many keys");
	entry.key = arena_string(p->arena, span_of(line.data, key_bytes));
	entry.value = arena_string(
		p->arena, trimmed(span_of(line.data + equals + 1, line.size - equals - 1)));
	if (!entry.key || !entry.value || !vector_push(&p->entries, entry))
		return error_set(error, "out of memory");
	return 0;
}

static bool has_control(struct span line)
{
	for (size_t i = 0; i < line.size; i++)
		if ((line.data[i] < 0x20 && !is_blank(line.data[i])) || line.data[i] == 0x7f)
			return true;
	return false;
}

static int take_line(struct parser *p, struct span line, struct error *error)
{
	if (has_control(line))
		return complain(p, error, "not a text file: it contains control characters");
	line = trimmed(line);
	if (line.size == 0 || line.data[0] == '#' || line.data[0] == ';')
		return 0;
	return line.data[0] == '[' ? take_section(p, line, error) : take_entry(p, line, error);
}

int ini_parse(struct ini *ret, struct span text, const char *name, struct arena *arena,
	      struct error *error)
{
	static const uint8_t mark[] = { 0xef, 0xbb, 0xbf }; /* BOM, written by some editors */
	struct parser p = { .arena = arena, .name = name, .section = "" };
	struct span line;
	int status = 0;

	if (text.size >= sizeof mark &&
	    span_equal(span_of(text.data, sizeof mark), span_of(mark, sizeof mark)))
		text = span_of(text.data + sizeof mark, text.size - sizeof mark);
	p.at = cursor_over(text);
	while (status == 0 && next_line(&p, &line))
		status = take_line(&p, line, error);
	if (status == 0 && p.entries.count) {
		struct ini_entry *entries =
			arena_copy(arena, p.entries.at, p.entries.count * sizeof *p.entries.at);

		*ret = (struct ini){ entries, p.entries.count };
		if (!entries)
			status = error_set(error, "out of memory");
	} else if (status == 0) {
		*ret = (struct ini){ 0 };
	}
	vector_release(&p.entries);
	return status;
}
