/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executable shows which known allocator it contains; the recorder has seen whether there is one at all: then the
 * executable defines malloc. Files are read after a process has ended, so that nothing waits for it; those of libraries only if
 * the process has unexplained memory, in which case loaded_files.h has listed them.
 *
 * Owns the list of files that were read. One thread.
 */
#include "collect/binaries/linked_in.h"

#include <string.h>

#include "format/live/live_hooks.h"
#include "format/unrecorded.h"
#include "util/cleanup.h"
#include "util/files.h"

#define ZEROED_MIN_BYTES (1ull << 20) /* less is not significant */

void linked_in_release(struct linked_in *linked_in)
{
	for (size_t i = 0; i < linked_in->files.count; i++)
		free(linked_in->files.at[i].path);
	vector_release(&linked_in->files);
}

static struct elf_facts read_facts(const char *path)
{
	AUTO(file_map_release) struct file_map map = FILE_MAP_INIT;
	struct elf_facts facts;

	if (file_map_open(&map, path, NULL) < 0 || !elf_facts_of(map.bytes, &facts))
		return (struct elf_facts){ 0 };
	return facts;
}

static struct elf_facts facts_of(struct linked_in *linked_in, const char *path)
{
	for (size_t i = 0; i < linked_in->files.count; i++) {
		if (strcmp(linked_in->files.at[i].path, path) == 0)
			return linked_in->files.at[i].facts;
	}
	struct linked_in_file file = { strdup(path), read_facts(path) };

	if (!file.path || !vector_push(&linked_in->files, file))
		free(file.path);
	return file.facts;
}

/* The allocator that the recorder forwards to hides nothing. */
static bool is_recorded(const struct process_row *process, const char *path)
{
	const char *malloc_of = process->allocator;

	return malloc_of && malloc_of[0] && strcmp(path, process->exe ? process->exe : "") != 0 &&
	       strncmp(path_base(path), malloc_of, strlen(malloc_of)) == 0;
}

/* The allocator in the executable is recorded by its hooks. */
static bool has_hooks(const struct process_row *process)
{
	return process->allocator && strstr(process->allocator, LIVE_HOOKS_MARK);
}

/* What the file may hide in this process. */
static uint64_t unrecorded_in(const struct process_row *process, const char *path, uint64_t found)
{
	uint64_t hooked = unrecorded_of_class(UNRECORDED_ALLOCATOR) | UNRECORDED_BIT(sbrk);

	if (is_recorded(process, path))
		return 0;
	return has_hooks(process) && process->exe && strcmp(path, process->exe) == 0
		       ? found & ~hooked
		       : found;
}

/* "an allocator" if its name is unknown, NULL: none. */
static const char *in_executable(struct linked_in *linked_in, const struct process_row *process)
{
	const char *exe = process->exe, *malloc_of = process->allocator;

	if (!exe || !exe[0])
		return NULL;
	if (has_hooks(process))
		return NULL;
	const char *name = facts_of(linked_in, exe).linked_in;

	if (name || !malloc_of || !malloc_of[0])
		return name;
	/* The recorder truncates a long name. */
	return strncmp(path_base(exe), malloc_of, strlen(malloc_of)) == 0 ? "an allocator" : NULL;
}

/* The loader names a file by the symbolic link, the kernel by the resolved path: readers use the loader's name. */
static void name_as_modules(struct process_rows *rows)
{
	for (size_t i = 0; rows->unrecorded_count > 0 && i < rows->module_count; i++) {
		const char *path = rows->modules[i].path;
		AUTO_FREE char *place = path && path[0] == '/' ? realpath(path, NULL) : NULL;

		if (!place || strcmp(place, path) == 0)
			continue;
		for (size_t k = 0; k < rows->unrecorded_count; k++) {
			char *name =
				strcmp(rows->unrecorded[k].path, place) == 0 ? strdup(path) : NULL;

			if (!name)
				continue;
			free(rows->unrecorded[k].path);
			rows->unrecorded[k].path = name;
		}
	}
}

void linked_in_find(struct linked_in *linked_in, struct process_rows *rows)
{
	const char *name = in_executable(linked_in, &rows->process);
	size_t kept = 0;

	rows->process.linked_in = name ? strdup(name) : NULL;
	for (size_t i = 0; i < rows->unrecorded_count; i++) {
		struct unrecorded_row row = rows->unrecorded[i];
		struct elf_facts facts = facts_of(linked_in, row.path);

		row.found |= unrecorded_in(&rows->process, row.path, facts.unrecorded);
		row.zeroed_bytes = facts.zeroed_bytes;
		if (row.found || row.zeroed_bytes >= ZEROED_MIN_BYTES)
			rows->unrecorded[kept++] = row;
		else
			free(row.path);
	}
	rows->unrecorded_count = kept;
	name_as_modules(rows);
}
