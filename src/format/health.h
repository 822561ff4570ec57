/* SPDX-License-Identifier: Apache-2.0 */
/* Health counters: everything that could not be done, each with its text for the user. A new one is a row here.
 *   X(name, what it means for the reader) */
#ifndef FORMAT_HEALTH_H
#define FORMAT_HEALTH_H

#define HEALTH_COUNTERS(X)                                                                                   \
	X(reentrant_calls,                                                                                   \
	  "calls from signal handlers that interrupted the recorder: not recorded")                          \
	X(abandoned_hooks,                                                                                   \
	  "recorder calls left by longjmp or an exception: their block is unknown")                          \
	X(early_calls, "calls before the recorder could start: not recorded")                                \
	X(unknown_frees, "frees of blocks that were not recorded")                                           \
	X(repaired_blocks, "blocks whose free was not seen; their address was reused")                       \
	X(stacks_cut, "stacks deeper than the limit: the outermost frames are left out")                     \
	X(stacks_stopped, "stacks that end early: no usable unwind information")                             \
	X(stacks_unreadable, "stacks that end early: their memory could not be read")                        \
	X(untracked_blocks, "blocks without a map entry (memory budget): their free is not seen")            \
	X(unsited_calls, "calls counted as [other] (memory budget or lock timeout)")                         \
	X(lost_details, "sizes, lifetimes, ages or reallocs not kept (memory budget)")                       \
	X(memory_failures, "refused requests for more recorder memory")                                      \
	X(lock_timeouts, "operations given up because a lock was not released")                              \
	X(unregistered_calls, "calls of threads that could not be given a slot: not recorded")               \
	X(lost_modules, "loaded objects that could not be described")                                        \
	X(untracked_maps, "mmap ranges beyond the table: their unmapping is not seen")                       \
	X(lost_samples, "samples that could not be kept (memory budget): estimates are too low")             \
	X(lost_tags, "scopes entered without their own tag (memory budget, or too deep)")                    \
	X(unreached_wraps,                                                                                   \
	  "functions of --wrap that no object calls through the loader: not recorded")                       \
	X(lost_pools, "pools that could not be created (memory budget): their blocks are missing")           \
	X(late_snapshots, "snapshots taken later than the program requested them")                           \
	X(lost_snapshots,                                                                                    \
	  "snapshots requested by the program and not kept: no space, or the collector has them")            \
	X(unapplied_settings,                                                                                \
	  "HEAPGAUGE_ variables without effect: not understood, or applied by `record` only")                \
	X(clock_stopped_ms,                                                                                  \
	  "ms without a clock tick (heapgauge stopped, or had no CPU): lifetimes are too short")             \
	X(unkept,                                                                                            \
	  "profile not kept in HEAPGAUGE_DIR (no tmpfs, space or permission): lost at exit")                 \
	X(other_labels, "labels counted as \"other\": too many values of one key")                           \
	X(unknown_ends,                                                                                      \
	  "pool blocks and mappings whose end could not be recorded: maybe not live")                        \
	X(lost_end,                                                                                          \
	  "profile only in the process's own memory: data after its last copy is missing")                   \
	X(unlogged_threads,                                                                                  \
	  "threads counted as the previous one in their slot: the thread log is full")                       \
	X(python_unknown,                                                                                    \
	  "unknown Python interpreter (free-threaded, too new, or loaded later): native stacks, no domains") \
	X(python_unread,                                                                                     \
	  "stacks without their Python functions: the interpreter's memory could not be read")               \
	X(python_domains, "Python allocators not recorded: debug hooks or third-party functions")            \
	X(python_no_tasks,                                                                                   \
	  "Python interpreters that do not say which asyncio task runs: needs 3.14 or newer")                \
	X(python_tasks,                                                                                      \
	  "allocations without the label of their asyncio task: it could not be read")                       \
	X(otel_no_context,                                                                                   \
	  "OpenTelemetry labels were requested, but no sample found a thread context (otel_thread_ctx_v1)")  \
	X(otel_unread,                                                                                       \
	  "samples without OpenTelemetry labels: their context or the table of its keys was unreadable")     \
	X(timing_stopped,                                                                                    \
	  "times that the program disabled the time-stamp counter: allocator calls not timed since")         \
	X(turned_off,                                                                                        \
	  "times that the program turned recording off (hg_stop): blocks allocated then are missing")        \
	X(damaged_tables, "tables that claim more entries than they hold: the profile is damaged")

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
