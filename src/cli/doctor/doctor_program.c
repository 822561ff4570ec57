/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The doctor's checks of one program, from its files alone: whether the recorder can be loaded, whether it sees the
 * allocator, what in the program and its libraries may hide memory, and whether stacks can be walked and frames
 * named. The first check calls collect/binaries/preflight.h and the last symbols/, so that the doctor always agrees
 * with recording and reporting.
 */
#include "cli/doctor/doctor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/elf.h"
#include "cli/linked_in.h"
#include "collect/binaries/elf_facts.h"
#include "collect/binaries/needed_libraries.h"
#include "collect/binaries/preflight.h"
#include "format/unrecorded.h"
#include "symbols/symbolizer.h"
#include "util/cleanup.h"
#include "util/files.h"

enum { SCRIPTS_MAX = 5 };

static void judge_names(struct doctor *doctor, const char *path, const struct elf_facts *facts)
{
	struct symbolizer *symbolizer = symbolizer_new(NULL);
	struct span build_id = span_of(facts->build_id, facts->build_id_bytes);
	enum symbol_source source = SYMBOLS_NONE;

	if (symbolizer) {
		symbol_module_id module = symbolizer_module(symbolizer, path, build_id);

		symbolizer_find(symbolizer, module, facts->entry, true);
		source = symbolizer_module_state(symbolizer, module).source;
		symbolizer_free(symbolizer);
	}
	if (source == SYMBOLS_DWARF)
		doctor_add(doctor, "names", DOCTOR_OK, NULL, "functions, lines and inlined calls");
	else if (source == SYMBOLS_ELF)
		doctor_add(doctor, "names", DOCTOR_WARN,
			   "build it with -g, or install its debug information",
			   "functions only: no debug information");
	else
		doctor_add(doctor, "names", DOCTOR_WARN,
			   "build it with -g, or install its debug information",
			   "stripped: frames will show as module+0x1c30");
}

static void judge_allocator(struct doctor *doctor, const char *path, const struct elf_facts *facts)
{
	const char *name = facts->linked_in ? facts->linked_in : "an allocator";
	struct live_hooks hooks;

	if (facts->linked_in && linked_in_find_hooks(path, &hooks))
		doctor_add(doctor, "allocator", DOCTOR_OK, NULL,
			   "%s is linked in statically: recorded by its hooks, if it is %s", name,
			   hooks.mallctl ? "5.2.0 to 5.3.1" : "that of gperftools");
	else if (facts->defines_malloc && facts->links_cxx && !facts->defines_new)
		doctor_add(doctor, "allocator", DOCTOR_WARN,
			   "link it as a shared library, or use the C library's malloc",
			   "%s is linked in: only C++ new and delete are recorded", name);
	else if (facts->defines_malloc)
		doctor_add(doctor, "allocator", DOCTOR_NO,
			   "link it as a shared library, or use the C library's malloc",
			   "%s is linked in statically: not recorded", name);
	else if (facts->linked_in)
		doctor_add(
			doctor, "allocator", DOCTOR_WARN,
			"link it as a shared library, or use the C library's malloc",
			"%s is linked in statically under its own names: its allocations are not "
			"recorded",
			name);
	else
		doctor_add(doctor, "allocator", DOCTOR_OK, NULL, "%s",
			   facts->shared ? facts->shared : "the C library's");
}

/* The C library, the loader, the recorder, and a library that replaces the C library's malloc. */
static bool is_expected(const char *path, const struct elf_facts *program)
{
	const char *base = path_base(path);

	return strncmp(base, "libc.so", 7) == 0 || strncmp(base, "ld-linux", 8) == 0 ||
	       strncmp(base, "libheapgauge", 12) == 0 ||
	       (program->shared && strncmp(base, "lib", 3) == 0 &&
		strncasecmp(base + 3, program->shared, strlen(program->shared)) == 0);
}

static void judge_unrecorded(struct doctor *doctor, const char *path, uint64_t found)
{
	/* Many libraries call sbrk only to query the end of the heap, and contain libc's name for other reasons. */
	found &= ~(UNRECORDED_BIT(sbrk) | UNRECORDED_BIT(dlsym_libc));
	for (uint64_t left = unrecorded_most_specific(found); left; left &= left - 1) {
		enum unrecorded is = (enum unrecorded)__builtin_ctzll(left);
		char text[UNRECORDED_SENTENCE_MAX];

		unrecorded_format(is, path, text);
		doctor_add(doctor, "unrecorded", DOCTOR_WARN, unrecorded_words[is].remedy, "%s",
			   text);
	}
}

/* Reports what the program and its libraries contain that may hide memory. Only a run shows whether it does; the
 * report then says so. */
static void judge_loaded(struct doctor *doctor, const char *path, const struct elf_facts *facts)
{
	AUTO(needed_release) struct needed needed = { 0 };

	/* An allocator linked into the program has its own line. */
	judge_unrecorded(doctor, path,
			 facts->unrecorded & ~unrecorded_of_class(UNRECORDED_ALLOCATOR));
	needed_find(&needed, path);
	for (size_t i = 1; i < needed.files.count; i++) {
		AUTO(file_map_release) struct file_map map = FILE_MAP_INIT;
		struct elf_facts of;

		if (!is_expected(needed.files.at[i], facts) &&
		    file_map_open(&map, needed.files.at[i], NULL) == 0 &&
		    elf_facts_of(map.bytes, &of))
			judge_unrecorded(doctor, needed.files.at[i], of.unrecorded);
	}
}

