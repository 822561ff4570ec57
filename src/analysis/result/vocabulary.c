/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TABLES of costs and axes, and the names of moments. Pure.
 *
 * A cost is one number of struct measures; its row alone defines how it is shown and whether it is
 * additive.
 */
#include "analysis/result/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "util/text/units.h"

const struct cost_row cost_rows[COST_COUNT] = {
	[COST_LIVE] = { "live", "live_bytes", "LIVE", UNIT_BYTES, COST_OF_MOMENT, true },
	[COST_BLOCKS] = { "blocks", "live_blocks", "BLOCKS", UNIT_COUNT, COST_OF_MOMENT, true },
	[COST_TOTAL] = { "total", "total_bytes", "TOTAL", UNIT_BYTES, COST_OF_WINDOW, true },
	[COST_CALLS] = { "calls", "calls", "CALLS", UNIT_COUNT, COST_OF_WINDOW, true },
	[COST_TEMPORARY] = { "temporary", "temporary_calls", "TEMPORARY", UNIT_COUNT,
			     COST_OF_WINDOW, true },
	[COST_MAX] = { "max", "max_bytes", "MAX", UNIT_BYTES, COST_OF_RUN, false },
	[COST_WASTE] = { "waste", "internal_fragmentation_bytes", "WASTE", UNIT_BYTES,
			 COST_OF_WINDOW, true },
	[COST_LIFETIME] = { "lifetime", "lifetime_ns", "LIFETIME", UNIT_NS, COST_OF_RUN, true },
	[COST_REALLOC] = { "realloc", "copied_bytes", "COPIED", UNIT_BYTES, COST_OF_RUN, true },
	[COST_RATE] = { "rate", "calls_per_second", "RATE", UNIT_RATE, COST_OF_WINDOW, true },
	[COST_TIME] = { "time", "allocator_ns", "TIME", UNIT_NS, COST_OF_RUN, true },
};

const struct cost_word cost_words[] = {
	{ "peak", "bytes live at the peak: live --at peak", COST_LIVE, MOMENT_PEAK },
	{ "leaked", "bytes not freed at exit: live --at end", COST_LIVE, MOMENT_END },
	{ "live", "bytes allocated and not freed at the moment of --at", COST_LIVE, 0 },
	{ "blocks", "blocks allocated and not freed at the moment of --at", COST_BLOCKS, 0 },
	{ "total", "bytes requested, over the whole run or between --minus and --at", COST_TOTAL,
	  0 },
	{ "calls", "allocations, over the whole run or between --minus and --at", COST_CALLS, 0 },
	{ "temporary", "allocations freed before the same thread's next one", COST_TEMPORARY, 0 },
	{ "max", "largest live size that a site ever had; an upper bound for groups", COST_MAX, 0 },
	{ "waste", "internal fragmentation: bytes added by rounding up, over all allocations",
	  COST_WASTE, 0 },
	{ "lifetime", "total lifetime of freed blocks", COST_LIFETIME, 0 },
	{ "realloc", "bytes copied because realloc moved the block", COST_REALLOC, 0 },
	{ "rate", "allocations per second", COST_RATE, 0 },
	{ "time", "time in the allocator, for allocating and freeing; needs record --time-calls",
	  COST_TIME, 0 },
	{ NULL, NULL, 0, 0 },
};

const struct axis_row axis_rows[AXIS_COUNT + 1] = {
	[AXIS_SITE] = { "site", "a whole stack", "sites", "SITE", false },
	[AXIS_OWN] = { "own", "the line of the project's own code", "owners", "OWN CODE", false },
	[AXIS_FUNCTION] = { "function", "a function, including inlined ones", "functions",
			    "FUNCTION", true },
	[AXIS_LINE] = { "line", "a line of the source", "lines", "LINE", true },
	[AXIS_FILE] = { "file", "a source file", "files", "FILE", true },
	[AXIS_MODULE] = { "module", "an executable or a library", "modules", "MODULE", true },
	[AXIS_THREAD] = { "thread", "the thread that allocated", "threads", "THREAD", false },
	[AXIS_SIZE] = { "size", "the requested size", "sizes", "SIZE", false },
	[AXIS_TYPE] = { "type", "the C++ or Rust type or container", "types", "TYPE", false },
	[AXIS_PROCESS] = { "process", "a process of the tree", "processes", "PROCESS", false },
	[AXIS_LANGUAGE] = { "language", "the language of the allocating function", "languages",
			    "LANGUAGE", false },
	[AXIS_ENTRY] = { "entry", "what the program called: malloc, calloc, new", "entries",
			 "ENTRY", false },
	[AXIS_LABEL] = { "label", "labels set by the program with hg_label", "labels", "LABEL",
			 false },
	[AXIS_TAG] = { "tag", "tags set by the program with HG_SCOPE", "tags", "TAG", false },
	[AXIS_POOL] = { "pool", "custom allocators, from hg_pool_new or --wrap", "pools", "POOL",
			false },
};

const struct moment_word moment_words[] = {
	{ "peak", "when the heap was largest" },
	{ "end", "when the program ended, or was last seen" },
	{ "time:", "the snapshot nearest to that time: time:12.5s" },
	{ "snap:", "a snapshot by its number or its name: snap:3" },
	{ NULL, NULL },
};

