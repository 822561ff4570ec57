/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The immutable profile: what every analysis reads. Made once from a recording, checked once: every
 * id in it is inside its table, so that nobody above has to ask again.
 *
 * Glossary
 *   site    a stack, a tag and a kind of memory: what a block belongs to. The rows of a recording tell sites apart by the
 *           sampling interval too: model/same_sites.h
 *   site counters   those of one site in one slot (thread); a site's numbers are the sums over them
 *   node    a stack: a frame and the node of its caller; node 0 is the empty stack
 *   live    allocated and not freed; at the end of the recording that is what was not freed at exit
 *
 * Everything belongs to the profile and lives as long as it. Reading needs no lock.
 */
#ifndef MODEL_PROFILE_H
#define MODEL_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ids.h"
#include "base/span.h"
#include "util/arena.h"

struct process_rows;

/* POOL: from an allocator of the program's own. Its blocks lie inside the others': they are never added up with those. */
enum profile_kind { PROFILE_HEAP, PROFILE_MMAP, PROFILE_POOL, PROFILE_KINDS };
const char *profile_kind_name(enum profile_kind kind); /* "heap", "mmap", "pool" */

/* Calls of realloc that had a block, counted at the site of the call. */
struct realloc_numbers {
	uint64_t calls;
	uint64_t moved_calls, moved_bytes;
	uint64_t grown_calls, shrunk_calls;
	uint64_t old_bytes, new_bytes;
};

struct site_numbers {
	uint64_t calls, bytes;
	uint64_t frees, freed_bytes;
	uint64_t live_blocks, live_bytes;
	uint64_t peak_blocks, peak_bytes; /* at the moment of the process' heap peak */
	uint64_t max_bytes;		  /* the most that was ever live here ... */
	bool max_exact;			  /* ... or, if not exact, an upper bound of it */
	uint64_t temporary_calls;
	uint64_t slack_bytes, live_slack_bytes; /* usable minus requested */
	uint64_t lifetime_ms_sum;		/* of the freed blocks */
	struct realloc_numbers reallocs;
	/* Of estimates; 0 where every block was recorded. */
	uint64_t samples;
	double calls_variance, bytes_variance, live_blocks_variance, live_bytes_variance;
	double peak_blocks_variance, peak_bytes_variance; /* of others: model/estimates.h */
	/* Of some threads, if others freed blocks of theirs, or they of others: the peak, lifetimes and live_slack_bytes are
	 * not known, max_bytes is a bound. What is live was counted in the block map: */
	bool passed;
	bool live_unknown; /* ... but for these: live_* and frees are not known either */
};

struct profile_site {
	site_id id;
	node_id node;
	tag_id tag; /* what the program called it: model/tags.h */
	enum profile_kind kind;
	uint64_t born_ns;
	uint64_t
		interval; /* of sampling, in bytes, the widest if it changed; 0: every block was recorded */
	bool has_exact; /* every block was recorded, if only for a while */
	struct site_numbers numbers;
};

/* One bar of a distribution: sizes [low, high] in bytes, lifetimes [low, high) in milliseconds. */
struct profile_bar {
	uint64_t low, high, count;
	double variance; /* of a count of sizes; 0: no estimate */
};
struct profile_bars {
	const struct profile_bar *at;
	size_t count;
};

/* Marks where a stack has no address. */
enum profile_mark {
	MARK_NONE,
	MARK_CUT,      /* deeper than the limit: the rest is folded here */
	MARK_STOPPED,  /* no unwind information: the walk ended here */
	MARK_OTHER,    /* the stack was not kept: memory budget, or lock timeout */
	MARK_NO_STACK, /* not recorded: mode or size limit */
	MARK_DAMAGED,  /* the recording names a frame that it does not hold */
	MARK_COUNT,
};

struct profile_frame {
	frame_id id; /* below frame_count of its process; anything if damaged */
	enum profile_mark mark;
	module_id module; /* 0: none; offset is then the bare address */
	uint64_t offset;  /* ELF virtual address */
	bool exact;	  /* the instruction itself, not a return address */
};

struct profile_module {
	const char *path; /* "": unknown */
	struct span build_id;
};

/* Something that could not be done: counted, and never silent. */
struct profile_note {
	const char *name; /* the key in JSON */
	const char *text; /* what it means for the reader */
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
	PROFILE_BECAME, /* another program, by exec */
	PROFILE_ENDED,	/* how is not known */
};
/* "running", "exit", "signal", "killed", "exec", "unknown" */
const char *profile_end_name(enum profile_end end);
/* Whether what was live then is lost: it did not go on, here or as another program. */
bool profile_end_leaks(enum profile_end end);
/* Whether exit_code means something. */
bool profile_end_has_code(enum profile_end end);

/* Where the memory was at one moment. Classes are resident bytes and add up to rss_bytes. */
struct profile_memory {
	bool known; /* else all is 0: the process ended before it was looked at */
	bool has_parts; /* else the parts below are not known: an older recording, or it could not be read */
	uint64_t at_ns;
	uint64_t live_bytes, slack_bytes, map_live_bytes;
	uint64_t rss_bytes, swap_bytes;
	uint64_t heap_bytes, anonymous_bytes, stack_bytes, file_bytes, shared_bytes, own_bytes;
	uint64_t private_bytes;				 /* heap and anonymous */
	uint64_t cgroup_limit_bytes, cgroup_usage_bytes; /* limit 0: none */

