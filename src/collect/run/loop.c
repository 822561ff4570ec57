/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector's loop: one thread that waits in one poll for recorders that connect, for ends and for signals, and
 * wakes about every millisecond (ten, if it samples) to move the clock of every living process. A wake costs a poll, a clock read, and for
 * each process a pwrite and a pread; totals and series come on top every 10 ms and more. Whatever may take milliseconds is a worker's:
 * snapshots (target_sample.c) and the encoding of processes that have ended (encoder.c).
 *
 * Owns the listener, the connections whose hello has not come yet, and the targets. The program that was started is
 * waited for as a child; other processes that connect are watched through a pidfd.
 * Invariant: a target is in `targets` until it has been given to the encoder, which is soon after its end.
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
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "collect/process/budget.h"
#include "collect/run/collector.h"
#include "collect/run/explain.h"
#include "collect/run/launch.h"
#include "collect/kernel/procfs.h"
#include "collect/run/survivors.h"
#include "util/cleanup.h"
#include "util/files.h"

#define NS_PER_MS 1000000ull
#define PROGRESS_NS (200 * NS_PER_MS)
/* Nobody to keep time for. */
#define IDLE_NS (50 * NS_PER_MS)
#define SAMPLED_TICK_NS (10 * NS_PER_MS)
/* Most who outlive the program are on their way out. */
#define LIVES_ON_NS (300 * NS_PER_MS)

uint64_t collector_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* ---- signals ---- */

/* From the terminal everybody got the signal; from kill(1) the program did not, so that it is passed on. The second one
 * means us, and so does the first from kill(1) when there is no program left that it could be meant for. */
static void stop_signal(struct collector *c, const struct signalfd_siginfo *info)
{
	bool ours_alone = info->ssi_code <= 0;

	if (c->stop_signals++ > 0 || (ours_alone && c->child_ended)) {
		c->left = true;
		c->left_signal = (int)info->ssi_signo;
		return;
	}
	if (ours_alone)
		kill(c->child, (int)info->ssi_signo);
}

/* Whether the signal asks for snapshots. */
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

static uint64_t count_living(const struct collector *c)
{
	uint64_t count = 0;

	for (size_t i = 0; i < c->targets.count; i++)
		count += c->targets.at[i]->ended_ns == 0;
	return count;
}

enum { POLL_SIGNALS, POLL_LISTENERS, POLL_OTHERS = POLL_LISTENERS + LISTENER_SOCKETS };

/* The descriptors of this round: signals, listeners, pending hellos, pidfds of those that are not our child. */
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
			collector_end_other(c->targets.at[i], now_ns);
	}
	collector_accept(c, now_ns);
	collector_serve(c, now_ns);
	collector_search_folder(c, now_ns);
	/* After these: a signal that asks for a snapshot means also who handed over just before it. */
	if (c->polls.at[POLL_SIGNALS].revents)
		read_signals(c);
	/* Last: whoever reads a SIGCHLD away must look for the child afterwards. It may have come in this very turn. */
	collector_reap(c, collector_now());
}

/* For a process without a pidfd: it had ended before it was asked for, or the kernel is older than 5.3. */
static bool is_gone(const struct collector *c, const struct target *target)
{
	return target->pid_fd < 0 && target->pid != c->child && kill(target->pid, 0) < 0 &&
	       errno == ESRCH;
}

static void do_sample(void *context, const struct worker_job *job)
{
	(void)context;
	target_sample_run(job->target);
}

static void sample(struct collector *c, struct target *target, uint64_t now_ns)
{
	bool follows = c->options->children == COLLECT_CHILDREN_ALL ||
		       c->options->children == COLLECT_CHILDREN_EXEC;
	bool becomes;

	process_log_look(&c->starts, target, false);
	becomes = process_log_becomes(&c->starts, target);
	if (target_sample(target, now_ns, c->options->budget_bytes, becomes) &&
	    !worker_give(c->sampler, &(struct worker_job){ target, now_ns }))
		target->sampling = false;
	if (target->ended_ns == 0 || !follows)
		return;
	/* It has become another program. If that was not announced, the recorder did not see it. */
	process_log_look(&c->starts, target, false);
	if (!process_log_becomes(&c->starts, target)) {
		AUTO_FREE char *exe = procfs_exe(target->pid);

		process_log_miss(&c->starts, MISSED_bypassed, exe);
	}
}

