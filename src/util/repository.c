/* SPDX-License-Identifier: Apache-2.0 */
/* Searches a folder and those above it for .git. No state; any thread. */
#include "util/repository.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/files.h"

/* Another user's repository could widen what counts as the project. */
static bool is_repository(const char *folder)
{
	AUTO_FREE char *git = path_join(folder, ".git");
	struct stat status;

	return git && lstat(git, &status) == 0 &&
	       (status.st_uid == geteuid() || status.st_uid == 0);
}

char *repository_of(const char *folder)
{
	char *at = strdup(folder);

	while (at && strcmp(at, "/") != 0) {
		if (is_repository(at))
			return at;
		char *above = path_folder(at);

		free(at);
		at = above;
	}
	free(at);
	return NULL;
}
