/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies announcements from the targets' rings as they appear, keeps them until the announced process connects, and otherwise
 * sums them by reason and program. The ring is another process' memory: entries are validated, and those overwritten before
 * they could be read are counted without a name.
 *
 * Owned by the collector's loop, one thread. Bounded: only the last PENDING_MAX announcements stay pending, and programs beyond
 * MISSED_MAX are counted together.
 * Invariant: a ticket is in `pending` at most once.
 */
#include "collect/run/process_log.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "util/cleanup.h"

enum { PENDING_MAX = 4096, MISSED_MAX = 1000 };

static void start_release(struct start *start)
{
	free(start->path);
}

void process_log_release(struct process_log *log)
{
	for (size_t i = 0; i < log->pending.count; i++)
		start_release(&log->pending.at[i]);
	for (size_t i = 0; i < log->missed.count; i++)
		free(log->missed.at[i].path);
	vector_release(&log->pending);
	vector_release(&log->missed);
	vector_release(&log->early);
}

/* ---- missed ---- */

static void add_missed(struct process_log *log, enum missed_reason reason, const char *path,
		       uint64_t count)
{
	struct missed_row row = { reason, count, NULL };

	for (size_t i = 0; i < log->missed.count; i++) {
		struct missed_row *have = &log->missed.at[i];

		if (have->reason == reason && strcmp(have->path, path) == 0) {
			have->count += count;
			return;
		}
	}
	if (path[0] != '\0' && log->missed.count >= MISSED_MAX) {
		add_missed(log, reason, "", count);
		return;
	}
	row.path = strdup(path);
	if (!row.path || !vector_push(&log->missed, row))
		free(row.path);
}

void process_log_miss(struct process_log *log, enum missed_reason reason, const char *path)
{
	add_missed(log, reason, path ? path : "", 1);
}

/* ---- reading the ring ---- */

static bool connected_early(struct process_log *log, struct live_ticket ticket)
{
	for (size_t i = 0; i < log->early.count; i++) {
		if (log->early.at[i].profile == ticket.profile &&
		    log->early.at[i].serial == ticket.serial) {
			log->early.at[i] = log->early.at[--log->early.count];
			return true;
		}
	}
	return false;
}

static void add_pending(struct process_log *log, struct target *target,
			const struct live_start *entry, uint32_t serial)
{
	const struct live_header *head = target->profile.head;
	/* A forked child has the path of its parent's program. */
	bool child = entry->reason == MISSED_child;
	struct start start = {
		.ticket = { .profile = target->id, .serial = serial },
		.reason = entry->reason < MISSED_COUNT ? (enum missed_reason)entry->reason
						       : MISSED_unconnected,
		.becomes = entry->pid != 0 && entry->pid == head->pid,
		.path = child ? strdup(target->known.exe ? target->known.exe : "")
			      : strndup(entry->path,
					MIN(entry->path_bytes, (uint32_t)LIVE_START_PATH)),
	};

	if (connected_early(log, start.ticket)) {
		target->has_become |= start.becomes;
		start_release(&start);
		return;
	}
	if (!start.path || !vector_push(&log->pending, start)) {
		start_release(&start);
		log->unnamed++;
	}
}

/* Each ring slot holds serials that are LIVE_STARTS apart: a skipped serial was overwritten. The newest serial of each slot is
 * among the last LIVE_STARTS. */
static void read_new(struct process_log *log, struct target *target)
{
	uint64_t newest = target->profile.head->starts;

	for (uint64_t back = MIN(newest, (uint64_t)LIVE_STARTS); back-- > 0;) {
		uint32_t serial = (uint32_t)(newest - back), at = serial % LIVE_STARTS;
		uint64_t next = target->process_log_next[at] ? target->process_log_next[at]
							     : (at ? at : LIVE_STARTS);
		struct live_start entry;

		if (serial < next || !live_profile_read_start(&target->profile, serial, &entry))
			continue;
		log->unnamed += (serial - next) / LIVE_STARTS;
		target->process_log_read += (serial - next) / LIVE_STARTS + 1;
		target->process_log_next[at] = (uint64_t)serial + LIVE_STARTS;
		if (!entry.failed)
			add_pending(log, target, &entry, serial);
	}
}

