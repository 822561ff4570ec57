/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks, sites and ages of the recordings made by hand. */
#ifndef TEST_MODEL_ROWS_H
#define TEST_MODEL_ROWS_H

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "format/recording/recording.h"
#include "unit.h"

/* The rows of one array, copied: MADE(rows, site_counters, site_counters_count, { ... }, { ... }). */
#define MADE(rows, array, counter, ...)                                                            \
	do {                                                                                       \
		__typeof__(*(rows)->array) made_[] = { __VA_ARGS__ };                              \
		(rows)->array = malloc(sizeof made_);                                              \
		assert_non_null((rows)->array);                                                    \
		memcpy((rows)->array, made_, sizeof made_);                                        \
		(rows)->counter = ARRAY_SIZE(made_);                                               \
	} while (0)

/* Modules, frames and stacks of a small server: main > serve > cache_insert, main > parse, and marks. */
static inline void made_stacks(struct process_rows *rows)
{
	MADE(rows, modules, module_count, { .path = strdup("") },
	     { .path = strdup("/no/such/server"), .build_id = { 0xab, 0xcd }, .build_id_bytes = 2 },
	     { .path = strdup("/no/such/libhttp.so.1") });
	MADE(rows, frames, frame_count, 0, live_frame_pack(1, 0x1000, 0),
	     live_frame_pack(1, 0x2000, 0), live_frame_pack(1, 0x3000, 1),
	     live_frame_pack(2, 0x4000, 0), live_frame_pack(0, LIVE_FRAME_CUT, 0),
	     live_frame_pack(0, LIVE_FRAME_STOPPED, 0), live_frame_pack(0, LIVE_FRAME_OTHER, 0),
	     live_frame_pack(0, 0xffff1234, 0));
	MADE(rows, nodes, node_count, { 0, 0 }, { 0, 1 }, /* 1: main */
	     { 1, 2 },					  /* 2: main > serve */
	     { 2, 3 },					  /* 3: main > serve > cache_insert */
	     { 1, 4 },					  /* 4: main > parse */
	     { 0, 5 }, { 5, 4 },			  /* 6: [cut] > parse */
	     { 0, 6 }, { 7, 8 },			  /* 8: [no unwind] > 0xffff1234 */
	     { 0, 7 } /* 9: [other] */);
}

static inline void made_server_sites(struct process_rows *rows)
{
	made_stacks(rows);
	MADE(rows, sites, site_count, { 0 }, { .node = 9, .kind = LIVE_KIND_HEAP },
	     { .node = 9, .kind = LIVE_KIND_MMAP }, { .node = 3, .born_ns = 5 },
	     { .node = 4, .born_ns = 6 }, { .node = 6 }, { .node = 8 },
	     { .node = 2, .kind = LIVE_KIND_MMAP });
	MADE(rows, bars, bar_count, { 64, 64, 90 }, { 4096, 4096, 10 }, { 64, 64, 5 },
	     { 48, 63, 1 }, { 64, 95, 4 }, { 0, 1, 60 }, { 2, 4, 30 }, { 2, 4, 1 });
	MADE(rows, site_counters, site_counters_count,
	     { .site = 3,
	       .slot = 0,
	       .calls = 100,
	       .bytes = 46720,
	       .frees = 90,
	       .freed_bytes = 40960,
	       .peak_bytes = 41000,
	       .peak_blocks = 12,
	       .max_bytes = 43000,
	       .temporary = 60,
	       .fragmentation = 800,
	       .freed_fragmentation = 720,
	       .lifetime_ms_sum = 90,
	       .sizes_at = 0,
	       .sizes_count = 2,
	       .lifetimes_at = 5,
	       .lifetimes_count = 2,
	       .reallocs = { .calls = 7,
			     .moved_calls = 3,
			     .moved_bytes = 512,
			     .grown_calls = 6,
			     .shrunk_calls = 1,
			     .old_bytes = 448,
			     .new_bytes = 900 } },
	     { .site = 4,
	       .slot = 0,
	       .calls = 5,
	       .bytes = 320,
	       .max_bytes = 320,
	       .sizes_at = 2,
	       .sizes_count = 1,
	       .peak_bytes = 320,
	       .peak_blocks = 5 },
	     { .site = 4,
	       .slot = 1,
	       .calls = 5,
	       .bytes = 400,
	       .frees = 6,
	       .freed_bytes = 420,
	       .peak_bytes = -20,
	       .peak_blocks = -1,
	       .max_bytes = 100,
	       .sizes_at = 3,
	       .sizes_count = 2,
	       .lifetimes_at = 7,
	       .lifetimes_count = 1 },
	     { .site = 5,
	       .slot = 0,
	       .calls = 2,
	       .bytes = 200,
	       .frees = 2,
	       .freed_bytes = 200,
	       .max_bytes = 100 },
	     { .site = 6,
	       .slot = 1,
	       .calls = 1,
	       .bytes = 50,
	       .max_bytes = 50,
	       .peak_bytes = 50,
	       .peak_blocks = 1 },
	     { .site = 7,
	       .slot = 0,
	       .calls = 2,
	       .bytes = 1 << 20,
	       .frees = 1,
	       .freed_bytes = 1 << 19,
	       .max_bytes = 1 << 20 });
}

/* Of the 10 and the 4 blocks that are left of sites 3 and 4; the second is in both threads' hands. */
static inline void made_ages(struct process_rows *rows)
{
	MADE(rows, ages, age_count, { .counters = 0, .bucket = 13, .blocks = 9, .bytes = 5696 },
	     { .counters = 0, .bucket = 3, .blocks = 1, .bytes = 64 },
	     { .counters = 1, .bucket = 13, .blocks = 2, .bytes = 120 },
	     { .counters = 2, .bucket = 13, .blocks = 1, .bytes = 80 },
	     { .counters = 2, .bucket = 14, .blocks = 1, .bytes = 100 });
}

#endif
