/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings: possible improvements that the numbers prove, and their savings.
 *
 * A rule is a row in rules.c. It first tests single sites by their numbers alone, and then the sum of
 * all sites with the same owner function. So only few stacks have to be symbolized, and a function
 * that is reached by many paths, or runs in many processes, is one finding.
 */
#ifndef ANALYSIS_ADVICE_FINDINGS_H
#define ANALYSIS_ADVICE_FINDINGS_H

#include "analysis/result/build.h"
#include "analysis/query/selection.h"
#include "analysis/advice/trend.h"
#include "model/ages.h"
#include "model/history.h"
#include "model/memory/pages.h"

/* The data that rules have about a process. */
struct advised {
	const struct advised *before; /* the previous process; NULL: none */
	const struct profile_process *process;
	struct trends trends;
	struct growth growth; /* of these trends */
	struct profile_ages ages;
	/* At the last memory sheet: large blocks, the part of them that certainly has no page, and resident heap
	 * memory that no live block uses and that was not freed just before. */
	uint64_t large_bytes, untouched_bytes, unused_bytes;
	const struct site_live *held; /* live numbers then, by site id; NULL: no snapshot */
};
/* The memory sheet to judge by: the last one, except for those taken after an exiting program began to free its memory. */
struct profile_memory findings_last_sheet(const struct profile_process *process);
/* Whether glibc gives each block its own mapping. */
bool site_blocks_are_large(const struct site_numbers *numbers);
/* The live numbers of the site at the last memory sheet. */
struct site_live advised_held(const struct advised *of, const struct profile_site *site);

/* The sum over the sites of one function: in one process, or in all with the finding. */
struct tally {
	size_t sites, processes;
	uint64_t process_peak_bytes, process_ns; /* sums over those processes */
	struct site_numbers
		sums; /* calls, bytes, frees, live and peak numbers, with their variances */
	uint64_t temporary;
	uint64_t fragmentation_bytes; /* over all calls */
	uint64_t lifetime_ms;
	struct realloc_numbers reallocs;
	uint64_t regrown_calls, regrown_bytes; /* C++ containers that move to a larger block */
	uint64_t elsewhere;		       /* remote frees: at least that many */
	int64_t growing_per_second;
	unsigned confidence_per_mille;	  /* the minimum over the growing sites */
	uint64_t held_bytes, held_blocks; /* see advised_held */
	uint64_t most_without;		  /* maximum live bytes besides them at the snapshots */
	struct site_pages pages;	  /* blocks, live, sole and arena bytes */
	const struct tally_site *members;
};
struct tally_site {
	const struct tally_site *next;
	site_id id;
};

/* What a finding would save; 0 if not applicable. */
struct saving {
	uint64_t peak_bytes, copied_bytes, leaked_bytes, calls, remote_frees;
	uint64_t reserved_bytes; /* allocated but never touched */
	uint64_t resident_bytes; /* resident but unused */
	int64_t bytes_per_second;
};

struct rule_row {
	const char *name;  /* the JSON key */
	const char *title; /* a short description */
	const char *todo;  /* the remedy */
	/* Precondition on a single site: by numbers alone, and selective enough that few sites pass. */
	bool (*may)(const struct advised *of, const struct profile_site *site);
	/* Whether the finding holds for the function, and its saving. */
	bool (*holds)(const struct advised *of, const struct tally *tally, struct saving *ret);
	bool looks_back;    /* needs most_without, which costs a pass over the snapshots */
	bool is_of_storage; /* about how blocks are stored: irrelevant if they should not exist */
	/* The evidence, as a sentence. */
	void (*say)(struct words *words, const struct advised *of, const struct tally *tally);
};
enum { RULE_NOT_FREED }; /* index of the first row */
extern const struct rule_row rule_rows[];
extern const size_t rule_count;

struct finding {
	const struct rule_row *rule;
	const struct profile_process *process; /* the process that would save most */
	const struct profile_site *site;       /* its heaviest site of the finding */
	const struct location *owner;
	struct tally tally;
	struct saving saving;
	const struct advised *of;
};

struct findings {
	struct arena arena;
	struct finding *at; /* sorted by saved memory, then copying, then calls */
	size_t count;
	const struct advised *last; /* list of processes, newest first */
};

/* Findings in the selection's sites. -1 if out of memory. */
int findings_make(struct findings *findings, const struct selection *selection,
		  struct locations *locations);
/* Findings in all heap sites. -1 if out of memory. */
int findings_make_all(struct findings *findings, const struct profile *profile,
		      struct locations *locations);
/* The data about a process; NULL if it had no sites. */
const struct advised *findings_of(const struct findings *findings,
				  const struct profile_process *process);
/* The growth of a process; none if it had no sites. */
struct growth findings_growth(const struct findings *findings,
			      const struct profile_process *process);
void findings_release(struct findings *findings);

#endif
