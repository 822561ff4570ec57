/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses names by their brackets. This needs no C++ or Rust grammar: only the text at depth 0 and
 * the words before a '<' matter.
 *
 * The texts come from arbitrary binaries and may be malformed: nothing here reads past their end,
 * and the nesting depth is bounded. Pure.
 */
#include "analysis/result/type_names.h"

#include <ctype.h>
#include <string.h>

#include "base/compiler.h"

enum { ARGUMENTS_MAX = 16, NESTING_MAX = 24 };

static bool begins(const char *text, size_t size, const char *with)
{
	size_t length = strlen(with);

	return size >= length && memcmp(text, with, length) == 0;
}

/* Length of a token that contains bracket characters which are not brackets to count. 0: examine the single character. */
static size_t skip_unit(const char *text, size_t size)
{
	static const char *const units[] = {
		"(anonymous namespace)",
		"operator()",
		"operator<=>",
		"operator<<=",
		"operator<<",
		"operator<=",
		"operator<",
		"operator>>=",
		"operator>>",
		"operator>=",
		"operator->*",
		"operator->",
		"operator>",
		"->",
		"=>",
	};

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (begins(text, size, units[i]))
			return strlen(units[i]);
	return 0;
}

/* Advances by one character or token and tracks the bracket depth. */
static size_t step(const char *text, size_t size, size_t *depth)
{
	size_t unit = skip_unit(text, size);

	if (unit)
		return unit;
	if (strchr("<({[", *text))
		++*depth;
	else if (strchr(">)}]", *text) && *depth > 0)
		--*depth;
	return 1;
}

struct span name_qualified(const char *full)
{
	size_t size = strlen(full), start = 0, depth = 0, at = 0;
	bool is_operator = false;

	while (at < size) {
		if (depth == 0 && full[at] == '(' && at > start && !skip_unit(full + at, size - at))
			break;
		/* "operator new" and "operator unsigned int" contain spaces. */
		if (depth == 0 && begins(full + at, size - at, "operator"))
			is_operator = true;
		if (depth == 0 && full[at] == ' ' && !is_operator)
			start = at + 1;
		at += step(full + at, size - at, &depth);
	}
	return span_of(full + start, at - start);
}

struct span name_subject(struct span name)
{
	const char *text = (const char *)name.data;
	size_t depth = 0, at = 0, end = 0;

	if (name.size == 0 || text[0] != '<')
		return name;
	for (; at < name.size; at += step(text + at, name.size - at, &depth)) {
		if (depth == 1 && !end && begins(text + at, name.size - at, " as "))
			end = at;
		if (depth == 1 && text[at] == '>' && !skip_unit(text + at, name.size - at))
			break;
	}
	if (at >= name.size)
		return name;
	struct span inner = span_of(text + 1, (end ? end : at) - 1);

	/* "<<X as Y>::f as FnOnce>::call_once" */
	return inner.size && inner.data[0] == '<' ? name_subject(inner) : inner;
}

void name_without_arguments(struct span name, char *ret, size_t bytes)
{
	const char *text = (const char *)name.data;
	/* "<app::Blob<T> as Trait>::f" is in brackets itself. */
	size_t shown = name.size && text[0] == '<', depth = 0, used = 0;

	for (size_t at = 0, next; at < name.size; at = next) {
		size_t unit = skip_unit(text + at, name.size - at);

		next = at + (unit ? unit : 1);
		depth += !unit && text[at] == '<';
		if (depth <= shown && used + (next - at) < bytes) {
			memcpy(ret + used, text + at, next - at);
			used += next - at;
		}
		depth -= !unit && text[at] == '>' && depth > 0;
	}
	ret[used] = '\0';
}

/* The length up to and including the bracket that closes the first one; the whole length if it is unclosed. */
static size_t list_bytes(struct span list)
{
	const char *text = (const char *)list.data;
	size_t depth = 0, at = 0;

	while (at < list.size) {
		at += step(text + at, list.size - at, &depth);
		if (depth == 0)
			break;
	}
	return at;
}

static struct span trimmed(const char *text, size_t size)
{
	while (size && *text == ' ') {
		text++;
		size--;
	}
	while (size && text[size - 1] == ' ')
		size--;
	return span_of(text, size);
}

size_t name_arguments(struct span list, struct span *ret, size_t max)
{
	const char *text = (const char *)list.data;
	size_t size = list.size ? list_bytes(list) : 0, depth = 0, at = 1, start = 1, count = 0;

	if (size < 2 || text[0] != '<')
		return 0;
	while (at + 1 < size && count < max) {
		if (depth == 0 && text[at] == ',') {
			ret[count++] = trimmed(text + start, at - start);
			start = at + 1;
		}
		at += step(text + at, size - at, &depth);
	}
	if (count < max && size - 1 > start)
		ret[count++] = trimmed(text + start, size - 1 - start);
	return count;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == ':' || c == '~' || c == '$';
}

