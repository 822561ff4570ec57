/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views that list sites: sites, leaks, peak, temporary, lifetimes, reallocs, pages, pins.
 *
 * In machine formats a site is the same record in all of them. A view defines which numbers text
 * output shows, in which order, and which sites it includes; the code here does the rest:
 * selection, order, the share of the cost, and the line about omitted rows.
 */
#ifndef ANALYSIS_QUERY_SITE_TABLE_H
#define ANALYSIS_QUERY_SITE_TABLE_H

#include "analysis/result/build.h"
#include "analysis/query/selection.h"
#include "model/ages.h"

/* X(id, { name, default title, unit }, source in struct site_numbers and variance rule; if omitted, site_record.c computes it) */
#define SITE_COLUMN_TABLE(X)                                                                           \
	X(SITE_PROCESS, { "pid", "PID", UNIT_ID })                                                     \
	X(SITE_ID, { "site", NULL, UNIT_ID })                                                          \
	X(SITE_KIND, { "kind", "KIND", UNIT_TEXT })                                                    \
	/* what the program called */                                                                  \
	X(SITE_ENTRY, { "entry", "CALLED", UNIT_TEXT })                                                \
	X(SITE_TAG, { "tag", "TAG", UNIT_TEXT })                                                       \
	X(SITE_POOL, { "pool", "POOL", UNIT_TEXT })                                                    \
	/* set by the program, by key */                                                               \
	X(SITE_LABELS, { "labels", NULL, UNIT_FIELDS })                                                \
	/* remaining blocks: "not freed at exit", or "live" if the process still runs; else "freed" */ \
	X(SITE_STATE, { "state", "STATE", UNIT_TEXT })                                                 \
	/* of the cost; for people only, like all without a name */                                    \
	X(SITE_SHARE, { NULL, "SHARE", UNIT_PERCENT })                                                 \
	/* at the selected moment, or the end */                                                       \
	X(SITE_LIVE_BYTES, { "live_bytes", "LIVE", UNIT_BYTES })                                       \
	X(SITE_LIVE_BLOCKS, { "live_blocks", "BLOCKS", UNIT_COUNT })                                   \
	X(SITE_PEAK_BYTES, { "peak_bytes", "AT PEAK", UNIT_BYTES },                                    \
	  NUMBER(peak_bytes, PEAK_BYTES))                                                              \
	X(SITE_PEAK_BLOCKS, { "peak_blocks", "BLOCKS", UNIT_COUNT },                                   \
	  NUMBER(peak_blocks, PEAK_BLOCKS))                                                            \
	/* at the end */                                                                               \
	X(SITE_NOT_FREED_BYTES, { "not_freed_bytes", "NOT FREED", UNIT_BYTES },                        \
	  NUMBER(live_bytes, LIVE_BYTES))                                                              \
	X(SITE_NOT_FREED_BLOCKS, { "not_freed_blocks", "LEFT", UNIT_COUNT },                           \
	  NUMBER(live_blocks, LIVE_BLOCKS))                                                            \
	X(SITE_TOTAL_BYTES, { "total_bytes", "TOTAL", UNIT_BYTES }, NUMBER(bytes, BYTES))              \
	X(SITE_CALLS, { "calls", "CALLS", UNIT_COUNT }, NUMBER(calls, CALLS))                          \
	X(SITE_RATE, { "calls_per_second", "RATE", UNIT_RATE })                                        \
	X(SITE_MEAN_BYTES, { "mean_bytes", "MEAN SIZE", UNIT_BYTES })                                  \
	/* of sites with many sizes, the bounds of the first and the last class */                     \
	X(SITE_SMALLEST_BYTES, { "smallest_bytes", "SMALLEST", UNIT_BYTES })                           \
	X(SITE_LARGEST_BYTES, { "largest_bytes", "LARGEST", UNIT_BYTES })                              \
	/* calls and frees */                                                                          \
	X(SITE_OPERATIONS, { "operations", "OPERATIONS", UNIT_COUNT })                                 \
	X(SITE_TEMPORARY_CALLS, { "temporary_calls", "TEMPORARY", UNIT_COUNT },                        \
	  NUMBER(temporary_calls, CALLS))                                                              \
	/* of its own calls */                                                                         \
	X(SITE_TEMPORARY_SHARE, { NULL, "OF ITS CALLS", UNIT_PERCENT })                                \
	X(SITE_FREES, { "frees", "FREED", UNIT_COUNT }, NUMBER(frees, FREES))                          \
	X(SITE_FREED_BYTES, { "freed_bytes", "FREED", UNIT_BYTES },                                    \
	  NUMBER(freed_bytes, FREED_BYTES))                                                            \
	X(SITE_MAX_BYTES, { "max_bytes", "OWN MAX", UNIT_BYTES }, NUMBER(max_bytes, BYTES))            \
	X(SITE_MAX_EXACT, { "max_exact", NULL, UNIT_FLAG }, FROM_BOOL,                                 \
	  offsetof(struct site_numbers, max_exact), VARIANCE_NONE)                                     \
	X(SITE_INTERNAL_FRAGMENTATION_BYTES,                                                           \
	  { "internal_fragmentation_bytes", "WASTE", UNIT_BYTES },                                     \
	  NUMBER(fragmentation_bytes, WASTE))                                                          \
	X(SITE_NOT_FREED_INTERNAL_FRAGMENTATION_BYTES,                                                 \
	  { "not_freed_internal_fragmentation_bytes", "WASTE", UNIT_BYTES },                           \
	  NUMBER(live_fragmentation_bytes, LIVE_WASTE))                                                \
	X(SITE_MEAN_NOT_FREED_BYTES, { "mean_not_freed_bytes", "MEAN SIZE", UNIT_BYTES })              \
	X(SITE_LIFETIME_NS, { "lifetime_ns", "LIFETIME", UNIT_NS })                                    \
	X(SITE_MEAN_LIFETIME_NS, { "mean_lifetime_ns", "MEAN LIFE", UNIT_NS })                         \
	/* freed within a millisecond */                                                               \
	X(SITE_SHORT_LIVED_FREES, { "short_lived_frees", "WITHIN 1 MS", UNIT_COUNT })                  \
	/* of its own frees */                                                                         \
	X(SITE_SHORT_LIVED_SHARE, { NULL, "OF FREED", UNIT_PERCENT })                                  \
	X(SITE_MIN_LIFETIME_NS, { "min_lifetime_ns", "NONE WITHIN", UNIT_NS })                         \
	X(SITE_MEDIAN_LIFETIME_NS, { "median_lifetime_ns", "HALF WITHIN", UNIT_NS })                   \
	X(SITE_MAX_LIFETIME_NS, { "max_lifetime_ns", "ALL WITHIN", UNIT_NS })                          \
	X(SITE_SAMPLES, { "samples", NULL, UNIT_COUNT }, NUMBER(samples, NONE))                        \
	X(SITE_FIRST_SEEN_NS, { "first_seen_ns", "FIRST SEEN", UNIT_NS })                              \
	/* of the remaining bytes; only in views that list it, like the next two */                    \
	X(SITE_MEDIAN_AGE_NS, { "median_age_ns", "HALF OLDER", UNIT_NS })                              \
	X(SITE_MAX_AGE_NS, { "max_age_ns", "OLDEST AT LEAST", UNIT_NS })                               \
	X(SITE_AGES, { "ages", NULL, UNIT_LIFETIMES })                                                 \
	/* of the pages, at the moment when they were read; only in views that list the first */       \
	X(SITE_RESIDENT_BYTES, { "resident_bytes", "RESIDENT", UNIT_BYTES })                           \
	X(SITE_PAGES_LIVE_BYTES, { "pages_live_bytes", "LIVE", UNIT_BYTES })                           \
	X(SITE_PAGES_BLOCKS, { "pages_blocks", "BLOCKS", UNIT_COUNT })                                 \
	X(SITE_SOLE_BYTES, { "sole_bytes", "IF FREED", UNIT_BYTES })                                   \
	X(SITE_ANY_BYTES, { "any_bytes", NULL, UNIT_BYTES })                                           \
	X(SITE_PINNED_BYTES, { "pinned_bytes", "PINS", UNIT_BYTES })                                   \
	X(SITE_ARENA_BYTES, { "arena_bytes", "IF IN AN ARENA", UNIT_BYTES })                           \
	X(SITE_UNTOUCHED_BYTES, { "untouched_bytes", "UNTOUCHED", UNIT_BYTES })                        \
	X(SITE_SWAPPED_BYTES, { "swapped_bytes", "SWAPPED", UNIT_BYTES })                              \
	X(SITE_HUGE_BYTES, { "huge_bytes", "HUGE", UNIT_BYTES })                                       \
	X(SITE_ZERO_BYTES, { "zero_bytes", "ZERO", UNIT_BYTES })                                       \
	/* what still refers to the blocks; only in views that list SITE_REACH */                      \
	X(SITE_UNREACHABLE_BYTES, { "unreachable_bytes", "UNREACHABLE", UNIT_BYTES })                  \
	X(SITE_UNREACHABLE_BLOCKS, { "unreachable_blocks", "BLOCKS", UNIT_COUNT })                     \
	X(SITE_RETAINED_BYTES, { "retained_bytes", "RETAINS", UNIT_BYTES })                            \
	X(SITE_TYPE, { "type", "TYPE", UNIT_TEXT })                                                    \
	X(SITE_HELD_BY, { "held_by", NULL, UNIT_TEXT })                                                \
	X(SITE_PATH, { "path", "held by", UNIT_PATH })                                                 \
	X(SITE_REACH, { "reach", NULL, UNIT_FIELDS })                                                  \
	X(SITE_COPIED_BYTES, { "copied_bytes", "COPIED", UNIT_BYTES },                                 \
	  NUMBER(reallocs.moved_bytes, BYTES))                                                         \
	/* by allocating and freeing; unknown if no calls were timed */                                \
	X(SITE_ALLOCATOR_NS, { "allocator_ns", "TIME", UNIT_NS }, NUMBER(allocator_ns, TIME))          \
	X(SITE_REALLOC, { "realloc", NULL, UNIT_FIELDS })                                              \
	/* members of SITE_REALLOC, for text output */                                                 \
	X(SITE_REALLOC_CALLS, { NULL, "REALLOCS", UNIT_COUNT }, NUMBER(reallocs.calls, CALLS))         \
	X(SITE_MOVED_SHARE, { NULL, "MOVED", UNIT_PERCENT })                                           \
	X(SITE_GROWN_CALLS, { NULL, "GROWN", UNIT_COUNT }, NUMBER(reallocs.grown_calls, CALLS))        \
	X(SITE_SHRUNK_CALLS, { NULL, "SHRUNK", UNIT_COUNT }, NUMBER(reallocs.shrunk_calls, CALLS))     \
	X(SITE_GROWTH, { NULL, "NEW/OLD", UNIT_TEXT })                                                 \
	X(SITE_SIZES, { "sizes", NULL, UNIT_SIZES })                                                   \
	X(SITE_LIFETIMES, { "lifetimes", NULL, UNIT_LIFETIMES })                                       \
	X(SITE_LABEL, { NULL, "FROM", UNIT_TEXT })                                                     \
	X(SITE_STACK, { "stack", "STACK", UNIT_FRAMES })
