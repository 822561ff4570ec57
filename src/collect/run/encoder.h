/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes ended processes while the others continue to run, so that their memory is freed at once and the clock never waits.
 * Uses its own thread, started with the first target.
 */
#ifndef COLLECT_RUN_ENCODER_H
#define COLLECT_RUN_ENCODER_H

#include "collect/process/target.h"
#include "format/recording/recording.h"
#include "util/buffer.h"

struct encoder;
/* run_start_ns: CLOCK_MONOTONIC. NULL if out of memory. */
struct encoder *encoder_new(uint64_t run_start_ns);
void encoder_free(struct encoder *encoder);

/* CLOCK_REALTIME minus CLOCK_MONOTONIC, at the start of the run. */
uint64_t encoder_real_offset(const struct encoder *encoder);

/* Takes ownership of the target. For the recording, a process that is still alive ends at now_ns. */
void encoder_give(struct encoder *encoder, struct target *target, uint64_t now_ns);

/* Also writes the encoded chunks to `path`.unfinished during the run, so that they survive if heapgauge is killed: a recording
 * without its end. Call before the first encoder_give. */
void encoder_keep(struct encoder *encoder, const char *path);
/* Stops writing the partial file: the run is about to end. */
void encoder_keep_no_more(struct encoder *encoder);
/* Removes the partial file after the recording was written. Call after encoder_finish. */
void encoder_drop_kept(struct encoder *encoder);

/* Waits for all targets. Returns the number of encoded processes; *ret_lost counts those that could not be read or queued, and
 * if it is not 0 the error is set. */
size_t encoder_finish(struct encoder *encoder, size_t *ret_lost, struct error *error);

/* Keeps the rows of all processes for encoder_take, up to a size limit. Call before the first encoder_give. */
void encoder_keep_rows(struct encoder *encoder);
/* After encoder_write: returns the recording as a reader of the file would decode it; takes ownership of `run`. No-op that
 * leaves *ret unchanged if not all rows were kept. */
void encoder_take(struct encoder *encoder, struct run_row *run, struct recording *ret);

/* After encoder_finish: encodes the whole recording. Sets the combined peak of all processes in `run`. */
int encoder_write(struct encoder *encoder, struct run_row *run, struct buffer *ret,
		  struct error *error);

#endif
