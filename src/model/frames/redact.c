/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces texts of a recording. A name becomes its kind and a number, in order of appearance, the same one in all processes: a
 * hash could be reversed by trying names. What a distribution brought keeps its path and its names, which tell nothing about the
 * program, and without which reports could not tell libraries from own code.
 *
 * Owns the tables of replaced names, for one call. Not thread-safe.
 * Invariant: every text of rows.h is handled here; a new one has to be added.
 */
#include "model/frames/redact.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "format/live/live_hooks.h"
#include "format/live/live_own.h"
#include "format/recording/rows.h"
#include "format/recording/recording.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/numbering.h"
#include "util/texts.h"

/* Files below the root of own code stay recognizable as such. */
#define OWN_ROOT_SHOWN "/own"

enum alias_kind {
	ALIAS_FUNCTION,
	ALIAS_FILE,
	ALIAS_MODULE,
	ALIAS_TAG,
	ALIAS_LABEL,
	ALIAS_VARIABLE,
	ALIAS_TYPE,
	ALIAS_KINDS
};
static const char *const alias_prefixes[] = { "function", "file",     "module", "tag",
					      "value",	  "variable", "type" };

struct redactor {
	enum redaction redaction;
	const struct own_rule *own;
	const char *exe; /* of the process */
	struct texts known[ALIAS_KINDS];
	struct numbering numbers[ALIAS_KINDS];
	bool failed;
};

static void redactor_release(struct redactor *r)
{
	for (size_t i = 0; i < ALIAS_KINDS; i++) {
		texts_release(&r->known[i]);
		numbering_release(&r->numbers[i]);
	}
}

/* "function 12"; the caller frees it. */
static char *alias(struct redactor *r, enum alias_kind kind, const char *text)
{
	uint32_t at = texts_add(&r->known[kind], text);
	size_t number = number_of(&r->numbers[kind], at);
	char *name = NULL;

	if (number == SIZE_MAX || r->known[kind].bytes.failed ||
	    asprintf(&name, "%s%zu", alias_prefixes[kind], number + 1) < 0) {
		r->failed = true;
		return NULL;
	}
	return name;
}

/* Takes ownership of `now`. */
static void replace(struct redactor *r, char **text, char *now)
{
	if (!now) {
		r->failed = true;
		return;
	}
	free(*text);
	*text = now;
}

static bool has_text(const char *text)
{
	return text && *text;
}

/* What a distribution brought, except for the program: a company's may come as a package, too. */
static bool is_public(const struct redactor *r, const char *path)
{
	bool is_program = r->redaction == REDACT_NAMES && strcmp(path, r->exe) == 0 &&
			  !is_python_interpreter(path);

	return is_distribution_path(path) && (path[0] == '\0' || !is_program);
}

/* The path without its folders, or with another name. */
static char *redacted_path(struct redactor *r, enum alias_kind kind, const char *path)
{
	const struct own_rule *own = r->own;
	bool below = own->kind == OWN_ROOT && strncmp(path, own->text, strlen(own->text)) == 0;
	AUTO_FREE char *name = NULL;
	char *whole = NULL;

	if (is_public(r, path))
		return strdup(path);
	name = r->redaction == REDACT_NAMES ? alias(r, kind, path) : strdup(path_base(path));
	if (!name || !below)
		return TAKE(name);
	if (asprintf(&whole, OWN_ROOT_SHOWN "/%s", name) < 0)
		return NULL;
	return whole;
}

static void redact_path(struct redactor *r, enum alias_kind kind, char **path)
{
	if (has_text(*path))
		replace(r, path, redacted_path(r, kind, *path));
}

/* Keeps the program, without its folder and arguments. */
static void redact_command(struct redactor *r, char **command, const char *exe)
{
	if (!has_text(*command))
		return;
	AUTO_FREE char *word = strndup(*command, strcspn(*command, " "));

	if (!word) {
		r->failed = true;
		return;
	}
	AUTO_FREE char *path = redacted_path(r, ALIAS_MODULE, has_text(exe) ? exe : word);

	replace(r, command, path ? strdup(path_base(path)) : NULL);
}

static void redact_run(struct redactor *r, struct run_row *run, const char *exe)
{
	redact_command(r, &run->command, exe);
	replace(r, &run->host, strdup("redacted"));
	replace(r, &run->options, strdup(""));
	if (r->own->kind == OWN_ROOT)
		replace(r, &run->own_code, strdup("root:" OWN_ROOT_SHOWN));
	else if (r->own->kind == OWN_REGEX)
		replace(r, &run->own_code, strdup("modules"));
	for (size_t i = 0; i < run->missed_count; i++)
		redact_path(r, ALIAS_MODULE, &run->missed[i].path);
}