/* A recording of it alone, while it goes on, if a condition asks for one. */
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
	} else if (live_profile_twin(&target->profile, &clone->profile, &error) < 0) {
		target_free(clone);
		dumps_fail(c->dumps, condition, &error);
	} else {
		dumps_give(c->dumps, clone, condition, now_ns);
	}
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
		process_log_read(&c->starts, target);
		if (target_is_due(target, now_ns)) {
			if (is_gone(c, target)) {
				collector_end_other(target, now_ns);
				continue;
			}
			sample(c, target, now_ns);
			target_check_triggers(target, &c->options->triggers, now_ns);
			dump(c, target, now_ns);
			sampled = true;
		}
		if (target->ended_ns == 0 && target_is_asked(target, now_ns) &&
		    !worker_give(c->sampler, &(struct worker_job){ target, now_ns }))
			target->sampling = false;
		if (!target->left_out)
			live += (uint64_t)MAX((int64_t)target_live_bytes(target), (int64_t)0);
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

/* Of the program. A loop's idea of now may be older than that. */
static uint64_t since_end(const struct collector *c, uint64_t now_ns)
{
	return saturating_sub(now_ns, c->child_ended_ns);
}

static void tell_lives_on(struct collector *c, uint64_t now_ns)
{
	struct collect_survivors who = { 0 };

	if (!c->child_ended || c->told_lives_on || since_end(c, now_ns) < LIVES_ON_NS ||
	    count_living(c) + c->unheard_count == 0)
		return;
	c->told_lives_on = true;
	survivors_list(c, now_ns, &who);
	if (c->options->lives_on && who.count > 0)
		c->options->lives_on(c->options->context, c->child, &who);
	vector_release(&who);
}

/* Whether its descendants have had their time. Those who have ended and wait for a descriptor of ours need none of it. */
static bool has_waited(const struct collector *c, uint64_t now_ns)
{
	return c->child_ended && !(c->is_full && count_living(c) == 0) &&
	       since_end(c, now_ns) >= MAX(c->options->wait_ns, (uint64_t)LIVES_ON_NS);
}

/* Whether the program has ended and its descendants too, who are known and who were not heard from yet, or have had their
 * time. */
static bool is_over(struct collector *c, uint64_t now_ns)
{
	if (has_waited(c, now_ns))
		return true;
	/* A connection that says nothing keeps nobody: what belongs to us was sent when it was made. Where there is no
	 * descriptor to receive it with, the encoder is about to close some. */
	if (!c->child_ended || c->targets.count > 0 || c->is_full) {
		c->unheard_count = 0; /* looked for again when nobody else is left */
		return false;
	}
	/* Whoever was found may say hello at any time. */
	if (c->options->children != COLLECT_CHILDREN_NONE)
		c->unheard_count = unheard_count(&c->silent, c->listener.name, now_ns);
	return c->unheard_count == 0;
}

/* Whether somebody has handed over since who was looked for last, and has ended since, or cannot be taken yet. */
static bool hears_last(struct collector *c)
{
	uint64_t now_ns = collector_now();
	size_t before = c->welcomed;

	c->next_folder_ns = 0;
	collector_accept(c, now_ns);
	collector_serve(c, now_ns);
	collector_search_folder(c, now_ns);
	return c->welcomed != before || c->is_full;
}

/* How long until the clocks move again. A millisecond, for lifetimes; that is some percent of a processor, which would be most of
 * what sampling costs. */
