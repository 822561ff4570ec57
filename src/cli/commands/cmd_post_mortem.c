/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapgauge post-mortem: what processes held when they were killed, from the profiles that they left in
 * HEAPGAUGE_DIR, with the limit of their cgroup and what the kernel logged about their end.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analysis/views/post_mortem.h"
#include "base/checked.h"
#include "cli/commands.h"
#include "cli/open.h"
#include "cli/options/options.h"
#include "collect/kernel/cgroup.h"
#include "collect/attach/inspect.h"
#include "collect/kernel/oom.h"
#include "collect/kernel/recorded_processes.h"
#include "model/build.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/files.h"

enum { OPT_FORMAT, OPT_LIMIT, OPT_REMOVE, OPT_BYTES, OPT_NO_SYMBOLS };

static const struct option_row rows[] = {
	[OPT_FORMAT] = { "format", 'f', "FORMAT", "output format",
			 .choices = WORDS_WITH_HELP_THAT(renderers, format_renders_one_result),
			 .fallback = "text" },
	[OPT_LIMIT] = { "limit", 'n', "N", "show the N that ended last", .fallback = "3" },
	[OPT_REMOVE] = { "remove", 0, NULL, "remove the profiles that were reported",
			 .scope = OPTION_TYPED_ONLY },
	[OPT_BYTES] = { "bytes", 'b', NULL, "show exact byte counts" },
	[OPT_NO_SYMBOLS] = { "no-symbols", 0, NULL,
			     "show frames as module+offset, without looking up names" },
};

struct requests {
	const char *folder;
	const struct renderer *renderer;
	struct names_options names;
	size_t limit;
	bool exact_bytes, remove;
};

enum leftover_state {
	LEFTOVER_REPORTED,
	LEFTOVER_NOT_SHOWN,
	LEFTOVER_RUNNING,
	LEFTOVER_UNREADABLE
};

/* A profile found on disk, its sort key, and what was done with it. */
struct leftover {
	char *path;
	uint64_t seen_ns;
	enum leftover_state state;
};
typedef VECTOR(struct leftover) leftover_list;

static void leftover_release(leftover_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->at[i].path);
	vector_release(list);
}

static int compare_leftovers(const void *left, const void *right)
{
	const struct leftover *a = left, *b = right;

	if (a->seen_ns != b->seen_ns)
		return a->seen_ns < b->seen_ns ? 1 : -1;
	return strcmp(a->path, b->path);
}

static int find_leftovers(const char *folder, leftover_list *ret, struct error *error)
{
	AUTO_CLOSE_FOLDER DIR *stream = opendir(folder);
	const struct dirent *entry;

	if (!stream)
		return error_errno(error, "cannot read the folder %s", folder);
	while ((entry = readdir(stream))) {
		AUTO_FREE char *path = path_join(folder, entry->d_name);

		if (path && !recorded_file_name(path))
			continue;
		struct leftover one = { .path = path,
					.seen_ns = path ? inspect_file_seen(path) : 0 };

		if (!path || !vector_push(ret, one))
			return error_set(error, "out of memory");
		path = NULL; /* now owned by the list */
	}
	if (ret->count)
		qsort(ret->at, ret->count, sizeof *ret->at, compare_leftovers);
	return 0;
}

/* ---- what the kernel knows about the end of a process ---- */

struct witnesses {
	struct cgroups groups;
	struct oom_log log;
};

/* Uses the shortest average that still covers the end of the process; older pressure is irrelevant. */
static struct post_mortem_pressure ask_pressure(const struct cgroups *groups, const char *group,
						uint64_t ended_real_ns)
{
	struct pressure p = cgroups_pressure_in(groups, group);

	if (!p.known)
		p = cgroups_pressure(groups, 0); /* unknown for the cgroup: use the machine's */
	uint64_t ago_s = saturating_sub(clock_real_ns() / NS_PER_S, ended_real_ns / NS_PER_S);
	const struct {
		uint64_t seconds, some, full;
	} averages[] = { { 10, p.some_10s, p.full_10s },
			 { 60, p.some_60s, p.full_60s },
			 { 300, p.some_300s, p.full_300s } };

	for (size_t i = 0; p.known && i < ARRAY_SIZE(averages); i++)
		if (ago_s <=
		    averages[i].seconds) /* hundredths of a percent over this many seconds */
			return (struct post_mortem_pressure){
				averages[i].some * averages[i].seconds * (NS_PER_S / 10000),
				averages[i].full * averages[i].seconds * (NS_PER_S / 10000),
				averages[i].seconds * NS_PER_S, p.of_group
			};
	return (struct post_mortem_pressure){ 0 };
}

