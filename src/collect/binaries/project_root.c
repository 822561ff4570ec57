/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the git repository that a program was built in. No state; any thread. */
#include "collect/binaries/project_root.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/cleanup.h"
#include "util/files.h"
#include "util/repository.h"

char *project_rule(const char *program)
{
	AUTO_FREE char *path = program_path(program);
	AUTO_FREE char *real = path ? realpath(path, NULL) : NULL;
	AUTO_FREE char *folder = real ? path_folder(real) : NULL;
	AUTO_FREE char *root = folder ? repository_of(folder) : NULL;
	char *rule = NULL;

	if (!root)
		return strdup("modules");
	return asprintf(&rule, "root:%s", root) < 0 ? NULL : rule;
}
