/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector's loop: one thread that waits in one poll for connections, process ends and signals, and wakes about every
 * millisecond (ten, if it samples) to update the clock of every live process. A wake-up costs a poll, a clock read, and a
 * pwrite and a pread for each process; totals and series are added every 10 ms or less often. Work that may take milliseconds
 * runs in workers: snapshots (target_sample.c) and the encoding of ended processes (encoder.c).
 *
 * Owns the listener, the connections without a hello yet, and the targets, which a source provides: see collector.h. The
 * launched program is waited for as a child; other processes are watched through a pidfd.
 * Invariant: a target is in `targets` until it has been passed to the encoder, which is soon after its end.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "collect/run/collector.h"
#include "collect/run/output_path.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/files.h"

#define PROGRESS_NS (200 * NS_PER_MS)
#define IDLE_NS (50 * NS_PER_MS)

/* ---- signals ---- */

/* A signal from the terminal reaches the program too; one from kill(1) does not and is forwarded. The second signal stops
 * heapgauge, and so does the first if there is no program to receive it. */
static void stop_signal(struct collector *c, const struct signalfd_siginfo *info)
{
	bool ours_alone = info->ssi_code <= 0;

	if (c->stop_signals++ > 0 || c->child == 0 || (ours_alone && c->child_ended)) {
		c->left_signal = (int)info->ssi_signo;
		return;
	}
	if (ours_alone)
		kill(c->child, (int)info->ssi_signo);
}

/* Requests the snapshots that the signal triggers. False: no trigger uses it. */
static bool snapshot_signal(struct collector *c, int number)
{
	const struct triggers *triggers = &c->options->triggers;
	bool asks = false;

	for (size_t i = 0; i < triggers->list.count; i++) {
		const struct trigger *trigger = &triggers->list.at[i];

		if (trigger->kind != TRIGGER_SIGNAL || trigger->limit != (uint64_t)number)
			continue;
		asks = true;
		for (size_t j = 0; j < c->targets.count; j++)
			target_fire(c->targets.at[j], trigger);
	}
	return asks;
}

