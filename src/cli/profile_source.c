/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens profiles, for the reading commands and for the reader library (src/reader/).
 *
 * A file is a recording or the live profile of a process without a collector; its first bytes tell which. The
 * caller owns what is returned; no state.
 */
#include "cli/profile_source.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collect/attach/inspect.h"
#include "format/live/live.h"
#include "model/build.h"
#include "util/cleanup.h"
#include "util/files.h"

/* Whether the file is the live profile of a process without a collector, which may have ended. */
static bool is_live(const char *path)
{
	char magic[sizeof LIVE_MAGIC - 1];
	AUTO_CLOSE int fd = file_open_regular(path, NULL, NULL);

	return fd >= 0 && read(fd, magic, sizeof magic) == (ssize_t)sizeof magic &&
	       memcmp(magic, LIVE_MAGIC, sizeof magic) == 0;
}

static struct profile *load_live(const char *path, struct error *error)
{
	struct recording recording = { 0 };

	if (inspect_file(path, HEAPGAUGE_VERSION, &recording, NULL, error) < 0) {
		error_wrap(error, "%s", path);
		return NULL;
	}
	return profile_new(&recording, error);
}

struct profile *recording_open(const char *path, struct error *error)
{
	struct error reason = ERROR_INIT;
	struct profile *profile =
		is_live(path) ? load_live(path, &reason) : profile_load(path, &reason);

	if (!profile)
		error_set(error,
			  "cannot read the recording (%s); name a file that 'heapgauge record "
			  "PROGRAM' wrote",
			  reason.message);
	return profile;
}

struct profile *process_open(pid_t pid, char **ret_name, struct error *error)
{
	struct recording recording = { 0 };

	*ret_name = NULL;
	if (inspect_process(pid, HEAPGAUGE_VERSION, &recording, error) < 0)
		return NULL;
	if (asprintf(ret_name, "process %d", (int)pid) < 0) {
		*ret_name = NULL;
		recording_release(&recording);
		error_set(error, "out of memory");
		return NULL;
	}
	return profile_new(&recording, error);
}
