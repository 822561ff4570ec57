/* SPDX-License-Identifier: Apache-2.0 */
/* Health counters: everything that could not be done, each with the words a person sees. A new one is a row here.
 *   X(name, what it means for the reader) */
#ifndef FORMAT_HEALTH_H
#define FORMAT_HEALTH_H

#define HEALTH_COUNTERS(X)                                                                            \
	X(reentrant_calls,                                                                            \
	  "calls from signal handlers that interrupted the recorder: not recorded")                   \
	X(abandoned_hooks,                                                                            \
	  "recorder calls left by longjmp or an exception: their block is unknown")                   \
	X(early_calls, "calls before the recorder could start: not recorded")                         \
	X(unknown_frees, "frees of blocks that were not recorded")                                    \
	X(repaired_blocks, "blocks whose free was not seen; their address was handed out again")      \
	X(stacks_cut, "stacks deeper than the limit: the outermost frames are left out")              \
	X(stacks_stopped, "stacks that end early: no usable unwind information")                      \
	X(stacks_unreadable, "stacks that end early: their memory could not be read")                 \
	X(untracked_blocks, "blocks without a map entry (memory budget): their free is not seen")     \
	X(unsited_calls, "calls counted as [other] (memory budget or lock timeout)")                  \
	X(lost_details, "sizes, lifetimes, ages or reallocs not kept (memory budget)")                \
	X(memory_failures, "refused requests for more recorder memory")                               \
	X(lock_timeouts, "operations given up because a lock was not released")                       \
	X(unregistered_calls, "calls of threads that could not be given a slot: not recorded")        \
	X(lost_modules, "loaded objects that could not be described")                                 \
	X(untracked_maps, "mmap ranges beyond the table: their unmapping is not seen")                \
	X(lost_samples, "samples that could not be kept (memory budget): estimates are too low")      \
	X(lost_tags, "scopes entered without a tag of their own (memory budget, or too deep)")        \
	X(unreached_wraps,                                                                            \
	  "functions of --wrap that no object calls by way of the loader: not recorded")              \
	X(lost_pools, "pools that could not be made (memory budget): their blocks are missing")       \
	X(late_snapshots, "snapshots taken a moment later than the program asked for them")           \
	X(lost_snapshots,                                                                             \
	  "snapshots that the program asked for and nobody kept: no room, or the collector has them") \
	X(unapplied_settings,                                                                         \
	  "HEAPGAUGE_EVERY, _OUTPUT, _ON, _WRITE_ON: no effect if a program records itself")          \
	X(clock_stopped_ms,                                                                           \
	  "ms without a tick of the clock (heapgauge stopped, or no processor): lifetimes too short") \
	X(unkept,                                                                                     \
	  "profile not kept in HEAPGAUGE_DIR (no tmpfs, room or right): gone with its process")       \
	X(other_labels,                                                                               \
	  "labels counted as \"other\": more values of a key than are distinguished")                 \
	X(unknown_ends,                                                                               \
	  "pool blocks and mappings whose end could not be recorded: maybe not live")                 \
	X(lost_end,                                                                                   \
	  "profile only in the process' own memory: what came after the last copy of it is missing")  \
	X(unlogged_threads,                                                                           \
	  "threads counted as the one before them in their slot: the log of threads is full")         \
	X(python_unknown,                                                                             \
	  "Python interpreters that are not known, or were opened later: native stacks only")         \
	X(python_unread,                                                                              \
	  "stacks without their Python functions: the interpreter's memory could not be read")        \
	X(python_domains,                                                                             \
	  "times that Python's allocators were exchanged by too many: from then on not recorded")     \
	X(damaged_tables, "tables that say they hold more than is there: the profile is damaged")

enum health_counter {
#define HEALTH_ENUM(name, text) HEALTH_##name,
	HEALTH_COUNTERS(HEALTH_ENUM)
#undef HEALTH_ENUM
		HEALTH_COUNT,
};

struct health_row {
	const char *name, *text;
};
extern const struct health_row health_rows[HEALTH_COUNT];
#endif
