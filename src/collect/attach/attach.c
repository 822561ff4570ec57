/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that records itself, as the source of one target. The collector does not own its memory, so it copies the profile a
 * few times a second (profile_copy.c) and reads the copy. If a descriptor of the profile can be opened, the last state is read
 * after the end of the process; otherwise the last copy is used. The process is neither stopped nor signalled. Its control page
 * is written to, if no other collector owns it: the clock, and the recording mode, which is restored at the end.
 *
 * Called by the loop, in its thread. A worker reads the copy, which does not change meanwhile; the clock continues.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "collect/attach/copied_target.h"
#include "collect/collect.h"
#include "collect/kernel/procfs.h"
#include "collect/run/collector.h"
#include "collect/run/output_path.h"
#include "util/cleanup.h"
#include "util/clock.h"

#define COPY_INTERVAL_NS (100 * NS_PER_MS)
enum { COPY_SHARE = 20 }; /* copying takes at most 1/COPY_SHARE of the time */
enum { LEASE_MS = 3000 };

struct attached {
	struct collect_options options;
	char *argv[2]; /* as if heapgauge had started it */
	struct copied_target other;
	struct target *target; /* owned by `other`, until passed to the encoder */
	bool gone;
	int memory_fd; /* the process' memory, opened at the start; -1 = it cannot be opened */
	uint64_t control_at; /* address of the control page; 0 = another collector's */
	uint32_t mode;	     /* the program's own mode */
	bool mode_is_set;    /* by us, on a lease */
	uint64_t next_copy_ns;
};

/* ---- the control page ---- */

/* Writes through a descriptor of the memory that was read: after an exec that memory no longer exists, and nothing is written
 * to the new program. */
static bool write_control(const struct attached *a, size_t offset, const void *from, size_t bytes)
{
	return a->control_at &&
	       pwrite(a->memory_fd, from, bytes, (off_t)(a->control_at + offset)) == (ssize_t)bytes;
}

#define WRITE(a, field, value)                                                                     \
	write_control((a), offsetof(struct live_control, field), &(value), sizeof(value))

/* Finds the control page, if no collector owns it. Validates it through the same descriptor. */
static void find_control(struct attached *a)
{
	const struct live_header *head = profile_copy_head(&a->other.copied);
	uint64_t at = a->other.recorded.profile + head->total_bytes;
	struct live_header *there = aligned_alloc(_Alignof(struct live_header), sizeof *there);
	char magic[sizeof((struct live_control *)0)->magic];
	const size_t front = offsetof(struct live_header, used);

	if (there && a->memory_fd >= 0 && head->own.kept != LIVE_KEPT_COLLECTOR &&
	    pread(a->memory_fd, there, front, (off_t)a->other.recorded.profile) == (ssize_t)front &&
	    memcmp(there, head, offsetof(struct live_header, region)) == 0 &&
	    pread(a->memory_fd, magic, sizeof magic, (off_t)at) == (ssize_t)sizeof magic &&
	    memcmp(magic, LIVE_CONTROL_MAGIC, sizeof magic) == 0)
		a->control_at = at;
	free(there);
}

static bool read_control(const struct attached *a, struct live_control *ret)
{
	return a->control_at &&
	       pread(a->memory_fd, ret, sizeof *ret, (off_t)a->control_at) == (ssize_t)sizeof *ret;
}

/* Sets the mode on a lease: if heapgauge is killed, the process restores its mode by itself. If another lease is active, the
 * mode to restore is already stored. The clock of a dormant process may have stopped for hours, so ours is used. */
static bool lease_mode(const struct attached *a)
{
	uint64_t until = a->target->profile.control.clock_ms + LEASE_MS;
	uint32_t mode = a->options.mode;
	struct live_control now;

	return read_control(a, &now) &&
	       (now.lease_until_ms != 0 ||
		(WRITE(a, mode_after, now.mode) && WRITE(a, interval_after, now.interval))) &&
	       WRITE(a, lease_until_ms, until) && WRITE(a, interval, a->options.interval) &&
	       WRITE(a, mode, mode);
}

/* Renews the lease. Sets it again if there is none: another collector has left and restored the mode, or we were stopped for
 * too long. */
