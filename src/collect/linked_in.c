/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An executable's file names the allocator in it, if it is a known one; that there is one at all, the recorder has seen:
 * malloc is defined by the executable. Files are read when a process has ended, so that nobody waits for it.
 *
 * Owns: the list of files that were looked at. One thread.
 */
#include "collect/linked_in.h"

#include <string.h>

#include "collect/elf_facts.h"
#include "util/cleanup.h"
#include "util/files.h"

void linked_in_release(struct linked_in *linked_in)
{
	for (size_t i = 0; i < linked_in->files.count; i++)
		free(linked_in->files.at[i].exe);
	vector_release(&linked_in->files);
}

static const char *name_in_file(const char *exe)
{
	AUTO(file_map_release) struct file_map map = FILE_MAP_INIT;
	struct elf_facts facts;

	if (file_map_open(&map, exe, NULL) < 0 || !elf_facts_of(map.bytes, &facts))
		return NULL;
	return facts.linked_in;
}

static const char *name_of(struct linked_in *linked_in, const char *exe)
{
	for (size_t i = 0; i < linked_in->files.count; i++) {
		if (strcmp(linked_in->files.at[i].exe, exe) == 0)
			return linked_in->files.at[i].name;
	}
	struct linked_in_file file = { strdup(exe), name_in_file(exe) };

	if (!file.exe || !vector_push(&linked_in->files, file))
		free(file.exe);
	return file.name;
}

const char *linked_in_find(struct linked_in *linked_in, const char *exe, const char *malloc_of)
{
	if (!exe || !exe[0])
		return NULL;
	const char *name = name_of(linked_in, exe), *base = path_base(exe);

	if (name || !malloc_of || !malloc_of[0])
		return name;
	/* The recorder has room for the beginning of a long name. */
	return strncmp(base, malloc_of, strlen(malloc_of)) == 0 ? "an allocator" : NULL;
}
