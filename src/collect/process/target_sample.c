/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slow reads of a target, done by a worker while the loop updates the clock: the names of its threads, the numbers of
 * every site, and its memory balance sheet. With a million sites or gigabytes of memory each takes tens of milliseconds: the
 * kernel walks the page tables for smaps.
 *
 * The loop fills in target->sample and passes the target to the worker; until target_is_sampling is false again, the worker
 * owns sample, snapshots, marks, memories, pages, loaded, static_data, inherited, threads and the state of triggers on sites, and the loop everything
 * else.
 * Invariant: a target that is being sampled is neither freed nor passed to the encoder.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "collect/kernel/procfs.h"
#include "collect/process/memory_reading.h"
#include "collect/process/target.h"
#include "format/live/live_view.h"
#include "util/cleanup.h"
#include "util/clock.h"

#define PAGES_INTERVAL_NS 100000000ull
enum { PAGES_SHARE = 20 }; /* reading pages takes at most 1/PAGES_SHARE of the time */
enum {
	SIZES_SHARE = 20,
	SIZE_MOMENTS_MAX = 512 * 16
}; /* likewise; rows, of which a moment has up to LIVE_PAIR_CLASSES */
#define SCAN_INTERVAL_NS 100000000ull
enum { SCAN_SHARE = 50 };  /* scanning sites takes at most 1/SCAN_SHARE of the time */
enum { MARKS_SHARE = 10 }; /* reading marks, which the program controls, at most 1/MARKS_SHARE */

/* Reads the ids and names of threads that own a slot now. The others have ended and keep their last name. */
static void read_names(struct target *target)
{
	struct live_view view;
	const struct live_slot *slots;
	const struct live_thread *threads;
	size_t slot_count, thread_count;

	if (live_view_init(&view, target->profile.memory, target->profile.bytes))
		return;
	slots = live_view_at(&view, LIVE_SLOTS);
	slot_count = live_view_used(&view, LIVE_SLOTS);
	threads = live_view_at(&view, LIVE_THREADS);
	thread_count = live_view_used(&view, LIVE_THREADS);
	if (thread_count > target->threads.count) {
		size_t more = thread_count - target->threads.count;

		if (!vector_reserve(&target->threads, more))
			return;
		memset(target->threads.at + target->threads.count, 0,
		       more * sizeof *target->threads.at);
		target->threads.count = thread_count;
	}
	for (size_t i = 0; i < target->threads.count; i++)
		target->threads.at[i].tid = 0;
	for (size_t i = 0; i < slot_count; i++) {
		uint32_t tid = LIVE_LOAD(slots[i].tid), thread = LIVE_LOAD(slots[i].thread);
		char name[16];

		/* A slot gets its next thread before that thread is in the log. */
		if (tid == 0 || thread >= thread_count || LIVE_LOAD(threads[thread].tid) != tid ||
		    procfs_thread_name(target->pid, (pid_t)tid, name) == 0)
			continue;
		memcpy(target->threads.at[thread].name, name, sizeof name);
		target->threads.at[thread].tid = tid;
	}
}

/* Snapshots are ascending in time. */
static uint64_t not_before_last(const struct target *target, uint64_t at_ns)
{
	size_t count = target->snapshots.rows.count;

	return count > 0 ? MAX(at_ns, target->snapshots.rows.at[count - 1].at_ns) : at_ns;
}

/* saved: as they were at that mark; NULL: in the copy. */
static int read_sites(const struct target *target, const struct live_mark_read *saved,
		      struct live_sites *ret)
{
	const struct live_profile *profile = &target->profile;

	return saved ? live_read_saved_sites(profile->memory, profile->bytes, saved, ret)
		     : live_read_sites(profile->memory, profile->bytes, &profile->moves, ret);
}

static void add_snapshot(struct target *target, struct snapshot_row *row, struct live_sites *sites)
{
	struct live_now live = live_sum_heap(target->profile.memory, target->profile.bytes, sites);

	row->live_bytes = live.bytes;
	row->live_blocks = live.blocks;
	row->live_bound_bytes = live.bytes_bound;
	row->live_bound_blocks = live.blocks_bound;
	snapshots_add(&target->snapshots, row, sites);
}

static void take_snapshot(struct target *target, uint64_t began_ns)
{
	struct live_sites sites;

	target->sample.snapshot.at_ns = not_before_last(target, target->sample.snapshot.at_ns);
	if (read_sites(target, NULL, &sites) == 0)
		add_snapshot(target, &target->sample.snapshot, &sites);
	/* CPU time: a busy machine does not reduce the number of snapshots. */
	snapshots_cost(&target->snapshots, clock_thread_cpu_ns() - began_ns);
}