static void extend_lease(const struct attached *a)
{
	uint64_t until = a->target->profile.control.clock_ms + LEASE_MS;
	struct live_control now;

	if (!a->mode_is_set || !read_control(a, &now))
		return;
	if (now.lease_until_ms == 0)
		(void)lease_mode(a);
	else
		(void)WRITE(a, lease_until_ms, until);
}

/* If the process' clock is far ahead of ours, it is in another time namespace: it started earlier than it seems from here.
 * Otherwise every lease would end at once. */
static void follow_clock(struct collector *c, struct attached *a, uint64_t now_ns)
{
	struct live_control *control = &a->target->profile.control, there;

	if (!a->mode_is_set || !read_control(a, &there) || there.clock_ms > now_ns / NS_PER_MS ||
	    there.clock_ms <= control->clock_ms + LEASE_MS)
		return;
	c->start_ns = a->target->started_ns = now_ns - there.clock_ms * NS_PER_MS;
	control->clock_ms = there.clock_ms;
}

static void write_clock(struct collector *c, struct attached *a, uint64_t now_ns)
{
	const struct live_control *control = &a->target->profile.control;

	follow_clock(c, a, now_ns);
	target_tick(a->target, now_ns);
	/* On failure the process continues to update its own clock. */
	(void)WRITE(a, clock_ms, control->clock_ms);
	extend_lease(a);
}

static int set_mode(struct attached *a, struct error *error)
{
	const struct collect_options *o = &a->options;
	const struct live_control *now = &a->other.copied.control;

	a->mode = now->lease_until_ms ? now->mode_after : now->mode;
	if (!o->sets_mode && (!a->control_at || a->mode != LIVE_MODE_DORMANT))
		return 0;
	if (!a->control_at && profile_copy_head(&a->other.copied)->own.kept == LIVE_KEPT_COLLECTOR)
		return error_set(
			error,
			"the mode of process %d is set by the 'heapgauge record' that runs it: "
			"omit --mode",
			(int)o->pid);
	a->mode_is_set = lease_mode(a);
	if (!a->mode_is_set)
		return error_set(error,
				 "the mode of process %d cannot be changed: run this as root",
				 (int)o->pid);
	return 0;
}

/* Restores the mode, which the program may have changed meanwhile. The lease is cleared last: without one, other collectors
 * take the mode for the program's own. */
static void restore_mode(const struct attached *a)
{
	const uint64_t none = 0;
	struct live_control now;

	if (!a->mode_is_set || a->target->ended_ns != 0 || !read_control(a, &now) ||
	    now.lease_until_ms == 0)
		return;
	(void)WRITE(a, interval, now.interval_after);
	(void)WRITE(a, mode, now.mode_after);
	(void)WRITE(a, lease_until_ms, none);
}

/* The current sampling interval; 0 = every block. */
static uint64_t interval_of(const struct attached *a)
{
	if (a->mode_is_set)
		return a->options.mode == LIVE_MODE_SAMPLE ? a->options.interval : 0;
	return a->mode == LIVE_MODE_SAMPLE ? a->other.copied.control.interval : 0;
}

/* ---- the source ---- */

/* No copy is taken while the worker reads the last one. */
static bool advance(struct collector *c, struct target *target, uint64_t now_ns)
{
	struct attached *a = c->source_state;

	write_clock(c, a, now_ns);
	if (now_ns < a->next_copy_ns || target_is_sampling(target))
		return false;
	if (!copied_target_copy(&a->other, PROFILE_COPY_COUNTERS))
		return false; /* it is exiting or has called exec: the pidfd will signal it */
	a->next_copy_ns =
		now_ns + MAX(COPY_INTERVAL_NS, (clock_monotonic_ns() - now_ns) * COPY_SHARE);
	return true;
}

static bool sample(struct collector *c, struct target *target, uint64_t now_ns)
{
	(void)c;
	return target_sample(target, now_ns, 0, false);
}

/* A clone gets its own copy. */
static int twin(struct collector *c, struct target *target, struct live_profile *ret,
		struct error *error)
{
	const struct attached *a = c->source_state;
	AUTO(profile_copy_release) struct profile_copy copied = PROFILE_COPY_INIT;

