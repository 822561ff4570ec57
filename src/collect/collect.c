/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector's loop: one thread that waits in one poll for recorders that connect, for ends and for signals, and
 * wakes about every millisecond to move the clock of every living process. A wake costs a poll, a clock read and two
 * stores per process; totals, series and snapshots come on top every 10 ms and more.
 *
 * Owns the listener, the connections whose hello has not come yet, and the targets. The program that was started is
 * waited for as a child; other processes that connect are watched through a pidfd.
 * Invariant: a target is in `targets` until the recording is written, dead or alive.
 */
#include "collect/collect.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "collect/collector.h"
#include "collect/explain.h"
#include "collect/launch.h"
#include "util/cleanup.h"
#include "util/files.h"

#define NS_PER_MS 1000000ull
#define PROGRESS_NS (200 * NS_PER_MS)
/* Nobody to keep time for. */
#define IDLE_NS (50 * NS_PER_MS)
enum { HELLO_PATIENCE_NS = 1000000000 };

uint64_t collector_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* ---- processes that connect ---- */

/* A process that replaced itself by exec connects again: what was recorded before ended there. */
static void end_earlier_self(struct collector *c, pid_t pid, uint64_t now_ns)
{
	for (size_t i = 0; i < c->targets.count; i++) {
		struct target *target = c->targets.at[i];

		if (target->pid == pid && target->ended_ns == 0)
			target_ended(target, now_ns, END_EXIT, 0);
	}
}

static void welcome(struct collector *c, const struct pending *pending,
		    const struct live_hello *hello)
{
	uint64_t now_ns = collector_now();
	struct error error = ERROR_INIT;
	struct target *target = target_new(pending->pid, hello, c->options->depth_limit,
					   c->options->budget_bytes, now_ns, &error);

	end_earlier_self(c, pending->pid, now_ns);
	if (!target || !vector_push(&c->targets, target)) {
		memcpy(c->last_error, error.message, sizeof c->last_error);
		(void)handover_answer(pending->fd, NULL, NULL);
		target_free(target);
		return;
	}
	if (handover_answer(pending->fd, &target->profile, &error) < 0) {
		/* It went away meanwhile; nothing was recorded. */
		memcpy(c->last_error, error.message, sizeof c->last_error);
		c->targets.count--;
		target_free(target);
	}
}

static void accept_all(struct collector *c, uint64_t now_ns)
{
	struct pending pending = { .since_ns = now_ns };

	while ((pending.fd = handover_accept(&c->listener, &pending.pid)) >= 0) {
		if (!vector_push(&c->pending, pending))
			close(pending.fd);
	}
}

/* Takes the hellos that have come. */
static void serve_pending(struct collector *c, uint64_t now_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->pending.count; i++) {
		struct pending pending = c->pending.at[i];
		struct live_hello hello;
		enum handover_state state = handover_receive(pending.fd, &hello);

		if (state == HANDOVER_WAIT && now_ns - pending.since_ns < HELLO_PATIENCE_NS) {
			c->pending.at[kept++] = pending;
			continue;
		}
		/* The program itself may have died since it spoke. */
		if (state == HANDOVER_HELLO && !(c->child_ended && pending.pid == c->child))
			welcome(c, &pending, &hello);
		close(pending.fd);
	}
	c->pending.count = kept;
}

/* ---- ends and signals ---- */

static struct target *living_target(struct collector *c, pid_t pid)
{
	for (size_t i = 0; i < c->targets.count; i++) {
		if (c->targets.at[i]->pid == pid && c->targets.at[i]->ended_ns == 0)
			return c->targets.at[i];
	}
	return NULL;
}

static void reap_child(struct collector *c, uint64_t now_ns)
{
	struct rusage usage;
	int status;
	struct target *target;

	if (c->child_ended || wait4(c->child, &status, WNOHANG, &usage) != c->child)
		return;
	c->child_ended = true;
	c->result->end = WIFSIGNALED(status) ? COLLECT_SIGNALLED : COLLECT_EXITED;
	c->result->number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
	target = living_target(c, c->child);
	if (!target)
		return;
	target->peak_rss_bytes = MAX(target->peak_rss_bytes, (uint64_t)usage.ru_maxrss * 1024);
	if (WIFSIGNALED(status))
		target_ended(target, now_ns, WTERMSIG(status) == SIGKILL ? END_KILLED : END_SIGNAL,
			     (uint32_t)WTERMSIG(status));
	else
		target_ended(target, now_ns, END_EXIT, (uint32_t)WEXITSTATUS(status));
}

/* From the terminal the program got the signal as well; from kill(1) it did not. The second one means us. */
static void stop_signal(struct collector *c, const struct signalfd_siginfo *info)
{
	if (c->stop_signals++ > 0) {
		c->left = true;
		c->left_signal = (int)info->ssi_signo;
		return;
	}
	if (info->ssi_code <= 0 && !c->child_ended)
		kill(c->child, (int)info->ssi_signo);
}