/* ---- named snapshots ---- */

/* Of many moments every second one is left out, as often as needed. */
static void thin_size_moments(struct target *target)
{
	size_t kept = 0, number = 0;

	for (size_t i = 0; i < target->size_moments.count; i++) {
		struct size_moment_row *rows = target->size_moments.at;

		number += i > 0 && rows[i].at_ns != rows[i - 1].at_ns;
		if (number % 2 == 0)
			rows[kept++] = rows[i];
	}
	target->size_moments.count = kept;
}

/* Pre: the whole profile is loaded. */
static void take_sizes(struct target *target, uint64_t at_ns)
{
	const struct live_profile *profile = &target->profile;
	struct live_size_class classes[LIVE_PAIR_CLASSES];
	size_t count = target->size_moments.count;

	/* Several requests may be handled at one moment. */
	if (count > 0 && target->size_moments.at[count - 1].at_ns == at_ns)
		return;
	if (live_read_size_classes(profile->memory, profile->bytes, classes) < 0)
		return;
	if (count > SIZE_MOMENTS_MAX)
		thin_size_moments(target);
	for (size_t i = 0; i < LIVE_PAIR_CLASSES; i++)
		if (classes[i].blocks)
			(void)vector_push(&target->size_moments,
					  ((struct size_moment_row){ at_ns, i, classes[i].blocks,
								     classes[i].bytes }));
}

/* Takes a named snapshot: of the data saved when the program requested it, or of the present state. */
static void take_asked(struct target *target, uint64_t at_ns, uint32_t mark,
		       const struct live_mark_read *saved)
{
	struct snapshot_row row = target->sample.snapshot;
	struct live_sites sites;

	row.at_ns = at_ns;
	row.mark = mark;
	if (read_sites(target, saved, &sites) < 0)
		return;
	add_snapshot(target, &row, &sites);
	if (!saved && target->sample.reads_sizes)
		take_sizes(target, at_ns);
}

/* Runs before the periodic snapshot, so that snapshots are in the order of time. */
static void take_marks(struct target *target)
{
	struct live_profile *profile = &target->profile;
	struct live_mark_read mark;

	for (size_t i = target->marks_read;
	     live_mark_get(profile->memory, profile->bytes, i, &mark); i++) {
		uint64_t at_ns = not_before_last(target, mark_at_ns(&mark, target->started_ns));
		uint32_t number = mark_rows_add(&target->marks, mark.kind, at_ns, mark.name);

		if (number != 0 && mark.kind == LIVE_MARK_SNAPSHOT)
			take_asked(target, at_ns, number, mark.saved ? &mark : NULL);
		if (mark.saved)
			live_profile_write_saved(profile, mark.saved_at + mark.saved_count);
		__atomic_store_n(&target->marks_read, i + 1, __ATOMIC_RELAXED);
	}
}

static void request(struct target *target, const struct trigger *trigger)
{
	struct target_request request = { "" };

	trigger_name(trigger, request.name, sizeof request.name);
	(void)vector_push(&target->sample.requests, request);
	target->sample.reads_pages |= trigger->reads_pages;
	if (trigger->writes && !target->sample.dump)
		target->sample.dump = trigger->text;
}

/* What each site of the heap holds at least and at most. */
static int read_held(const struct target *target, struct live_sites *sites,
		     struct trigger_range **ret)
{
	const struct live_profile *profile = &target->profile;
	struct live_view view;

	if (live_view_init(&view, profile->memory, profile->bytes) ||
	    read_sites(target, NULL, sites) < 0)
		return -1;
	const struct live_site *all = live_view_at(&view, LIVE_SITES);

	*ret = calloc(sites->count + 1, sizeof **ret);
	for (size_t i = 0; *ret && i < sites->count; i++) {
		uint64_t held = (uint64_t)MAX(sites->live[i].bytes, (int64_t)0);
		uint64_t bound = live_site_bound(sites, i).bytes;

		if (LIVE_LOAD(all[i].kind) == LIVE_KIND_HEAP)
			(*ret)[i] = trigger_range_of(held, bound);
	}
	return *ret ? 0 : -1;
}