/* "tenant=value3": what a label is about stays, unless names go too. */
static void redact_label(struct redactor *r, char **text)
{
	const char *equals = strchr(*text, '=');
	AUTO_FREE char *key = NULL;
	AUTO_FREE char *value = alias(r, ALIAS_LABEL, equals ? equals + 1 : *text);
	char *whole = NULL;

	key = strndup(*text, equals ? (size_t)(equals - *text) : 0);
	if (key && equals && r->redaction == REDACT_NAMES)
		replace(r, &key, alias(r, ALIAS_TAG, key));
	if (!key || !value || asprintf(&whole, "%s%s%s", key, equals ? "=" : "", value) < 0)
		whole = NULL;
	replace(r, text, whole);
}

/* Of the interpreter, whose pools have the same names in every program. */
static bool is_python_pool(const struct tag_row *tag)
{
	static const char *const names[] = { "python.raw", "python.mem", LIVE_PYTHON_OBJECTS };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(tag->text, names[i]) == 0)
			return true;
	return false;
}

static void redact_tags(struct redactor *r, struct process_rows *rows)
{
	for (size_t i = 1; i < rows->tag_count && !r->failed; i++) {
		struct tag_row *tag = &rows->tags[i];

		if (tag->name < i) {
			tag->text = rows->tags[tag->name].text; /* which owns it */
			continue;
		}
		if (!has_text(tag->text))
			continue;
		if (tag->kind == LIVE_TAG_LABEL)
			redact_label(r, &tag->text);
		else if (r->redaction == REDACT_NAMES && !is_python_pool(tag))
			replace(r, &tag->text, alias(r, ALIAS_TAG, tag->text));
	}
	for (size_t i = 0; i < rows->mark_count && r->redaction == REDACT_NAMES; i++) {
		if (has_text(rows->marks[i].name))
			replace(r, &rows->marks[i].name, alias(r, ALIAS_TAG, rows->marks[i].name));
	}
	for (size_t i = 0; i < rows->thread_count && r->redaction == REDACT_NAMES; i++)
		memset(rows->threads[i].name, 0, sizeof rows->threads[i].name);
}

static uint32_t put_text(struct redactor *r, struct texts *texts, char *text)
{
	AUTO_FREE char *owned = text;

	if (!owned)
		r->failed = true;
	return owned ? texts_add(texts, owned) : 0;
}

/* Runtimes that compile code put the path of its source into its name: "LazyCompile:*hot /srv/app.js:7:3". */
static char *shown_function(const char *function, struct profile_frame frame)
{
	return strndup(function, frame.module.v ? strlen(function) : strcspn(function, "/"));
}

/* Before the modules: their paths decide whose names are public. */
static void redact_names(struct redactor *r, const struct profile_process *p,
			 struct process_rows *rows)
{
	AUTO(texts_release) struct texts texts = { 0 };

	for (size_t i = 0; i < rows->name_count && !r->failed; i++) {
		struct name_row *row = &rows->names[i];
		const char *function = rows->texts + row->function;
		const char *file = rows->texts + row->file;
		struct profile_frame frame = profile_frame_at(p, (frame_id){ row->frame });
		const char *module = frame.module.v ? rows->modules[frame.module.v].path : "";
		bool public = has_text(module) && is_public(r, module);
		bool hides = r->redaction == REDACT_NAMES && !public;
		uint32_t arguments = hides ? 0 : texts_add(&texts, rows->texts + row->arguments);

		if (*function && hides)
			row->function = put_text(r, &texts, alias(r, ALIAS_FUNCTION, function));
		else if (*function)
			row->function = put_text(r, &texts, shown_function(function, frame));
		if (*file)
			row->file = put_text(r, &texts,
					     public ? strdup(file)
						    : redacted_path(r, ALIAS_FILE, file));
		row->arguments = arguments;
	}
	/* Texts of source lines are not kept: the caller includes none. */
	free(rows->texts);
	rows->text_bytes = texts.bytes.size;
	rows->texts = (char *)TAKE(texts.bytes.data);
	r->failed = r->failed || texts.bytes.failed;
	texts.bytes = BUFFER_INIT;
}