static void query_witnesses(const struct witnesses *witnesses, const struct inspect_leftover *left,
			    const struct profile_process *process, struct post_mortem *ret)
{
	const struct oom_victim victim = {
		.pid = (pid_t)process->pid,
		.pid_namespace = left->own.pid_namespace,
		.name = path_base(process->exe),
		.started_ns = left->started_mono_ns,
		.seen_ns = saturating_add(left->started_mono_ns, process->duration_ns),
	};
	const struct oom_kill *kill = oom_log_find(&witnesses->log, &victim);
	char group[sizeof left->own.cgroup + 1];

	snprintf(group, sizeof group, "%.*s", (int)sizeof left->own.cgroup, left->own.cgroup);
	uint64_t kills = cgroups_oom_kills(&witnesses->groups, group);

	ret->oom_kills = kills == UINT64_MAX || left->own.oom_kills == UINT64_MAX
				 ? UINT64_MAX
				 : saturating_sub(kills, left->own.oom_kills);

	ret->ended_real_ns = saturating_add(left->own.started_real_ns, process->duration_ns);
	if (kill) {
		ret->cause = CAUSE_OOM;
		ret->ended_real_ns = left->own.started_real_ns +
				     MAX(kill->at_ns, left->started_mono_ns) -
				     left->started_mono_ns;
	} else if (ret->oom_kills != UINT64_MAX && ret->oom_kills > 0 &&
		   !oom_log_is_complete(&witnesses->log, &victim)) {
		ret->cause = CAUSE_OOM_NEARBY;
	}
	ret->pressure = ask_pressure(&witnesses->groups, group, ret->ended_real_ns);
}

static void write_time(uint64_t real_ns, char *to, size_t room)
{
	time_t seconds = (time_t)(real_ns / 1000000000);
	struct tm local;

	if (!localtime_r(&seconds, &local) || strftime(to, room, "%F %T", &local) == 0)
		to[0] = '\0';
}

/* ---- one profile ---- */

static int add_profile(struct post_mortems *post_mortems, struct post_mortem *one,
		       const struct requests *requests, struct error *error)
{
	struct names *names = names_new(&requests->names);
	int status = -1;

	one->locations = names ? locations_new(names) : NULL;
	if (one->locations)
		status = post_mortems_add(post_mortems, one, error);
	else
		error_set(error, "out of memory");
	locations_free(one->locations);
	names_free(names);
	return status;
}

/* Reads the file. Returns NULL with the error set on failure. */
static struct profile *read_leftover(const char *path, struct inspect_leftover *ret_left,
				     struct error *error)
{
	struct recording recording = { 0 };
	struct profile *profile = NULL;

	if (inspect_file(path, HEAPGAUGE_VERSION, &recording, ret_left, error) == 0)
		profile = profile_new(&recording, error);
	if (!profile)
		error_wrap(error, "%s", path);
	return profile;
}

/* Reports it, unless its process is still running. Returns -1 with the error set on failure. */
static int add_leftover(struct post_mortems *post_mortems, struct leftover *file,
			const struct requests *requests, const struct witnesses *witnesses,
			struct error *error)
{
	AUTO_FREE char *again = report_again(file->path, 0);
	struct post_mortem one = { .path = file->path, .again = again };
	struct error problem = ERROR_INIT;
	struct inspect_leftover left;
	char group[sizeof left.own.cgroup + 1] = "", host[sizeof left.own.host + 1] = "", when[64];
	struct profile *profile = read_leftover(file->path, &left, &problem);

	if (!profile) {
		file->state = LEFTOVER_UNREADABLE;
		one.problem = problem.message;
		return post_mortems_add(post_mortems, &one, error);
	}
	const struct profile_process *process = &profile->processes[0];
	int status = 0;

	file->state = LEFTOVER_RUNNING;
	if (process->end != PROFILE_RUNNING) {
		snprintf(group, sizeof group, "%.*s", (int)sizeof left.own.cgroup, left.own.cgroup);
		snprintf(host, sizeof host, "%.*s", (int)sizeof left.own.host, left.own.host);
		query_witnesses(witnesses, &left, process, &one);
		write_time(one.ended_real_ns, when, sizeof when);
		one.profile = profile;
		one.limit_bytes = left.own.cgroup_limit_bytes;
		one.group = group;
		one.host = host;
		one.ended = when;
		status = add_profile(post_mortems, &one, requests, error);
		/* Machine-readable formats list all of them. */
		file->state = status == 1 || requests->renderer != &renderers[0]
				      ? LEFTOVER_REPORTED
				      : LEFTOVER_NOT_SHOWN;
	}
	profile_free(profile);
	return status;
}

/* ---- all profiles ---- */

static void free_mortems(struct post_mortems **post_mortems)
{
	post_mortems_free(*post_mortems);
}