static uint64_t tick_ns(const struct collector *c)
{
	if (c->targets.count == 0 && c->pending.count == 0 && !c->is_full)
		return IDLE_NS;
	return c->options->mode == LIVE_MODE_SAMPLE ? SAMPLED_TICK_NS : NS_PER_MS;
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
		if ((ready > 0 || c->is_full) && count > 0)
			handle_polls(c, count, now_ns);
		if (now_ns >= next_ns || ready > 0) {
			collector_search_folder(c, now_ns);
			tick(c, now_ns);
			dumps_tell(c->dumps);
			collector_pass_on(c, now_ns, false);
			next_ns = now_ns + tick_ns(c);
		}
		show_progress(c, now_ns);
		if (is_over(c, now_ns) && (!hears_last(c) || has_waited(c, now_ns)))
			break;
		tell_lives_on(c, now_ns);
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
	char *path = NULL, rank[32] = "";

	if (options->output)
		return strdup(options->output);
	if (rank_own() != RANK_NONE)
		snprintf(rank, sizeof rank, "rank%d.", rank_own());
	if (asprintf(&path, "heapgauge.%s.%s%d.hg", path_base(options->argv[0]), rank, (int)pid) <
	    0)
		return NULL;
	return path;
}

static void explain(const struct collector *c, char *reason, size_t room)
{
	if (c->last_error[0])
		snprintf(reason, room, "%.100s: the recorder got no memory: %.380s",
			 c->options->argv[0], c->last_error);
	else if (c->options->ranks.count > 0 && (c->other_ranks > 0 || c->welcomed > 0))
		snprintf(reason, room,
			 "no recorded process of %s had one of the ranks that --ranks names.",
			 c->options->argv[0]);
	else if (c->welcomed > 0)
		snprintf(reason, room, "%s started the recorder, which could not begin.",
			 c->options->argv[0]);
	else
		explain_silence(c->options->argv[0], reason, room);
}

