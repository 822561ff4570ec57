/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run ends with the program that was launched. Processes that outlive it, mostly daemons, are reported and released: the
 * collector sets them to dormant by a word in their control page, which stays in effect after heapgauge has exited.
 *
 * A forked child that has not connected still maps the control page of its parent, which may have ended, and been passed to the
 * encoder, long ago. It gets no answer when it connects later, so it stays off too.
 */
#include <stdio.h>

#include "collect/kernel/procfs.h"
#include "collect/run/collector.h"
#include "util/cleanup.h"
#include "util/files.h"

static void add(struct collect_survivors *list, pid_t pid, const char *exe)
{
	struct collect_survivor one = { .pid = pid };

	for (size_t i = 0; i < list->count; i++) {
		if (list->at[i].pid == pid)
			return;
	}
	snprintf(one.name, sizeof one.name, "%s", exe && *exe ? path_base(exe) : "?");
	(void)vector_push(list, one); /* if out of memory, it is not reported */
}

void survivors_list(struct collector *c, uint64_t now_ns, struct collect_survivors *ret)
{
	for (size_t i = 0; i < c->targets.count; i++) {
		const struct target *target = c->targets.at[i];

		if (target->ended_ns == 0)
			add(ret, target->pid, target->known.exe);
	}
	if (c->options->children == COLLECT_CHILDREN_NONE)
		return;
	unconnected_count(&c->unconnected, c->listener.name, now_ns);
	for (size_t i = 0; i < c->unconnected.found.count; i++) {
		pid_t pid = c->unconnected.found.at[i].pid;

		if (c->unconnected.found.at[i].doubtful)
			continue;
		AUTO_FREE char *exe = procfs_exe(pid);

		add(ret, pid, exe);
	}
}

void survivors_let_go(struct collector *c)
{
	for (size_t i = 0; i < c->targets.count; i++) {
		if (c->targets.at[i]->ended_ns == 0)
			live_profile_dismiss(&c->targets.at[i]->profile);
	}
}
