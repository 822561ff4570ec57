/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the agent: each has a fresh folder as its current one. */
#ifndef TEST_AGENT_FOLDER_H
#define TEST_AGENT_FOLDER_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static int enter_folder(void **state)
{
	char *folder = strdup("/tmp/heapgauge-unit-XXXXXX");

	*state = folder;
	return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
	int status = chdir("/") == 0 ? nftw(*state, remove_entry, 8, FTW_DEPTH | FTW_PHYS) : -1;

	free(*state);
	return status;
}

#endif
