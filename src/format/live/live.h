/* SPDX-License-Identifier: Apache-2.0 */
/* The live profile: one mapping per process, which only the target writes and all others only read.
 *
 * Glossary
 *   module   a loaded ELF object, kept after dlclose; ids are never reused for another object
 *   frame    one return address as (module, offset)
 *   node     a frame and its caller: the stack trie; node 0 is the root
 *   tag      a name that the program gave to a phase or kind of work; tags form a tree; tag 0 is the root, no tag at all
 *   site     node x tag x kind x sampling interval: every block belongs to one
 *   slot     the totals and working state of one live thread; a later thread may inherit it from one that has ended
 *   site counters   those of one site in one thread; a site's numbers are the sums over them
 *   thread   one entry of the thread log; ids count up and are never reused
 *
 * Invariants
 *   - Every region is append-only; `used[region]` is stored with release order after the entries it covers, and a
 *     reader loads it with acquire order first. Counters inside entries change afterwards, each by one writer.
 *   - Site counters, a slot and everything they refer to in the pool have one writer: the thread that owns the slot.
 *   - Counters are monotonic (allocated, freed). Live numbers of one thread may be negative: it frees what others allocated.
 *   - Offsets, never pointers: readers map the memory at another address.
 *
 * docs/format.md is the normative text. */
#ifndef FORMAT_LIVE_LIVE_H
#define FORMAT_LIVE_LIVE_H

#include <stdint.h>

#define LIVE_MAGIC "HGLIVE\r\n"
enum {
	LIVE_MAJOR = 9,
	LIVE_MAJOR_OLDEST = 9, /* the oldest that readers accept */
	LIVE_MINOR = 1,
	LIVE_PAGE = 4096,
	LIVE_REGION_ALIGN = 65536, /* the largest page size of any kernel */
};

/* The regions of the mapping. The unit of `used` is in brackets. */
enum live_region {
	LIVE_MODULES,	    /* struct live_module [entries] */
	LIVE_STRINGS,	    /* bytes, not terminated [bytes] */
	LIVE_FRAMES,	    /* uint64_t, see live_frame_* [entries] */
	LIVE_NODES,	    /* struct live_node [entries] */
	LIVE_SITES,	    /* struct live_site [entries] */
	LIVE_SITE_COUNTERS, /* struct live_site_counters [entries] */
	LIVE_POOL,	    /* 64-byte units of histograms and other details [units] */
	LIVE_SLOTS,	    /* struct live_slot [entries] */
	LIVE_THREADS,	    /* struct live_thread [entries] */
	LIVE_TAGS,	    /* struct live_tag [entries] */
	LIVE_VISITS,	    /* struct live_visits [entries] */
	LIVE_MARKS,	    /* struct live_mark [entries] */
	LIVE_SAVED,	    /* struct live_saved, a ring: `used` is meaningless */
	LIVE_SAMPLED,	    /* struct live_sampled [entries] */
	LIVE_AREAS,	    /* struct live_area, the block map's middle level [entries] */
	LIVE_LEAVES,	    /* leaves of the block map [units of LIVE_LEAF_UNIT bytes] */
	LIVE_LEAF_ERAS, /* uint32_t: for each unit of leaves, its unit of eras + 1; 0 = none [entries] */
	LIVE_ERAS, /* uint16_t: the upper bits of births, one for each word of a unit of leaves [units of LIVE_ERA_UNIT bytes] */
	LIVE_CODES,   /* struct live_code [entries] */
	LIVE_SCRATCH, /* private tables of the recorder: not for readers [bytes] */
	LIVE_REGIONS,
};

/* Of a process' addresses. A reader derives the length of `top` from the header: it may be of another architecture. */
#ifdef __aarch64__
enum { LIVE_ADDRESS_BITS = 48 };
#else
enum { LIVE_ADDRESS_BITS = 47 };
#endif

enum {
	LIVE_POOL_UNIT = 64,
	LIVE_LEAF_UNIT = 256 * 1024,
	LIVE_ERA_UNIT = LIVE_LEAF_UNIT / 4,
	LIVE_AREA_SHIFT = 32, /* one area is 4 GiB of the target's address space */
	LIVE_TOP_ENTRIES = 1 << (LIVE_ADDRESS_BITS - LIVE_AREA_SHIFT),
	LIVE_TOP_ENTRIES_MAX = 1 << (48 - LIVE_AREA_SHIFT),
	LIVE_SMALL_SHIFT = 20,	 /* one small leaf covers 1 MiB */
	LIVE_LARGE_SHIFT = 27,	 /* one large leaf covers 128 MiB */
	LIVE_SMALL_LIMIT = 4096, /* smaller requests are in small leaves, others in large leaves */
	LIVE_LARGE_GRANULE_SHIFT = 12,
	LIVE_TINY_SHIFT =
		12, /* one tiny leaf covers 4 KiB with one word for each 8 bytes: it is one page */
	LIVE_TINY_TABLE_SHIFT = 28, /* one table of tiny leaves, a unit, covers 256 MiB */
	LIVE_TINY_GRANULE_SHIFT = 3,
	LIVE_TINY_LIMIT =
		25, /* smaller requests are in tiny leaves if the allocator packs them closer than 32 bytes */
};

