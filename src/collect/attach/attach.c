/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target whose memory is not ours: it is copied a few times a second (profile_copy.c), and what the collector reads is the copy.
 * Where the profile can be held by a descriptor, the last state is read after the end of the process; else the last copy has
 * to do. The process is not stopped, and gets no signal. Its control page is written to, if that is its own: the clock, and
 * the recording mode, which is set back at the end.
 *
 * One loop in the calling thread, as in collect.c; signals belong to the process. A worker reads the copy, which stays as it is
 * meanwhile; the clock goes on.
 */
#include "collect/attach/attach.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "collect/run/collector.h"
#include "collect/run/launch.h"
#include "collect/attach/copied_target.h"
#include "util/cleanup.h"
#include "util/files.h"

#define NS_PER_MS 1000000ull
#define COPY_INTERVAL_NS (100 * NS_PER_MS)
#define PROGRESS_NS (200 * NS_PER_MS)
enum { COPY_SHARE = 20 }; /* copying takes at most this part of the time */
#define REQUEST_PATIENCE_NS (1000 * NS_PER_MS)
enum { REQUESTS_MAX = 64, LEASE_MS = 3000 };
enum { FILE_MODE = 0666 }; /* less the umask */

struct attached {
	const struct attach_options *options;
	struct copied_target other;
	struct target *target; /* the other's */
	struct worker *sampler;
	struct dumps *dumps;	  /* NULL = no condition asks for any */
	struct listener listener; /* for requests; closed: somebody else has the name */
	VECTOR(struct pending) pending;
	int signal_fd;
	bool stop;
	int memory_fd;	     /* the process' memory, as it was when we began; -1 = not to be had */
	uint64_t control_at; /* of the control page there; 0 = somebody else's */
	uint32_t mode;	     /* the program's own */
	bool turned;
	uint64_t next_copy_ns, next_progress_ns, progress_ns, progress_calls;
};

/* ---- the control page ---- */

/* Through a descriptor of the memory that was looked at: should the process become another program, that memory is gone, and
 * nothing is written to the new one. */
static bool write_control(const struct attached *a, size_t offset, const void *from, size_t bytes)
{
	return a->control_at &&
	       pwrite(a->memory_fd, from, bytes, (off_t)(a->control_at + offset)) == (ssize_t)bytes;
}

#define WRITE(a, field, value)                                                                     \
	write_control((a), offsetof(struct live_control, field), &(value), sizeof(value))

/* The page behind the profile, if it is the process' own to follow. What is there is read through the same descriptor. */
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

/* On loan: should we be killed, the process goes back to what it was by itself. Where somebody else's loan still stands, what comes
 * after it is known already. The clock of a dormant process may have stood for hours: ours counts. */
static bool lend_mode(const struct attached *a)
{
	uint64_t until = a->target->profile.control.clock_ms + LEASE_MS;
	uint32_t mode = a->options->mode;
	struct live_control now;

	return read_control(a, &now) &&
	       (now.lease_until_ms != 0 ||
		(WRITE(a, mode_after, now.mode) && WRITE(a, interval_after, now.interval))) &&
	       WRITE(a, lease_until_ms, until) && WRITE(a, interval, a->options->interval) &&
	       WRITE(a, mode, mode);
}

/* If there is none, another lender has left and turned the process back, or we were stopped for too long. */
static void extend_loan(const struct attached *a)
{
	uint64_t until = a->target->profile.control.clock_ms + LEASE_MS;
	struct live_control now;

	if (!a->turned || !read_control(a, &now))
		return;
	if (now.lease_until_ms == 0)
		(void)lend_mode(a);
	else
		(void)WRITE(a, lease_until_ms, until);
}

/* A clock of the process that is far ahead of ours is that of another time name space: it began earlier than it looks from here. Else
 * it would end each loan at once. */
static void follow_clock(struct attached *a, uint64_t now_ns)
{
	struct live_control *control = &a->target->profile.control, there;

	if (!a->turned || !read_control(a, &there) || there.clock_ms > now_ns / NS_PER_MS ||
	    there.clock_ms <= control->clock_ms + LEASE_MS)
		return;
	a->target->started_ns = now_ns - there.clock_ms * NS_PER_MS;
	control->clock_ms = there.clock_ms;
}

