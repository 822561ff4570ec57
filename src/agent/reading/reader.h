/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads processes in processes of its own. Profiles and the files that name their functions belong to other users, who may
 * have prepared them: so nothing of them is decoded where the agent's tokens and connections are. The reader is forked before
 * there are threads or secrets; for each batch of readings it forks a child, which gives up its privileges, ends when it is done,
 * and is killed if it takes too long. The processes of a batch are those that one attacker could control anyway: see batch.h.
 */
#ifndef AGENT_READING_READER_H
#define AGENT_READING_READER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/reading/reading.h"
#include "util/error.h"
#include "util/files.h"

struct reader {
	int socket;
	int stop_fd; /* readable as soon as the agent ends: nobody waits any longer */
	pid_t pid;
	pthread_mutex_t lock; /* one batch at a time */
	_Atomic uint64_t
		cpu_ns; /* of the reader and all its children, from their start to their end */
};

/* -1 with the error set. Call before any thread is started. */
int reader_start(struct reader *reader, int stop_fd, struct error *error);
/* Kills a reading that goes on. */
void reader_stop(struct reader *reader);

/* A finished reading: the bytes and what is in them. */
struct reader_result {
	struct file_map map;
	struct reading_parts parts;
};
/* Any thread. -1 with the error set: the child failed, or the reader is gone. A process that could not be read is not an error:
 * see the reading's status. The caller releases the result, also on failure. */
int reader_read(struct reader *reader, const struct reading_request *request, int profile_fd,
		int baseline_fd, struct reader_result *ret, struct error *error);
/* The same for at most READING_BATCH_MAX in one child. `out` is set here and closed. If the child fails, those that it had
 * finished have a result nevertheless; the others have none: parts.reading is NULL. */
int reader_read_batch(struct reader *reader, struct reading_task *tasks, size_t count,
		      struct reader_result *ret, struct error *error);
void reader_result_release(struct reader_result *result);

#endif
