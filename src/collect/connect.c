/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that connect: the program itself, its forks, the programs that they become. Each that is to be recorded
 * gets memory of its own; heapgauge itself never does, since it would wait for its own end.
 *
 * Called by the loop, in its thread; nothing here waits.
 */
#include <string.h>
#include <unistd.h>

#include "collect/collector.h"
#include "collect/procfs.h"
#include "collect/ranks.h"
#include "util/cleanup.h"

enum { HELLO_PATIENCE_NS = 1000000000 };

/* A process that replaced itself by exec connects again: what was recorded before ended there. */
static void end_earlier_self(struct collector *c, pid_t pid, uint64_t now_ns)
{
	for (size_t i = 0; i < c->targets.count; i++) {
		struct target *target = c->targets.at[i];

		if (target->pid == pid && target->ended_ns == 0)
			target_ended(target, now_ns, END_EXEC, 0);
	}
}

/* It is heard from: what announced it is settled. */
static void settle_ticket(struct collector *c, uint64_t ticket)
{
	for (size_t i = 0; i < c->targets.count; i++) {
		if (c->targets.at[i]->number == ticket >> 32)
			starts_read(&c->starts, c->targets.at[i]);
	}
	starts_heard(&c->starts, ticket);
}

/* It was to be recorded and is not. */
static void give_up(struct collector *c, pid_t pid, enum missed_reason reason,
		    const struct error *error)
{
	AUTO_FREE char *exe = procfs_exe(pid);

	memcpy(c->last_error, error->message, sizeof c->last_error);
	starts_miss(&c->starts, reason, exe);
}

static void welcome(struct collector *c, const struct pending *pending,
		    const struct live_hello *hello)
{
	uint64_t now_ns = collector_now();
	struct error error = ERROR_INIT;
	int rank = rank_of(pending->pid);
	struct target *target;

	end_earlier_self(c, pending->pid, now_ns);
	settle_ticket(c, hello->ticket);
	if (c->self.st_ino != 0 && procfs_exe_is(pending->pid, &c->self)) {
		(void)handover_answer(pending->fd, NULL, NULL);
		return;
	}
	if (rank != RANK_NONE && !ranks_have(&c->options->ranks, rank)) {
		c->other_ranks++;
		(void)handover_answer(pending->fd, NULL, NULL);
		return;
	}
	target = target_new(++c->numbers, pending->pid, hello, c->options, &c->cgroups,
			    c->listener.name, now_ns, &error);
	if (!target || !vector_push(&c->targets, target)) {
		give_up(c, pending->pid, MISSED_no_memory, &error);
		(void)handover_answer(pending->fd, NULL, NULL);
		target_free(target);
		return;
	}
	target->known.rank = (uint32_t)(rank + 1);
	/* Where ranks are wanted, one that has none is the launcher. */
	if (!ranks_have(&c->options->ranks, rank))
		target->left_out = true;
	(void)vector_push(&c->silent.inodes, profile_inode(&target->profile));
	if (handover_answer(pending->fd, &target->profile, &error) < 0) {
		/* It took one look at the first answer and hung up, or was killed meanwhile. */
		give_up(c, pending->pid, MISSED_no_room, &error);
		c->targets.count--;
		target_free(target);
		return;
	}
	c->welcomed++;
}

/* A snapshot of one process, or of all. Whether there is such a one. */
static bool wish(struct collector *c, const struct live_request *request)
{
	bool found = false;

	for (size_t i = 0; i < c->targets.count; i++) {
		struct target *target = c->targets.at[i];

		if (target->ended_ns != 0 ||
		    (request->pid != 0 && (pid_t)request->pid != target->pid))
			continue;
		target_wish(target, request->name);
		found = true;
	}
	return found;
}

void collector_accept(struct collector *c, uint64_t now_ns)
{
	struct pending pending = { .since_ns = now_ns };

	for (size_t i = 0; i < LISTENER_SOCKETS; i++) {
		while ((pending.fd = handover_accept(c->listener.fd[i], &pending.pid)) >= 0) {
			if (!vector_push(&c->pending, pending))
				close(pending.fd);
		}
	}
}

void collector_serve(struct collector *c, uint64_t now_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->pending.count; i++) {
		struct pending pending = c->pending.at[i];
		union handover_message message;
		enum handover_state state = handover_receive(pending.fd, &message);

		if (state == HANDOVER_WAIT && now_ns - pending.since_ns < HELLO_PATIENCE_NS) {
			c->pending.at[kept++] = pending;
			continue;
		}
		/* The program itself may have died since it spoke. */
		if (state == HANDOVER_HELLO && !(c->child_ended && pending.pid == c->child))
			welcome(c, &pending, &message.hello);
		if (state == HANDOVER_REQUEST)
			handover_reply(pending.fd, wish(c, &message.request));
		close(pending.fd);
	}
	c->pending.count = kept;
}
