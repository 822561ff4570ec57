/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sites that match a query, each with its numbers at the selected moment: the input of every view that sums.
 */
#ifndef ANALYSIS_QUERY_SELECTION_H
#define ANALYSIS_QUERY_SELECTION_H

#include "analysis/query/process_choice.h"
#include "analysis/query/moments.h"
#include "analysis/result/locations.h"
#include "analysis/result/query.h"
#include "model/threads.h"
#include "util/arena.h"
#include "util/error.h"

struct entry {
	const struct profile_process *process;
	const struct profile_site *site;
	struct measures m;
	const int64_t *runs;	 /* in a comparison: the cost in each run; else NULL */
	const double *variances; /* the same for its variance */
};

struct selection {
	struct arena arena;
	const struct profile *profile;
	struct locations *locations; /* of its frames */
	struct entry *entries;	     /* ordered by process and site */
	size_t count;
	struct measures sum; /* sum over the entries */
	struct measures sum_of[PROFILE_KINDS];
	struct measures whole;	    /* sum over all sites of the selected kinds, before filters */
	struct measures suppressed; /* sum of what suppressions excluded */
	size_t suppressed_count;
	bool filtered; /* the query has filters */
	bool at_exit; /* shows memory not freed at exit, not live memory of a process that still runs */

	enum cost_id cost;
	enum cost_id also[2]; /* further costs that trees sum up: see stack_tree.h */
	bool no_errors;	      /* variances are not computed */
	bool change;	      /* difference of two moments: live numbers are signed */
	bool window; /* calls, frees, bytes, temporary and waste are those between the moments */
	const char *window_note; /* why they are not, although they should be; NULL: none */
	uint64_t duration_ns;	 /* the time base of rates */
	int64_t divisor; /* in a comparison: the factor by which measures are scaled up; else 1 */
	const struct comparison *against; /* NULL: one recording */
	const char
		*moment; /* "at the peak, 9.1 s"; "over the whole run" for costs without a moment */
	const char *cost_word;		 /* name of the value: "peak", "not freed", "calls" */
	const char *title, *share_title; /* column titles: "PEAK", "OF PEAK" */
	const char *second_title;	 /* of the second cost; NULL: none */
	struct moment asked, since;	 /* the moments of the cost; kind DEFAULT: none */
	const struct resolved_moment *at, *minus; /* by process; minus NULL: none */
	const bool *processes;			  /* by process: whether it is selected */
	const bool *const *slots; /* by process, by slot: the selected threads; NULL: all */
	const bool (*closed)[PROFILE_KINDS]; /* by process: profile_slots_closed() of those slots */
	bool has_remote_frees; /* blocks of a selected kind crossed between these and other
			       * threads */
	size_t unknown_sites; /* sites whose live bytes are unknown for these threads: counted as 0 */
	uint64_t
		untimed; /* calls and frees of sites of which none was timed: their time counts as 0 */
	size_t unknown_threads; /* with threads as groups: those whose cost is unknown */
	bool end_for_peak;	/* the view's default, the peak, is unknown: shows the end */
	size_t shared_count; /* matching threads excluded because they share counters with others */
	const char *unmatched; /* message if filters left nothing; NULL: something matched */
};

/* The view's defaults, for queries that leave these open. */
struct view_defaults {
	enum cost_id cost;
	enum moment_kind at;
	enum query_kinds kinds;
	bool lifetimes; /* the view shows lifetimes */
	bool no_errors; /* nothing shows standard errors: variances may stay 0 */
};

/* Whether `kinds` includes the kind. */
bool query_kinds_fit(enum query_kinds kinds, enum profile_kind kind);

/* For selection_make. The first resolves the threads of the query. The second rejects costs that are unknown for them; if that is
 * the peak and only the view's default asks for it, it sets *at to the end instead. Pre: `processes` is set. */
int selection_choose_threads(struct selection *selection, const struct query *query,
			     enum query_kinds kinds, struct error *error);
int selection_choose_known(struct selection *selection, const struct query *query,
			   enum query_kinds kinds, struct view_defaults defaults, struct moment *at,
			   struct error *error);

/* For selection_make: resolves the moments and chooses the window. */
int selection_resolve(struct selection *selection, const struct query *query, struct moment at,
		      struct error *error);

/* Fails if the cost is the time in the allocator, and no calls were timed. */
int selection_check_timed(const struct profile *profile, enum cost_id cost, struct error *error);

/* -1 with the error set if the query is invalid, or out of memory. */
int selection_make(struct selection *selection, const struct profile *profile,
		   struct locations *locations, const struct query *query,
		   struct view_defaults defaults, struct error *error);
void selection_release(struct selection *selection);
/* Sets `unmatched`. -1 with the error set if filters left nothing and the query requires a match; or out of memory. */
int selection_check(struct selection *selection, const struct query *query, struct error *error);

/* The largest peak of the mappings of one selected process; 0: the query includes mappings, or there are none. */
uint64_t selection_unjudged_mappings(const struct selection *selection, const struct query *query);
/* How far the selected live bytes may be off. */
uint64_t selection_live_bound(const struct selection *selection);

/* The selected slots of the process, by slot; NULL: all. */
const bool *selection_slots(const struct selection *selection,
			    const struct profile_process *process);
/* Converts site numbers to measures at the selected moments; and whether the cost is known for them. The numbers may cover a
 * subset of the site's threads if those moments are the peak or the end. */
struct measures selection_measures(const struct selection *selection,
				   const struct profile_process *process, site_id site,
				   const struct site_numbers *numbers);
bool selection_knows(const struct selection *selection, const struct site_numbers *numbers);
/* Whether the cost is the time of these operations, and none of them was timed. */
bool selection_is_untimed(const struct selection *selection, int64_t allocator_ns,
			  int64_t operations);
/* A site's numbers, restricted to the selected threads. */
struct site_numbers selection_numbers(const struct selection *selection, const struct entry *entry);
/* Replaces what was counted over the whole run by what was counted in the window, if there is one: see moments_between(). */
struct site_numbers selection_counted(const struct selection *selection,
				      const struct profile_process *process, site_id site,
				      const struct site_numbers *numbers);
/* The unit of a column of this cost: signed if it may be negative. */
enum result_unit selection_unit(const struct selection *selection, enum cost_id cost);

/* The selection's cost, computed from measures of any part of it. */
int64_t selection_cost(const struct selection *selection, const struct measures *measures);
uint64_t selection_magnitude(const struct selection *selection, const struct measures *measures);
struct result_value selection_value(const struct selection *selection,
				    const struct measures *measures);
/* The same for another cost. */
struct result_value selection_value_of(const struct selection *selection, enum cost_id cost,
				       const struct measures *measures);

/*
 * For sums of a single number instead of all measures: the additive raw number, and its conversion for display.
 * Rates and means are computed from the final sum, because rounded numbers must not be added.
 */
int64_t selection_raw(enum cost_id cost, const struct measures *measures);
double selection_raw_variance(enum cost_id cost, const struct measures *measures);
int64_t selection_shown(const struct selection *selection, enum cost_id cost, int64_t raw);
double selection_shown_error(const struct selection *selection, enum cost_id cost,
			     double raw_variance);
struct result_value selection_number(const struct selection *selection, enum cost_id cost,
				     int64_t raw, double raw_variance);

/* The kind of memory to show first: the heap if there is any. Kinds are never added together for display. */
enum profile_kind selection_kind(const struct selection *selection);

/* Sorts the entries by cost, largest first; equal ones by process and site. Sorts only the first `wanted`; the rest
 * follow in any order. */
void selection_sort(struct selection *selection, size_t wanted);

#endif