/* Whether a file has the name, of which the recorder keeps only the beginning. */
static bool is_named(const char *path, const char *name)
{
	return has_text(path) && strncmp(path_base(path), name, strlen(name)) == 0;
}

/* The loaded file of that name; the name itself: it is not known. */
static const char *loaded_file(const struct process_rows *rows, const char *name)
{
	if (is_named(rows->process.exe, name))
		return rows->process.exe;
	for (size_t i = 1; i < rows->module_count; i++)
		if (is_named(rows->modules[i].path, name))
			return rows->modules[i].path;
	for (size_t i = 0; i < rows->globals.file_count; i++)
		if (is_named(rows->globals.files[i].path, name))
			return rows->globals.files[i].path;
	return name;
}

/* "glibc" or "musl", or the file that defines malloc, maybe the program itself: "libx.so", "libx.so, jemalloc (hooks)". Before the
 * modules. */
static void redact_allocator(struct redactor *r, struct process_rows *rows)
{
	const char *all = rows->process.allocator ? rows->process.allocator : "";
	bool has_hooks = strstr(all, LIVE_HOOKS_MARK) != NULL;
	const char *rest = has_hooks ? strrchr(all, ',') : all + strlen(all);
	AUTO_FREE char *file = rest ? strndup(all, (size_t)(rest - all)) : strdup("");

	if (!file) {
		r->failed = true;
		return;
	}
	if (!*file || strcmp(file, "glibc") == 0 || strcmp(file, "musl") == 0)
		return;
	AUTO_FREE char *shown = redacted_path(r, ALIAS_MODULE, loaded_file(rows, file));
	char *whole = NULL;

	if (!shown || asprintf(&whole, "%s%s", path_base(shown), rest) < 0)
		whole = NULL;
	replace(r, &rows->process.allocator, whole);
}

static void redact_process(struct redactor *r, const struct profile_process *p,
			   struct process_rows *rows)
{
	struct process_row *process = &rows->process;
	AUTO_FREE char *exe = strdup(process->exe ? process->exe : "");

	ASSERT(rows->source_count == 0);
	if (!exe) {
		r->failed = true;
		return;
	}
	r->exe = exe;
	if (rows->name_count)
		redact_names(r, p, rows);
	redact_allocator(r, rows);
	redact_command(r, &process->command, process->exe);
	redact_path(r, ALIAS_MODULE, &process->exe);
	process->uid = 0;
	for (size_t i = 1; i < rows->module_count; i++) {
		struct module_row *module = &rows->modules[i];

		if (r->redaction == REDACT_NAMES && has_text(module->path) &&
		    !is_public(r, module->path))
			module->build_id_bytes = 0;
		redact_path(r, ALIAS_MODULE, &module->path);
	}
	for (size_t i = 0; i < rows->unrecorded_count; i++)
		redact_path(r, ALIAS_MODULE, &rows->unrecorded[i].path);
	for (size_t i = 0; i < rows->globals.file_count; i++) {
		struct static_file_row *file = &rows->globals.files[i];

		if (r->redaction == REDACT_NAMES && !is_public(r, file->path))
			file->build_id_bytes = 0;
		redact_path(r, ALIAS_MODULE, &file->path);
	}
	for (size_t i = 0; r->redaction == REDACT_NAMES && i < rows->image.holder_count; i++)
		if (has_text(rows->image.holders[i].name))
			replace(r, &rows->image.holders[i].name,
				alias(r, ALIAS_VARIABLE, rows->image.holders[i].name));
	for (size_t i = 0; r->redaction == REDACT_NAMES && i < rows->image.type_count; i++)
		replace(r, &rows->image.types[i].name,
			alias(r, ALIAS_TYPE, rows->image.types[i].name));
	redact_tags(r, rows);
}

int redact_recording(struct profile *profile, enum redaction redaction, struct error *error)
{
	AUTO(redactor_release)
	struct redactor r = { .redaction = redaction, .own = &profile->own };
	struct recording *recording = profile->recording;

	if (recording->process_count > 0) {
		const char *exe = recording->processes[0].process.exe;

		r.exe = exe ? exe : "";
		redact_run(&r, &recording->run, r.exe);
	}
	for (size_t i = 0; i < recording->process_count && !r.failed; i++)
		redact_process(&r, &profile->processes[i], &recording->processes[i]);
	return r.failed ? error_set(error, "out of memory") : 0;
}
