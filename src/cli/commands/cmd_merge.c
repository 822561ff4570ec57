/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapgauge merge: several recordings become one, so that the ranks of a job or the hosts of a service
 * are looked at together.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "collect/merge.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/units.h"
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
	if (file_write_atomic(path, span_of(bytes, length), 0644, error) < 0)
		return -1;
	cli_error("wrote %s (%s) with %s processes", path, units_bytes(length).text,
		  units_count(merged->process_count).text);
	return 0;
}

static int merge_all(struct merge_command *c, struct error *error)
{
	struct recording merged = { 0 };

	for (size_t i = 0; i < c->paths.count; i++)
		if (read_one(c, c->paths.at[i], error) < 0)
			return -1;
	if (recordings_merge(c->recordings.at, c->recordings.count, &merged, error) < 0)
		return -1;
	int status = write_merged(c->output, &merged, error);

	recording_release(&merged);
	return status;
}

static int take_options(struct merge_command *c, struct options *options, struct error *error)
{
	const char *value;
	int option;

	while ((option = options_next(options, &value, error)) != OPTIONS_END) {
		if (option == OPTIONS_HELP)
			return OPTIONS_HELP;
		if (option == OPT_OUTPUT)
			c->output = value;
		else if (option != OPTIONS_WORD)
			return -1;
		else if (!vector_push(&c->paths, value))
			return error_set(error, "out of memory");
	}
	if (c->paths.count < 2)
		return error_set(error, "name two recordings or more");
	return 0;
}

static int run_merge(int argc, char **argv)
{
	struct merge_command c = { .output = "heapgauge.merged.hg" };
	struct options options = options_over(option_rows, ARRAY_SIZE(option_rows), argc, argv);
	struct error error = ERROR_INIT;
	int status = take_options(&c, &options, &error);

	if (status == OPTIONS_HELP) {
		status = command_show_help(&command_merge);
	} else if (status < 0) {
		status = cli_usage_error("merge", "%s", error.message);
	} else if (merge_all(&c, &error) < 0) {
		cli_error("%s", error.message);
		status = CLI_FAILED;
	}
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
	.help = "make one recording of several",
	.run = run_merge,
	.group = COMMANDS_COMPARE,
	.options = option_rows,
	.option_count = ARRAY_SIZE(option_rows),
	.words = WORDS_RECORDING,
	.about = "Puts the processes of several recordings on one clock and into one recording.",
	.examples = examples,
};
