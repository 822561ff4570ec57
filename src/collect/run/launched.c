/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source of targets for a launched program: it and its descendants hand over their profiles (connect.c). The run ends when
 * the program has ended and its descendants have ended or timed out.
 *
 * Called by the loop, in its thread; collect_run handles what precedes and follows the loop.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "collect/binaries/preflight.h"
#include "collect/collect.h"
#include "collect/kernel/procfs.h"
#include "collect/run/collector.h"
#include "collect/run/output_path.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/files.h"
#include "util/output_file.h"
#include "util/text/units.h"

#define SAMPLED_TICK_NS (10 * NS_PER_MS)
/* Most descendants that outlive the program are about to exit. */
#define LIVES_ON_NS (300 * NS_PER_MS)

/* ---- while it runs ---- */

static bool advance(struct collector *c, struct target *target, uint64_t now_ns)
{
	target_tick(target, now_ns);
	process_log_read(&c->process_log, target);
	return true;
}

static bool sample(struct collector *c, struct target *target, uint64_t now_ns)
{
	bool follows = c->options->children == COLLECT_CHILDREN_ALL ||
		       c->options->children == COLLECT_CHILDREN_EXEC;
	bool becomes, due;

	process_log_update(&c->process_log, target, false);
	becomes = process_log_becomes(&c->process_log, target);
	due = target_sample(target, now_ns, c->options->budget_bytes, becomes);
	if (target->ended_ns == 0 || !follows)
		return due;
	/* The process called exec. If this was not announced, the recorder did not see it. */
	process_log_update(&c->process_log, target, false);
	if (!process_log_becomes(&c->process_log, target)) {
		AUTO_FREE char *exe = procfs_exe(target->pid);

		process_log_miss(&c->process_log, MISSED_bypassed, exe);
	}
	return due;
}

static int twin(struct collector *c, struct target *target, struct live_profile *ret,
		struct error *error)
{
	(void)c;
	return live_profile_twin(&target->profile, ret, error);
}

static void end(struct collector *c, struct target *target, uint64_t now_ns)
{
	(void)c;
	collector_end_other(target, now_ns);
}

/* ---- the end of the run ---- */

static uint64_t count_living(const struct collector *c)
{
	uint64_t count = 0;

	for (size_t i = 0; i < c->targets.count; i++)
		count += c->targets.at[i]->ended_ns == 0;
	return count;
}

/* Time since the program's end. The loop's now_ns may be older than that. */
static uint64_t since_end(const struct collector *c, uint64_t now_ns)
{
	return saturating_sub(now_ns, c->child_ended_ns);
}

static void report_survivors(struct collector *c, uint64_t now_ns)
{
	struct collect_survivors who = { 0 };

	if (!c->child_ended || c->survivors_reported || since_end(c, now_ns) < LIVES_ON_NS ||
	    count_living(c) + c->unconnected_count == 0)
		return;
	c->survivors_reported = true;
	survivors_list(c, now_ns, &who);
	if (c->options->lives_on && who.count > 0)
		c->options->lives_on(c->options->context, c->child, &who);
	vector_release(&who);
}

/* Whether the descendants have timed out. Never while only ended ones are left, waiting for a free descriptor. */
static bool has_waited(const struct collector *c, uint64_t now_ns)
{
	return c->child_ended && !(c->is_full && count_living(c) == 0) &&
	       since_end(c, now_ns) >= MAX(c->options->wait_ns, (uint64_t)LIVES_ON_NS);
}

/* Whether the program and all its descendants, known or not connected yet, have ended or timed out. */
static bool all_ended(struct collector *c, uint64_t now_ns)
{
	if (has_waited(c, now_ns))
		return true;
	/* A silent connection does not extend the run: a valid peer sends its message when it connects. If no descriptor is
	 * free to receive it, the encoder is about to close some. */
	if (!c->child_ended || c->targets.count > 0 || c->is_full) {
		c->unconnected_count = 0; /* searched for again when no target is left */
		return false;
	}
	/* Those found may connect at any time. */
	if (c->options->children != COLLECT_CHILDREN_NONE)
		c->unconnected_count = unconnected_count(&c->unconnected, c->listener.name, now_ns);
	return c->unconnected_count == 0;
}

