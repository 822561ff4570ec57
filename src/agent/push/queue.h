/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles that wait to be sent: a bounded queue on disk, one folder with one file per item. It survives the agent, and an item
 * is in it whole or not at all.
 *
 * A profile holds what was allocated since the one before, so an item and the baseline that the next one is computed from must be
 * committed together, although any write may be the last before a SIGKILL. Therefore adding has two phases:
 *
 *	queue_prepare(queue, key, serial, ...)	the item is in its file, but pending
 *	the caller replaces its baseline file by one that contains `serial`; this commits both
 *	queue_commit(queue, key, serial, ...)	the item is queued
 *
 * Nothing waits for the disk: three syncs for each process and minute would cost it more than they save. A power failure ends the
 * processes as well; it may take what was written in the last half minute, and an item of which a part is missing is dropped and
 * counted when it is read or refused.
 *
 * After the agent's death, queue_settle asks the caller for each pending item whether its baseline has that serial.
 *
 * An item may be delivered twice if the agent dies between the store's answer and queue_done: give it an id that the store can
 * recognize (pyroscope.h).
 *
 * Times are passed in; all are wall-clock nanoseconds. All functions but open and close may be called by any thread. The folder is
 * locked by an open descriptor, which a child that forks inherits: the lock lasts as long as such a child that does not exec.
 */
#ifndef AGENT_PUSH_QUEUE_H
#define AGENT_PUSH_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "util/buffer.h"
#include "util/error.h"
#include "util/vector.h"

/* Of a key: letters, digits and '_'. It names the process that the item is of, across restarts of the agent. */
#define QUEUE_KEY_MAX 64

enum queue_drop {
	QUEUE_DROP_FULL,    /* the oldest, for newer ones; or one that is larger than the queue */
	QUEUE_DROP_OLD,	    /* older than the store accepts */
	QUEUE_DROP_WRITE,   /* could not be written: the disk is full */
	QUEUE_DROP_READ,    /* could not be read back */
	QUEUE_DROP_REFUSED, /* by the store */
	QUEUE_DROPS,
};
/* One word for each, as in metrics. */
const char *queue_drop_name(enum queue_drop reason);

struct queue_limits {
	uint64_t max_bytes;
	uint64_t max_age_ns; /* 0: any age */
};

struct queue_counters {
	uint64_t items, bytes; /* now, without pending ones */
	uint64_t oldest_ns;    /* time of the oldest item; 0 if none */
	uint64_t dropped[QUEUE_DROPS];
};

struct queue;

/*
 * Creates the folder if it is missing, accessible only to this user. Fails if others may write to it, if it belongs to another
 * user, or if another agent has it open. Returns NULL with err set.
 */
struct queue *queue_open(const char *folder, struct queue_limits limits, struct error *err);
/* Items stay on disk. NULL is fine. */
void queue_close(struct queue *queue);

/* Whether the caller's baseline of `key` has reached `serial`. */
typedef bool queue_is_committed(void *context, const char *key, uint64_t serial);
/* Call once after queue_open: queues or deletes each pending item. */
void queue_settle(struct queue *queue, uint64_t now_ns, queue_is_committed *is_committed,
		  void *context);

/*
 * Writes the item to disk and reserves its place, dropping the oldest items if there is none; at_ns is the time of the profile.
 * Replaces a pending item of the same key and serial. On failure, which is counted, nothing is left: if the caller leaves its
 * baseline as it is, the next profile includes this one's allocations.
 */
int queue_prepare(struct queue *queue, const char *key, uint64_t serial, uint64_t at_ns,
		  struct span bytes, struct error *err);
/* Fails if there is no such pending item, or if it cannot be renamed; then it stays pending until the next queue_settle. */
int queue_commit(struct queue *queue, const char *key, uint64_t serial, uint64_t now_ns,
		 struct error *err);
/* Deletes a pending item whose baseline could not be written. */
void queue_discard(struct queue *queue, const char *key, uint64_t serial);

/* The oldest items, concatenated. All zero is empty. */
struct queue_batch {
	struct buffer bytes;
	VECTOR(uint64_t) sequences; /* of the items, ascending */
};
void queue_batch_release(struct queue_batch *batch);

/*
 * Fills the batch (emptied first) with the oldest items that are in no other batch, at least one, up to both maxima; deletes those
 * that have become too old. Items of a batch are never dropped: give each back by queue_done, queue_refused, queue_keep or
 * queue_postpone. Returns false if there is none, or if out of memory.
 */
bool queue_take(struct queue *queue, uint64_t now_ns, size_t max_bytes, size_t max_items,
		struct queue_batch *batch);
/* Delivered: deletes the items. */
void queue_done(struct queue *queue, struct queue_batch *batch);
/* Deletes the items and counts them as refused by the store. */
void queue_refused(struct queue *queue, struct queue_batch *batch);
/* Not delivered: they are again the oldest. */
void queue_keep(struct queue *queue, struct queue_batch *batch);
/* The same, but others are taken first, until those have been postponed as often: the failure may be due to these items. */
void queue_postpone(struct queue *queue, struct queue_batch *batch);

struct queue_counters queue_counters(struct queue *queue);

#endif
