/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The columns of a process: names, titles and sources. The names are JSON and CSV keys in every view
 * that lists processes; the titles are short enough for a line.
 */
#include "analysis/result/process_rows.h"

#include <signal.h>
#include <string.h>

#include "analysis/result/signal_names.h"
#include "base/compiler.h"
#include "model/extremes.h"

#define U64(field) FROM_U64, offsetof(struct profile_process, field), VARIANCE_NONE
#define PART(field, rule) FROM_U64, offsetof(struct profile_process, field), VARIANCE_##rule
#define U32(field) FROM_U32, offsetof(struct profile_process, field), VARIANCE_NONE
#define TEXT(field) FROM_TEXT, offsetof(struct profile_process, field), VARIANCE_NONE

#define PROCESS_COLUMN_LIST(X)                                                                     \
	X(PROCESS_PID, { "pid", "PID", UNIT_ID }, U32(pid))                                        \
	X(PROCESS_PPID, { "ppid", NULL, UNIT_ID }, U32(ppid))                                      \
	X(PROCESS_RANK, { "rank", NULL, UNIT_ID })                                                 \
	X(PROCESS_PEAK_BYTES, { "peak_bytes", "PEAK", UNIT_BYTES }, PART(peak_bytes, PEAK_BYTES))  \
	X(PROCESS_LEAKED_BYTES, { "not_freed_bytes", "NOT FREED", UNIT_BYTES },                    \
	  PART(live_bytes, LIVE_BYTES))                                                            \
	X(PROCESS_CALLS, { "calls", "CALLS", UNIT_COUNT })                                         \
	X(PROCESS_BYTES, { "total_bytes", "TOTAL", UNIT_BYTES })                                   \
	X(PROCESS_FREES, { "frees", NULL, UNIT_COUNT }, PART(frees, FREES))                        \
	X(PROCESS_PEAK_BLOCKS, { "peak_blocks", NULL, UNIT_COUNT },                                \
	  PART(peak_blocks, PEAK_BLOCKS))                                                          \
	X(PROCESS_PEAK_BOUND_BYTES, { "peak_bound_bytes", NULL, UNIT_BYTES },                      \
	  U64(peak_bound_bytes))                                                                   \
	X(PROCESS_PEAK_BIAS_BYTES, { "peak_bias_bytes", NULL, UNIT_BYTES }, U64(peak_bias_bytes))  \
	X(PROCESS_PEAK_AT_NS, { "peak_at_ns", NULL, UNIT_NS }, U64(peak_at_ns))                    \
	X(PROCESS_LEAKED_BLOCKS, { "not_freed_blocks", NULL, UNIT_COUNT },                         \
	  PART(live_blocks, LIVE_BLOCKS))                                                          \
	X(PROCESS_LIVE_BOUND_BYTES, { "live_bound_bytes", NULL, UNIT_BYTES },                      \
	  U64(live_bound.bytes))                                                                   \
	X(PROCESS_LIVE_BOUND_BLOCKS, { "live_bound_blocks", NULL, UNIT_COUNT },                    \
	  U64(live_bound.blocks))                                                                  \
	X(PROCESS_TEMPORARY_CALLS, { "temporary_calls", NULL, UNIT_COUNT },                        \
	  PART(temporary_calls, CALLS))                                                            \
	X(PROCESS_SMALLEST_BYTES, { "smallest_bytes", NULL, UNIT_BYTES })                          \
	X(PROCESS_MEAN_BYTES, { "mean_bytes", NULL, UNIT_BYTES })                                  \
	X(PROCESS_LARGEST_BYTES, { "largest_bytes", NULL, UNIT_BYTES })                            \
	X(PROCESS_MAX_RATE, { "max_calls_per_second", NULL, UNIT_COUNT })                          \
	X(PROCESS_MAX_LIVE_BLOCKS, { "max_live_blocks", NULL, UNIT_COUNT })                        \
	X(PROCESS_MMAP_BYTES, { "mmap_bytes", NULL, UNIT_BYTES }, U64(mmap_bytes))                 \
	X(PROCESS_MMAP_CALLS, { "mmap_calls", NULL, UNIT_COUNT }, U64(mmap_calls))                 \
	X(PROCESS_MMAP_PEAK_BYTES, { "mmap_peak_bytes", "MAPPED", UNIT_BYTES },                    \
	  U64(mmap_peak_bytes))                                                                    \
	X(PROCESS_PEAK_RSS_BYTES, { "peak_rss_bytes", "MAX RSS", UNIT_BYTES },                     \
	  U64(peak_rss_bytes))                                                                     \
	X(PROCESS_THREADS, { "threads", NULL, UNIT_COUNT }, U64(threads))                          \
	X(PROCESS_STACKS, { "stacks", NULL, UNIT_COUNT }, U64(stacks))                             \
	X(PROCESS_DEPTH_LIMIT, { "depth_limit", NULL, UNIT_COUNT }, U64(depth_limit))              \
	X(PROCESS_STARTED_OFFSET_NS, { "started_offset_ns", "START", UNIT_NS },                    \
	  U64(started_offset_ns))                                                                  \
	X(PROCESS_DURATION_NS, { "duration_ns", "TIME", UNIT_NS }, U64(duration_ns))               \
	X(PROCESS_MODE, { "mode", NULL, UNIT_TEXT }, TEXT(mode))                                   \
	X(PROCESS_INTERVAL, { "sampling_interval_bytes", NULL, UNIT_BYTES }, U64(interval))        \
	X(PROCESS_SAMPLES, { "samples", NULL, UNIT_COUNT }, U64(samples))                          \
	X(PROCESS_END_SHORT, { NULL, "END", UNIT_TEXT })                                           \
	X(PROCESS_END, { "end", NULL, UNIT_TEXT })                                                 \
	X(PROCESS_EXIT_CODE, { "exit_code", NULL, UNIT_ID })                                       \
	X(PROCESS_ALLOCATOR, { "allocator", NULL, UNIT_TEXT }, TEXT(allocator))                    \
	X(PROCESS_OWN_BYTES, { "recorder_bytes", NULL, UNIT_BYTES }, U64(own_bytes))               \
	X(PROCESS_MEMORY, { "memory", NULL, UNIT_FIELDS })                                         \
	X(PROCESS_HEALTH, { "health", NULL, UNIT_FIELDS })                                         \
	X(PROCESS_COMMAND_SHORT, { NULL, "COMMAND", UNIT_TEXT })                                   \
	X(PROCESS_COMMAND, { "command", NULL, UNIT_TEXT }, TEXT(command))
