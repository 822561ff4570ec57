/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapgauge merge: merges several recordings into one, to analyse the ranks of a job or the hosts of a service
 * together.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "collect/merge.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/output_file.h"
#include "util/text/units.h"
#include "util/vector.h"

enum merge_option { OPT_OUTPUT };

static const struct option_row option_rows[] = {
	[OPT_OUTPUT] = { "output", 'o', "FILE", "write the recording to FILE",
			 .fallback = "heapgauge.merged.hg", .scope = OPTION_TYPED_ONLY },
};

struct merge_command {
	const char *output;
	VECTOR(const char *) paths;
	VECTOR(struct recording) recordings;
};

static int read_one(struct merge_command *c, const char *path, struct error *error)
{
	AUTO(file_map_release) struct file_map map = FILE_MAP_INIT;
	struct recording recording = { 0 };
	struct format_error reason = { { 0 } };

	if (file_map_open(&map, path, error) < 0)
		return -1;
	if (recording_decode(map.bytes.data, map.bytes.size, &recording, &reason) < 0)
		return error_set(error, "%s: %s", path, reason.message);
	const struct recording_warnings *w = &recording.warnings;

	if (w->unknown_chunks || w->bad_chunks || w->cut_bytes || w->unfinished) {
		bool is_newer = w->unknown_chunks != 0;

		recording_release(&recording);
		return error_set(error,
				 is_newer ? "%s holds data of a newer heapgauge, which would be "
					    "lost: merge it with that one"
					  : "%s is damaged or was not finished, and would look "
					    "whole: only whole recordings are merged",
				 path);
	}
	if (vector_push(&c->recordings, recording))
		return 0;
	recording_release(&recording);
	return error_set(error, "out of memory");
}

static int write_merged(const char *path, const struct recording *merged, struct error *error)
{
	struct format_error reason = { { 0 } };
	AUTO_FREE void *bytes = NULL;
	size_t length;

	if (recording_encode(merged, &bytes, &length, &reason) < 0)
		return error_set(error, "%s", reason.message);
	if (output_file_write(path, span_of(bytes, length), 0666, error) < 0)
		return -1;
	cli_error("wrote %s (%s) with %s processes", path, units_bytes(length).text,
		  units_count(merged->process_count).text);
	return 0;
}

static int merge_all(void *state, const struct common_options *common, struct error *error)
{
	struct merge_command *c = state;
	struct recording merged = { 0 };

	(void)common;
	if (output_file_check(c->output, c->paths.at, c->paths.count, error) < 0)
		return -1;
	for (size_t i = 0; i < c->paths.count; i++)
		if (read_one(c, c->paths.at[i], error) < 0)
			return -1;
	if (recordings_merge(c->recordings.at, c->recordings.count, &merged, error) < 0)
		return -1;
	int status = write_merged(c->output, &merged, error);

	recording_release(&merged);
	return status;
}

static int take_option(void *state, int option, const char *value, struct error *error)
{
	struct merge_command *c = state;

	if (option == OPT_OUTPUT)
		c->output = value;
	else if (!vector_push(&c->paths, value))
		return error_set(error, "out of memory");
	return 0;
}

static int check(void *state, struct error *error)
{
	const struct merge_command *c = state;

	return c->paths.count < 2 ? error_set(error, "name two recordings or more") : 0;
}

static int run_merge(int argc, char **argv)
{
	struct merge_command c = { .output = "heapgauge.merged.hg" };
	const struct command_steps steps = { take_option, check, merge_all };
	int status = command_run(&command_merge, &steps, &c, argc, argv);

	for (size_t i = 0; i < c.recordings.count; i++)
		recording_release(&c.recordings.at[i]);
	vector_release(&c.recordings);
	vector_release(&c.paths);
	return status;
}

static const char *const examples[] = {
	"heapgauge merge rank*.hg -o job.hg",
	"all ranks of a job in one recording",
	NULL,
};

const struct command command_merge = {
	.name = "merge",
	.usage = "FILE FILE... [-o FILE]",
	.help = "combine several recordings into one",
	.run = run_merge,
	.group = COMMANDS_COMPARE,
	.options = option_rows,
	.option_count = ARRAY_SIZE(option_rows),
	.words = WORDS_RECORDING,
	.about =
		"Combines the processes of several recordings in one recording with a common clock.",
	.examples = examples,
};