/* Inline namespaces of standard libraries. */
static size_t skip_inline_namespace(const char *text, size_t size)
{
	static const char *const spaces[] = { "__cxx11::", "__1::", "__ndk1::", "__debug::" };

	for (size_t i = 0; i < ARRAY_SIZE(spaces); i++)
		if (begins(text, size, spaces[i]))
			return strlen(spaces[i]);
	return 0;
}

size_t name_begins(struct span name, const char *beginning)
{
	const char *text = (const char *)name.data;
	size_t at = 0;

	for (; *beginning; beginning++, at++) {
		at += skip_inline_namespace(text + at, name.size - at);
		if (at >= name.size || text[at] != *beginning)
			return 0;
	}
	return at == name.size || text[at] == '<' || text[at] == ':' ? at : 0;
}

/* Uninformative arguments: the defaults of the library templates. */
static bool is_default(struct span argument)
{
	static const char *const defaults[] = {
		"std::allocator",
		"std::less",
		"std::hash",
		"std::equal_to",
		"std::char_traits",
		"std::default_delete",
		"alloc::alloc::Global",
		"std::hash::random::RandomState",
	};

	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++)
		if (name_begins(argument, defaults[i]))
			return true;
	return false;
}

/* Common short names. Longer prefixes first. */
static const struct {
	const char *name, *shown;
} aliases[] = {
	{ "alloc::string::String", "String" },
	{ "alloc::vec::Vec", "Vec" },
	{ "alloc::boxed::Box", "Box" },
	{ "alloc::rc::Rc", "Rc" },
	{ "alloc::sync::Arc", "Arc" },
	{ "alloc::collections::vec_deque::VecDeque", "VecDeque" },
	{ "alloc::collections::btree::map::BTreeMap", "BTreeMap" },
	{ "alloc::collections::btree::set::BTreeSet", "BTreeSet" },
	{ "std::collections::hash::map::HashMap", "HashMap" },
	{ "std::collections::hash::set::HashSet", "HashSet" },
	{ "core::option::Option", "Option" },
	{ "core::result::Result", "Result" },
};

static void append_word(struct buffer *out, struct span word)
{
	const char *text = (const char *)word.data;

	for (size_t i = 0; word.size && i < ARRAY_SIZE(aliases); i++)
		if (name_begins(word, aliases[i].name) == word.size) {
			buffer_text(out, aliases[i].shown);
			return;
		}
	for (size_t at = 0; at < word.size;) {
		size_t skipped = at == 0 || text[at - 1] == ':'
					 ? skip_inline_namespace(text + at, word.size - at)
					 : 0;

		if (skipped)
			at += skipped;
		else
			buffer_char(out, text[at++]);
	}
}

static void append_type(struct buffer *out, struct span type, unsigned nesting);

/* Appends a template with its arguments; `type` begins at the '<'. Returns the length consumed. */
static size_t append_list(struct buffer *out, struct span word, struct span type, unsigned nesting)
{
	struct span arguments[ARGUMENTS_MAX];
	size_t count = name_arguments(type, arguments, ARGUMENTS_MAX), shown = 0;
	size_t bytes = list_bytes(type);

	if (count && name_begins(word, "std::basic_string") == word.size) {
		if (name_begins(arguments[0], "char") == arguments[0].size) {
			buffer_text(out, "std::string");
			return bytes;
		}
		count = 1;
	}
	append_word(out, word);
	buffer_char(out, '<');
	for (size_t i = 0; i < count; i++) {
		if (i > 0 && is_default(arguments[i]))
			continue;
		if (shown++)
			buffer_text(out, ", ");
		append_type(out, arguments[i], nesting + 1);
	}
	buffer_char(out, '>');
	return bytes;
}

static void append_type(struct buffer *out, struct span type, unsigned nesting)
{
	const char *text = (const char *)type.data;
	size_t at = 0;

	if (nesting > NESTING_MAX) {
		buffer_text(out, "...");
		return;
	}
	while (at < type.size) {
		size_t word = at;

		while (at < type.size && is_word(text[at]))
			at++;
		struct span name = span_of(text + word, at - word);

		if (at < type.size && text[at] == '<' && at > word) {
			at += append_list(out, name, span_of(text + at, type.size - at), nesting);
			continue;
		}
		append_word(out, name);
		if (at < type.size)
			buffer_char(out, text[at++]);
	}
}

void type_append(struct buffer *out, struct span type)
{
	append_type(out, type, 0);
}