enum site_column { SITE_COLUMN_TABLE(COLUMN_ID) SITE_COLUMNS };

struct site_view {
	struct view_defaults defaults;
	/* The columns that text output shows after the cost and its share; terminated by SITE_COLUMNS. */
	const enum site_column *columns;
	/* Which sites the view includes; NULL: all. */
	bool (*wanted)(const struct entry *entry);
	/* The sort key if the query has no cost, which is then not shown; NULL: by the cost. */
	uint64_t (*weight)(const struct selection *selection, const struct entry *entry);
	/* The order of sites of the same weight; NULL: by process and number. */
	uint64_t (*then)(const struct entry *entry);
	/* The same by type, if the query asks for that; NULL: it lists only sites. */
	struct result *(*by_type)(const char *name, const struct profile *profile,
				  struct locations *locations, const struct query *query,
				  struct error *error);
	/* The view instead if a process of the recording has an image; NULL: the same. */
	const struct site_view *of_image;
	/* What it is about is not kept at snapshots, so that it has no window. */
	bool of_whole_run;
	/* Adds sentences after the headline, and up to two fields to the head; NULL: none. */
	void (*say)(struct sentences *sentences, const struct selection *selection);
};

/* Blocks and bytes by class. False if out of memory. */
struct profile_reach;
bool reach_value(struct result *result, const struct profile_reach *reach,
		 struct result_value *ret);

