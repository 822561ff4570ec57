/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder's memory grows with what it has to remember: distinct stacks, and the places of live blocks. The budget
 * only bounds that. It is wide where memory is plenty, since what does not fit is lost to the reader; and it shrinks when
 * others need the room. No state.
 */
#include "collect/process/budget.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "collect/kernel/procfs.h"

#define LEAST_BYTES (64ull << 20)
#define MOST_BYTES (1ull << 30)
enum { SHARE_OF_ROOM = 10 };

struct budget budget_default(const struct cgroup_memory *cgroup, uint64_t own_bytes,
			     uint64_t free_bytes)
{
	uint64_t part = (free_bytes + own_bytes) / SHARE_OF_ROOM;
	struct budget budget = { MIN(MAX(part, LEAST_BYTES), MOST_BYTES), UINT64_MAX };

	if (cgroup->limit_bytes != 0) {
		uint64_t room = saturating_sub(cgroup->limit_bytes, cgroup->usage_bytes);

		budget.limit_bytes = (room + own_bytes) / SHARE_OF_ROOM;
		budget.bytes = MIN(budget.bytes, budget.limit_bytes);
	}
	return budget;
}

uint64_t budget_free_memory(void)
{
	static const char field[] = "MemAvailable:";
	char text[1024];
	const char *at;

	if (procfs_small("/proc/meminfo", text, sizeof text) == 0)
		return 0;
	at = strstr(text, field);
	return at ? strtoull(at + sizeof field - 1, NULL, 10) * 1024 : 0;
}