	(void)target;
	if (profile_copy_take(&copied, &a->other.recorded, PROFILE_COPY_ALL, error) < 0)
		return -1;
	live_profile_keep(ret, &copied);
	return 0;
}

static void end(struct collector *c, struct target *target, uint64_t now_ns)
{
	struct attached *a = c->source_state;

	worker_finish(c->sampler);
	copied_target_copy_last(&a->other, true);
	collector_end_other(target, now_ns);
	a->gone = true;
}

static bool end_iteration(struct collector *c, uint64_t now_ns)
{
	const struct attached *a = c->source_state;

	(void)now_ns;
	return a->target->ended_ns != 0;
}

/* Takes the snapshots that were requested last. */
static void sample_last(struct attached *a)
{
	struct target *target = a->target;

	copied_target_copy_last(&a->other, false);
	(void)target_sample(target, clock_monotonic_ns(), 0, false);
	if (target->sampling || target_has_request(target, clock_monotonic_ns()))
		target_sample_run(target);
}

static void finish(struct collector *c)
{
	struct attached *a = c->source_state;

	if (!a->gone) {
		worker_finish(c->sampler);
		sample_last(a);
	}
	restore_mode(a);
	if (a->target->ended_ns != 0)
		target_ask_end(a->target);
	c->result->end = a->target->ended_ns == 0 ? COLLECT_LEFT : COLLECT_EXITED;
	c->result->number = 0;
	c->result->recorded = true;
	c->end_ns = clock_monotonic_ns();
	/* The target takes over the memory of the copy. */
	live_profile_keep(&a->target->profile, &a->other.copied);
	a->other.target = NULL;
	c->targets.count = 0;
	encoder_give(c->encoder, TAKE(a->target), c->end_ns);
}

static const struct source attached = {
	.advance = advance,
	.sample = sample,
	.twin = twin,
	.end = end,
	.end_iteration = end_iteration,
	.finish = finish,
};

/* ---- before the loop ---- */

static int begin(struct collector *c, struct attached *a, char **ret_path, struct error *error)
{
	/* Before anything is read: this is the memory to use, even if the process calls exec. */
	a->memory_fd = open(procfs_path(a->options.pid, "mem").text, O_RDWR | O_CLOEXEC);
	if (copied_target_begin(&a->other, a->options.pid, error) < 0)
		return -1;
	a->target = a->other.target;
	a->argv[0] = strdup(a->target->known.command ? a->target->known.command : "");
	find_control(a);
	c->tick_ns = NS_PER_MS;
	c->start_ns = a->target->started_ns;
	if (collector_begin(c, error) < 0)
		return -1;
	const char *exe = a->target->known.exe;

	*ret_path = collector_path(c, exe ? exe : "process", a->target->pid);
	if (!a->argv[0] || !*ret_path || !vector_reserve(&c->targets, 1))
		return error_set(error, "out of memory");
	if (output_path_check_writable(a->options.output, *ret_path,
				       procfs_path(a->options.pid, "exe").text, error) < 0)
		return -1;
	if (set_mode(a, error) < 0)
		return -1;
	if (collector_check_triggers(&a->options, &a->other.cgroups, a->options.pid, interval_of(a),
				     error) < 0) {
		restore_mode(a);
		return -1;
	}
	/* If the name is in use, that collector answers requests. */
	listener_open_for(&c->listener, a->options.pid,
			  profile_copy_head(&a->other.copied)->own.secret);
	c->targets.at[c->targets.count++] = a->target;
	return 0;
}

static int run(struct collector *c, struct attached *a, struct error *error)
{
	AUTO_FREE char *path = NULL;

	if (begin(c, a, &path, error) < 0)
		return -1;
	return collector_run(c, path, error);
}

int collect_attach(const struct collect_options *options, struct collect_result *ret,
		   struct error *error)
{
	struct attached a = { .options = *options, .other = COPIED_TARGET_INIT, .memory_fd = -1 };
	struct collector c;
	int status = collector_init(&c, &attached, &a.options, ret, error);

	a.options.argv = a.argv;
	c.source_state = &a;
	if (status == 0)
		status = run(&c, &a, error);
	collector_release(&c);
	copied_target_release(&a.other);
	free(a.argv[0]);
	if (a.memory_fd >= 0)
		close(a.memory_fd);
	return status;
}