/* Evaluates the conditions on single sites. */
static void scan_sites(struct target *target)
{
	uint64_t at_ns = saturating_sub(clock_monotonic_ns(), target->started_ns);
	AUTO(live_sites_release) struct live_sites sites = { 0 };
	AUTO_FREE struct trigger_range *held = NULL;

	if (read_held(target, &sites, &held) < 0)
		return;
	for (size_t i = 0; i < target->conditions->list.count; i++) {
		const struct trigger *trigger = &target->conditions->list.at[i];

		if ((trigger->kind == TRIGGER_SITE || trigger->kind == TRIGGER_GROWTH) &&
		    trigger_fires_by_site(trigger, &target->triggers[i], held, sites.count, at_ns))
			request(target, trigger);
	}
}

/* The same on the stacks of threads: their pages stay resident, so this is the most that was ever used. */
static void scan_stacks(struct target *target)
{
	AUTO(memory_reading_release) struct memory_reading reading = { 0 };

	if (!memory_read_mappings(&reading, target->pid))
		return;
	smaps_sum(&reading.list, &reading.row);
	const struct trigger_input input = { .stack_bytes = reading.row.stack_largest_bytes };

	for (size_t i = 0; i < target->conditions->list.count; i++) {
		const struct trigger *trigger = &target->conditions->list.at[i];

		if (trigger->kind == TRIGGER_STACK &&
		    trigger_fires(trigger, &target->triggers[i], &input))
			request(target, trigger);
	}
}

static void scan(struct target *target)
{
	uint64_t began_ns = clock_monotonic_ns();

	if (triggers_ask_sites(target->conditions))
		scan_sites(target);
	if (triggers_find(target->conditions, TRIGGER_STACK))
		scan_stacks(target);
	target->sample.scan_ns = clock_monotonic_ns() - began_ns;
}

/* read_ns: when the copy of the profile was begun. Its counters are copied first: on a busy machine, the end is much later. */
static void take_requests(struct target *target, uint64_t read_ns)
{
	for (size_t i = 0; i < target->sample.requests.count; i++) {
		uint64_t at_ns =
			not_before_last(target, saturating_sub(read_ns, target->started_ns));
		uint32_t number = mark_rows_add(&target->marks, LIVE_MARK_SNAPSHOT, at_ns,
						target->sample.requests.at[i].name);

		if (number != 0)
			take_asked(target, at_ns, number, NULL);
	}
	target->sample.requests.count = 0;
}

/* The stacks of threads that wait in the kernel; those that run keep their last values. A page that was used stays resident, so the
 * most is what is resident. */
static void read_stacks(struct target *target, const struct smaps *list)
{
	for (size_t i = 0; i < target->threads.count; i++) {
		struct target_thread *thread = &target->threads.at[i];
		uint64_t at =
			thread->tid ? procfs_stack_pointer(target->pid, (pid_t)thread->tid) : 0;

		for (size_t k = 0; at && k < list->list.count; k++) {
			const struct mapping *m = &list->list.at[k];

			if (m->kind != MAPPING_STACK || at < m->start || at >= m->end)
				continue;
			thread->stack_reserved_bytes = m->end - m->start;
			thread->stack_used_bytes = m->end - at;
			thread->stack_most_bytes = MAX(thread->stack_most_bytes, m->rss_bytes);
		}
	}
}

static void read_memory(struct target *target, bool asked)
{
	/* CPU time: waiting for a processor on a busy machine is not a cost. */
	uint64_t began_ns = clock_thread_cpu_ns();
	AUTO(memory_reading_release)
	struct memory_reading reading = { .row = target->sample.memory };
	struct memory_row *row = &reading.row;

	row->at_ns = saturating_sub(clock_monotonic_ns(), target->started_ns);
	row->asked = asked;
	if (!memory_read(&reading, target->pid, &target->profile, &target->inherited))
		return;
	read_stacks(target, &reading.list);
	/* The process was exiting: its pages are gone, and the sheet is not valid. */
	if (procfs_rss(target->statm_fd) == 0)
		return;
	/* Without the recorder's memory the process is exiting, or has called exec. */
	if (row->own_bytes == 0)
		return;
	static_data_read(&target->static_data, target->pid, &reading.list, row->at_ns);
	memories_note_flow(&target->memories, row, reading.began);
	memories_add(&target->memories, row, clock_thread_cpu_ns() - began_ns);
	if (loaded_is_due(row))
		loaded_scan(&target->loaded, target->pid);
}