static void read_signals(struct collector *c)
{
	struct signalfd_siginfo info;

	while (read(c->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
		if (info.ssi_signo != SIGCHLD)
			stop_signal(c, &info);
	}
}

/* ---- waiting ---- */

static bool somebody_lives(const struct collector *c)
{
	for (size_t i = 0; i < c->targets.count; i++) {
		if (c->targets.at[i]->ended_ns == 0)
			return true;
	}
	return false;
}

/* The descriptors of this round: listener, signals, pending hellos, pidfds of those that are not our child. */
static size_t fill_polls(struct collector *c)
{
	size_t count = 0;

	if (!vector_reserve(&c->polls, 2 + c->pending.count + c->targets.count))
		return 0;
	c->polls.at[count++] = (struct pollfd){ .fd = c->listener.fd, .events = POLLIN };
	c->polls.at[count++] = (struct pollfd){ .fd = c->signal_fd, .events = POLLIN };
	for (size_t i = 0; i < c->pending.count; i++)
		c->polls.at[count++] =
			(struct pollfd){ .fd = c->pending.at[i].fd, .events = POLLIN };
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
			target_ended(c->targets.at[i], now_ns, END_EXIT, 0);
	}
	if (c->polls.at[1].revents)
		read_signals(c);
	if (c->polls.at[0].revents)
		accept_all(c, now_ns);
	serve_pending(c, now_ns);
	/* Last: whoever reads a SIGCHLD away must look for the child afterwards. */
	reap_child(c, now_ns);
}

/* For a process without a pidfd: it had ended before it was asked for, or the kernel is older than 5.3. */
static bool is_gone(const struct collector *c, const struct target *target)
{
	return target->pid_fd < 0 && target->pid != c->child && kill(target->pid, 0) < 0 &&
	       errno == ESRCH;
}

static void tick(struct collector *c, uint64_t now_ns)
{
	uint64_t live = 0;
	bool sampled = false;

	for (size_t i = 0; i < c->targets.count; i++) {
		struct target *target = c->targets.at[i];

		if (target->ended_ns != 0)
			continue;
		target_tick(target, now_ns);
		if (target_is_due(target, now_ns)) {
			if (is_gone(c, target)) {
				target_ended(target, now_ns, END_EXIT, 0);
				continue;
			}
			target_sample(target, now_ns, c->options->budget_bytes);
			sampled = true;
		}
		live += (uint64_t)MAX((int64_t)target_live_bytes(target), (int64_t)0);
	}
	if (sampled && live > c->peak_bytes) {
		c->peak_bytes = live;
		c->peak_ns = now_ns;
	}
}

static void show_progress(struct collector *c, uint64_t now_ns)
{
	struct collect_progress progress = { .elapsed_ns = now_ns - c->start_ns,
					     .peak_bytes = c->peak_bytes,
					     .first_ended = c->child_ended };
	uint64_t calls = 0;

	if (!c->options->progress || now_ns < c->next_progress_ns)
		return;
	for (size_t i = 0; i < c->targets.count; i++) {
		const struct target *target = c->targets.at[i];

		calls += target->totals.calls;
		if (target->ended_ns != 0)
			continue;
		progress.processes++;
		progress.live_bytes +=
			(uint64_t)MAX((int64_t)target_live_bytes(target), (int64_t)0);
		progress.rss_bytes += target->rss_bytes;
	}
	progress.peak_bytes = MAX(progress.peak_bytes, progress.live_bytes);
	progress.calls_per_second = saturating_sub(calls, c->progress_calls) * 1000 /
				    MAX((now_ns - c->progress_ns) / NS_PER_MS, 1ull);
	c->progress_calls = calls;
	c->progress_ns = now_ns;
	c->next_progress_ns = now_ns + PROGRESS_NS;
	c->options->progress(c->options->context, &progress);
}

static void run_loop(struct collector *c)
{
	uint64_t next_ns = collector_now();

	while (!c->left) {
		size_t count = fill_polls(c);
		uint64_t now_ns = collector_now();
		struct timespec timeout = { .tv_sec = 0,
					    .tv_nsec = (long)saturating_sub(next_ns, now_ns) };
		int ready = ppoll(c->polls.at, count, &timeout, NULL);

		now_ns = collector_now();
		if (ready > 0 && count > 0)
			handle_polls(c, count, now_ns);
		if (now_ns >= next_ns || ready > 0) {
			bool busy = somebody_lives(c) || c->pending.count > 0;

			tick(c, now_ns);
			next_ns = now_ns + (busy ? NS_PER_MS : IDLE_NS);
		}
		show_progress(c, now_ns);
		if (c->child_ended && !somebody_lives(c) && c->pending.count == 0)
			break;
	}
}

/* ---- before and after ---- */

