/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapgauge at-exit: what the recorder starts when a process that records itself exits, and HEAPGAUGE_REPORT or HEAPGAUGE_OUTPUT is
 * set (recorder/process/exit_report.c). The process waits for it. Prints the summary to stdout, which the recorder has led to where
 * the user wants it, after writing the recording, so that the summary can name it. It is hidden from the help.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/summary.h"
#include "collect/attach/inspect.h"
#include "collect/kernel/ranks.h"
#include "collect/run/output_path.h"
#include "util/cleanup.h"
#include "util/files.h"

enum { OPT_OUTPUT };

static const struct option_row rows[] = {
	[OPT_OUTPUT] = { "output", 'o', "FILE", "also write a recording",
			 .scope = OPTION_TYPED_ONLY },
};

struct at_exit {
	const char *profile, *output;
};

static int take_option(void *state, int option, const char *value, struct error *error)
{
	struct at_exit *c = state;

	if (option == OPT_OUTPUT) {
		c->output = value;
		return output_path_check(value, error);
	}
	return options_once(&c->profile, "profile", value, error);
}

static int check(void *state, struct error *error)
{
	const struct at_exit *c = state;

	return c->profile ? 0 : error_set(error, "at-exit is for the recorder; it needs a profile");
}

/* Returns the path of the recording, which the caller frees; NULL with the error set. */
static char *write_recording(const char *pattern, const struct recording *recording,
			     struct error *error)
{
	const struct process_row *process = &recording->processes[0].process;
	AUTO_FREE char *path = output_path(pattern, process->exe, (pid_t)process->pid,
					   process->rank ? (int)process->rank - 1 : RANK_NONE);
	AUTO_FREE char *reserved =
		path && !output_path_is_given(pattern) ? output_path_reserve(path) : NULL;
	struct format_error reason = { { 0 } };
	AUTO_FREE void *bytes = NULL;
	size_t length;

	if (!path || recording_encode(recording, &bytes, &length, &reason) < 0) {
		error_set(error, "%s", path ? reason.message : "out of memory");
		return NULL;
	}
	if (file_write_atomic(reserved ? reserved : path, span_of(bytes, length), 0666, error) <
	    0) {
		if (reserved)
			(void)unlink(reserved);
		return NULL;
	}
	return reserved ? TAKE(reserved) : TAKE(path);
}

static int run(void *state, const struct common_options *common, struct error *error)
{
	const struct at_exit *c = state;
	AUTO(recording_release) struct recording recording = { 0 };
	AUTO_FREE char *path = NULL;
	int written = 0;

	(void)common;
	if (inspect_exiting(c->profile, HEAPGAUGE_VERSION, &recording, error) < 0)
		return -1;
	if (c->output) {
		path = write_recording(c->output, &recording, error);
		written = path ? 0 : -1; /* the summary is worth showing all the same */
	}
	struct error reason = ERROR_INIT;

	if (summary_print(stdout, path, &recording, written < 0 ? &reason : error) < 0 ||
	    fflush(stdout) != 0)
		return written < 0 || error->message[0]
			       ? -1
			       : error_errno(error, "cannot write the report");
	return written;
}

static int run_at_exit(int argc, char **argv)
{
	const struct command_steps steps = { take_option, check, run };
	struct at_exit c = { 0 };

	return command_run(&command_at_exit, &steps, &c, argc, argv);
}

const struct command command_at_exit = {
	.name = "at-exit",
	.usage = "PROFILE [-o FILE]",
	.help = "print the summary of a process that exits",
	.run = run_at_exit,
	.group = COMMANDS_HIDDEN,
	.options = rows,
	.option_count = ARRAY_SIZE(rows),
	.about =
		"The recorder runs this at the end of a process that records itself, if HEAPGAUGE_REPORT or "
		"HEAPGAUGE_OUTPUT is set.",
};
