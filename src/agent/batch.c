/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces are looked up when a process is read, and compared as they were then before they are looked up again: thousands of
 * containers with a process each must not be compared with each other at every reading. No state; the agent's loop.
 */
#include "agent/batch.h"

#include <string.h>
#include <sys/stat.h>

#include "base/compiler.h"
#include "collect/kernel/procfs.h"
#include "util/clock.h"

/* Those that are large are read alone: the others would wait for them, and their memory would be kept until the end. */
#define QUICK_NS (50 * NS_PER_MS)
enum { SMALL_BYTES = 16 << 20 };

static bool see_namespaces(struct agent_process *process)
{
	static const char *const names[] = { "ns/user", "ns/mnt", "ns/pid" };
	struct stat st;

	_Static_assert(ARRAY_SIZE(names) == ARRAY_SIZE(process->namespaces), "one for each");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (stat(procfs_path(process->recorded.pid, names[i]).text, &st) < 0) {
			memset(process->namespaces, 0, sizeof process->namespaces);
			return false;
		}
		process->namespaces[i] = st.st_ino;
	}
	return true;
}

/* A reading from a descriptor needs no privileges. A process that was not read yet may be anything. */
static bool may_share(const struct agent_process *p)
{
	return p->fate == FATE_RUNS && p->profile_fd >= 0 && !p->is_suspect && p->reading &&
	       p->reading->cpu_ns <= QUICK_NS && p->reading->recorder_bytes <= SMALL_BYTES;
}

static bool is_same_domain(const struct agent_process *a, const struct agent_process *b)
{
	return a->reader_uid == b->reader_uid && a->reader_gid == b->reader_gid &&
	       a->is_local == b->is_local &&
	       memcmp(a->namespaces, b->namespaces, sizeof a->namespaces) == 0;
}

size_t batch_gather(const struct processes *processes, size_t first, uint64_t until_ns,
		    struct agent_process *ret[READING_BATCH_MAX])
{
	struct agent_process *one = processes->at.at[first];
	size_t count = 0, most = MIN(processes->batch_max, (uint64_t)READING_BATCH_MAX);

	ret[count++] = one;
	if (one->fate != FATE_RUNS || !see_namespaces(one) || !may_share(one))
		return count;
	for (size_t i = 0; i < processes->at.count && count < most; i++) {
		struct agent_process *other = processes->at.at[i];

		if (other != one && !other->is_handled && other->next_ns <= until_ns &&
		    may_share(other) && is_same_domain(one, other) && see_namespaces(other) &&
		    is_same_domain(one, other))
			ret[count++] = other;
	}
	return count;
}
