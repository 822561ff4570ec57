/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a run: waits for the encoder, describes the run as a whole, and writes the file.
 *
 * collector_write runs once, after the loop, in its thread.
 * Invariant: the file is complete when its name appears.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/checked.h"
#include "collect/binaries/project_root.h"
#include "collect/run/collector.h"
#include "collect/run/output_path.h"
#include "format/recording/recording.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/files.h"

enum { PRIVATE_MODE = 0600 };

static char *joined(char *const *argv)
{
	AUTO(buffer_release) struct buffer text = BUFFER_INIT;

	for (size_t i = 0; argv[i]; i++) {
		if (i > 0)
			buffer_char(&text, ' ');
		buffer_text(&text, argv[i]);
	}
	return buffer_take_string(&text);
}

int collector_fill_run(struct run_row *run, const char *host, const char *version, char *command,
		       char *own_code, struct error *error)
{
	struct utsname name;

	if (uname(&name) < 0)
		memset(&name, 0, sizeof name);
	run->host = strdup(host ? host : name.nodename);
	if (asprintf(&run->kernel, "%s %s %s", name.sysname, name.release, name.machine) < 0)
		run->kernel = NULL;
	run->version = strdup(version);
	run->command = command;
	run->own_code = own_code;
	if (!run->options)
		run->options = strdup("");
	if (!run->host || !run->kernel || !run->version || !run->command || !run->own_code ||
	    !run->options)
		return error_set(error, "out of memory");
	return 0;
}

static char *own_code_of(const struct collect_options *options)
{
	char exe[32];

	if (options->own_code)
		return strdup(options->own_code);
	if (!options->pid)
		return project_rule(options->argv[0]);
	snprintf(exe, sizeof exe, "/proc/%d/exe", (int)options->pid);
	return project_rule(exe);
}

static int encode(struct collector *c, struct buffer *ret, struct error *error)
{
	AUTO(run_row_release)
	struct run_row run = { .started_real_ns = c->start_ns + encoder_real_offset(c->encoder),
			       .duration_ns = c->end_ns - c->start_ns,
			       .options = strdup(c->options->options ? c->options->options : "") };
	struct error reason = ERROR_INIT;
	size_t lost;

	if (encoder_finish(c->encoder, &lost, &reason) == 0)
		return error_set(error,
				 "nothing was recorded: no process could be read completely: %s",
				 reason.message);
	c->result->lost_processes = lost;
	if (collector_fill_run(&run, NULL, c->options->version, joined(c->options->argv),
			       own_code_of(c->options), error) < 0)
		return -1;
	for (size_t i = 0; i < lost; i++)
		process_log_miss(&c->process_log, MISSED_lost, NULL);
	process_log_finish(&c->process_log, &run);
	if (encoder_write(c->encoder, &run, ret, error) < 0)
		return -1;
	encoder_take(c->encoder, &run, &c->result->recording);
	return 0;
}

/* A full disk must not lose a run of hours: falls back to any folder with free space. */
static char *write_elsewhere(const char *path, struct span bytes)
{
	const char *const folders[] = { getenv("TMPDIR"), "/var/tmp", "/tmp", getenv("HOME"),
					"/dev/shm" };

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		AUTO_FREE char *wanted = folders[i] && folders[i][0] == '/'
						 ? path_join(folders[i], path_base(path))
						 : NULL;
		char *written;

		if (wanted &&
		    output_path_write_new(wanted, bytes, PRIVATE_MODE, &written, NULL) == 0)
			return written;
	}
	return NULL;
}

int collector_write(struct collector *c, const char *path, struct error *error)
{
	AUTO(buffer_release) struct buffer bytes = BUFFER_INIT;
	struct collect_result *result = c->result;
	struct error reason = ERROR_INIT;

	if (encode(c, &bytes, error) < 0)
		return -1;
	if (output_path_write(c->options->output, path, buffer_span(&bytes), &result->path,
			      &reason) == 0)
		return 0;
	snprintf(result->not_written, sizeof result->not_written, "%s", reason.message);
	result->path = write_elsewhere(path, buffer_span(&bytes));
	if (!result->path && result->recording.process_count == 0)
		(void)recording_decode(bytes.data, bytes.size, &result->recording, NULL);
	return 0;
}

int collector_encode_one(struct target *target, uint64_t now_ns, const char *version,
			 const char *options, struct buffer *ret, struct error *error)
{
	AUTO_FREE char *command = strdup(target->known.command ? target->known.command : "");
	char *argv[] = { command, NULL };
	const struct collect_options as = { .argv = argv, .version = version, .options = options };
	struct collect_result result = { 0 };
	struct collector c = {
		.options = &as, .result = &result, .start_ns = target->started_ns, .end_ns = now_ns
	};
	int status = -1;

	c.encoder = encoder_new(c.start_ns);
	if (!c.encoder || !command) {
		target_free(target);
		error_set(error, "out of memory");
	} else {
		encoder_give(c.encoder, target, now_ns);
		status = encode(&c, ret, error);
	}
	encoder_free(c.encoder);
	return status;
}
