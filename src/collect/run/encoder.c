/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes ended processes as chunks of the recording. Reading and compressing one takes from a millisecond to seconds, so a
 * worker does it while the loop updates the clocks.
 *
 * The writer, the sums, the cached ELF facts and the error belong to the worker (and to encoder_finish once it has ended);
 * `refused` belongs to the loop.
 * Invariant: a process that cannot be read is left out and counted; the others are not affected.
 */
#include "collect/run/encoder.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "collect/binaries/linked_in.h"
#include "collect/process/combined_peak.h"
#include "collect/run/worker.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/vector.h"

struct encoder {
	struct worker *worker;
	size_t refused; /* targets that could not be queued: out of memory */
	size_t processes, lost;
	uint64_t run_start_ns, real_offset_ns;
	struct recording_writer *writer;
	struct linked_in linked_in;
	struct combined_peak together;
	bool keeps_rows; /* until they exceed ROWS_MAX_BYTES */
	VECTOR(struct process_rows) rows;
	uint64_t rows_bytes;
	struct error error; /* the first one */
	char *kept_path;    /* NULL = no partial file */
	int kept_fd;
	size_t kept_bytes;
	bool keeps_no_more; /* atomic: set by the loop */
};

/* Larger profiles are decoded from the file if needed: their rows could take as much memory as the program itself needs. */
#define ROWS_MAX_BYTES (UINT64_C(64) << 20)

void encoder_keep_rows(struct encoder *encoder)
{
	encoder->keeps_rows = true;
}

static void release_rows(struct encoder *encoder)
{
	for (size_t i = 0; i < encoder->rows.count; i++)
		process_rows_release(&encoder->rows.at[i]);
	vector_release(&encoder->rows);
	encoder->keeps_rows = false;
}

/* Takes ownership of the rows if they are kept. */
static void keep_rows(struct encoder *encoder, struct process_rows *rows)
{
	if (!encoder->keeps_rows)
		return;
	encoder->rows_bytes += process_rows_bytes(rows);
	if (encoder->rows_bytes > ROWS_MAX_BYTES || !vector_push(&encoder->rows, *rows))
		release_rows(encoder);
	else
		*rows = (struct process_rows){ 0 };
}

void encoder_take(struct encoder *encoder, struct run_row *run, struct recording *ret)
{
	if (!encoder->keeps_rows)
		return;
	*ret = (struct recording){ .run = *run,
				   .processes = encoder->rows.at,
				   .process_count = encoder->rows.count };
	*run = (struct run_row){ 0 };
	encoder->rows.at = NULL;
	encoder->rows.count = encoder->rows.capacity = 0;
}

uint64_t encoder_real_offset(const struct encoder *encoder)
{
	return encoder->real_offset_ns;
}

static int encode(struct encoder *encoder, const struct worker_job *job, struct error *error)
{
	AUTO(process_rows_release) struct process_rows rows = { 0 };
	struct format_error reason = { "" };

	if (target_rows(job->target, job->now_ns, encoder->run_start_ns, encoder->real_offset_ns,
			&rows, error) < 0)
		return -1;
	linked_in_find(&encoder->linked_in, &rows);
	if (recording_writer_add(encoder->writer, &rows, &reason) < 0)
		return error_set(error, "%s", reason.message);
	encoder->processes++;
	combined_peak_add(&encoder->together, &rows);
	keep_rows(encoder, &rows);
	return 0;
}

/* Appends the new chunks to the partial file. On a write error the file just stays shorter. */
static void keep(struct encoder *encoder)
{
	size_t length;
	const char *bytes = recording_writer_bytes(encoder->writer, &length);

	if (!encoder->kept_path || __atomic_load_n(&encoder->keeps_no_more, __ATOMIC_RELAXED))
		return;
	if (encoder->kept_fd < 0) {
		(void)unlink(encoder->kept_path); /* left by a run that was killed */
		encoder->kept_fd = open(encoder->kept_path,
					O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
	}
	while (encoder->kept_fd >= 0 && encoder->kept_bytes < length) {
		ssize_t put = pwrite(encoder->kept_fd, bytes + encoder->kept_bytes,
				     length - encoder->kept_bytes, (off_t)encoder->kept_bytes);

		if (put <= 0)
			return;
		encoder->kept_bytes += (size_t)put;
	}
}

static void do_job(void *context, const struct worker_job *job)
{
	struct encoder *encoder = context;
	struct error error = ERROR_INIT;

	if (encode(encoder, job, &error) < 0 && encoder->lost++ == 0)
		encoder->error = error;
	else
		keep(encoder);
	/* After keep(): freeing the target also removes a profile that is a file. */
	target_free(job->target);
}

void encoder_keep(struct encoder *encoder, const char *path)
{
	if (asprintf(&encoder->kept_path, "%s.unfinished", path) < 0)
		encoder->kept_path = NULL;
}

void encoder_keep_no_more(struct encoder *encoder)
{
	__atomic_store_n(&encoder->keeps_no_more, true, __ATOMIC_RELAXED);
}

void encoder_drop_kept(struct encoder *encoder)
{
	if (encoder->kept_fd >= 0)
		(void)unlink(encoder->kept_path);
}

struct encoder *encoder_new(uint64_t run_start_ns)
{
	struct encoder *encoder = calloc(1, sizeof *encoder);

	if (!encoder)
		return NULL;
	encoder->kept_fd = -1;
	encoder->writer = recording_writer_new();
	encoder->worker = worker_new(do_job, encoder);
	if (!encoder->writer || !encoder->worker) {
		encoder_free(encoder);
		return NULL;
	}
	encoder->run_start_ns = run_start_ns;
	encoder->real_offset_ns = clock_real_offset_ns();
	return encoder;
}

void encoder_give(struct encoder *encoder, struct target *target, uint64_t now_ns)
{
	struct worker_job job = { target, now_ns };

	if (!worker_give(encoder->worker, &job)) {
		encoder->refused++;
		target_free(target);
	}
}

size_t encoder_finish(struct encoder *encoder, size_t *ret_lost, struct error *error)
{
	worker_finish(encoder->worker);
	if (encoder->refused > 0 && encoder->lost == 0)
		error_set(&encoder->error, "out of memory");
	encoder->lost += encoder->refused;
	encoder->refused = 0;
	if (encoder->lost > 0)
		*error = encoder->error;
	*ret_lost = encoder->lost;
	return encoder->processes;
}

int encoder_write(struct encoder *encoder, struct run_row *run, struct buffer *ret,
		  struct error *error)
{
	struct format_error reason = { "" };
	void *bytes = NULL;
	size_t length;

	if (!combined_peak_find(&encoder->together, run))
		return error_set(error, "out of memory");
	if (recording_writer_finish(encoder->writer, run, &bytes, &length, &reason) < 0)
		return error_set(error, "%s", reason.message);
	*ret = (struct buffer){ .data = bytes, .size = length, .capacity = length };
	return 0;
}

void encoder_free(struct encoder *encoder)
{
	if (!encoder)
		return;
	worker_free(encoder->worker);
	recording_writer_free(encoder->writer);
	linked_in_release(&encoder->linked_in);
	combined_peak_release(&encoder->together);
	release_rows(encoder);
	if (encoder->kept_fd >= 0)
		close(encoder->kept_fd);
	free(encoder->kept_path);
	free(encoder);
}
