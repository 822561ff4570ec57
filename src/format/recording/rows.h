/* SPDX-License-Identifier: Apache-2.0 */
/* A profile as plain rows: what a live profile is read into, and what a recording encodes and decodes. The one data structure
 * that collect (writes) and model (reads) share. Ids are indices into the arrays of the same process. A process_rows owns
 * everything in it (malloc); process_rows_release frees it. */
#ifndef FORMAT_RECORDING_ROWS_H
#define FORMAT_RECORDING_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "format/health.h"
#include "format/live/live.h"
#include "format/missed.h"
#include "format/recording/pages_rows.h"
#include "format/recording/rows_loaded.h"
#include "format/recording/rows_reach.h"
#include "format/recording/rows_time.h"
#include "format/unrecorded.h"

/* doc: chunk_frames: frames as live_frame_pack() words. doc: chunk_nodes. Node 0 is the root: parent 0, frame 0. */
struct node_row {
	uint32_t parent, frame;
};

/* doc: chunk_tags. Row 0 is the root, no tag. */
struct tag_row {
	uint32_t parent; /* less than its own index */
	uint32_t name;	 /* the first row of the same name, which owns the text */
	uint32_t kind;	 /* enum live_tag_kind */
	/* POOL, below the root: number of pools with that name, and their maximum live bytes */
	uint64_t pools, most_bytes;
	char *text;
};
struct visits_row {
	uint32_t tag, slot;
	uint64_t count;
};

/* doc: chunk_sites. Row 0 does not exist (all zero). */
struct site_row {
	uint32_t node, tag, kind, entry;
	uint64_t born_ns;
	uint64_t interval; /* sampling interval in bytes; 0 = every block is recorded */
};

/* One bar of a distribution. Sizes: [low, high] requested bytes, low == high = exact size. Lifetimes: [low, high) milliseconds;
 * the first bar [0, 1) counts blocks freed within a tick. */
struct bar {
	uint64_t low, high, count;
};

/* doc: chunk_site_counters: the counters of one site in one slot (live_site_counters, read). A slot here is a set of counters: those of one
 * thread, or of several that shared them (live_thread.counted_as). */
struct site_counters_row {
	uint32_t site, slot;
	uint64_t calls, bytes, frees, freed_bytes;
	int64_t peak_bytes, peak_blocks; /* at the process' peak */
	uint64_t max_bytes;		 /* maximum of the site in this slot */
	uint64_t temporary, fragmentation, freed_fragmentation, lifetime_ms_sum;
	struct live_reallocs reallocs; /* all zero: none */
	struct live_samples samples;   /* all zero: every block is recorded */
	uint32_t sizes_at, sizes_count, lifetimes_at, lifetimes_count; /* in bars */
};

/* doc: chunk_ages: blocks alive at the end, by site counters and age: [2^(i-1), 2^i) ms for bucket i, bucket 0 = below 1 ms. */
struct age_row {
	uint32_t counters, bucket;
	uint64_t blocks, bytes;
};
/* The same blocks by size: of [low, high] requested bytes, equal if it is exact. */
struct live_size_row {
	uint32_t counters;
	uint64_t low, high, blocks;
};

/* doc: chunk_pairs: classes of live_pairs, of the whole process. */
struct pair_row {
	uint32_t kind, first, second; /* enum live_pairs_kind; below LIVE_PAIR_CLASSES */
	uint64_t count;
};
struct size_moment_row { /* live blocks of the heap by their class, when a snapshot was asked for */
	uint64_t at_ns, size_class, blocks, bytes;
};

/* doc: chunk_threads. Ids are indices; never reused. */
struct thread_row {
	uint32_t tid, slot;
	uint64_t started_ns;
	uint64_t calls, bytes, frees, freed_bytes, all_calls, all_bytes;   /* as in process_row */
	uint64_t stack_reserved_bytes, stack_used_bytes, stack_most_bytes; /* 0: unknown */
	char name[16];
};

/* doc: chunk_remote_frees: blocks that `freer` freed and `owner` allocated (slots). owner UINT32_MAX = not kept apart. */
struct remote_frees_row {
	uint32_t freer, owner, kind; /* kind: enum live_kind */
	uint64_t blocks, bytes;
};

/* doc: chunk_memory: where the memory was at one moment. Classes are resident bytes and add up to rss_bytes. */
struct memory_row {
	uint64_t at_ns; /* this and the following are columns in this order */
	uint64_t live_bytes, fragmentation_bytes; /* requested, and internal fragmentation */
	uint64_t map_live_bytes; /* the program's own anonymous mappings; virtual */
	uint64_t rss_bytes, swap_bytes;
	uint64_t heap_bytes, anonymous_bytes, stack_bytes, file_bytes, shared_bytes, own_bytes;
	uint64_t cgroup_limit_bytes, cgroup_usage_bytes; /* limit 0 = none */
	uint64_t sheet; /* 1: the parts below are known; 0: the block map could not be read */
	/* Resident parts of heap and anonymous; with live + fragmentation - untouched they add up to that. */
	uint64_t mapped_bytes;	      /* by the program itself */
	uint64_t held_bytes;	      /* allocator overhead: free or cached in the allocator */
	uint64_t inherited_bytes;     /* from before a forked child's first own allocation */
	uint64_t static_bytes;	      /* zero-initialized variables of modules */
	uint64_t unrecorded_bytes;    /* not explained by anything recorded */
	uint64_t untouched_bytes;     /* of live blocks, not resident */
	uint64_t mapped_shared_bytes; /* by the program itself, part of shared_bytes */
	uint64_t vm_bytes; /* address space without the recorder's; 0, as the following: unknown */
	uint64_t stack_reserved_bytes, stack_largest_bytes; /* the largest: resident */
	uint64_t system_bytes, system_available_bytes, system_cached_bytes, system_swap_bytes;
	uint64_t changed_bytes; /* released since the row before, or allocated until the next */
	uint32_t asked; /* collector only: read for a named snapshot. It is not part of a file */
};