static void judge_file(struct doctor *doctor, const char *path, const struct elf_facts *facts)
{
	judge_allocator(doctor, path, facts);
	if (facts->has_unwind)
		doctor_add(doctor, "stacks", DOCTOR_OK, NULL, "has unwind information");
	else
		doctor_add(doctor, "stacks", DOCTOR_WARN,
			   "build it with -fasynchronous-unwind-tables",
			   "no unwind information (.eh_frame_hdr): stacks end in its code");
	judge_names(doctor, path, facts);
	if (facts->build_id_bytes)
		doctor_add(doctor, "build-id", DOCTOR_OK, NULL,
			   "present: a report can verify that the file is the same");
	else
		doctor_add(doctor, "build-id", DOCTOR_WARN, "link it with -Wl,--build-id",
			   "none: if the file changes, a report shows wrong names");
}

/* Returns the program that `env` starts in a script's first line, as in "#!/usr/bin/env -S python3 -u". The
 * caller frees it; NULL: the interpreter is not env. */
static char *program_of_env(struct span script, const struct elf_judgement *judgement)
{
	const char *at = judgement->path, *end = (const char *)script.data + script.size;
	AUTO_FREE char *env = strndup(at, judgement->path_bytes);

	if (!env || strcmp(path_base(env), "env") != 0)
		return NULL;
	for (at += judgement->path_bytes; at < end && *at != '\n';) {
		size_t length = 0;

		while (at + length < end && !strchr(" \t\n", at[length]))
			length++;
		if (length && *at != '-' && !memchr(at, '=', length)) {
			AUTO_FREE char *word = strndup(at, length);

			return word ? program_path(word) : NULL;
		}
		at += length ? length : 1;
	}
	return NULL;
}

/* Returns the file that is finally loaded: for a script, its interpreter. The caller frees it; NULL if there is
 * none. */
static char *resolve(struct doctor *doctor, const char *program)
{
	char *path = program_path(program);

	for (int i = 0; path && i < SCRIPTS_MAX; i++) {
		AUTO(file_map_release) struct file_map map = FILE_MAP_INIT;
		struct elf_judgement judgement;
		char *next;

		if (file_map_open(&map, path, NULL) < 0)
			return path;
		judgement = elf_judge(map.bytes.data, map.bytes.size);
		if (judgement.verdict != ELF_SCRIPT)
			return path;
		next = program_of_env(map.bytes, &judgement);
		if (!next)
			next = strndup(judgement.path, judgement.path_bytes);
		doctor_add(doctor, "script", DOCTOR_OK, NULL, "run by %s", next ? next : "?");
		free(path);
		path = next;
	}
	return path;
}

/* Returns false if there is nothing to check. */
static bool judge_location(struct doctor *doctor, const char *program, const char *path)
{
	struct stat status;

	if (!path && access(program, X_OK) == 0) {
		char here[256];

		snprintf(here, sizeof here, "heapgauge doctor ./%s", program);
		doctor_add(doctor, "file", DOCTOR_NO, here,
			   "not found in PATH, but present in this folder");
	} else if (!path) {
		doctor_add(doctor, "file", DOCTOR_NO, "name the program's file",
			   "not found in PATH");
	} else if (stat(path, &status) < 0) {
		doctor_add(doctor, "file", DOCTOR_NO, "name an existing program", "%s: %s", path,
			   strerror(errno));
	} else if (S_ISDIR(status.st_mode)) {
		doctor_add(doctor, "file", DOCTOR_NO, "name a program in it", "%s is a folder",
			   path);
	} else if (access(path, X_OK) < 0) {
		doctor_add(doctor, "file", DOCTOR_NO, "chmod +x it, if it is a program",
			   "%s is not executable", path);
	} else {
		return true;
	}
	return false;
}

void doctor_program(struct doctor *doctor, const char *program)
{
	AUTO_FREE char *path = resolve(doctor, program);
	AUTO(file_map_release) struct file_map map = FILE_MAP_INIT;
	struct error error = ERROR_INIT;
	struct elf_facts facts;

	if (!judge_location(doctor, program, path))
		return;
	bool is_elf = file_map_open(&map, path, NULL) == 0 && elf_facts_of(map.bytes, &facts);
	bool gets_in = preflight_program(path, &error) == 0;

	if (!gets_in)
		doctor_add_error(doctor, "recorder", DOCTOR_NO, &error);
	else if (!is_elf)
		doctor_add(doctor, "recorder", DOCTOR_WARN,
			   "start it with #! and an interpreter, if it is a script",
			   "neither a program nor a script: a shell would run it");
	else
		doctor_add(doctor, "recorder", DOCTOR_OK, NULL, "can be loaded into it");
	if (is_elf)
		judge_loaded(doctor, path, &facts);
	if (gets_in && is_elf)
		judge_file(doctor, path, &facts);
}
