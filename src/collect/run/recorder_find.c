/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the recorder's library. No state.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/elf.h"
#include "collect/collect.h"
#include "util/cleanup.h"
#include "util/files.h"

#define RECORDER_FILE "libheapgauge.so"

/* Takes ownership of `path`. */
static char *if_readable(char *path)
{
	if (path && access(path, R_OK) == 0)
		return path;
	free(path);
	return NULL;
}

static char *beside(const char *folder, const char *relative)
{
	AUTO_FREE char *part = path_join(folder, relative);
	char *path = part ? path_join(part, RECORDER_FILE) : NULL;
	AUTO_FREE char *found = if_readable(path);

	/* LD_PRELOAD needs an absolute path: the program may run in another folder. */
	return found ? realpath(found, NULL) : NULL;
}

char *recorder_find(struct error *error)
{
	static const char *const places[] = {
		".",
		"../lib/heapgauge",
		"../lib/" ELF_FOLDER_HERE "/heapgauge",
		"../lib64/heapgauge",
	};
	const char *given = getenv("HEAPGAUGE_RECORDER");
	AUTO_FREE char *self = realpath("/proc/self/exe", NULL);
	AUTO_FREE char *folder = self ? path_folder(self) : NULL;

	if (given && *given) {
		char *path = realpath(given, NULL);

		if (path && access(path, R_OK) == 0)
			return path;
		free(path);
		error_errno(error, "cannot read the recorder %s, which HEAPGAUGE_RECORDER names",
			    given);
		return NULL;
	}
	for (size_t i = 0; i < ARRAY_SIZE(places) && folder; i++) {
		char *path = beside(folder, places[i]);

		if (path)
			return path;
	}
	error_set(error,
		  "cannot find the recorder " RECORDER_FILE " next to %s or in ../lib/heapgauge",
		  self ? self : "this program");
	error_hint(error, "Set HEAPGAUGE_RECORDER to its path.");
	return NULL;
}