enum process_column { PROCESS_COLUMN_LIST(COLUMN_ID) PROCESS_COLUMN_COUNT };
_Static_assert((int)PROCESS_COLUMN_COUNT == (int)PROCESS_COLUMNS,
	       "process_rows.h has their number");
const struct source_column process_columns[PROCESS_COLUMNS] = { PROCESS_COLUMN_LIST(COLUMN_ROW) };

#define NAMED_MEMORY(name, member, rule)                                                           \
	{                                                                                          \
		name, UNIT_BYTES, offsetof(struct profile_memory, member), VARIANCE_##rule         \
	}
#define MEMORY(member, rule) NAMED_MEMORY(#member, member, rule)

/* All fields of struct profile_memory; an empty record if unknown. */
static bool memory_value(struct result *result, const struct profile_process *p,
			 struct result_value *ret)
{
	static const struct {
		const char *name;
		enum result_unit unit;
		size_t offset;
		enum variance_rule rule;
	} sources[] = {
		{ "at_ns", UNIT_NS, offsetof(struct profile_memory, at_ns), VARIANCE_NONE },
		MEMORY(live_bytes, BYTES),
		NAMED_MEMORY("internal_fragmentation_bytes", fragmentation_bytes, LIVE_WASTE),
		NAMED_MEMORY("mmap_live_bytes", map_live_bytes, NONE),
		MEMORY(rss_bytes, NONE),
		MEMORY(swap_bytes, NONE),
		MEMORY(heap_bytes, NONE),
		MEMORY(anonymous_bytes, NONE),
		MEMORY(stack_bytes, NONE),
		MEMORY(file_bytes, NONE),
		MEMORY(shared_bytes, NONE),
		NAMED_MEMORY("recorder_bytes", own_bytes, NONE),
		MEMORY(cgroup_limit_bytes, NONE),
		MEMORY(cgroup_usage_bytes, NONE),
		/* The following are null if unknown. */
		NAMED_MEMORY("mmap_resident_bytes", mapped_bytes, NONE),
		NAMED_MEMORY("mmap_untouched_bytes", mapped_untouched_bytes, NONE),
		NAMED_MEMORY("allocator_overhead_bytes", beyond_bytes, BYTES),
		MEMORY(inherited_bytes, NONE),
		MEMORY(static_bytes, NONE),
		MEMORY(unrecorded_bytes, NONE),
		MEMORY(untouched_bytes, BYTES),
	};
	const struct profile_memory *memory = &p->memory;
	struct result_field *fields =
		ARENA_ARRAY(&result->arena, struct result_field, ARRAY_SIZE(sources));

	if (!fields)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		uint64_t number;

		memcpy(&number, (const char *)memory + sources[i].offset, sizeof number);
		bool known = memory->has_parts ||
			     sources[i].offset < offsetof(struct profile_memory, mapped_bytes);

		fields[i] = (struct result_field){ sources[i].name,
						   known ? value_part(sources[i].unit, number,
								      sources[i].rule, &p->sums)
							 : value_unknown() };
	}
	*ret = (struct result_value){
		.unit = UNIT_FIELDS, .fields = { fields, memory->known ? ARRAY_SIZE(sources) : 0 }
	};
	return true;
}