/* Removes only profiles that were reported, after the report has been written. Names each profile it keeps, and
 * why. */
static int remove_reported(const leftover_list *left, struct error *error)
{
	static const char *const reasons[] = {
		[LEFTOVER_NOT_SHOWN] = "it is not among those shown (--limit)",
		[LEFTOVER_RUNNING] = "its process runs",
		[LEFTOVER_UNREADABLE] = "it cannot be read",
	};
	int status = 0;

	for (size_t i = 0; i < left->count; i++) {
		const struct leftover *file = &left->at[i];

		if (file->state != LEFTOVER_REPORTED)
			cli_error("kept %s: %s", file->path, reasons[file->state]);
		else if (unlink(file->path) < 0)
			status = error_errno(error, "cannot remove %s", file->path);
	}
	return status;
}

static int examine(void *state, const struct common_options *common, struct error *error)
{
	const struct requests *requests = state;
	AUTO(leftover_release) leftover_list left = { 0 };
	AUTO(free_mortems) struct post_mortems *post_mortems = post_mortems_new(requests->limit);
	AUTO(oom_log_release) struct oom_log log = { 0 };
	AUTO(cgroups_release) struct cgroups groups = { 0 };
	size_t running = 0;

	if (!post_mortems)
		return error_set(error, "out of memory");
	if (find_leftovers(requests->folder, &left, error) < 0)
		return -1;
	oom_log_read(&log);
	cgroups_init(&groups, "");
	const struct witnesses witnesses = { groups, log };

	for (size_t i = 0; i < left.count; i++) {
		if (add_leftover(post_mortems, &left.at[i], requests, &witnesses, error) < 0)
			return -1;
		running += left.at[i].state == LEFTOVER_RUNNING;
	}
	const struct result *result =
		post_mortems_end(post_mortems, requests->folder, running, error);

	if (!result ||
	    show_answer(result, requests->renderer, requests->exact_bytes, common, error) < 0)
		return -1;
	return requests->remove ? remove_reported(&left, error) : 0;
}

static int take_option(void *state, int option, const char *value, struct error *error)
{
	struct requests *requests = state;
	uint64_t number;

	switch (option) {
	case OPTIONS_WORD:
		return options_once(&requests->folder, "folder", value, error);
	case OPT_FORMAT:
		requests->renderer = renderer_find(value);
		return 0;
	case OPT_LIMIT:
		if (options_number("limit", value, &number, error) < 0)
			return -1;
		requests->limit = (size_t)number;
		return 0;
	case OPT_REMOVE:
		requests->remove = true;
		return 0;
	case OPT_BYTES:
		requests->exact_bytes = true;
		return 0;
	case OPT_NO_SYMBOLS:
		requests->names.use_symbols = false;
		return 0;
	default:
		return error_set(error, "internal error: unhandled option");
	}
}

static int check(void *state, struct error *error)
{
	struct requests *requests = state;

	if (!requests->folder)
		requests->folder = getenv(LIVE_ENV_DIR);
	return requests->folder ? 0
				: error_set(error, "missing FOLDER: name the " LIVE_ENV_DIR
						   " of the program");
}

static int run_post_mortem(int argc, char **argv)
{
	const struct command_steps steps = { take_option, check, examine };
	struct requests requests = {
		.renderer = &renderers[0],
		.names = { .use_symbols = true, .use_store = true, .style = NAMES_SHORT },
		.limit = 3,
	};

	return command_run(&command_post_mortem, &steps, &requests, argc, argv);
}

static const char *const examples[] = {
	"heapgauge post-mortem /run/heapgauge",
	"which processes were killed, what they held, and which stacks allocated it",
	"heapgauge post-mortem /run/heapgauge --format json --limit 100",
	"all of them, for scripts",
	NULL,
};

const struct command command_post_mortem = {
	.name = "post-mortem",
	.usage = "[FOLDER] [options]",
	.help = "explain why a process was killed",
	.run = run_post_mortem,
	.group = COMMANDS_LOOK,
	.options = rows,
	.option_count = ARRAY_SIZE(rows),
	.words = WORDS_FOLDER,
	.about =
		"Reads the profiles that killed or crashed processes left in FOLDER, the HEAPGAUGE_DIR of these "
		"processes (default: that of the environment), and shows for each what it held, the limit of its "
		"control group, which stacks allocated it, and how much of it was recent. Whether the OOM killer did "
		"it is taken from the kernel log, if readable, or from the control group, if it still exists. Memory "
		"pressure (PSI) is shown if the process ended within the last five minutes.\n\n"
		"'heapgauge report FILE' shows a profile in more detail.",
	.examples = examples,
};