/* Whether a process has handed over since the last search and ended since, or cannot be taken over yet. */
static bool hears_last(struct collector *c)
{
	uint64_t now_ns = clock_monotonic_ns();
	size_t before = c->welcomed;

	c->next_folder_ns = 0;
	collector_accept(c, now_ns);
	collector_serve(c, now_ns);
	collector_search_folder(c, now_ns);
	return c->welcomed != before || c->is_full;
}

static bool end_iteration(struct collector *c, uint64_t now_ns)
{
	collector_pass_on(c, now_ns, false);
	if (all_ended(c, now_ns) && (!hears_last(c) || has_waited(c, now_ns)))
		return true;
	report_survivors(c, now_ns);
	return false;
}

static void finish(struct collector *c)
{
	c->end_ns = clock_monotonic_ns();
	survivors_list(c, c->end_ns, &c->result->survivors);
	survivors_let_go(c);
	/* Later connections are not answered. */
	listener_close(&c->listener);
	worker_finish(c->sampler);
	collector_pass_on(c, c->end_ns, true);
}

static const struct source launched = {
	.hands_over = true,
	.advance = advance,
	.sample = sample,
	.twin = twin,
	.end = end,
	.end_iteration = end_iteration,
	.finish = finish,
};

/* ---- before and after ---- */

static void explain(const struct collector *c, char *reason, size_t room)
{
	struct error unfit = ERROR_INIT;

	if (c->last_error[0])
		snprintf(reason, room, "%.100s: the recorder got no memory: %.380s",
			 c->options->argv[0], c->last_error);
	else if (c->options->ranks.count > 0 && (c->other_ranks > 0 || c->welcomed > 0))
		snprintf(reason, room,
			 "no recorded process of %s had one of the ranks that --ranks names.",
			 c->options->argv[0]);
	else if (c->options->only_exe && c->welcomed > 0)
		snprintf(reason, room,
			 "none of the programs that %s started matches --only-exe, and neither "
			 "does it.",
			 c->options->argv[0]);
	else if (c->welcomed > 0)
		snprintf(reason, room, "%s started the recorder, which could not initialize.",
			 c->options->argv[0]);
	else if (preflight_program(c->options->argv[0], &unfit) < 0)
		snprintf(reason, room, "%.350s. %.150s", unfit.message,
			 unfit.hint ? unfit.hint : "");
	else
		snprintf(
			reason, room,
			"%s never started the recorder. It may have replaced LD_PRELOAD, or run where the "
			"recorder's file cannot be read.",
			c->options->argv[0]);
}

/* The program keeps the limits it was started with. Ours would restrict writes to profiles, which count as files, and the
 * descriptors needed to watch many processes. */
static void lift_limits(void)
{
	static const int limits[] = { RLIMIT_FSIZE, RLIMIT_AS, RLIMIT_NOFILE };

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct rlimit none = { RLIM_INFINITY, RLIM_INFINITY }, limit;

		if (getrlimit((__rlimit_resource_t)limits[i], &limit) < 0)
			continue;
		limit.rlim_cur = limit.rlim_max;
		/* Exceeding the hard limit needs privileges. */
		if (limits[i] == RLIMIT_NOFILE ||
		    setrlimit((__rlimit_resource_t)limits[i], &none) < 0)
			setrlimit((__rlimit_resource_t)limits[i], &limit);
	}
}

/* Near its limit, a control group may have room for the program, but not for the recorder as well. */
static void announce_budget(const struct collector *c, const struct cgroup_memory *cgroup,
			    const struct live_budget *budget)
{
	const struct collect_options *options = c->options;
	char sentence[256];

	if (!cgroup->limit_bytes || options->budget_bytes || !options->say)
		return;
	snprintf(sentence, sizeof sentence,
		 "the control group has %s of %s left; recording may use up to %s of it (--budget "
		 "SIZE changes that)",
		 units_bytes(saturating_sub(cgroup->limit_bytes, cgroup->usage_bytes)).text,
		 units_bytes(cgroup->limit_bytes).text, units_bytes(budget->limit_bytes).text);
	options->say(options->context, false, sentence);
}

