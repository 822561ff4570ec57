/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simplified version of the loader's search: the folders named by the file itself, those of the environment, those of the
 * system. The loader's cache is not read: libraries that are only there are not found. The files are untrusted input.
 *
 * Owns only the list. One thread.
 */
#include "collect/binaries/needed_libraries.h"

#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/elf.h"
#include "collect/binaries/elf_walk.h"
#include "util/cleanup.h"
#include "util/files.h"

enum { FILES_MAX = 1024 };

static const char system_folders[] = "/lib/" ELF_FOLDER_HERE ":/usr/lib/" ELF_FOLDER_HERE ":/lib64:"
				     "/usr/lib64:/usr/local/lib:/lib:/usr/lib";

void needed_release(struct needed *needed)
{
	for (size_t i = 0; i < needed->files.count; i++)
		free(needed->files.at[i]);
	vector_release(&needed->files);
}

/* Takes ownership of the path. */
static void add(struct needed *needed, char *path)
{
	bool known = false;

	for (size_t i = 0; i < needed->files.count && path; i++)
		known |= strcmp(needed->files.at[i], path) == 0;
	if (!path || known || needed->files.count == FILES_MAX ||
	    !vector_push(&needed->files, path))
		free(path);
}

/* "$ORIGIN/../lib" of the file at "/a/bin/x" is "/a/bin/../lib". NULL: out of memory. */
static char *expand(const char *folder, size_t length, const char *file)
{
	static const char *const words[] = { "$ORIGIN", "${ORIGIN}" };
	char *ret = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t word = strlen(words[i]);

		if (length < word || strncmp(folder, words[i], word) != 0)
			continue;
		int origin = (int)(path_base(file) - file);

		return asprintf(&ret, "%.*s%.*s", origin, file, (int)(length - word),
				folder + word) < 0
			       ? NULL
			       : ret;
	}
	return strndup(folder, length);
}

/* Finds the library in one of the folders, separated by colons. NULL: it is in none. */
static char *find_in(const char *folders, const char *name, const char *file)
{
	for (const char *at = folders; at && *at; at += strspn(at, ":")) {
		size_t length = strcspn(at, ":");
		AUTO_FREE char *folder = expand(at, length, file);
		AUTO_FREE char *path = NULL;

		if (folder && asprintf(&path, "%s/%s", folder, name) < 0)
			path = NULL;
		if (path && access(path, R_OK) == 0)
			return realpath(path, NULL);
		at += length;
	}
	return NULL;
}

static char *find(const char *name, const char *own_folders, const char *file)
{
	char *found = strchr(name, '/') ? realpath(name, NULL) : find_in(own_folders, name, file);

	if (!found)
		found = find_in(getenv("LD_LIBRARY_PATH"), name, file);
	return found ? found : find_in(system_folders, name, file);
}

/* One table contains both: first finds the folders, then the names. */
static void take_dynamic(struct needed *needed, struct elf_walk *walk, const char *file)
{
	Elf_Data *data = elf_getdata(walk->section, NULL);
	size_t names = walk->header.sh_link;
	const char *folders = NULL;
	GElf_Dyn entry;

	if (!data)
		return;
	for (int i = 0; gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++)
		if (entry.d_tag == DT_RUNPATH || entry.d_tag == DT_RPATH)
			folders = elf_walk_name(walk, names, entry.d_un.d_val);
	for (int i = 0; gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++) {
		const char *name = entry.d_tag == DT_NEEDED
					   ? elf_walk_name(walk, names, entry.d_un.d_val)
					   : NULL;

		if (name)
			add(needed, find(name, folders, file));
	}
}

static void take_file(struct needed *needed, const char *file)
{
	AUTO(file_map_release) struct file_map map = FILE_MAP_INIT;
	struct elf_walk walk;

	if (file_map_open(&map, file, NULL) < 0)
		return;
	bool is_elf = elf_walk_begin(&walk, map.bytes);

	while (is_elf && elf_walk_next(&walk))
		if (walk.header.sh_type == SHT_DYNAMIC)
			take_dynamic(needed, &walk, file);
	elf_walk_end(&walk);
}

void needed_find(struct needed *needed, const char *program)
{
	add(needed, realpath(program, NULL));
	for (size_t i = 0; i < needed->files.count; i++)
		take_file(needed, needed->files.at[i]);
}
