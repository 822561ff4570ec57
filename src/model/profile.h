/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The immutable profile that every analysis reads. Built once from a recording and checked once: every id in it is inside
 * its table, so that the layers above need not check again.
 *
 * Glossary
 *   site    a stack, a tag, a kind of memory and what was called: what a block belongs to. The rows of a recording also distinguish sites by the
 *           sampling interval: model/same_sites.h
 *   site counters   the counters of one site in one slot (thread); a site's numbers are the sums over them
 *   node    a stack: a frame and the node of its caller; node 0 is the empty stack
 *   live    allocated and not freed; at the end of the recording, this is memory not freed at exit
 * Everything belongs to the profile and lives as long as it. Reading needs no lock.
 */
#ifndef MODEL_PROFILE_H
#define MODEL_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ids.h"
#include "base/span.h"
#include "model/frames/fold_options.h"
#include "model/frames/own_code.h"
#include "util/arena.h"

struct process_rows;

/* POOL: from a custom allocator of the program. Its blocks are inside those of the others, so the two are never added. */
enum profile_kind { PROFILE_HEAP, PROFILE_MMAP, PROFILE_POOL, PROFILE_KINDS };
const char *profile_kind_name(enum profile_kind kind); /* "heap", "mmap", "pool" */

/* Calls of realloc on an existing block, counted at the site of the call. */
struct realloc_numbers {
	uint64_t calls;
	uint64_t moved_calls, moved_bytes, grown_calls, shrunk_calls;
	uint64_t old_bytes, new_bytes;
};

struct site_numbers {
	uint64_t calls, bytes;
	uint64_t frees, freed_bytes;
	uint64_t live_blocks, live_bytes;
	uint64_t peak_blocks, peak_bytes; /* at the moment of the process' heap peak */
	uint64_t max_bytes;		  /* maximum live bytes of this site ... */
	bool max_exact;			  /* ... or an upper bound if not exact */
	uint64_t temporary_calls;
	uint64_t fragmentation_bytes, live_fragmentation_bytes; /* usable minus requested */
	uint64_t lifetime_ms_sum, allocator_ns; /* over freed blocks; by timed calls */
	uint64_t aged_frees;			/* whose births are known: lifetimes are of these */
	struct realloc_numbers reallocs;
	/* For estimates; 0 if every block was recorded. Of other numbers: model/estimates.h. */
	uint64_t samples;
	double calls_variance, bytes_variance, live_blocks_variance, live_bytes_variance;
	double peak_blocks_variance, peak_bytes_variance, allocator_ns_variance;
	/* Set for a subset of threads that freed blocks of other threads or vice versa (remote frees): the peak, lifetimes and
	 * live_fragmentation_bytes are unknown, max_bytes is a bound, and live numbers come from the block map: */
	bool has_remote_frees;
	bool live_unknown; /* ... unless it is incomplete: live_* and frees are unknown too */
};

struct profile_site {
	site_id id;
	node_id node;
	tag_id tag; /* set by the program: model/tags.h */
	enum profile_kind kind;
	uint32_t entry; /* what the program called: model/entries.h */
	uint64_t born_ns;
	uint64_t interval; /* for sampling, in bytes, the largest if it changed; 0: exact */
	bool has_exact;	   /* every block was recorded, at least for some time */
	struct site_numbers numbers;
};

/* One bar of a distribution: sizes [low, high] in bytes, lifetimes [low, high) in milliseconds. */
struct profile_bar {
	uint64_t low, high, count;
	double variance; /* of a count by size; 0: exact */
};
struct profile_bars {
	const struct profile_bar *at;
	size_t count;
};

/* Sentinel frames, which have no address. */
enum profile_mark {
	MARK_NONE,
	MARK_CUT,     /* deeper than the limit: the outer frames were dropped */
	MARK_STOPPED, /* unwinding stopped here: no unwind information, or unreadable stack memory */
	MARK_OTHER,   /* the stack was not kept: memory budget, or lock timeout */
	MARK_STACK_OFF, /* no stack was to be recorded: mode or size limit */
	MARK_DAMAGED,	/* the recording refers to a frame that it lacks */
	MARK_COUNT,
};