static void write_clock(struct attached *a, uint64_t now_ns)
{
	const struct live_control *control = &a->target->profile.control;

	follow_clock(a, now_ns);
	target_tick(a->target, now_ns);
	/* If not, the process keeps its own as before. */
	(void)WRITE(a, clock_ms, control->clock_ms);
	extend_loan(a);
}

static int turn_up(struct attached *a, struct error *error)
{
	const struct attach_options *o = a->options;
	const struct live_control *now = &a->other.copied.control;

	a->mode = now->lease_until_ms ? now->mode_after : now->mode;
	if (!o->turn && (!a->control_at || a->mode != LIVE_MODE_DORMANT))
		return 0;
	if (!a->control_at && profile_copy_head(&a->other.copied)->own.kept == LIVE_KEPT_COLLECTOR)
		return error_set(
			error,
			"the mode of process %d is that of the 'heapgauge record' which runs "
			"it: leave --mode out",
			(int)o->pid);
	a->turned = lend_mode(a);
	if (!a->turned)
		return error_set(error,
				 "process %d may be read but not turned up: run this as root",
				 (int)o->pid);
	return 0;
}

/* To what the program may have said meanwhile. The loan goes last: who finds none takes the mode for the program's own. */
static void turn_back(const struct attached *a)
{
	const uint64_t none = 0;
	struct live_control now;

	if (!a->turned || a->target->ended_ns != 0 || !read_control(a, &now) ||
	    now.lease_until_ms == 0)
		return;
	(void)WRITE(a, interval, now.interval_after);
	(void)WRITE(a, mode, now.mode_after);
	(void)WRITE(a, lease_until_ms, none);
}

/* That it is recorded by now; 0 = every block. */
static uint64_t interval_of(const struct attached *a)
{
	if (a->turned)
		return a->options->mode == LIVE_MODE_SAMPLE ? a->options->interval : 0;
	return a->mode == LIVE_MODE_SAMPLE ? a->other.copied.control.interval : 0;
}

/* ---- the loop ---- */

static void do_sample(void *context, const struct worker_job *job)
{
	(void)context;
	target_sample_run(job->target);
}

static void give_sample(struct attached *a, uint64_t now_ns)
{
	if (!worker_give(a->sampler, &(struct worker_job){ a->target, now_ns }))
		a->target->sampling = false;
}

/* A recording of what it is now, while it goes on, if a condition asks for one. The copy is one of its own. */
static void dump(struct attached *a, uint64_t now_ns)
{
	const char *condition = dumps_ready(a->dumps) ? target_take_dump(a->target) : NULL;
	AUTO(profile_copy_release) struct profile_copy copied = PROFILE_COPY_INIT;
	struct error error = ERROR_INIT;
	struct target *clone;

	if (!condition)
		return;
	if (profile_copy_take(&copied, &a->other.recorded, PROFILE_COPY_ALL, &error) < 0) {
		dumps_fail(a->dumps, condition, &error);
		return;
	}
	clone = target_clone(a->target);
	if (!clone) {
		error_set(&error, "out of memory");
		dumps_fail(a->dumps, condition, &error);
		return;
	}
	live_profile_keep(&clone->profile, &copied);
	dumps_give(a->dumps, clone, condition, now_ns);
}

/* The worker reads the copy: nothing is copied meanwhile. */
static void look(struct attached *a, uint64_t now_ns)
{
	struct target *target = a->target;

	if (target_is_sampling(target))
		return;
	if (!copied_target_copy(&a->other, PROFILE_COPY_COUNTERS))
		return; /* it is about to end, or another program by now: the descriptor will tell */
	dump(a, now_ns); /* what was asked for in the last turn */
	a->next_copy_ns = now_ns + MAX(COPY_INTERVAL_NS, (collector_now() - now_ns) * COPY_SHARE);
	bool due = target_sample(target, now_ns, 0, false);

	if (target->ended_ns != 0)
		return; /* another program */
	target_check_triggers(target, a->options->triggers, now_ns);
	if (due || target_is_asked(target, now_ns))
		give_sample(a, now_ns);
}

