/* SPDX-License-Identifier: Apache-2.0 */
/* Follows the stacks from their outermost frames until one of them says where the program starts. A caller has a smaller number
 * than its callees. */
#include "analysis/result/entry.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "model/frames/own_code.h"
#include "util/cleanup.h"
#include "util/files.h"

enum { STACKS_MAX = 4096 };

/* What a stack has passed, from the outside. */
enum passed {
	PASSED_NOTHING,
	PASSED_SCRIPT, /* a console script, or python -m */
	PASSED_OTHER,  /* other Python code: the interpreter's start */
};

struct walk {
	const struct profile_process *process;
	struct program_entry *ret;
	bool ends;
};

static bool is_language(const struct location *location, const char *language)
{
	return location->frame.language && strcmp(location->frame.language, language) == 0;
}

static bool span_ends(struct span name, const char *with)
{
	size_t size = strlen(with);

	return name.size >= size && memcmp(name.data + name.size - size, with, size) == 0;
}

/* "main", or "grex::main" in Rust. */
static bool is_main(const struct location *l)
{
	const char *first = memchr(l->name.data, ':', l->name.size);

	if (is_language(l, "rust"))
		return first && span_ends(l->name, "::main") &&
		       l->name.size == (size_t)(first - (const char *)l->name.data) + 6;
	return l->own && l->name.size == 4 && span_ends(l->name, "main");
}

/* Modules that python -m names are run by it. */
static bool is_runpy(const char *file)
{
	return strcmp(file, "<frozen runpy>") == 0 || strcmp(path_base(file), "runpy.py") == 0;
}

/* The folder above that of a console script, "/home/me/.venv/" of "/home/me/.venv/bin/tool". Empty: it is none. */
static struct span environment_of(const char *script)
{
	const char *base = path_base(script);
	struct span folder = span_of(script, (size_t)(base - script));

	return span_ends(folder, "/bin/") ? span_of(script, folder.size - 4) : span_of(script, 0);
}

static bool span_begins(struct span text, struct span with)
{
	return text.size >= with.size && memcmp(text.data, with.data, with.size) == 0;
}

/* Of Python code that a script calls. */
static enum passed pass_callee(struct walk *w, const struct location *l)
{
	const char *script = w->ret->script, *file = l->frame.file;
	struct span package = installed_package(file);

	if (package.size && (!script || span_begins(package, environment_of(script)))) {
		w->ret->package = package;
		w->ends = true;
	} else if (l->own && (!script || strcmp(file, script) != 0)) {
		w->ends = true; /* the project's own */
	}
	return PASSED_SCRIPT;
}

static enum passed pass_python(struct walk *w, const struct location *l, enum passed before)
{
	const char *file = l->frame.file;

	if (before == PASSED_SCRIPT)
		return pass_callee(w, l);
	if (before == PASSED_OTHER || is_runpy(file))
		return before == PASSED_OTHER ? before : PASSED_SCRIPT;
	if (environment_of(file).size && !installed_package(file).size) {
		w->ret->script = file;
		return PASSED_SCRIPT;
	}
	w->ends = l->own;
	return PASSED_OTHER;
}

static enum passed pass(struct walk *w, const struct location *l, enum passed before)
{
	if (!l->frame.file || l->nameless)
		return before;
	if (is_language(l, "python"))
		return pass_python(w, l, before);
	if (is_main(l)) {
		w->ret->main_file = l->frame.file;
		w->ret->package = installed_package(l->frame.file);
		w->ends = true;
	}
	return before;
}

/* A rule that someone gave says all. */
static bool has_default_rule(const struct profile_process *p)
{
	return p->own && (p->own->kind == OWN_MODULES || p->own->kind == OWN_ROOT);
}

bool entry_find(struct locations *locations, const struct profile_process *p,
		struct program_entry *ret)
{
	AUTO_FREE uint8_t *passed = calloc(p->node_count + 1, sizeof *passed);
	struct walk w = { .process = p, .ret = ret };
	size_t seen = 0;

	*ret = (struct program_entry){ 0 };
	if (!passed)
		return false;
	for (uint32_t i = 1; i < p->node_count && seen < STACKS_MAX && !w.ends; i++) {
		node_id node = { i };
		struct location_chain chain;

		if (p->fold && p->fold[i] != i)
			continue;
		seen++;
		chain = locations_of(locations, p, node);
		if (!chain.at)
			return false;
		passed[i] = passed[profile_parent(p, node).v];
		for (size_t j = chain.count; j > 0 && !w.ends; j--)
			passed[i] = (uint8_t)pass(&w, chain.at[j - 1], passed[i]);
	}
	if (!ret->package.size || !has_default_rule(p)) {
		ret->package = span_of(NULL, 0);
		ret->script = NULL;
	}
	return true;
}

bool entry_has(const struct program_entry *entry, const struct location *l)
{
	const char *file = l->frame.file;

	if (!entry->package.size)
		return false;
	if (!file) /* what calls main in Rust */
		return l->name.size == 4 && span_ends(l->name, "main");
	return strncmp(file, (const char *)entry->package.data, entry->package.size) == 0 ||
	       (entry->script && strcmp(file, entry->script) == 0);
}
