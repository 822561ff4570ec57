/* SPDX-License-Identifier: Apache-2.0 */
/* Names of code that a runtime compiled while running, from the map that it writes for perf. */
#ifndef SYMBOLS_DEBUG_PERF_MAP_H
#define SYMBOLS_DEBUG_PERF_MAP_H

#include <stdint.h>

#include "base/span.h"

struct perf_map;

enum perf_map_state {
	PERF_MAP_READ,
	PERF_MAP_MISSING, /* there is none (any more), or it cannot be read */
	PERF_MAP_STRANGE, /* of another run of that process id, or of somebody else */
};

/* When the process began and ended, by the real-time clock (end 0: it runs), and whose it was. */
struct perf_map_life {
	uint64_t started_real_ns, ended_real_ns;
	uint32_t uid; /* 1 + its user; 0: not known, then taken to be ours */
};

/* NULL if it gives nothing; *ret_state says why. */
struct perf_map *perf_map_open(const char *path, struct perf_map_life life,
			       enum perf_map_state *ret_state);
void perf_map_free(struct perf_map *map);

/*
 * The name at the address, as the runtime wrote it; empty if there is none. Where the runtime used an
 * address again, the later line counts. Lives as long as the map.
 */
struct span perf_map_find(const struct perf_map *map, uint64_t address);

#endif