static int finish(struct collector *c, struct error *error)
{
	AUTO_FREE char *path = NULL;

	if (c->left && !c->child_ended) {
		c->result->end = COLLECT_LEFT;
		c->result->number = c->left_signal;
	}
	worker_finish(c->sampler);
	collector_pass_on(c, c->end_ns, true);
	c->result->recorded = c->recorded;
	if (!c->result->recorded) {
		explain(c, c->result->reason, sizeof c->result->reason);
		return 0;
	}
	path = output_path(c->options, c->child);
	if (!path)
		return error_set(error, "no memory left");
	if (collector_write(c, path, error) < 0)
		return -1;
	encoder_drop_kept(c->encoder);
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

/* Without memory for it, nothing is written meanwhile. */
static void begin_dumps(struct collector *c)
{
	AUTO_FREE char *path = output_path(c->options, c->child);
	const struct dumps_options dumps = { .path = path,
					     .limit = c->options->write_limit,
					     .version = c->options->version,
					     .say = c->options->say,
					     .context = c->options->context };

	if (path && triggers_write(&c->options->triggers))
		c->dumps = dumps_new(&dumps);
}

/* What every process of the recording begins with. */
static void fill_settings(struct collector *c)
{
	const struct collect_options *options = c->options;
	struct cgroup_memory cgroup = cgroups_memory(&c->cgroups, getpid());
	struct budget budget = { options->budget_bytes, options->budget_bytes };
	struct live_settings *s = &c->settings;

	if (!options->budget_bytes)
		budget = budget_default(&cgroup, 0, budget_free_memory());
	*s = (struct live_settings){
		.secret = c->listener.secret,
		.mode = options->begins_dormant ? LIVE_MODE_DORMANT : options->mode,
		.mode_on = options->mode,
		.interval = options->interval,
		.depth_limit = options->depth_limit,
		.cpu_millionths = options->cpu_millionths,
		.budget_bytes = budget.bytes,
		.budget_limit_bytes = budget.limit_bytes,
		.stack_least_bytes = options->stack_least_bytes,
		.stack_most_bytes = options->stack_most_bytes,
		/* A fork's child must be followed too where only programs are wanted: it may become one. */
		.follow_fork = options->children != COLLECT_CHILDREN_NONE,
		.follow_exec = options->children == COLLECT_CHILDREN_ALL ||
			       options->children == COLLECT_CHILDREN_EXEC,
	};
	snprintf(s->collector, sizeof s->collector, "%s", c->listener.name);
	snprintf(s->folder, sizeof s->folder, "%s", c->listener.folder);
	ranks_write(&options->ranks, s->ranks, sizeof s->ranks);
	snprintf(s->wraps, sizeof s->wraps, "%s", options->wraps ? options->wraps : "");
}

static int run(struct collector *c, struct launch_signals *saved, struct error *error)
{
	struct launch launch = { .argv = c->options->argv,
				 .recorder = c->options->recorder,
				 .settings = &c->settings,
				 .signals = saved };
	int status;

	if (listener_open(&c->listener, error) < 0)
		return -1;
	fill_settings(c);
	c->start_ns = c->progress_ns = collector_now();
	c->encoder = encoder_new(c->start_ns);
	c->sampler = worker_new(do_sample, NULL);
	if (!c->encoder || !c->sampler)
		return error_set(error, "no memory left");
	c->next_progress_ns = c->start_ns + PROGRESS_NS;
	c->child = launch_start(&launch, &status, error);
	if (c->child < 0) {
		c->result->end = COLLECT_NOT_STARTED;
		c->result->number = status;
		return -1;
	}
	lift_limits();
	begin_dumps(c);
	AUTO_FREE char *path = output_path(c->options, c->child);

	if (path)
		encoder_keep(c->encoder, path);
	run_loop(c);
	dumps_free(TAKE(c->dumps));
	c->end_ns = collector_now();
	survivors_list(c, c->end_ns, &c->result->survivors);
	survivors_let_go(c);
	/* Nobody who comes later is answered. */
	listener_close(&c->listener);
	return finish(c, error);
}

static void collector_release(struct collector *c)
{
	worker_free(c->sampler);
	listener_close(&c->listener);
	for (size_t i = 0; i < c->pending.count; i++)
		pending_close(&c->pending.at[i]);
	for (size_t i = 0; i < c->targets.count; i++)
		target_free(c->targets.at[i]);
	encoder_free(c->encoder);
	unheard_release(&c->silent);
	process_log_release(&c->starts);
	cgroups_release(&c->cgroups);
	vector_release(&c->pending);
	vector_release(&c->taken);
	vector_release(&c->targets);
	vector_release(&c->polls);
	if (c->signal_fd >= 0)
		close(c->signal_fd);
}

int collect_run(const struct collect_options *options, struct collect_result *ret,
		struct error *error)
{
	struct collector c = {
		.options = options, .result = ret, .listener = LISTENER_INIT, .signal_fd = -1
	};
	struct launch_signals saved;
	AUTO_FREE char *path = output_path(options, getpid());
	int status;

	*ret = (struct collect_result){ .end = COLLECT_NOT_STARTED, .number = 125 };
	if (!path)
		return error_set(error, "no memory left");
	if (check_output(path, error) < 0)
		return -1;
	if (options->self && stat(options->self, &c.self) < 0)
		c.self.st_ino = 0;
	cgroups_init(&c.cgroups, "");
	if (collector_check_triggers(&options->triggers, &c.cgroups, getpid(),
				     options->mode == LIVE_MODE_SAMPLE ? options->interval : 0,
				     options->say, options->context, error) < 0) {
		cgroups_release(&c.cgroups);
		return -1;
	}
	c.signal_fd = launch_signals_take(&saved, &options->triggers, error);
	if (c.signal_fd < 0) {
		cgroups_release(&c.cgroups);
		return -1;
	}
	status = run(&c, &saved, error);
	collector_release(&c);
	launch_signals_give_back(&saved);
	return status;
}

void collect_result_release(struct collect_result *result)
{
	free(result->path);
	result->path = NULL;
	vector_release(&result->survivors);
}
