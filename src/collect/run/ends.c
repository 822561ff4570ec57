/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends of processes. The program itself is our child, so wait(2) reports everything. For others a pidfd signals the end; /proc
 * has the exit status until the parent has waited for the process, and from Linux 6.15 on the pidfd has it afterwards. A status
 * that cannot be determined is recorded as unknown.
 *
 * Called by the loop, in its thread.
 */
#include <stdio.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/checked.h"
#include "collect/run/collector.h"

/* How long to wait for an exit status: it becomes available when the parent has waited for the process. */
#define END_TIMEOUT_NS 100000000ull

static struct target *living_target(struct collector *c, pid_t pid)
{
	for (size_t i = 0; i < c->targets.count; i++) {
		if (c->targets.at[i]->pid == pid && c->targets.at[i]->ended_ns == 0)
			return c->targets.at[i];
	}
	return NULL;
}

/* Not its stops, which a worker that takes an image waits for. */
bool collector_child_has_ended(const struct collector *c)
{
	siginfo_t info = { 0 };

	if (c->child == 0 || c->child_ended)
		return c->child_ended;
	return waitid(P_PID, (id_t)c->child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED ||
		info.si_code == CLD_DUMPED);
}

void collector_reap(struct collector *c, uint64_t now_ns)
{
	struct rusage usage;
	int status;
	struct target *target;

	if (c->child_ended || !collector_child_has_ended(c) ||
	    wait4(c->child, &status, WNOHANG, &usage) != c->child)
		return;
	c->child_ended = true;
	c->child_ended_ns = now_ns;
	if (c->encoder)
		encoder_keep_no_more(c->encoder);
	c->child_max_rss_bytes = (uint64_t)usage.ru_maxrss * 1024;
	c->result->end = WIFSIGNALED(status) ? COLLECT_SIGNALLED : COLLECT_EXITED;
	c->result->number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
	target = living_target(c, c->child);
	if (target)
		collector_end_child(c, target, now_ns);
}

void collector_end_child(struct collector *c, struct target *target, uint64_t now_ns)
{
	uint32_t number = (uint32_t)c->result->number;

	/* ru_maxrss is the maximum over all descendants, so it is used only if there were none. */
	if (c->welcomed == 1 && c->options->children == COLLECT_CHILDREN_ALL)
		target->peak_rss_bytes = MAX(target->peak_rss_bytes, c->child_max_rss_bytes);
	if (c->result->end == COLLECT_SIGNALLED)
		target_ended(target, now_ns, number == SIGKILL ? END_KILLED : END_SIGNAL, number);
	else
		target_ended(target, now_ns, END_EXIT, number);
}

void collector_end_other(struct target *target, uint64_t now_ns)
{
	target_ended(target, now_ns, END_UNKNOWN, 0);
	target_ask_end(target);
	/* Without a pidfd the exit status cannot be queried later. */
	if (target->pid_fd < 0)
		target->end_known = true;
}

static bool is_settled(struct target *target, uint64_t now_ns)
{
	if (!target->end_known && target->ended_ns != 0)
		target_ask_end(target);
	return target->ended_ns != 0 &&
	       (target->end_known || saturating_sub(now_ns, target->ended_ns) > END_TIMEOUT_NS);
}

/* If the process had announced an exec, and the new program has not connected or did so earlier, its end is that program's end. */
static void settle_log(struct collector *c, struct target *target)
{
	process_log_update(&c->process_log, target, false);
	if (target->ended_ns != 0 &&
	    (target->has_become || process_log_becomes(&c->process_log, target))) {
		target->known.end = END_EXEC;
		target->known.exit_code = 0;
	}
	process_log_update(&c->process_log, target, true);
}

/* A process that was killed, or that calls exit_group itself, did not wait for one. */
static void report_image(const struct collector *c, const struct target *target)
{
	char sentence[ERROR_MESSAGE_BYTES + 128];

	if (!c->options->image || !c->options->say || target->image.process_count > 0 ||
	    target->known.end == END_EXEC)
		return;
	snprintf(sentence, sizeof sentence, "no image of process %d: %s", target->pid,
		 target->no_image.message[0] ? target->no_image.message
		 : target->ended_ns == 0     ? "it still ran when the recording ended"
					     : "it ended without running its exit handlers");
	c->options->say(c->options->context, true, sentence);
}

static void report_pages(const struct collector *c, const struct target *target)
{
	char sentence[ERROR_MESSAGE_BYTES + 128];

	if (!c->options->say || !target->no_pages.message[0] || target->known.end == END_EXEC)
		return;
	snprintf(sentence, sizeof sentence, "the pages of process %d were not read%s: %s",
		 target->pid, target->pages.sum_count > 0 ? " again" : "",
		 target->no_pages.message);
	c->options->say(c->options->context, true, sentence);
}

void collector_pass_on(struct collector *c, uint64_t now_ns, bool everyone)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->targets.count; i++) {
		struct target *target = c->targets.at[i];

		if ((!is_settled(target, now_ns) && !everyone) || target_is_sampling(target)) {
			c->targets.at[kept++] = target;
			continue;
		}
		c->ended_calls += target->totals.calls;
		settle_log(c, target);
		/* A recorder that was never initialized has no data. */
		if (!target_is_ready(target) && target->totals.calls == 0) {
			process_log_miss(&c->process_log, MISSED_no_room, target->known.exe);
			target_free(target);
			continue;
		}
		if (target->left_out) {
			target_free(target);
			continue;
		}
		c->result->recorded = true;
		report_image(c, target);
		report_pages(c, target);
		encoder_give(c->encoder, target, now_ns);
	}
	c->targets.count = kept;
}