/* The last reading replaces those before. */
static void read_pages(struct target *target)
{
	uint64_t began_ns = clock_monotonic_ns(), now_ns;
	struct pages_rows pages;
	int status;

	/* Nothing comes after the exit. */
	if (target->pages.sum_count > 0 && target->pages.sums->at_exit)
		return;
	target->no_pages = ERROR_INIT;
	status =
		pages_read(&target->profile, target->pid,
			   saturating_sub(began_ns, target->started_ns), &pages, &target->no_pages);

	/* Without its memory the process is exiting, or has called exec. */
	bool is_there = procfs_rss(target->statm_fd) > 0;

	if (!is_there)
		target->no_pages = ERROR_INIT;
	if (status == 0 && is_there && pages.sums->own_bytes > 0) {
		pages_rows_release(&target->pages);
		target->pages = pages;
		target->pages.sums->at_exit = target->sample.at_exit;
		pages = (struct pages_rows){ 0 };
	}
	pages_rows_release(&pages);
	now_ns = clock_monotonic_ns();
	target->next_pages_ns = saturating_sub(now_ns, target->started_ns) +
				MAX(PAGES_INTERVAL_NS, (now_ns - began_ns) * PAGES_SHARE);
}

bool target_scan_is_due(const struct target *target, uint64_t at_ns)
{
	return target->triggers && at_ns >= target->next_scan_ns &&
	       triggers_ask_scan(target->conditions);
}

void target_sample_prepare(struct target *target, uint64_t at_ns, bool usual, bool reads_memory)
{
	const struct live_totals *totals = &target->totals;

	target->sample.usual = usual;
	target->sample.reads_memory = reads_memory;
	target->sample.scans = target_scan_is_due(target, at_ns);
	if (target->sample.scans)
		target->next_scan_ns =
			at_ns + MAX(SCAN_INTERVAL_NS, target->sample.scan_ns * SCAN_SHARE);
	for (size_t i = 0; i < target->requests.count; i++)
		(void)vector_push(&target->sample.requests, target->requests.at[i]);
	target->requests.count = 0;
	target->sample.reads_sizes =
		target->sample.requests.count > 0 && at_ns >= target->next_sizes_ns;
	target->sample.reads_pages = target->wants_pages;
	target->wants_pages = false;
	target->sample.reads_image = usual || target->sample.scans ||
				     target->sample.requests.count > 0 ||
				     target->profile.head->used[LIVE_MARKS] > target->marks_read;
	target->sample.snapshot = (struct snapshot_row){
		.at_ns = at_ns,
		.rss_bytes = target->rss_bytes,
	};
	if (!target->cgroup_is_read)
		target_read_cgroup(target);
	target->sample.memory = (struct memory_row){
		.at_ns = at_ns,
		.live_bytes = totals->live.bytes,
		.fragmentation_bytes = memory_live_fragmentation(totals),
		.map_live_bytes = totals->map_live_bytes,
		.cgroup_limit_bytes = target->cgroup.limit_bytes,
		.cgroup_usage_bytes = target->cgroup.usage_bytes,
	};
	__atomic_store_n(&target->sampling, true, __ATOMIC_RELAXED);
}

void target_sample_run(struct target *target)
{
	uint64_t began_ns = clock_monotonic_ns(), cpu_ns = clock_thread_cpu_ns();
	size_t marks = target->marks.count;

	if (target->sample.reads_image &&
	    live_profile_load(&target->profile,
			      target->sample.reads_sizes ? PROFILE_COPY_ALL : PROFILE_COPY_LIVE,
			      false, NULL) == 0) {
		take_marks(target);
		if (target->sample.scans)
			scan(target);
		take_requests(target, target->ended_ns ? target->ended_ns : began_ns);
		if (target->sample.usual) {
			read_names(target);
			take_snapshot(target, cpu_ns);
		}
		live_profile_unload(&target->profile);
	}
	if (target->sample.reads_sizes)
		target->next_sizes_ns = saturating_sub(clock_monotonic_ns(), target->started_ns) +
					(clock_monotonic_ns() - began_ns) * SIZES_SHARE;
	target->next_marks_ns =
		clock_monotonic_ns() + (clock_monotonic_ns() - began_ns) * MARKS_SHARE;
	if (target->sample.reads_memory)
		read_memory(target, target->marks.count > marks);
	if (target->sample.reads_pages)
		read_pages(target);
	if (target->sample.at_exit)
		live_profile_let_exit(&target->profile);
	target->sample.at_exit = false;
	__atomic_store_n(&target->sampling, false, __ATOMIC_RELEASE);
}

void target_sample_last(struct target *target)
{
	target_sample_prepare(target, target->ended_ns - target->started_ns, true, false);
	target->sample.reads_sizes = false; /* the sizes at the end are read with its rows */
	take_marks(target);
	take_requests(target, target->ended_ns);
	take_snapshot(target, clock_thread_cpu_ns());
}