/* doc: live_module */
struct live_module {
	uint64_t start, end;		 /* its address range */
	uint64_t bias;			 /* address minus ELF virtual address */
	uint64_t mapped_ms, unmapped_ms; /* clock; unmapped_ms is 0 while mapped */
	uint32_t path_at, path_bytes;	 /* in LIVE_STRINGS */
	uint8_t build_id[32];
	uint32_t build_id_bytes;
	uint32_t kind;	 /* enum live_module_kind */
	uint64_t own[4]; /* private to the recorder: meaningless outside the target */
};
_Static_assert(sizeof(struct live_module) == 120, "on-disk size");

enum live_module_kind {
	LIVE_MODULE_ELF = 0,
	LIVE_MODULE_PYTHON = 1, /* a source file: frame offsets are live_code_offset() */
};

/* doc: live_code */
struct live_code {	 /* a Python function */
	uint32_t module; /* its file */
	uint32_t first_line;
	uint32_t name_at, name_bytes;	/* in LIVE_STRINGS */
	uint32_t lines_at, lines_bytes; /* in LIVE_STRINGS: CPython's location table */
	uint64_t own[2];		/* private to the recorder, meaningless outside */
};
_Static_assert(sizeof(struct live_code) == 40, "on-disk size");

/* doc: live_node */
struct live_node {
	uint32_t parent; /* node; towards the root */
	uint32_t frame;
};

enum live_kind {
	LIVE_KIND_HEAP = 0, /* malloc family and C++ operators */
	LIVE_KIND_MMAP = 1, /* anonymous mmap by the program itself */
	LIVE_KIND_POOL = 2, /* from the program's own allocators, inside memory of other kinds */
	LIVE_MEMORY_KINDS,
	/* No memory: blocks of the heap that were freed on a stack. The site's `tag` is the site that allocated them. */
	LIVE_KIND_FREED = LIVE_MEMORY_KINDS,
	/* No memory: timed calls for blocks of the site in `tag`. Bytes are nanoseconds, `interval` is in calls. */
	LIVE_KIND_TIMED,
	LIVE_KINDS,
};

/* doc: live_site */
struct live_site {
	uint64_t key;	    /* hash of the stack, tag, kind and entry; a key, not proof */
	uint32_t node;	    /* innermost frame */
	uint32_t tag;	    /* 0 = none; of LIVE_KIND_FREED and _TIMED: a site */
	uint16_t kind;	    /* enum live_kind */
	uint16_t entry;	    /* enum live_entry */
	uint32_t unsampled; /* the site of the same stack and tag with interval 0; 0 = this one */
	uint64_t born_ms;
	uint64_t interval; /* sampling interval in bytes; 0 = every block is recorded */
};
_Static_assert(sizeof(struct live_site) == 40, "on-disk size");

/* Site 0 does not exist. Sites 1 to LIVE_SITE_FIRST-1 are created at start-up: blocks that cannot get their own site (no memory
 * left in the budget) are counted there, so that totals stay exact. */
enum {
	LIVE_SITE_OTHER_HEAP = 1,
	LIVE_SITE_OTHER_MMAP = 2,
	LIVE_SITE_OTHER_POOL = 3,
	LIVE_SITE_FIRST = LIVE_SITE_OTHER_HEAP + LIVE_KINDS, /* after those of all kinds */
};

/* doc: live_site_counters
 * Two cache lines: the first is touched by every operation. Blocks and bytes live = allocated - freed. */