/* Better to be told now than after an hour of running. */
static int check_output(const char *path, struct error *error)
{
	AUTO_FREE char *folder = path_folder(path);
	struct stat st;

	if (!folder)
		return error_set(error, "no memory left");
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return error_set(error, "cannot write %s: it is a folder", path);
	if (access(path, F_OK) == 0 && access(path, W_OK) < 0)
		return error_errno(error, "cannot write %s", path);
	if (access(path, F_OK) < 0 && access(folder, W_OK | X_OK) < 0)
		return error_errno(error, "cannot write a recording to the folder %s", folder);
	return 0;
}

static char *output_path(const struct collect_options *options, pid_t pid)
{
	char *path = NULL;

	if (options->output)
		return strdup(options->output);
	if (asprintf(&path, "heapgauge.%s.%d.hg", path_base(options->argv[0]), (int)pid) < 0)
		return NULL;
	return path;
}

static bool anything_recorded(const struct collector *c)
{
	for (size_t i = 0; i < c->targets.count; i++) {
		if (target_is_ready(c->targets.at[i]) || c->targets.at[i]->totals.calls > 0)
			return true;
	}
	return false;
}

static void explain(const struct collector *c, char *reason, size_t room)
{
	if (c->last_error[0])
		snprintf(reason, room, "%s: the recorder got no memory: %s", c->options->argv[0],
			 c->last_error);
	else if (c->targets.count > 0)
		snprintf(reason, room, "%s started the recorder, which could not begin.",
			 c->options->argv[0]);
	else
		explain_silence(c->options->argv[0], reason, room);
}

static int finish(struct collector *c, struct error *error)
{
	AUTO_FREE char *path = NULL;

	if (c->left) {
		c->result->end = COLLECT_LEFT;
		c->result->number = c->left_signal;
	}
	c->result->recorded = anything_recorded(c);
	if (!c->result->recorded) {
		explain(c, c->result->reason, sizeof c->result->reason);
		return 0;
	}
	path = output_path(c->options, c->child);
	if (!path)
		return error_set(error, "no memory left");
	if (collector_write(c, path, error) < 0)
		return -1;
	c->result->path = TAKE(path);
	return 0;
}

/* The program keeps the limits that it was started with; ours are in the way of its memory, which is a file of a kind,
 * and of the descriptors that watching many processes takes. */
static void lift_limits(void)
{
	static const int limits[] = { RLIMIT_FSIZE, RLIMIT_AS, RLIMIT_NOFILE };

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct rlimit none = { RLIM_INFINITY, RLIM_INFINITY }, limit;

		if (getrlimit((__rlimit_resource_t)limits[i], &limit) < 0)
			continue;
		limit.rlim_cur = limit.rlim_max;
		/* Only the privileged may go beyond the hard limit. */
		if (limits[i] == RLIMIT_NOFILE ||
		    setrlimit((__rlimit_resource_t)limits[i], &none) < 0)
			setrlimit((__rlimit_resource_t)limits[i], &limit);
	}
}

static int run(struct collector *c, struct launch_signals *saved, struct error *error)
{
	struct launch launch = { .argv = c->options->argv,
				 .recorder = c->options->recorder,
				 .signals = saved };
	int status;

	if (listener_open(&c->listener, error) < 0)
		return -1;
	launch.socket_name = c->listener.name;
	c->start_ns = c->progress_ns = collector_now();
	c->next_progress_ns = c->start_ns + PROGRESS_NS;
	c->child = launch_start(&launch, &status, error);
	if (c->child < 0) {
		c->result->end = COLLECT_NOT_STARTED;
		c->result->number = status;
		return -1;
	}
	lift_limits();
	run_loop(c);
	c->end_ns = collector_now();
	/* Nobody who comes later is answered. */
	listener_close(&c->listener);
	return finish(c, error);
}

static void collector_release(struct collector *c)
{
	listener_close(&c->listener);
	for (size_t i = 0; i < c->pending.count; i++)
		close(c->pending.at[i].fd);
	for (size_t i = 0; i < c->targets.count; i++)
		target_free(c->targets.at[i]);
	vector_release(&c->pending);
	vector_release(&c->targets);
	vector_release(&c->polls);
	if (c->signal_fd >= 0)
		close(c->signal_fd);
}

int collect_run(const struct collect_options *options, struct collect_result *ret,
		struct error *error)
{
	struct collector c = {
		.options = options, .result = ret, .listener = { .fd = -1 }, .signal_fd = -1
	};
	struct launch_signals saved;
	AUTO_FREE char *path = output_path(options, getpid());
	int status;

	*ret = (struct collect_result){ .end = COLLECT_NOT_STARTED, .number = 125 };
	if (!path)
		return error_set(error, "no memory left");
	if (check_output(path, error) < 0)
		return -1;
	c.signal_fd = launch_signals_take(&saved, error);
	if (c.signal_fd < 0)
		return -1;
	status = run(&c, &saved, error);
	collector_release(&c);
	launch_signals_give_back(&saved);
	return status;
}

void collect_result_release(struct collect_result *result)
{
	free(result->path);
	result->path = NULL;
}