#define SITE_COLUMN_LIST(...) ((const enum site_column[]){ __VA_ARGS__, SITE_COLUMNS })

/* Histogram of ages or lifetimes, for `say`: class i is [2^(i-1), high_ms) ms. */
enum { TIME_CLASSES = 65 };
struct time_class {
	uint64_t count;
	uint64_t high_ms; /* the most that any block may have; 0 if there are none */
	double variance;
};
unsigned time_class_of(uint64_t low_ms);
/* Adds the non-empty classes as a field of the head. */
void time_classes_tell(struct sentences *sentences, const char *name,
		       const struct time_class classes[TIME_CLASSES]);

/* For `say`: adds a joint distribution as a field of the head, {first: {second: count}} by the smallest numbers of the classes, if
 * its sum is `total`, so that it is of these sites. False: it is not, as filters leave out a part of it. */
bool pairs_tell(struct sentences *sentences, const struct selection *selection, const char *name,
		enum profile_pairs_kind kind, uint64_t total,
		uint64_t sums[PAIR_CLASSES][PAIR_CLASSES]);

/* For `wanted`: some of its blocks are live at the selected moment. */
bool site_is_live(const struct entry *entry);

/* NULL with the error set on failure. */
struct result *site_view_run(const char *name, const struct site_view *view,
			     const struct profile *profile, struct locations *locations,
			     const struct query *query, struct error *error);

#endif