struct live_site_counters {
	uint32_t site;	 /* stored last, release: 0 = not published yet */
	uint32_t thread; /* the thread they belong to: live_thread.counted_as */
	uint64_t calls, bytes;
	uint64_t frees, freed_bytes;
	int64_t peak_bytes; /* live bytes when epoch `epoch` started; see docs/format.md */
	int32_t peak_blocks;
	uint32_t epoch;
	uint64_t max_bytes; /* maximum live bytes of the site in this thread */
	/* second cache line */
	uint64_t
		first_size; /* requested size of the first call; its value is not valid with LIVE_SIZES_MANY */
	uint32_t sizes; /* pool: 0 = all calls had first_size; see LIVE_SIZES_MANY */
	uint32_t
		lifetimes; /* pool: struct live_lifetimes; 0 = all were freed within the tick of their allocation */
	uint32_t reallocs;	/* pool: struct live_reallocs; 0 = none */
	uint32_t samples;	/* pool: struct live_samples; 0 = every block is recorded */
	uint64_t temporary;	/* freed by the same thread before its next allocation */
	uint64_t fragmentation; /* usable minus requested, all calls */
	uint64_t freed_fragmentation;
	uint64_t key;	       /* of its site; private to the recorder */
	uint64_t unaged_frees; /* of blocks with unknown birth: in no lifetime bucket */
};
_Static_assert(sizeof(struct live_site_counters) == 128, "on-disk size");

/* Pool objects. A reference is the index of the first unit; unit 0 is never allocated. */

/* doc: live_sizes_few: up to LIVE_FEW_SIZES exact sizes beside first_size, whose count is calls minus these. */
enum { LIVE_FEW_SIZES = 7 };
struct live_sizes_few {
	uint64_t used;
	struct {
		uint64_t size, count;
	} entry[LIVE_FEW_SIZES];
	uint64_t pad;
};
_Static_assert(sizeof(struct live_sizes_few) == 2 * LIVE_POOL_UNIT, "pool units");

/* doc: live_sizes_many: all calls by half octaves; `sizes` has this bit set. Bucket: live_size_bucket(). */
#define LIVE_SIZES_MANY 0x80000000u
enum { LIVE_SIZE_BUCKETS = 96 };
struct live_sizes_many {
	uint64_t count[LIVE_SIZE_BUCKETS];
};
_Static_assert(sizeof(struct live_sizes_many) == 12 * LIVE_POOL_UNIT, "pool units");

/* doc: live_lifetimes: freed blocks that lived at least one tick, by powers of two of milliseconds:
 * count[i] for [2^i, 2^(i+1)); the last bucket is open. */
enum { LIVE_LIFETIME_BUCKETS = 39 };
struct live_lifetimes {
	uint64_t sum_ms;
	uint64_t count[LIVE_LIFETIME_BUCKETS];
};
_Static_assert(sizeof(struct live_lifetimes) == 5 * LIVE_POOL_UNIT, "pool units");

/* doc: live_reallocs: of calls of realloc and reallocarray that had a block, counted at the site of the call. */
struct live_reallocs {
	uint64_t calls;
	uint64_t moved_calls, moved_bytes; /* bytes copied: the smaller of old and new size */
	uint64_t grown_calls, shrunk_calls;
	uint64_t old_bytes, new_bytes;
	uint64_t pad;
};
_Static_assert(sizeof(struct live_reallocs) == LIVE_POOL_UNIT, "pool units");

/* doc: live_samples: of site counters whose blocks are samples. Each has a weight, which the other counters
 * include; here are the samples themselves, and the variances of the estimates: of blocks, and of bytes. */
enum { LIVE_VARIANCE_SHIFT = 8 }; /* in units of 1/256 blocks squared, and of 256 bytes squared */
struct live_samples {
	uint64_t count, freed_count; /* of samples, and of those that were freed */
	uint64_t calls_variance, frees_variance;
	uint64_t bytes_variance, freed_variance;
	uint64_t pad[2];
};
_Static_assert(sizeof(struct live_samples) == LIVE_POOL_UNIT, "pool units");

#include "format/live/live_entry.h"
#include "format/live/live_pairs.h"
#include "format/live/live_threads.h"
#include "format/live/live_tags.h"

/* doc: live_area: the block map's middle level. Entries are leaf numbers (first LIVE_LEAVES unit + 1); 0 = none. */
struct live_area {
	uint32_t small[1 << (LIVE_AREA_SHIFT - LIVE_SMALL_SHIFT)];
	uint32_t large[1 << (LIVE_AREA_SHIFT - LIVE_LARGE_SHIFT)];
	/* Tables of tiny leaves, one unit each: number of a page of LIVE_LEAVES + 1. */
	uint32_t tiny[1 << (LIVE_AREA_SHIFT - LIVE_TINY_TABLE_SHIFT)];
	uint32_t pad[976];
};
_Static_assert(sizeof(struct live_area) % LIVE_PAGE == 0, "areas are opened page by page");

#include "format/live/live_codes.h"
#include "format/live/live_header.h"
#endif