	/* Parts of private_bytes, resident: these and live + slack - untouched add up to it. */
	uint64_t mapped_bytes;		 /* the program's own mmap */
	uint64_t beyond_bytes;		 /* what the allocator holds beyond the usable live bytes */
	uint64_t inherited_bytes;	 /* by a fork */
	uint64_t static_bytes;		 /* zeroed variables */
	uint64_t unrecorded_bytes;	 /* explained by nothing that was recorded */
	uint64_t untouched_bytes;	 /* of live blocks, not resident */
	uint64_t mapped_untouched_bytes; /* of the program's own mmap, not resident */
};

struct profile_process {
	uint32_t pid, ppid;
	uint32_t rank; /* in a parallel job, + 1; 0 = none */
	uint32_t uid;  /* effective, + 1; 0 = not known */
	const char *command, *exe, *allocator;
	const char *linked_in; /* an allocator in the executable that was not recorded; "" = none */
	const char *mode;      /* "exact", "sampled", "mixed" of both, "dormant" */
	enum profile_end end;
	uint32_t exit_code; /* status, or the signal's number */
	uint64_t started_real_ns, duration_ns;
	uint64_t started_offset_ns; /* after the start of the recording */

	/* Of a sampled process, whose numbers are estimates: the widest interval, and by how much the peak is too high on
	 * average, at most. */
	uint64_t interval, samples, peak_bias_bytes;
	/* Over its sites on the heap: calls, bytes, frees, what is live and at the peak, and their variances. */
	struct site_numbers sums;

	/* heap */
	uint64_t calls, bytes, frees, freed_bytes;
	/* Every allocation, counted whether or not it was recorded; estimates only if !counts_all: of an older version, or
	 * killed in the middle. Beside it `calls` and `bytes` are what the sites add up to. */
	uint64_t all_calls, all_bytes;
	bool counts_all;
	uint64_t live_bytes, live_blocks; /* at the end */
	uint64_t temporary_calls;
	uint64_t peak_bytes, peak_blocks, peak_at_ns;
	uint64_t peak_bound_bytes; /* 0 = exact */
	/* anonymous mmap by the program */
	uint64_t mmap_calls, mmap_bytes, mmap_live_bytes, mmap_peak_bytes;

	uint64_t peak_rss_bytes;
	uint64_t own_bytes;	      /* the recorder's memory */
	struct profile_memory memory; /* when it was last looked at */
	uint64_t threads;	      /* over the whole life */
	uint64_t stacks;	      /* distinct ones */
	uint64_t depth_limit;
	bool has_python_pools;		  /* the blocks of Python's own allocators are recorded */
	const struct profile_site *sites; /* those with a call or a free; by id */
	size_t site_count;
	const struct profile_module *modules; /* [0] is none */
	size_t module_count;
	size_t frame_count, node_count;
	struct profile_notes health;

	const struct process_rows *rows; /* for the model's own functions */
	const struct same_sites *same;	 /* NULL: no two rows are one site */
	const uint32_t *fold;		 /* model/fold.h; NULL: every node is shown */
	const uint32_t *counters_of; /* site id -> first in counters_order; one more at the end */
	const uint32_t *counters_order; /* grouped by site, and there by the site of the rows */
	const struct counters_live *counters_live; /* by row: model/threads.c */
	const uint8_t *passed;			   /* by slot: a bit for each kind */
};

struct profile {
	struct arena arena;
	uint64_t started_real_ns, duration_ns;
	const char *host, *kernel, *version, *command;
	uint64_t peak_bytes, peak_at_ns, peak_bound_bytes; /* of all processes at one moment */
	const struct profile_process *processes;	   /* by start */
	size_t process_count;
	struct profile_notes warnings; /* about the file as a whole */

	struct recording *recording; /* owned: the rows behind all this */
};

void profile_free(struct profile *profile);

/*
 * The stack's frames, leaf first. *ret is in the arena; returns their number, or -1 if out of
 * memory.
 */
ptrdiff_t profile_stack(const struct profile_process *process, node_id node, struct arena *arena,
			struct profile_frame **ret);

/* One frame; a mark if the recording does not have it. */
struct profile_frame profile_frame_at(const struct profile_process *process, frame_id frame);

/* One step of a stack: its innermost frame, and the stack of the caller. Pre: node is none or below node_count;
 * a caller's id is always less than its callee's. */
struct profile_node {
	node_id parent;
	struct profile_frame frame;
};
struct profile_node profile_node(const struct profile_process *process, node_id node);

/*
 * Distributions of a site, over its counters in the slots (by slot; NULL: all), by ascending low; made
 * when asked for, because few sites are. -1 if out of memory. Bars of sizes do not overlap: an exact
 * size inside a class that other counters use is counted in the class.
 */
int profile_sizes(const struct profile_process *process, site_id site, const bool *slots,
		  struct arena *arena, struct profile_bars *ret);
int profile_lifetimes(const struct profile_process *process, site_id site, const bool *slots,
		      struct arena *arena, struct profile_bars *ret);

#endif