static void show_progress(struct attached *a, uint64_t now_ns)
{
	const struct target *target = a->target;
	uint64_t calls = target->totals.calls;
	struct collect_progress progress = {
		.elapsed_ns = now_ns - target->started_ns,
		.live_bytes = (uint64_t)MAX((int64_t)target_live_bytes(target), (int64_t)0),
		.peak_bytes = (uint64_t)MAX(target->totals.peak_bytes, (int64_t)0),
		.rss_bytes = target->rss_bytes,
		.processes = 1,
	};

	if (!a->options->progress || now_ns < a->next_progress_ns)
		return;
	if (a->progress_ns)
		progress.calls_per_second = saturating_sub(calls, a->progress_calls) * 1000 /
					    MAX((now_ns - a->progress_ns) / NS_PER_MS, 1ull);
	a->progress_calls = calls;
	a->progress_ns = now_ns;
	a->next_progress_ns = now_ns + PROGRESS_NS;
	a->options->progress(a->options->context, &progress);
}

static void read_signals(struct attached *a)
{
	struct signalfd_siginfo info;

	while (read(a->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
		if (!target_signalled(a->target, a->options->triggers, (int)info.ssi_signo))
			a->stop = a->stop || info.ssi_signo != SIGCHLD;
	}
}

/* Those who ask for a snapshot. A process that records itself has no secret. */
static void serve_requests(struct attached *a, uint64_t now_ns)
{
	struct pending pending = { .since_ns = now_ns };
	size_t kept = 0;

	while ((pending.fd = handover_accept(a->listener.fd[0], &pending.pid, &pending.pid_fd)) >=
	       0) {
		if (!handover_is_from(pending.fd, a->target->known.uid) ||
		    a->pending.count >= REQUESTS_MAX || !vector_push(&a->pending, pending))
			pending_close(&pending);
	}
	for (size_t i = 0; i < a->pending.count; i++) {
		union handover_message message;
		int fd;

		pending = a->pending.at[i];
		enum handover_state state =
			handover_receive(pending.fd, &a->listener.secret, &message, &fd);

		if (state == HANDOVER_WAIT && now_ns - pending.since_ns < REQUEST_PATIENCE_NS) {
			a->pending.at[kept++] = pending;
			continue;
		}
		if (state == HANDOVER_REQUEST) {
			target_request(a->target, message.request.name);
			handover_answer(pending.fd, true);
		}
		if (fd >= 0)
			close(fd);
		pending_close(&pending);
	}
	a->pending.count = kept;
}

static void run_loop(struct attached *a)
{
	struct target *target = a->target;

	while (!a->stop && target->ended_ns == 0) {
		struct pollfd polls[] = { { .fd = a->signal_fd, .events = POLLIN },
					  { .fd = target->pid_fd, .events = POLLIN },
					  { .fd = a->listener.fd[0], .events = POLLIN } };
		struct timespec timeout = { .tv_nsec = (long)NS_PER_MS };

		(void)ppoll(polls, ARRAY_SIZE(polls), &timeout, NULL);
		uint64_t now_ns = collector_now();

		if (polls[0].revents)
			read_signals(a);
		if (polls[1].revents || (target->pid_fd < 0 && copied_target_is_gone(&a->other))) {
			worker_finish(a->sampler);
			copied_target_copy_last(&a->other, true);
			collector_end_other(target, now_ns);
			return;
		}
		write_clock(a, now_ns);
		if (polls[2].revents || a->pending.count > 0)
			serve_requests(a, now_ns);
		if (now_ns >= a->next_copy_ns)
			look(a, now_ns);
		dumps_tell(a->dumps);
		show_progress(a, now_ns);
	}
	worker_finish(a->sampler);
	copied_target_copy_last(&a->other, false);
	/* What was asked for at the last moment. */
	(void)target_sample(target, collector_now(), 0, false);
	if (target->sampling || target_is_asked(target, collector_now()))
		target_sample_run(target);
}

/* ---- the recording ---- */

static char *output_path(const struct attached *a)
{
	char *path = NULL;

	if (a->options->output)
		return strdup(a->options->output);
	if (asprintf(&path, "heapgauge.%s.%d.hg",
		     path_base(a->target->known.exe ? a->target->known.exe : "process"),
		     (int)a->target->pid) < 0)
		return NULL;
	return path;
}

static int write_recording(struct attached *a, struct collect_result *ret, struct error *error)
{
	AUTO(buffer_release) struct buffer bytes = BUFFER_INIT;
	AUTO_FREE char *path = output_path(a);

	if (!path)
		return error_set(error, "no memory left");
	/* Both go: the memory is the target's from now on. */
	live_profile_keep(&a->target->profile, &a->other.copied);
	a->other.target = NULL;
	if (collector_encode_one(TAKE(a->target), collector_now(), a->options->version, &bytes,
				 error) < 0 ||
	    file_write_atomic(path, buffer_span(&bytes), FILE_MODE, error) < 0)
		return -1;
	ret->recorded = true;
	ret->path = TAKE(path);
	return 0;
}

/* Without memory for it, nothing is written meanwhile. */
static void begin_dumps(struct attached *a)
{
	AUTO_FREE char *path = output_path(a);
	const struct dumps_options dumps = { .path = path,
					     .limit = a->options->write_limit,
					     .version = a->options->version,
					     .say = a->options->say,
					     .context = a->options->context };

	if (path && triggers_write(a->options->triggers))
		a->dumps = dumps_new(&dumps);
}

static int begin(struct attached *a, struct error *error)
{
	char path[64];

	/* Before anything is looked at: this is the memory that counts, whatever the process becomes. */
	snprintf(path, sizeof path, "/proc/%d/mem", (int)a->options->pid);
	a->memory_fd = open(path, O_RDWR | O_CLOEXEC);
	if (copied_target_begin(&a->other, a->options->pid, error) < 0)
		return -1;
	a->target = a->other.target;
	find_control(a);
	a->sampler = worker_new(do_sample, NULL);
	if (!a->sampler)
		return error_set(error, "no memory left");
	if (turn_up(a, error) < 0)
		return -1;
	if (collector_check_triggers(a->options->triggers, &a->other.cgroups, a->options->pid,
				     interval_of(a), a->options->say, a->options->context,
				     error) < 0) {
		turn_back(a);
		return -1;
	}
	begin_dumps(a);
	/* Somebody else may have it: then that one is asked. */
	(void)listener_open_for(&a->listener, a->options->pid,
				profile_copy_head(&a->other.copied)->own.secret, NULL);
	return 0;
}

int collect_attach(const struct attach_options *options, struct collect_result *ret,
		   struct error *error)
{
	struct attached a = {
		.options = options,
		.other = OTHER_INIT,
		.listener = LISTENER_INIT,
		.signal_fd = -1,
		.memory_fd = -1,
	};
	struct launch_signals saved;
	int status;

	*ret = (struct collect_result){ .end = COLLECT_NOT_STARTED, .number = 125 };
	a.signal_fd = launch_signals_take(&saved, options->triggers, error);
	if (a.signal_fd < 0)
		return -1;
	status = begin(&a, error);
	if (status == 0) {
		run_loop(&a);
		turn_back(&a);
		dumps_free(TAKE(a.dumps));
		if (a.target->ended_ns != 0)
			target_ask_end(a.target);
		ret->end = a.target->ended_ns == 0 ? COLLECT_LEFT : COLLECT_EXITED;
		ret->number = 0;
		status = write_recording(&a, ret, error);
	}
	worker_free(a.sampler);
	copied_target_release(&a.other);
	if (a.memory_fd >= 0)
		close(a.memory_fd);
	listener_close(&a.listener);
	for (size_t i = 0; i < a.pending.count; i++)
		pending_close(&a.pending.at[i]);
	vector_release(&a.pending);
	close(a.signal_fd);
	launch_signals_give_back(&saved);
	return status;
}
