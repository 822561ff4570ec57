/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shortens names in one pass over the demangler's output.
 *
 * This is not a C++ parser: it knows brackets, operators and where a path component begins. Anything
 * else (such as a function that returns a pointer to a function) is left unchanged. Names come from
 * untrusted binaries: nothing here recurses, and every step advances.
 *
 *	void Box<int>::each<main::{lambda(int)#1}>(main::{lambda(int)#1}&&)   Box<...>::each<...>
 *	<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop                 unchanged but for Vec<...>
 */
#include "symbols/names/name_style.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/compiler.h"
#include "util/buffer.h"

struct shortener {
	const char *at;
	struct buffer out;
	size_t braces; /* nesting of {lambda(int)#1} */
	size_t quotes; /* Rust: nesting of <Type as Trait> at the start of a path */
	bool strange;  /* not understood */
};

static bool starts(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (c & 0x80);
}

static bool ends(const struct buffer *out, const char *with)
{
	size_t length = strlen(with);

	return out->size >= length && memcmp(out->data + out->size - length, with, length) == 0;
}

/* Skips an arrow or an operator whose characters look like brackets; returns `at` if there is none. */
static const char *behind_signs(const char *at)
{
	if (starts(at, "->"))
		return at + 2;
	if (!starts(at, "operator<") && !starts(at, "operator>"))
		return at;
	at += sizeof "operator" - 1;
	return at + strspn(at, *at == '<' ? "<=>" : ">=");
}

/* Skips to after the bracket that closes the one at `at`; to the end of the text if it is unclosed. */
static const char *behind_bracket(const char *at)
{
	size_t depth = 0;

	while (*at) {
		const char *signs = behind_signs(at);

		if (signs != at) {
			at = signs;
			continue;
		}
		if (strchr("<([{", *at))
			depth++;
		else if (strchr(">)]}", *at) && --depth == 0)
			return at + 1;
		at++;
	}
	return at;
}

/* Copies "operator" and its symbol or type, up to its parameters. */
static void copy_operator(struct shortener *s)
{
	static const char *const signs[] = { "()", "[]", "<=>", "<<=", ">>=", "->*", "<<",
					     ">>", "<=", ">=",	"->",  "<",   ">" };

	buffer_text(&s->out, "operator");
	s->at += sizeof "operator" - 1;
	for (size_t i = 0; i < ARRAY_SIZE(signs); i++)
		if (starts(s->at, signs[i])) {
			buffer_text(&s->out, signs[i]);
			s->at += strlen(signs[i]);
			if (starts(s->at, " <"))
				s->at++;
			return;
		}
	/* new, delete[], a conversion, a literal, or a symbol that is not a bracket */
	while (*s->at && *s->at != '(' && *s->at != '<')
		buffer_char(&s->out, *s->at++);
}

/* Skips parameters: false if they end the name. */
static bool skip_parameters(struct shortener *s)
{
	static const char unnamed[] = "(anonymous namespace)";

	if (starts(s->at, unnamed)) {
		buffer_text(&s->out, unnamed);
		s->at += sizeof unnamed - 1;
		return true;
	}
	if (s->quotes) { /* a tuple or a function type: <(A, B) as Trait> */
		buffer_char(&s->out, *s->at++);
		return true;
	}
	/* int (*f(char))(long): the name is inside. */
	s->strange = !s->braces && (s->at[1] == '*' || s->at[1] == '&');
	s->at = behind_bracket(s->at);
	if (s->strange)
		return false;
	if (s->out.size == 0) /* decltype (x) f(y) */
		return true;
	/* A function as a scope: outer(int) const::{lambda()#1} */
	const char *rest = s->at;

	if (starts(rest, " const"))
		rest += sizeof " const" - 1;
	if (starts(rest, "[abi:"))
		rest = behind_bracket(rest);
	if (starts(rest, "::"))
		s->at = rest;
	return s->braces > 0 || starts(s->at, "::");
}

static void open_angle(struct shortener *s)
{
	bool quoted = s->quotes && (ends(&s->out, "&") || ends(&s->out, " ") || ends(&s->out, "<"));
	bool at_start = s->out.size == 0 || ends(&s->out, "::") || quoted;

	/* Rust's turbofish: Vec::<T>::new; but also impls at the start of a component. */
	if (ends(&s->out, "::") && !starts(s->at, "<impl ")) {
		s->out.size -= 2;
		at_start = false;
	}
	if (at_start) {
		s->quotes++;
		buffer_char(&s->out, *s->at++);
		return;
	}
	const char *rest = behind_bracket(s->at);

	buffer_text(&s->out, rest == s->at + 2 ? "<>" : "<...>");
	s->at = rest;
}

/* A space: outside of all brackets, the text before it was a return type or a qualifier. */
static bool pass_blank(struct shortener *s)
{
	if (starts(s->at, " [clone"))
		return false;
	if (s->braces || s->quotes)
		buffer_char(&s->out, ' ');
	else
		buffer_clear(&s->out);
	s->at++;
	return true;
}

/* Processes one token; false at the end of the name. */
static bool step(struct shortener *s)
{
	bool new_word = s->out.size == 0 || !is_word((char)s->out.data[s->out.size - 1]);

	if (new_word && starts(s->at, "operator") && !is_word(s->at[sizeof "operator" - 1])) {
		copy_operator(s);
		return true;
	}
	if (ends(&s->out, "std::") && (starts(s->at, "__cxx11::") || starts(s->at, "__1::"))) {
		s->at = strstr(s->at, "::") + 2;
		return true;
	}
	switch (*s->at) {
	case '(':
		return skip_parameters(s);
	case '<':
		open_angle(s);
		return true;
	case ' ':
		return pass_blank(s);
	case '-': /* an arrow does not close a quote: <fn() -> T as Trait> */
		if (s->at[1] == '>')
			buffer_char(&s->out, *s->at++);
		break;
	case '[':
		if (!starts(s->at, "[abi:"))
			break;
		s->at = behind_bracket(s->at);
		return true;
	case '{':
		s->braces++;
		break;
	case '}':
		s->braces -= s->braces > 0;
		break;
	case '>':
		s->quotes -= s->quotes > 0;
		break;
	default:
		break;
	}
	buffer_char(&s->out, *s->at++);
	return true;
}

/* Suffixes that gcc and clang append to clones of a function: f.isra.0, f.cold, f.llvm.123 */
static void cut_clones(struct buffer *name)
{
	static const char *const marks[] = { ".cold",	    ".isra.",	  ".part.",
					     ".constprop.", ".lto_priv.", ".llvm." };

	for (size_t i = 1; i < name->size; i++)
		for (size_t j = 0; name->data[i] == '.' && j < ARRAY_SIZE(marks); j++) {
			size_t length = strlen(marks[j]);

			if (name->size - i >= length &&
			    memcmp(name->data + i, marks[j], length) == 0)
				name->size = i;
		}
}

char *name_shorten(const char *full)
{
	struct shortener s = { .at = full };

	while (*s.at && step(&s))
		;
	cut_clones(&s.out);
	if (s.strange || (s.out.size == 0 && !s.out.failed)) {
		buffer_clear(&s.out);
		buffer_text(&s.out, full);
	}
	return buffer_take_string(&s.out);
}