/* "exit 1", "SIGKILL", "exec": short enough for a column. */
static const char *end_short(struct arena *arena, const struct profile_process *p)
{
	const char *signal = NULL;

	if (p->end == PROFILE_EXITED)
		return arena_printf(arena, "exit %u", p->exit_code);
	if (p->end == PROFILE_SIGNALLED || p->end == PROFILE_KILLED)
		signal = signal_name(p->exit_code);
	return signal ? arena_printf(arena, "SIG%s", signal) : profile_end_name(p->end);
}

static const char *command_of(struct arena *arena, const struct profile_process *p)
{
	return p->rank ? arena_printf(arena, "rank %u: %s", p->rank - 1, p->command) : p->command;
}

struct result_value value_all_calls(const struct profile_process *p)
{
	return p->counts_all ? value_count(p->all_calls)
			     : value_part(UNIT_COUNT, p->calls, VARIANCE_CALLS, &p->sums);
}

struct result_value value_all_bytes(const struct profile_process *p)
{
	return p->counts_all ? value_bytes(p->all_bytes)
			     : value_part(UNIT_BYTES, p->bytes, VARIANCE_BYTES, &p->sums);
}

struct result_value value_mean_bytes(const struct profile_process *p)
{
	uint64_t calls = p->counts_all ? p->all_calls : p->calls;

	return calls ? value_bytes((p->counts_all ? p->all_bytes : p->bytes) / calls)
		     : value_unknown();
}

static void fill_extremes(const struct profile_process *p, struct result_value *row)
{
	struct process_extremes e = process_extremes(p);

	row[PROCESS_SMALLEST_BYTES] = e.has_sizes ? value_bytes(e.smallest_bytes) : value_unknown();
	row[PROCESS_MEAN_BYTES] = value_mean_bytes(p);
	row[PROCESS_LARGEST_BYTES] = e.has_sizes && e.largest_bytes != UINT64_MAX
					     ? value_bytes(e.largest_bytes)
					     : value_unknown();
	row[PROCESS_MAX_RATE] = e.has_rate ? value_count(e.calls_per_second) : value_unknown();
	row[PROCESS_MAX_LIVE_BLOCKS] = value_count(e.live_blocks);
}

/* Clears what a heap profile of another tool does not have. */
static void clear_imported(const struct profile_process *p, struct result_value *row)
{
	static const enum process_column unknown[] = {
		PROCESS_PID,
		PROCESS_PPID,
		PROCESS_PEAK_BYTES,
		PROCESS_PEAK_BLOCKS,
		PROCESS_PEAK_BOUND_BYTES,
		PROCESS_PEAK_BIAS_BYTES,
		PROCESS_PEAK_AT_NS,
		PROCESS_TEMPORARY_CALLS,
		PROCESS_MAX_LIVE_BLOCKS,
		PROCESS_MMAP_BYTES,
		PROCESS_MMAP_CALLS,
		PROCESS_MMAP_PEAK_BYTES,
		PROCESS_THREADS,
		PROCESS_STARTED_OFFSET_NS,
		PROCESS_DURATION_NS,
		PROCESS_OWN_BYTES,
		/* without totals */
		PROCESS_CALLS,
		PROCESS_BYTES,
		PROCESS_FREES,
		PROCESS_MEAN_BYTES,
	};
	size_t count = ARRAY_SIZE(unknown) - (p->has_totals ? 4 : 0);

	for (size_t i = 0; p->imported && i < count; i++)
		row[unknown[i]] = value_unknown();
}

bool process_row(struct result *result, const struct profile_process *p, struct result_value *row)
{
	for (size_t i = 0; i < PROCESS_COLUMNS; i++)
		row[i] = source_estimate(&process_columns[i], p, &p->sums);
	fill_extremes(p, row);
	row[PROCESS_CALLS] = value_all_calls(p);
	row[PROCESS_BYTES] = value_all_bytes(p);
	row[PROCESS_END_SHORT] = value_text(end_short(&result->arena, p));
	row[PROCESS_END] = value_text(profile_end_name(p->end));
	row[PROCESS_EXIT_CODE] =
		profile_end_has_code(p->end) ? value_id(p->exit_code) : value_unknown();
	if (p->peak_rss_bytes == 0) /* not observed before it ended */
		row[PROCESS_PEAK_RSS_BYTES] = value_unknown();
	row[PROCESS_RANK] = p->rank ? value_id(p->rank - 1) : value_unknown();
	row[PROCESS_COMMAND_SHORT] = value_text(command_of(&result->arena, p));
	clear_imported(p, row);
	return row[PROCESS_END_SHORT].text && row[PROCESS_COMMAND_SHORT].text &&
	       notes_value(result, p->health, &row[PROCESS_HEALTH]) &&
	       memory_value(result, p, &row[PROCESS_MEMORY]);
}
