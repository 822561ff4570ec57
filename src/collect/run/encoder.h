/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns processes that have ended into their part of the recording while the others run on: their memory is given back
 * at once, and the clock never waits. A thread of its own, begun with the first process that is given.
 */
#ifndef COLLECT_RUN_ENCODER_H
#define COLLECT_RUN_ENCODER_H

#include "collect/process/target.h"
#include "format/recording/recording.h"
#include "util/buffer.h"

struct encoder;
/* run_start_ns: CLOCK_MONOTONIC. NULL if there is no memory. */
struct encoder *encoder_new(uint64_t run_start_ns);
void encoder_free(struct encoder *encoder);

/* CLOCK_REALTIME minus CLOCK_MONOTONIC, as it was at the start of the run. */
uint64_t encoder_real_offset(const struct encoder *encoder);

/* Takes the target, which the caller does not touch again. One that lives on ends, for the recording, at now_ns. */
void encoder_give(struct encoder *encoder, struct target *target, uint64_t now_ns);

/* What is encoded while the run goes on is also kept in a file of this name, so that it is there should we be killed: a recording
 * without its end. Before anything is given. */
void encoder_keep(struct encoder *encoder, const char *path);
/* The run is about to end: no more is kept. */
void encoder_keep_no_more(struct encoder *encoder);
/* The recording is written: what was kept goes. After encoder_finish. */
void encoder_drop_kept(struct encoder *encoder);

/* Waits for everything that was given. Returns how many processes were encoded; *ret_lost could not be read or kept, and then the
 * error is set. */
size_t encoder_finish(struct encoder *encoder, size_t *ret_lost, struct error *error);

/* The rows of all processes are kept, as long as they are few, for encoder_take. Before anything is given. */
void encoder_keep_rows(struct encoder *encoder);
/* After encoder_write: what was written, with the run, which is taken; a reader of the file finds the same. Takes nothing and leaves
 * *ret as it is if not all rows were kept. */
void encoder_take(struct encoder *encoder, struct run_row *run, struct recording *ret);

/* After encoder_finish: the recording. Sets the most that all processes held at one moment. */
int encoder_write(struct encoder *encoder, struct run_row *run, struct buffer *ret,
		  struct error *error);

#endif