struct profile_frame {
	frame_id id; /* below frame_count of its process; undefined if damaged */
	enum profile_mark mark;
	module_id module; /* 0: none; offset is then the absolute address */
	uint64_t offset;  /* ELF virtual address */
	bool exact;	  /* the instruction itself, not a return address */
};

struct profile_module {
	const char *path; /* "": unknown */
	struct span build_id;
};

/* Something that failed or was lost: always counted and reported. */
struct profile_note {
	const char *name; /* the JSON key */
	const char *text; /* its meaning for the user */
	uint64_t count;	  /* never 0 */
};
struct profile_notes {
	const struct profile_note *at;
	size_t count;
};

enum profile_end {
	PROFILE_RUNNING,
	PROFILE_EXITED,
	PROFILE_SIGNALLED,
	PROFILE_KILLED,
	PROFILE_BECAME, /* replaced by another program (exec) */
	PROFILE_ENDED,	/* in an unknown way */
};
/* "running", "exit", "signal", "killed", "exec", "unknown" */
const char *profile_end_name(enum profile_end end);
/* Whether live memory then counts as not freed: false if the process still runs or called exec. */
bool profile_end_leaks(enum profile_end end);
/* Whether exit_code is meaningful. */
bool profile_end_has_code(enum profile_end end);

/* A memory sheet: the breakdown of memory at one moment. Classes are resident bytes and add up to rss_bytes. */
struct profile_memory {
	bool known; /* else all is 0: the process ended before it was observed */
	bool has_parts; /* else the parts below are unknown: an older recording, unreadable, or nothing was recorded */
	uint64_t at_ns;
	uint64_t live_bytes, fragmentation_bytes, map_live_bytes;
	uint64_t rss_bytes, swap_bytes;
	uint64_t heap_bytes, anonymous_bytes, stack_bytes, file_bytes, shared_bytes, own_bytes;
	uint64_t private_bytes;				 /* heap and anonymous */
	uint64_t cgroup_limit_bytes, cgroup_usage_bytes; /* limit 0: none */
	/* Address space; 0, as the following: not recorded. */
	uint64_t vm_bytes, stack_reserved_bytes, stack_largest_bytes;
	uint64_t system_bytes, system_available_bytes, system_cached_bytes, system_swap_bytes;

	/* Parts of private_bytes, resident: their sum plus live + fragmentation - untouched is private_bytes. */
	uint64_t mapped_bytes;	   /* mmap by the program */
	uint64_t beyond_bytes;	   /* allocator overhead: free or cached in the allocator */
	uint64_t inherited_bytes;  /* from the parent, by fork */
	uint64_t static_bytes;	   /* zero-initialized variables */
	uint64_t unrecorded_bytes; /* not explained by anything recorded ... */
	uint64_t changed_bytes; /* ... but so much of it may have been just allocated or released */
	uint64_t untouched_bytes;	 /* not resident, in live blocks */
	uint64_t mapped_untouched_bytes; /* not resident, in mappings of the program */
};

/* How far live numbers may be off that were read while the program ran. 0: exact. */
struct live_bound {
	uint64_t bytes, blocks;
};

struct profile_process {
	uint32_t pid, ppid;
	uint32_t rank; /* rank in a parallel job + 1; 0: none */
	uint32_t uid;  /* effective user id + 1; 0: unknown */
	const char *command, *exe, *allocator;
	const char *linked_in; /* an unrecorded allocator in the executable; "": none */
	/* "exact", "sampled", "mixed" (both), "tags", "dormant"; imported: "unknown", too */
	const char *mode;
	enum profile_end end;
	uint32_t exit_code; /* exit status or signal number */
	uint64_t started_real_ns, duration_ns;
	uint64_t started_offset_ns; /* since the start of the recording */

