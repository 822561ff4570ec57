/* SPDX-License-Identifier: Apache-2.0 */
/* What a program reports about its own memory: tags. Included by format/live/live.h. */
#ifndef FORMAT_LIVE_LIVE_TAGS_H
#define FORMAT_LIVE_LIVE_TAGS_H

#include <stdint.h>

/* doc: live_tag: a name below another. Entry 0 is the root. Each name is there once below the root, whether or not
 * anything was ever entered by it there: other tags of the name refer to that one. */
enum { LIVE_TAG_TEXT_MAX = 255, LIVE_TAG_DEPTH_MAX = 128 };
enum live_tag_kind { LIVE_TAG_SCOPE, LIVE_TAG_POOL, LIVE_TAG_LABEL, LIVE_TAG_KINDS };
struct live_tag {
	uint32_t parent;	      /* less than its own index */
	uint32_t name;		      /* the tag of this name below the root: itself there */
	uint32_t text_at, text_bytes; /* in LIVE_STRINGS */
	uint32_t depth;		      /* 1 directly below the root */
	uint32_t kind;		      /* enum live_tag_kind */
	uint32_t pool; /* POOL, below the root: its counters in LIVE_POOL; 0 = none yet */
	uint32_t pad;
};
_Static_assert(sizeof(struct live_tag) == 32, "on-disk size");

/* doc: live_visits: how often the threads of one slot entered a tag. */
struct live_visits {
	uint32_t tag;	 /* stored last, release: 0 = not published yet */
	uint32_t thread; /* live_thread.counted_as */
	uint64_t count;
};
_Static_assert(sizeof(struct live_visits) == 16, "on-disk size");

/* doc: live_pool: of all pools of one name: what is live in them, and the most that ever was. Atomics. */
struct live_pool {
	int64_t live_bytes, most_bytes;
	uint64_t pools; /* number of pools created */
	uint64_t pad[5];
};
_Static_assert(sizeof(struct live_pool) == 64, "pool units");

/* doc: live_mark: a moment that the program named, in the order in which they came. */
enum live_mark_kind { LIVE_MARK_POINT, LIVE_MARK_SNAPSHOT, LIVE_MARK_KINDS };
struct live_mark {
	uint32_t there;	       /* 1 once all of it is written, release */
	uint32_t kind;	       /* enum live_mark_kind */
	uint32_t name;	       /* of LIVE_TAGS; 0 = none */
	uint32_t saved_arrays; /* SNAPSHOT: how many arrays saved_count covers; 0 = one */
	uint64_t mono_ns;      /* CLOCK_MONOTONIC; 0 = unknown */
	/* SNAPSHOT: values of the site counters [0, site_counters_count), in the ring; saved_count 0 = none were saved */
	uint64_t saved_at; /* never wraps: the position is this modulo the size of the ring */
	uint32_t saved_count, site_counters_count;
	uint64_t at_ms; /* clock */
};
_Static_assert(sizeof(struct live_mark) == 48, "on-disk size");

/* doc: live_saved: two numbers of a site in a thread, modulo 2^64. A snapshot is one array of them after another, each with an
 * entry for every site counters. */
enum live_saved_array {
	LIVE_SAVED_LIVE,      /* live bytes and blocks */
	LIVE_SAVED_ALLOCATED, /* bytes and blocks of all calls so far */
	LIVE_SAVED_OTHER,     /* internal fragmentation of all calls, and temporary blocks */
	LIVE_SAVED_ARRAYS,
};
struct live_saved {
	uint64_t bytes, blocks;
};
#endif