/* Initial settings of every process of the recording. */
static void fill_settings(struct collector *c)
{
	const struct collect_options *options = c->options;
	struct cgroup_memory cgroup = cgroups_memory(&c->cgroups, getpid());
	struct live_budget budget = target_budget(options->budget_bytes, &cgroup, 0);
	struct live_settings *s = &c->settings;

	announce_budget(c, &cgroup, &budget);
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
		.python_domains = options->python_domains,
		.python_tasks = options->python_tasks,
		.free_sites = options->free_sites,
		.time_calls = options->time_calls,
		.hold_exit = options->image != NULL ||
			     triggers_find(&options->triggers, TRIGGER_END) != NULL,
		.core = options->core,
		.hooks = options->hooks,
		/* Forked children must be followed even if only exec'd programs are recorded: a child may exec one. */
		.follow_fork = options->children != COLLECT_CHILDREN_NONE,
		.follow_exec = options->children == COLLECT_CHILDREN_ALL ||
			       options->children == COLLECT_CHILDREN_EXEC,
	};
	snprintf(s->collector, sizeof s->collector, "%s", c->listener.name);
	snprintf(s->folder, sizeof s->folder, "%s", c->listener.folder);
	ranks_write(&options->ranks, s->ranks, sizeof s->ranks);
	snprintf(s->otel_labels, sizeof s->otel_labels, "%s",
		 options->otel_labels ? options->otel_labels : "");
	for (char *at = s->otel_labels; (at = strchr(at, ',')) != NULL;)
		*at = ';';
	snprintf(s->wraps, sizeof s->wraps, "%s", options->wraps ? options->wraps : "");
}

static int start(struct collector *c, struct error *error)
{
	struct launch launch = { .argv = c->options->argv,
				 .recorder = c->options->recorder,
				 .settings = &c->settings,
				 .signals = &c->signals };
	int status;

	if (listener_open(&c->listener, error) < 0)
		return -1;
	fill_settings(c);
	c->start_ns = c->progress_ns = clock_monotonic_ns();
	c->tick_ns = c->options->mode == LIVE_MODE_SAMPLE ? SAMPLED_TICK_NS : NS_PER_MS;
	if (collector_begin(c, error) < 0)
		return -1;
	c->child = launch_start(&launch, &status, error);
	if (c->child >= 0)
		return 0;
	c->result->end = COLLECT_NOT_STARTED;
	c->result->number = status;
	return -1;
}

static int run(struct collector *c, struct error *error)
{
	const struct collect_options *o = c->options;
	AUTO_FREE char *path = collector_path(c, o->argv[0], getpid());
	AUTO_FREE char *program = program_path(o->argv[0]);

	if (!path)
		return error_set(error, "out of memory");
	if (output_path_check_writable(o->output, path, program, error) < 0)
		return -1;
	if (o->self && stat(o->self, &c->self) < 0)
		c->self.st_ino = 0;
	cgroups_init(&c->cgroups, "");
	if (collector_check_triggers(o, &c->cgroups, getpid(),
				     o->mode == LIVE_MODE_SAMPLE ? o->interval : 0, error) < 0 ||
	    start(c, error) < 0)
		return -1;
	lift_limits();
	free(path);
	path = collector_path(c, o->argv[0], c->child);
	if (path && !output_file_is_stream(path))
		encoder_keep(c->encoder, path);
	if (o->wants_recording)
		encoder_keep_rows(c->encoder);
	return collector_run(c, path, error);
}

/* The recording is complete. We stay as the program's parent, since a shell or test driver waits for us instead of it. */
static void wait_for_program(struct collector *c, bool written)
{
	c->result->end = COLLECT_LEFT;
	c->result->number = 0;
	encoder_free(TAKE(c->encoder));
	if (written && c->options->stopped)
		c->options->stopped(c->options->context, c->result);
	collector_wait(c);
}

int collect_run(const struct collect_options *options, struct collect_result *ret,
		struct error *error)
{
	struct collector c;
	int status = collector_init(&c, &launched, options, ret, error);

	if (status == 0)
		status = run(&c, error);
	if (status == 0 && !ret->recorded)
		explain(&c, ret->reason, sizeof ret->reason);
	if (c.timed_out && !c.child_ended)
		wait_for_program(&c, status == 0);
	if (c.left_signal != 0 && !c.child_ended) {
		ret->end = COLLECT_LEFT;
		ret->number = c.left_signal;
	}
	collector_release(&c);
	return status;
}

void collect_result_release(struct collect_result *result)
{
	free(result->path);
	result->path = NULL;
	vector_release(&result->survivors);
	recording_release(&result->recording);
}
