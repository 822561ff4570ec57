/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sites that a query asks for, each with its numbers at the moment asked for: what every view that adds up starts
 * from.
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
	const int64_t *runs;	 /* of a comparison: the cost in each run; else NULL */
	const double *variances; /* the same of that cost */
};

struct selection {
	struct arena arena;
	const struct profile *profile;
	struct entry *entries; /* in the order of process and site */
	size_t count;
	struct measures sum; /* of the entries */
	struct measures sum_of[PROFILE_KINDS];
	struct measures whole;	    /* of all sites of the kinds, before any filter */
	struct measures suppressed; /* what suppressions left out */
	size_t suppressed_count;
	bool filtered; /* something was asked to be left out */
	bool at_exit; /* it is about what was not freed, and not about what is live in a process that goes on */

	enum cost_id cost;
	bool change;	      /* of two moments: what is live has a sign */
	uint64_t duration_ns; /* what a rate is over */
	int64_t divisor; /* of a comparison: measures are that many times what they mean; else 1 */
	const struct comparison *against; /* NULL: one recording */
	const char
		*moment; /* "at the peak, 9.1 s"; of costs without a moment "over the whole run" */
	const char *cost_word; /* what the value is called: "peak", "not freed", "calls" */
	const char *title, *share_title; /* of columns: "PEAK", "OF PEAK" */
	struct moment asked, since;	 /* the moments of the cost; kind DEFAULT: it has none */
	const struct resolved_moment *at, *minus; /* by process; minus NULL: none */
	const bool *processes;			  /* by process: whether it was asked for */
	const bool *const *slots; /* by process, by slot: the threads asked for; NULL: all */
	const bool (*closed)[PROFILE_KINDS]; /* by process: profile_slots_closed() of those */
	bool passed;	      /* blocks of a kind asked for went between those threads and others */
	size_t unknown_sites; /* those of which it is not known what these threads hold: counted as 0 */
	size_t unknown_threads; /* of threads as groups: those of which the cost is not known */
	bool end_for_peak;	/* it would have been the peak, had it been known */
	size_t shared_count; /* threads that match and are left out: their counters are others' too */
	const char *unmatched; /* what to tell if filters left nothing; NULL: they left something */
};

/* What a view asks for where the query says nothing. */
struct ask {
	enum cost_id cost;
	enum moment_kind at;
	enum query_kinds kinds;
	bool lifetimes; /* the view is about them */
};

/* Whether the kind is among them. */
bool query_kinds_fit(enum query_kinds kinds, enum profile_kind kind);

/* For selection_make. The threads that the query asks for. Then what is not known of them is refused; or, if it is the peak and the
 * query did not ask for it itself, *at becomes the end. Pre: `processes` was chosen. */
int selection_choose_threads(struct selection *selection, const struct query *query,
			     enum query_kinds kinds, struct error *error);
int selection_choose_known(struct selection *selection, const struct query *query,
			   enum query_kinds kinds, struct ask ask, struct moment *at,
			   struct error *error);

/* -1 with the error set if the question makes no sense, or out of memory. */
int selection_make(struct selection *selection, const struct profile *profile,
		   struct locations *locations, const struct query *query, struct ask ask,
		   struct error *error);
void selection_release(struct selection *selection);
/* Sets `unmatched`. -1 with the error set if filters left nothing, and that is an error; or out of memory. */
int selection_check(struct selection *selection, const struct query *query, struct error *error);

/* The slots of the process that count, by slot; NULL: all. */
const bool *selection_slots(const struct selection *selection,
			    const struct profile_process *process);
/* What the numbers of a site are, at the moments asked for; whether the cost is known of them. They may be of some of its threads
 * if those moments are the peak or the end. */
struct measures selection_measures(const struct selection *selection,
				   const struct profile_process *process, site_id site,
				   const struct site_numbers *numbers);
bool selection_knows(const struct selection *selection, const struct site_numbers *numbers);
/* A site's numbers as far as the threads asked for made them. */
struct site_numbers selection_numbers(const struct selection *selection, const struct entry *entry);

/* The cost asked for, of some part of the selection. */
int64_t selection_cost(const struct selection *selection, const struct measures *measures);
uint64_t selection_magnitude(const struct selection *selection, const struct measures *measures);
struct result_value selection_value(const struct selection *selection,
				    const struct measures *measures);
/* The same of another cost. */
struct result_value selection_value_of(const struct selection *selection, enum cost_id cost,
				       const struct measures *measures);

/*
 * For sums of one number instead of all measures: the number as it can be added up, and what it then means. A sum of
 * rounded numbers is no sum, so rates and means are made of it at the end.
 */
int64_t selection_raw(enum cost_id cost, const struct measures *measures);
double selection_raw_variance(enum cost_id cost, const struct measures *measures);
int64_t selection_shown(const struct selection *selection, enum cost_id cost, int64_t raw);
double selection_shown_error(const struct selection *selection, enum cost_id cost,
			     double raw_variance);
struct result_value selection_number(const struct selection *selection, enum cost_id cost,
				     int64_t raw, double raw_variance);

/* The kind of memory that is shown first: the heap, if there is any; kinds are never added up for them. */
enum profile_kind selection_kind(const struct selection *selection);

/* Sorts the entries: the most of the cost first; equal ones by process and site. Only as many as are wanted; the others
 * are behind them in any order. */
void selection_sort(struct selection *selection, size_t wanted);

#endif