/* Whether the announced process is expected to connect. */
static bool is_expected(enum missed_reason reason)
{
	return reason == MISSED_unconnected || reason == MISSED_child;
}

/* Drops the target's announcements that it has cancelled. Those not expected to connect count as missed once they can no longer
 * be cancelled. */
static void settle(struct process_log *log, struct target *target, bool over)
{
	size_t kept = 0;

	for (size_t i = 0; i < log->pending.count; i++) {
		struct start *start = &log->pending.at[i];
		bool ours = start->ticket.profile == target->id;
		struct live_start entry;
		bool there = ours && live_profile_read_start(&target->profile, start->ticket.serial,
							     &entry);
		bool taken_back = there && entry.failed;
		bool is_final = ours && (over || !there) && !is_expected(start->reason);

		if (!taken_back && !is_final) {
			log->pending.at[kept++] = *start;
			continue;
		}
		if (!taken_back)
			add_missed(log, start->reason, start->path, 1);
		start_release(start);
	}
	log->pending.count = kept;
}

/* Counts the oldest half as missed. */
static void make_room(struct process_log *log)
{
	size_t gone = log->pending.count / 2;

	for (size_t i = 0; i < gone; i++) {
		add_missed(log, log->pending.at[i].reason, log->pending.at[i].path, 1);
		start_release(&log->pending.at[i]);
	}
	log->pending.count -= gone;
	memmove(log->pending.at, log->pending.at + gone,
		log->pending.count * sizeof *log->pending.at);
}

void process_log_read(struct process_log *log, struct target *target)
{
	if (!live_profile_poll(&target->profile) ||
	    target->profile.head->starts == target->process_log_read)
		return;
	read_new(log, target);
	if (log->pending.count >= PENDING_MAX)
		make_room(log);
}

void process_log_update(struct process_log *log, struct target *target, bool over)
{
	process_log_read(log, target);
	if (log->pending.count > 0)
		settle(log, target, over);
}

bool process_log_connected(struct process_log *log, struct live_ticket ticket)
{
	if (ticket.profile == 0)
		return false;
	for (size_t i = 0; i < log->pending.count; i++) {
		struct start *start = &log->pending.at[i];

		if (start->ticket.profile != ticket.profile ||
		    start->ticket.serial != ticket.serial)
			continue;
		bool becomes = start->becomes;

		start_release(start);
		log->pending.count--;
		memmove(start, start + 1, (log->pending.count - i) * sizeof *start);
		return becomes;
	}
	log->unnamed -= log->unnamed > 0;
	return false;
}

void process_log_connected_early(struct process_log *log, struct live_ticket ticket)
{
	if (ticket.profile != 0 && log->early.count < PENDING_MAX)
		(void)vector_push(&log->early, ticket);
}

bool process_log_becomes(const struct process_log *log, const struct target *target)
{
	for (size_t i = 0; i < log->pending.count; i++) {
		const struct start *start = &log->pending.at[i];

		if (start->ticket.profile == target->id && start->becomes)
			return true;
	}
	return false;
}

void process_log_finish(struct process_log *log, struct run_row *run)
{
	for (size_t i = 0; i < log->pending.count; i++)
		add_missed(log, log->pending.at[i].reason, log->pending.at[i].path, 1);
	if (log->unnamed > 0)
		add_missed(log, MISSED_unconnected, "", log->unnamed);
	run->missed = log->missed.at;
	run->missed_count = log->missed.count;
	log->missed.at = NULL;
	log->missed.count = log->missed.capacity = 0;
}