void measures_add(struct measures *sum, const struct measures *part)
{
#define ADD(member) sum->member = saturating_add_signed(sum->member, part->member);
	MEASURES(ADD)
#undef ADD
	if (part->variance.samples == 0 && part->variance.allocator_ns == 0)
		return;
#define ADD(member) sum->variance.member += part->variance.member;
	MEASURES(ADD)
#undef ADD
	sum->variance.samples += part->variance.samples;
}

static int64_t scaled(int64_t value, uint64_t by, uint64_t through)
{
	__extension__ __int128 wide = (__int128)value * by / (through ? through : 1);

	if (wide > INT64_MAX)
		return INT64_MAX;
	return wide < INT64_MIN ? INT64_MIN : (int64_t)wide;
}

uint64_t mean_lifetime_ns(uint64_t sum_ms, uint64_t frees)
{
	__extension__ unsigned __int128 mean = (unsigned __int128)sum_ms * 1000000 / frees;

	return mean < UINT64_MAX ? (uint64_t)mean : UINT64_MAX;
}

/* Offsets of a cost's number and of its variance. */
#define AT(member)                                                                                 \
	{                                                                                          \
		offsetof(struct measures, member), offsetof(struct measures, variance.member)      \
	}
static const struct {
	size_t number, variance;
} measures_of[COST_COUNT] = {
	[COST_LIVE] = AT(live_bytes),	   [COST_BLOCKS] = AT(live_blocks),
	[COST_TOTAL] = AT(total_bytes),	   [COST_CALLS] = AT(calls),
	[COST_TEMPORARY] = AT(temporary),  [COST_MAX] = AT(max_bytes),
	[COST_WASTE] = AT(waste_bytes),	   [COST_LIFETIME] = AT(lifetime_ms),
	[COST_REALLOC] = AT(copied_bytes), [COST_RATE] = AT(calls),
	[COST_TIME] = AT(allocator_ns),
};

int64_t cost_of(enum cost_id cost, const struct measures *m, uint64_t duration_ns)
{
	int64_t number;

	memcpy(&number, (const char *)m + measures_of[cost].number, sizeof number);
	if (cost == COST_LIFETIME)
		return scaled(number, 1000000, 1);
	return cost == COST_RATE ? scaled(number, 1000000000, duration_ns) : number;
}

double cost_variance(enum cost_id cost, const struct measures *m, uint64_t duration_ns)
{
	const double ns_in_ms = 1e6, per_second = duration_ns ? 1e9 / (double)duration_ns : 1;
	float variance;

	memcpy(&variance, (const char *)m + measures_of[cost].variance, sizeof variance);
	if (cost == COST_LIFETIME)
		return variance * ns_in_ms * ns_in_ms;
	return cost == COST_RATE ? variance * per_second * per_second : variance;
}

enum result_unit cost_unit(enum cost_id cost, bool change)
{
	enum result_unit unit = cost_rows[cost].unit;

	if (!change)
		return unit;
	switch (unit) {
	case UNIT_BYTES:
		return UNIT_BYTES_CHANGE;
	case UNIT_NS:
		return UNIT_NS_CHANGE;
	default:
		return UNIT_COUNT_CHANGE;
	}
}

const char *cost_unit_name(enum cost_id cost)
{
	switch (cost_rows[cost].unit) {
	case UNIT_BYTES:
		return "bytes";
	case UNIT_NS:
		return "ns";
	case UNIT_RATE:
		return "per second";
	default:
		return "count";
	}
}

struct result_value cost_value(enum cost_id cost, const struct measures *m, uint64_t duration_ns,
			       bool change)
{
	int64_t number = cost_of(cost, m, duration_ns);
	struct result_value value =
		change ? value_change(cost_unit(cost, true), number)
		       : value_number(cost_unit(cost, false), number > 0 ? (uint64_t)number : 0);

	return value_estimate(value, cost_variance(cost, m, duration_ns));
}

int cost_parse(const char *text, enum cost_id *ret_cost, struct moment *ret_at, struct error *error)
{
	for (const struct cost_word *w = cost_words; w->name; w++)
		if (strcmp(text, w->name) == 0) {
			*ret_cost = w->cost;
			*ret_at = (struct moment){ .kind = w->at };
			return 0;
		}
	return error_set(error, "unknown cost '%s'", text);
}

int axis_parse(const char *text, enum axis_id *ret, struct error *error)
{
	for (size_t i = 0; i < AXIS_COUNT; i++)
		if (strcmp(text, axis_rows[i].name) == 0) {
			*ret = (enum axis_id)i;
			return 0;
		}
	return error_set(error, "cannot group by '%s'", text);
}

int moment_parse(const char *text, struct moment *ret, struct error *error)
{
	struct moment moment = { 0 };
	char *end;

	if (strcmp(text, "peak") == 0) {
		moment.kind = MOMENT_PEAK;
	} else if (strcmp(text, "end") == 0) {
		moment.kind = MOMENT_END;
	} else if (strncmp(text, "time:", 5) == 0 &&
		   units_parse_duration(text + 5, &moment.at_ns)) {
		moment.kind = MOMENT_TIME;
	} else if (strncmp(text, "snap:", 5) == 0 && text[5] && strcmp(text, "snap:0") != 0) {
		moment.kind = MOMENT_SNAP;
		moment.number = strtoull(text + 5, &end, 10);
		if (*end)
			moment = (struct moment){ .kind = MOMENT_SNAP, .name = text + 5 };
	} else {
		return error_set(error,
				 "'%s' is not a moment; use peak, end, time:12.5s, snap:3 or "
				 "snap:NAME; the views timeline and snapshots list them",
				 text);
	}
	*ret = moment;
	return 0;
}