/* doc: chunk_names: what a frame is called. Rows ascend by frame; several of one frame are what was inlined there,
 * innermost first. Texts are places in process_rows.texts, 0 = none. */
struct name_row {
	uint32_t frame;
	uint32_t function;   /* linkage (mangled) name or, without one, the name in the source */
	uint32_t file, line; /* 0 = unknown */
	uint32_t inlined;    /* 1: into the next row */
	uint32_t arguments;  /* types of generic parameters that the name abbreviates, as "<u8>" */
};
/* One line of a source file; sorted by file, then by line. */
struct source_row {
	uint32_t file, line, text;
};

enum process_end {
	END_RUNNING = 0,
	END_EXIT = 1,
	END_SIGNAL = 2,
	END_KILLED = 3,	 /* SIGKILL */
	END_EXEC = 4,	 /* it called exec */
	END_UNKNOWN = 5, /* it ended with an unknown status */
};

/* doc: chunk_process */
struct process_row {
	uint32_t pid, ppid;
	uint32_t mode, end; /* enum live_mode, enum process_end */
	uint32_t exit_code; /* END_EXIT: status; END_SIGNAL, END_KILLED: signal number; else 0 */
	uint32_t rank, uid; /* in a parallel job; effective; each + 1, 0 = none or unknown */
	uint64_t started_real_ns, duration_ns; /* CLOCK_REALTIME */
	uint64_t started_offset_ns;	       /* since the start of the recording */
	uint64_t calls, bytes, frees, freed_bytes, temporary, fragmentation, freed_fragmentation;
	uint64_t all_calls, all_bytes; /* counted, never estimated; 0: unknown */
	uint64_t map_calls, map_bytes, unmap_calls, unmap_bytes, map_peak_bytes;
	uint64_t peak_bytes, peak_blocks, peak_at_ns, peak_bound_bytes, peak_rss_bytes, own_bytes;
	uint64_t peak_file_bytes; /* resident, of files and shared memory; 0 = unknown */
	uint64_t granule_bytes, depth_limit, rss_bytes; /* rss: when it was read; 0: it had ended */
	uint64_t live_bound_bytes, live_bound_blocks;	/* as in series_row */
	uint64_t health[HEALTH_COUNT];
	char *command, *exe, *allocator; /* command: argv joined by spaces */
	char *linked_in; /* allocator inside the executable, whose calls bypass the recorder; NULL: none */
	uint32_t imported; /* enum imported; not part of a file */
};

struct process_rows {
	struct process_row process;
	struct module_row *modules;
	uint64_t *frames;
	struct node_row *nodes;
	struct tag_row *tags; /* NULL if the program uses no tags */
	struct visits_row *visits;
	struct site_row *sites;
	struct site_counters_row *site_counters;
	struct bar *bars;
	struct age_row *ages;
	struct live_size_row *live_sizes;
	struct pair_row *pairs;
	struct size_moment_row *size_moments;
	struct thread_row *threads;
	struct remote_frees_row *remote_frees;
	struct series_row *series;
	struct snapshot_row *snapshots;
	struct snapshot_site *snapshot_sites;
	struct snapshot_counts *snapshot_counts; /* parallel to it; NULL: no snapshot is counted */
	struct mark_row *marks;
	struct memory_row *memory;
	struct unrecorded_row *unrecorded;
	struct static_rows globals;
	struct pages_rows pages; /* all zero: not asked for */
	struct image_rows image; /* all zero: none was taken */
	struct name_row *names;	 /* none, unless bundled or of Python frames */
	struct source_row *sources;
	char *texts; /* of names and sources, each NUL-terminated; the first is empty */
	size_t module_count, frame_count, node_count, tag_count, visits_count, site_count,
		site_counters_count, bar_count, age_count, live_size_count, pair_count,
		size_moment_count, thread_count, remote_frees_count, series_count, snapshot_count,
		snapshot_site_count, mark_count, memory_count, unrecorded_count, name_count,
		source_count, text_bytes;
};
void process_rows_release(struct process_rows *rows);
/* Processes that were not recorded: one program, one reason. */
struct missed_row {
	uint32_t reason; /* enum missed_reason */
	uint64_t count;
	char *path; /* of the program; "" = unknown */
};

/* doc: chunk_run: about the whole recording. */
struct run_row {
	uint64_t started_real_ns, duration_ns;
	/* Of all processes; it may be higher by up to its bound, as the series has only some points in time; 0 = exact. */
	uint64_t peak_bytes, peak_at_ns, peak_bound_bytes;
	char *host, *kernel, *version, *command, *own_code, *options; /* as in docs/format.md */
	struct missed_row *missed;
	size_t missed_count;
};
void run_row_release(struct run_row *run);
#endif
