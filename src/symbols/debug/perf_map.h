/* SPDX-License-Identifier: Apache-2.0 */
/* Names of JIT-compiled code, from the map that a runtime writes for perf. */
#ifndef SYMBOLS_DEBUG_PERF_MAP_H
#define SYMBOLS_DEBUG_PERF_MAP_H

#include <stdint.h>

#include "base/span.h"

struct perf_map;

enum perf_map_state {
	PERF_MAP_READ,
	PERF_MAP_MISSING, /* it does not exist (any more), or is unreadable */
	PERF_MAP_STRANGE, /* of another process with that pid, or of another user */
};

/* Start and end of the process by the real-time clock (end 0: still running), and its user. */
struct perf_map_life {
	uint64_t started_real_ns, ended_real_ns;
	uint32_t uid; /* user id + 1; 0: unknown, assumed to be ours */
};

/* NULL if the map is unusable; *ret_state says why. */
struct perf_map *perf_map_open(const char *path, struct perf_map_life life,
			       enum perf_map_state *ret_state);
void perf_map_free(struct perf_map *map);

/*
 * The name at the address, as the runtime wrote it; empty if there is none. If the runtime reused an
 * address, the later line takes precedence. Lives as long as the map.
 */
struct span perf_map_find(const struct perf_map *map, uint64_t address);

#endif
