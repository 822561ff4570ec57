/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks in results: the frames themselves, and the one frame that stands for all of them in a
 * sentence.
 *
 * No frame is ever hidden from a stack. Only the label skips what every program has in common: the
 * insides of containers and allocators, libc and the loader, known by how their names begin.
 */
#include <stdio.h>
#include <string.h>

#include "analysis/build.h"
#include "analysis/plumbing.h"
#include "base/compiler.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/utf8.h"

enum { LABEL_MAX_BYTES = 56 };

bool stack_value(struct result *result, struct places *places,
		 const struct profile_process *process, node_id node, struct result_value *ret)
{
	struct place_chain stack;

	if (places_stack(places, process, node, &result->arena, &stack) < 0)
		return false;
	const struct result_frame **frames =
		ARENA_ARRAY(&result->arena, const struct result_frame *, stack.count);

	if (!frames)
		return false;
	for (size_t i = 0; i < stack.count; i++)
		frames[i] = &stack.at[i]->frame;
	*ret = (struct result_value){ .unit = UNIT_FRAMES, .frames = { frames, stack.count } };
	return true;
}

static bool begins_with_any(const char *text, const char *const *beginnings, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strncmp(text, beginnings[i], strlen(beginnings[i])) == 0)
			return true;
	return false;
}

bool is_plumbing(const struct result_frame *f)
{
	static const char *const functions[] = {
		"std::",    "void std::", "__gnu_cxx::", "operator new",    "alloc::",	"core::",
		"<alloc",   "<core",	  "hashbrown::", "<hashbrown",	    "__rust_",	"_start",
		"xmalloc",  "xcalloc",	  "xrealloc",	 "xstrdup",	    "g_malloc", "g_realloc",
		"g_strdup", "g_slice_",	  "PyMem_",	 "PyObject_Malloc",
	};
	static const char *const modules[] = {
		"libc.so",     "libc-2.",  "libstdc++.so", "libc++.so",
		"libgcc_s.so", "ld-linux", "ld-musl",
	};

	return begins_with_any(f->full, functions, ARRAY_SIZE(functions)) ||
	       begins_with_any(path_base(f->module), modules, ARRAY_SIZE(modules));
}

bool is_nameless(const struct result_frame *f)
{
	return f->full[0] == '[' || strstr(f->full, "+0x") || f->full[0] == '0';
}

/* How much of the text is one unit that says nothing about arguments; 0: look at the character. */
static size_t skip_unit(const char *text)
{
	static const char *const units[] = { "(anonymous namespace)",
					     "operator()",
					     "operator<<",
					     "operator<",
					     "operator>>",
					     "operator->",
					     "operator>" };

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (strncmp(text, units[i], strlen(units[i])) == 0)
			return strlen(units[i]);
	return 0;
}

/* The length of a function's name without its arguments: up to the first '(' outside <> and {}. */
static size_t name_bytes(const char *function)
{
	size_t at = 0, depth = 0;

	while (function[at]) {
		size_t unit = skip_unit(function + at);
		char c = function[at];

		if (!unit && c == '(' && depth == 0 && at > 0)
			return at;
		if (!unit && (c == '<' || c == '{'))
			depth++;
		else if (!unit && (c == '>' || c == '}') && depth > 0)
			depth--;
		at += unit ? unit : 1;
	}
	return at;
}

/* The same, cut where it gets too long; whole characters only. */
static int label_bytes(const char *function)
{
	size_t length = name_bytes(function), at = 0;

	while (at < length) {
		size_t step = utf8_sequence(span_of(function + at, length - at));

		if (step == 0)
			step = 1;
		if (at + step > LABEL_MAX_BYTES)
			break;
		at += step;
	}
	return (int)at;
}

const char *place_label(struct result *result, const struct place *place)
{
	if (!place)
		return "[no stack]";
	const struct result_frame *f = &place->frame;
	int bytes = label_bytes(f->function);
	const char *cut = (size_t)bytes < name_bytes(f->function) ? "..." : "";

	if (f->file && f->line)
		return arena_printf(&result->arena, "%.*s%s (%s:%u)", bytes, f->function, cut,
				    path_base(f->file), f->line);
	if (!is_nameless(f) && f->module[0])
		return arena_printf(&result->arena, "%.*s%s (%s)", bytes, f->function, cut,
				    path_base(f->module));
	return arena_printf(&result->arena, "%.*s%s", bytes, f->function, cut);
}

const char *stack_label(struct result *result, struct places *places,
			const struct profile_process *process, node_id node)
{
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	struct place_chain stack;

	if (places_stack(places, process, node, &scratch, &stack) < 0)
		return NULL;
	return place_label(result, places_owner(stack));
}