static void read_signals(struct collector *c)
{
	struct signalfd_siginfo info;

	while (read(c->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
		if (!snapshot_signal(c, (int)info.ssi_signo) && info.ssi_signo != SIGCHLD)
			stop_signal(c, &info);
	}
}

/* ---- waiting ---- */

enum { POLL_SIGNALS, POLL_LISTENERS, POLL_OTHERS = POLL_LISTENERS + LISTENER_SOCKETS };

/* The descriptors to poll: signals, listeners, pending connections, and the pidfds of targets other than our child. */
static size_t fill_polls(struct collector *c)
{
	size_t count = 0;

	if (!vector_reserve(&c->polls, POLL_OTHERS + c->pending.count + c->targets.count))
		return 0;
	c->polls.at[count++] = (struct pollfd){ .fd = c->signal_fd, .events = POLLIN };
	for (size_t i = 0; i < LISTENER_SOCKETS; i++)
		c->polls.at[count++] = (struct pollfd){ .fd = c->is_full ? -1 : c->listener.fd[i],
							.events = POLLIN };
	for (size_t i = 0; i < c->pending.count; i++)
		c->polls.at[count++] = (struct pollfd){ .fd = c->is_full ? -1 : c->pending.at[i].fd,
							.events = POLLIN };
	for (size_t i = 0; i < c->targets.count; i++) {
		const struct target *target = c->targets.at[i];
		bool watched = target->ended_ns == 0 && target->pid != c->child;

		c->polls.at[count++] =
			(struct pollfd){ .fd = watched ? target->pid_fd : -1, .events = POLLIN };
	}
	return count;
}

static void handle_polls(struct collector *c, size_t count, uint64_t now_ns)
{
	size_t first_target = count - c->targets.count, targets = c->targets.count;

	for (size_t i = 0; i < targets; i++) {
		if (c->polls.at[first_target + i].revents)
			c->source->end(c, c->targets.at[i], now_ns);
	}
	if (c->polls.at[POLL_SIGNALS].revents)
		c->next_folder_ns = 0;
	collector_accept(c, now_ns);
	collector_serve(c, now_ns);
	collector_search_folder(c, now_ns);
	/* After these: a signal that requests snapshots also applies to processes that handed over just before it. */
	if (c->polls.at[POLL_SIGNALS].revents)
		read_signals(c);
	/* Last: read_signals consumes SIGCHLD, so the child must be checked afterwards; the signal may have arrived in this
	 * iteration. */
	collector_reap(c, clock_monotonic_ns());
}

/* ---- one iteration ---- */

/* For a process without a pidfd: it ended before the pidfd was opened, or the kernel is older than 5.3. */
static bool is_gone(const struct collector *c, const struct target *target)
{
	return target->pid_fd < 0 && target->pid != c->child && kill(target->pid, 0) < 0 &&
	       errno == ESRCH;
}

static void take_image(const struct collector *c, struct target *target)
{
	target->no_image = ERROR_INIT;
	(void)c->options->image(target->pid, &target->image, &target->no_image);
}

static void run_sample(void *context, const struct worker_job *job)
{
	const struct collector *c = context;
	struct target *target = job->target;

	if (target->sample.at_exit && c->options->image)
		take_image(c, target);
	if (target->sample.at_exit && triggers_find(&c->options->triggers, TRIGGER_END))
		target->sample.reads_pages = true;
	target_sample_run(target);
}

static void give_sample(struct collector *c, struct target *target, uint64_t now_ns)
{
	if (!worker_give(c->sampler, &(struct worker_job){ target, now_ns }))
		target->sampling = false;
}

/* Writes a recording of this process while it continues to run, if a condition requests one. */
static void dump(struct collector *c, struct target *target, uint64_t now_ns)
{
	const char *condition = dumps_ready(c->dumps) ? target_take_dump(target) : NULL;
	struct error error = ERROR_INIT;
	struct target *clone;

	if (!condition || target->left_out || !target_is_ready(target))
		return;
	clone = target_clone(target);
	if (!clone) {
		error_set(&error, "out of memory");
		dumps_fail(c->dumps, condition, &error);
	} else if (c->source->twin(c, target, &clone->profile, &error) < 0) {
		target_free(clone);
		dumps_fail(c->dumps, condition, &error);
	} else {
		dumps_give(c->dumps, clone, condition, now_ns);
	}
}

/* Returns whether the totals were read. */
static bool observe(struct collector *c, struct target *target, uint64_t now_ns)
{
	bool due = target_is_due(target, now_ns);

	if (due) {
		if (c->source->sample(c, target, now_ns))
			give_sample(c, target, now_ns);
		target_check_triggers(target, &c->options->triggers, now_ns);
	}
	if (target->ended_ns == 0 && ((c->settings.hold_exit && target_waits(target, now_ns)) ||
				      target_has_request(target, now_ns)))
		give_sample(c, target, now_ns);
	return due;
}

static void tick(struct collector *c, uint64_t now_ns)
{
	uint64_t live = 0;
	bool sampled = false;

	for (size_t i = 0; i < c->targets.count; i++) {
		struct target *target = c->targets.at[i];

		if (target->ended_ns != 0)
			continue;
		if (is_gone(c, target)) {
			c->source->end(c, target, now_ns);
			continue;
		}
		if (c->source->advance(c, target, now_ns))
			sampled = observe(c, target, now_ns) || sampled;
		dump(c, target, now_ns);
		if (!target->left_out)
			live += target_least_live_bytes(target);
	}
	if (sampled)
		c->peak_bytes = MAX(c->peak_bytes, live);
}

static void show_progress(struct collector *c, uint64_t now_ns)
{
	struct collect_progress progress = { .elapsed_ns = now_ns - c->start_ns,
					     .peak_bytes = c->peak_bytes,
					     .first_ended = c->child_ended };
	uint64_t calls = c->ended_calls;

	if (!c->options->progress || now_ns < c->next_progress_ns)
		return;
	for (size_t i = 0; i < c->targets.count; i++) {
		const struct target *target = c->targets.at[i];

		calls += target->totals.calls;
		if (target->ended_ns != 0)
			continue;
		progress.processes++;
		progress.live_bytes += target_least_live_bytes(target);
		progress.rss_bytes += target->rss_bytes;
		if (!target->left_out && target->totals.peak_bytes > 0)
			progress.peak_bytes =
				MAX(progress.peak_bytes, (uint64_t)target->totals.peak_bytes);
	}
	progress.peak_bytes = MAX(progress.peak_bytes, progress.live_bytes);
	if (c->progress_ns)
		progress.calls_per_second = saturating_sub(calls, c->progress_calls) * 1000 /
					    MAX((now_ns - c->progress_ns) / NS_PER_MS, 1ull);
	c->progress_calls = calls;
	c->progress_ns = now_ns;
	c->next_progress_ns = now_ns + PROGRESS_NS;
	c->options->progress(c->options->context, &progress);
}

/* Whether there is no clock to update. */
static bool is_idle(const struct collector *c)
{
	return c->targets.count == 0 && c->pending.count == 0 && !c->is_full;
}

static void run_loop(struct collector *c)
{
	const uint64_t begin_ns = clock_monotonic_ns();
	uint64_t next_ns = begin_ns;

	while (c->left_signal == 0 && !c->timed_out) {
		size_t count = fill_polls(c);
		uint64_t now_ns = clock_monotonic_ns();
		struct timespec timeout = { .tv_sec = 0,
					    .tv_nsec = (long)saturating_sub(next_ns, now_ns) };
		int ready = ppoll(c->polls.at, count, &timeout, NULL);

		now_ns = clock_monotonic_ns();
		if ((ready > 0 || c->is_full) && count > 0)
			handle_polls(c, count, now_ns);
		if (now_ns >= next_ns || ready > 0) {
			collector_search_folder(c, now_ns);
			tick(c, now_ns);
			dumps_report(c->dumps);
			next_ns = now_ns + (is_idle(c) ? IDLE_NS : c->tick_ns);
		}
		show_progress(c, now_ns);
		if (c->source->end_iteration(c, now_ns))
			break;
		c->timed_out = c->options->duration_ns != 0 &&
			       now_ns - begin_ns >= c->options->duration_ns;
	}
}

void collector_wait(struct collector *c)
{
	struct pollfd signals = { .fd = c->signal_fd, .events = POLLIN };

	for (;;) {
		collector_reap(c, clock_monotonic_ns());
		if (c->child_ended || c->left_signal != 0)
			return;
		(void)poll(&signals, 1, -1);
		read_signals(c);
	}
}

/* ---- before and after ---- */

char *collector_path(const struct collector *c, const char *program, pid_t pid)
{
	return output_path(c->options->output, program, pid,
			   c->source->hands_over ? rank_own() : RANK_NONE);
}

int collector_init(struct collector *c, const struct source *source,
		   const struct collect_options *options, struct collect_result *ret,
		   struct error *error)
{
	*ret = (struct collect_result){ .end = COLLECT_NOT_STARTED, .number = 125 };
	*c = (struct collector){
		.source = source, .options = options, .result = ret, .listener = LISTENER_INIT
	};
	c->signal_fd = launch_signals_take(&c->signals, &options->triggers, error);
	return c->signal_fd < 0 ? -1 : 0;
}

int collector_begin(struct collector *c, struct error *error)
{
	c->encoder = encoder_new(c->start_ns);
	c->sampler = worker_new(run_sample, c);
	c->next_progress_ns = clock_monotonic_ns() + PROGRESS_NS;
	return c->encoder && c->sampler ? 0 : error_set(error, "out of memory");
}

int collector_run(struct collector *c, const char *path, struct error *error)
{
	/* If out of memory, conditions write no recordings. */
	if (path && triggers_write(&c->options->triggers))
		c->dumps = dumps_new(c->options, path);
	run_loop(c);
	c->source->finish(c);
	dumps_free(TAKE(c->dumps));
	if (!c->result->recorded)
		return 0;
	if (!path)
		return error_set(error, "out of memory");
	if (collector_write(c, path, error) < 0)
		return -1;
	if (c->result->path)
		encoder_drop_kept(c->encoder);
	return 0;
}

void collector_release(struct collector *c)
{
	worker_free(c->sampler);
	listener_close(&c->listener);
	for (size_t i = 0; i < c->pending.count; i++)
		pending_close(&c->pending.at[i]);
	for (size_t i = 0; i < c->targets.count; i++)
		target_free(c->targets.at[i]);
	encoder_free(c->encoder);
	unconnected_release(&c->unconnected);
	process_log_release(&c->process_log);
	cgroups_release(&c->cgroups);
	vector_release(&c->pending);
	numbering_release(&c->taken);
	vector_release(&c->targets);
	vector_release(&c->polls);
	if (c->signal_fd < 0)
		return;
	close(c->signal_fd);
	launch_signals_give_back(&c->signals);
}
