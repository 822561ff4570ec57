/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/debug/debug_package.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/cleanup.h"

/* /bin/ls may be listed as /usr/bin/ls, or the other way round. */
static const char *below_usr(const char *path)
{
	return strncmp(path, "/usr/", 5) == 0 ? path + 4 : path;
}

static bool lists_file(const char *folder, const char *name, const char *path)
{
	AUTO_FREE char *list = NULL, *line = NULL;
	size_t room = 0;
	ssize_t size;
	bool found = false;

	if (asprintf(&list, "%s/%s", folder, name) < 0) {
		list = NULL;
		return false;
	}
	FILE *file = fopen(list, "re");

	if (!file)
		return false;
	while (!found && (size = getline(&line, &room, file)) > 0) {
		line[size - (line[size - 1] == '\n')] = '\0';
		found = strcmp(below_usr(line), path) == 0;
	}
	fclose(file);
	return found;
}

/* "libfoo1:amd64.list": "libfoo1-dbgsym" */
static char *symbols_of(const char *list)
{
	int size = (int)strcspn(list, ":");
	const char *end = strstr(list, ".list");
	char *name;

	if (end - list < size)
		size = (int)(end - list);
	/* glibc's have another name, and are in the usual archive. */
	bool libc = size == 5 && strncmp(list, "libc6", 5) == 0;

	return asprintf(&name, "%.*s-%s", size, list, libc ? "dbg" : "dbgsym") < 0 ? NULL : name;
}

static bool is_list(const char *name)
{
	size_t size = strlen(name), end = strlen(".list");

	return size > end && strcmp(name + size - end, ".list") == 0;
}

char *debug_package_of(const char *lists, const char *path)
{
	DIR *folder = opendir(lists);
	char *found = NULL;

	if (!folder)
		return NULL;
	for (struct dirent *e; !found && (e = readdir(folder));)
		if (is_list(e->d_name) && lists_file(lists, e->d_name, below_usr(path)))
			found = symbols_of(e->d_name);
	closedir(folder);
	return found;
}
