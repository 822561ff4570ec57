/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads each process as `report --pid` does, except for its block map. A recorded process that may not be read is
 * still listed, with the reason; processes that may not even be inspected are counted. No state.
 */
#include "cli/list_processes.h"

#include <stdio.h>

#include "collect/kernel/container.h"
#include "collect/attach/inspect.h"
#include "collect/kernel/procfs.h"
#include "model/build.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/text/units.h"

/* Looks up names in the root file system of the process, which may be a container's. */
static int add_profile(struct listing *listing, struct listed *one,
		       const struct names_options *names_options, struct error *error)
{
	struct names *names = names_new(names_options);
	int status = -1;

	one->locations = names ? locations_new(names) : NULL;
	if (one->locations)
		status = listing_add(listing, one, error);
	else
		error_set(error, "out of memory");
	locations_free(one->locations);
	names_free(names);
	return status;
}

static const char *kept_in(uint32_t kept)
{
	static const char *const words[] = {
		[LIVE_KEPT_COLLECTOR] = "collector",
		[LIVE_KEPT_FILE] = "file",
		[LIVE_KEPT_MEMORY] = "memory",
	};

	return kept < ARRAY_SIZE(words) ? words[kept] : NULL;
}

/* The current recording mode: "exact", "tags", "sample 512.0 KiB" or "dormant". */
static void name_mode(const struct live_control *control, char *to, size_t room)
{
	static const char *const words[] = { [LIVE_MODE_DORMANT] = "dormant",
					     [LIVE_MODE_TAGS] = "tags",
					     [LIVE_MODE_EXACT] = "exact" };

	if (control->mode == LIVE_MODE_SAMPLE)
		snprintf(to, room, "sample %s", units_bytes(control->interval).text);
	else
		snprintf(to, room, "%s",
			 control->mode < ARRAY_SIZE(words) ? words[control->mode] : "?");
}

/* Skips a process that has ended meanwhile, and a fork without a profile of its own. */
static int add_process(struct listing *listing, struct profile_copy *copied,
		       const struct recorded *recorded, struct names_options names,
		       struct error *error)
{
	AUTO_FREE char *exe = procfs_exe(recorded->pid), *command = procfs_command(recorded->pid);
	AUTO_FREE char *container = container_name(recorded->pid);
	AUTO_FREE char *root = container_root(recorded->pid);
	struct listed one = { .pid = recorded->pid,
			      .program = exe && exe[0] ? path_base(exe) : NULL,
			      .command = command,
			      .container = container };
	struct recording recording = { 0 };
	struct error problem = ERROR_INIT;
	char mode[64] = "";
	int status = inspect_recorded(copied, recorded, PROFILE_COPY_COUNTERS, HEAPGAUGE_VERSION,
				      &recording, &problem);

	if (status == PROFILE_COPY_NOTHING)
		return 0;
	struct profile *profile = status == 0 ? profile_new(&recording, &problem) : NULL;

	if (status == 0)
		name_mode(&copied->control, mode, sizeof mode);
	one.mode = status == 0 ? mode : NULL;
	one.kept = status == 0 ? kept_in(profile_copy_head(copied)->own.kept) : NULL;
	one.profile = profile;
	one.problem = profile ? NULL : problem.message;
	names.root = root;
	status = profile ? add_profile(listing, &one, &names, error)
			 : listing_add(listing, &one, error);
	profile_free(profile);
	return status;
}

const struct result *list_processes(struct listing *listing, const struct names_options *names,
				    struct error *error)
{
	AUTO(recorded_list_release) struct recorded_list recorded = { 0 };
	AUTO(profile_copy_release)
	struct profile_copy copied = PROFILE_COPY_INIT; /* reused for every process */

	if (recorded_list(&recorded, error) < 0)
		return NULL;
	for (size_t i = 0; i < recorded.found.count; i++)
		if (add_process(listing, &copied, &recorded.found.at[i], *names, error) < 0)
			return NULL;
	return listing_end(listing, recorded.hidden, error);
}
