/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that end. The program itself is our child: wait(2) tells everything. Of others a descriptor says that they
 * have ended; how, the kernel tells in /proc until their parent has waited for them, and from Linux 6.15 on through the
 * descriptor afterwards. What nobody tells is recorded as not known.
 *
 * Called by the loop, in its thread.
 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/checked.h"
#include "collect/run/collector.h"

/* How long the kernel may take to tell how a process ended: its parent must wait for it in between. */
#define END_TIMEOUT_NS 100000000ull

static struct target *living_target(struct collector *c, pid_t pid)
{
	for (size_t i = 0; i < c->targets.count; i++) {
		if (c->targets.at[i]->pid == pid && c->targets.at[i]->ended_ns == 0)
			return c->targets.at[i];
	}
	return NULL;
}

void collector_reap(struct collector *c, uint64_t now_ns)
{
	struct rusage usage;
	int status;
	struct target *target;

	if (c->child == 0 || c->child_ended ||
	    wait4(c->child, &status, WNOHANG, &usage) != c->child)
		return;
	c->child_ended = true;
	c->child_ended_ns = now_ns;
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

	/* The kernel's maximum is that of the largest descendant, if there was one. */
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
	/* Without a descriptor there is nobody to ask later. */
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

/* If it had announced to become another program, which was not heard from, or before it, the end was that program's. */
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
		/* A recorder that never began has nothing to tell. */
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
		encoder_give(c->encoder, target, now_ns);
	}
	c->targets.count = kept;
}