	/* If sampled, so that its numbers are estimates: the largest interval, a bound for the peak's mean bias. */
	uint64_t interval, samples, peak_bias_bytes;
	/* Sums over its heap sites: calls, bytes, frees, live and peak numbers, and their variances. */
	struct site_numbers sums;

	/* heap */
	uint64_t calls, bytes, frees, freed_bytes;
	/* All allocations, counted whether or not they were recorded; only estimates if !counts_all (an older recording,
	 * or killed in the middle). `calls` and `bytes` are the sums over the sites. */
	uint64_t all_calls, all_bytes;
	bool counts_all;
	uint64_t live_bytes, live_blocks; /* at the end */
	struct live_bound live_bound;
	uint64_t temporary_calls;
	uint64_t peak_bytes, peak_blocks, peak_at_ns;
	uint64_t peak_bound_bytes; /* 0: exact */
	/* anonymous mmap by the program */
	uint64_t mmap_calls, mmap_bytes, mmap_live_bytes, mmap_peak_bytes;

	uint64_t peak_rss_bytes;
	uint64_t rss_bytes;	      /* when it was read, if it still ran; 0: unknown */
	uint64_t own_bytes;	      /* the recorder's memory */
	struct profile_memory memory; /* the last memory sheet */
	uint64_t threads, stacks;     /* over the process' lifetime; distinct ones */
	uint64_t depth_limit;
	bool has_python_pools;		  /* blocks of Python's own allocators are recorded */
	bool imported, has_totals;	  /* of another tool, maybe no totals: result/imported.h */
	const struct profile_site *sites; /* sites with a call or a free; by id */
	size_t site_count;
	const struct profile_module *modules; /* [0] is none */
	size_t module_count;
	size_t frame_count, node_count;
	struct profile_notes health;

	const struct own_rule *own;	 /* the profile's */
	const struct process_rows *rows; /* only for functions of the model */
	const struct same_sites *same;	 /* NULL: all rows are distinct sites */
	const struct site_pages *pages;	 /* by site id: model/memory/pages.h; NULL: not known */
	const uint32_t *fold;		 /* model/frames/fold.h; NULL: every node is shown */
	/* By site id, one more at the end: the first in the order by sites, then by sites of the rows. timed_*: of timed calls, or NULL. */
	const uint32_t *counters_of, *counters_order, *timed_of, *timed_order;
	const struct counters_live *counters_live; /* by row: model/threads.c */
	const uint8_t *remote_free_kinds;	   /* by slot: a bit per kind */
};

struct profile {
	struct arena arena;
	uint64_t started_real_ns, duration_ns;
	const char *host, *kernel, *version, *command, *options; /* options of `record` */
	struct own_rule own;
	uint64_t peak_bytes, peak_at_ns, peak_bound_bytes; /* joint peak of all processes */
	const struct profile_process *processes;	   /* ordered by start */
	size_t process_count;
	struct profile_notes warnings; /* about the file as a whole */
	struct fold_options fold;
	uint64_t damaged_rows;	     /* with ids outside their table */
	struct recording *recording; /* owned: the underlying rows */
};

void profile_free(struct profile *profile);

/* The stack's frames, leaf first. *ret is in the arena; returns their number, or -1 if out of memory. */
ptrdiff_t profile_stack(const struct profile_process *process, node_id node, struct arena *arena,
			struct profile_frame **ret);

/* One frame; a sentinel if the recording lacks it. */
struct profile_frame profile_frame_at(const struct profile_process *process, frame_id frame);

/* One step of a stack: its innermost frame, and the stack of the caller, whose id is always less. Pre: node is 0 or below
 * node_count. */
struct profile_frame profile_innermost(const struct profile_process *process, node_id node);
node_id profile_parent(const struct profile_process *process, node_id node);

#endif
