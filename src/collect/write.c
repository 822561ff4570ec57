/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the targets to the file. One process at a time is turned into rows and encoded, and its memory is given back
 * before the next, so that a recording of many processes needs the room of the largest, not of all.
 *
 * Runs once, after the loop, in the collector's only thread.
 * Invariant: the file appears whole or not at all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/checked.h"
#include "collect/collector.h"
#include "format/recording.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/files.h"

enum { FILE_MODE = 0666 }; /* less the umask */

/* What the processes tell about the run as a whole. */
struct peaks {
	uint64_t sum_bytes, largest_bytes, largest_at_ns;
	size_t count;
};

static void note_peak(struct peaks *peaks, const struct process_row *process)
{
	peaks->count++;
	peaks->sum_bytes = saturating_add(peaks->sum_bytes, process->peak_bytes);
	if (process->peak_bytes >= peaks->largest_bytes) {
		peaks->largest_bytes = process->peak_bytes;
		peaks->largest_at_ns = process->started_offset_ns + process->peak_at_ns;
	}
}

/* One process: its own peak, exactly as known. Several: what was sampled of the sum, or the largest alone if that is
 * more; what lies between two samples is at most the sum of all peaks. */
static void fill_peak(const struct collector *c, const struct peaks *peaks, uint64_t only_bound,
		      struct run_row *run)
{
	run->peak_bytes = peaks->largest_bytes;
	run->peak_at_ns = peaks->largest_at_ns;
	if (peaks->count == 1) {
		run->peak_bound_bytes = only_bound;
		return;
	}
	if (c->peak_bytes > run->peak_bytes) {
		run->peak_bytes = c->peak_bytes;
		run->peak_at_ns = c->peak_ns - c->start_ns;
	}
	run->peak_bound_bytes = saturating_sub(peaks->sum_bytes, run->peak_bytes);
}

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

static void run_release(struct run_row *run)
{
	free(run->host);
	free(run->kernel);
	free(run->version);
	free(run->command);
}

static int fill_run(const struct collector *c, uint64_t real_offset_ns, struct run_row *run,
		    struct error *error)
{
	struct utsname name;

	if (uname(&name) < 0)
		memset(&name, 0, sizeof name);
	run->started_real_ns = c->start_ns + real_offset_ns;
	run->duration_ns = c->end_ns - c->start_ns;
	run->host = strdup(name.nodename);
	if (asprintf(&run->kernel, "%s %s %s", name.sysname, name.release, name.machine) < 0)
		run->kernel = NULL;
	run->version = strdup(c->options->version);
	run->command = joined(c->options->argv);
	if (!run->host || !run->kernel || !run->version || !run->command)
		return error_set(error, "no memory left");
	return 0;
}

static uint64_t real_minus_mono(void)
{
	struct timespec real;

	clock_gettime(CLOCK_REALTIME, &real);
	return (uint64_t)real.tv_sec * 1000000000ull + (uint64_t)real.tv_nsec - collector_now();
}

/* Adds one process and notes its peak; its memory is free again afterwards. */
static int add_target(struct collector *c, size_t index, uint64_t real_offset_ns,
		      struct recording_writer *writer, struct peaks *peaks, uint64_t *ret_bound,
		      struct error *error)
{
	struct target *target = c->targets.at[index];
	AUTO(process_rows_release) struct process_rows rows = { 0 };
	struct format_error reason = { "" };

	if (target->pid != c->child && target->ended_ns != 0)
		target_ask_end(target);
	if (target_rows(target, c->end_ns, c->start_ns, real_offset_ns, &rows, error) < 0)
		return -1;
	if (recording_writer_add(writer, &rows, &reason) < 0)
		return error_set(error, "%s", reason.message);
	note_peak(peaks, &rows.process);
	*ret_bound = rows.process.peak_bound_bytes;
	c->targets.at[index] = NULL;
	target_free(target);
	return 0;
}

static void writer_release(struct recording_writer **writer)
{
	recording_writer_free(*writer);
}

int collector_write(struct collector *c, const char *path, struct error *error)
{
	AUTO(writer_release) struct recording_writer *writer = recording_writer_new();
	AUTO(run_release) struct run_row run = { 0 };
	AUTO_FREE void *bytes = NULL;
	uint64_t real_offset_ns = real_minus_mono(), bound = 0;
	struct peaks peaks = { 0 };
	struct format_error reason = { "" };
	size_t length;

	if (!writer)
		return error_set(error, "no memory left");
	for (size_t i = 0; i < c->targets.count; i++) {
		/* A recorder that never began has nothing to tell. */
		if (!target_is_ready(c->targets.at[i]) && c->targets.at[i]->totals.calls == 0)
			continue;
		if (add_target(c, i, real_offset_ns, writer, &peaks, &bound, error) < 0)
			return -1;
	}
	if (fill_run(c, real_offset_ns, &run, error) < 0)
		return -1;
	fill_peak(c, &peaks, bound, &run);
	if (recording_writer_finish(writer, &run, &bytes, &length, &reason) < 0)
		return error_set(error, "%s", reason.message);
	return file_write_atomic(path, span_of(bytes, length), FILE_MODE, error);
}
