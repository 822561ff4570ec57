/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings: what could be done better, where the numbers prove it, and what that would save.
 *
 * A rule is a row in rules.c. It looks at one site first, by its numbers alone, and then at all sites
 * together whose owner is the same function. So only few stacks have to be named, and a function that
 * is reached on many ways, or runs in many processes, is one finding.
 */
#ifndef ANALYSIS_ADVICE_FINDINGS_H
#define ANALYSIS_ADVICE_FINDINGS_H

#include "analysis/result/build.h"
#include "analysis/query/selection.h"
#include "analysis/advice/trend.h"
#include "model/ages.h"
#include "model/history.h"

/* What a rule knows of a process. */
struct advised {
	const struct advised *before; /* the process before it; NULL: none */
	const struct profile_process *process;
	struct trends trends;
	struct profile_ages ages;
	/* When its memory was last looked at: the large blocks, how much of them surely has no page, and resident heap
	 * that no live block uses and that did not come just now from a burst of frees. */
	uint64_t large_bytes, untouched_bytes, unused_bytes;
	const struct site_live *held; /* by site id, then; NULL: no moment was kept */
};
/* Whether glibc gives them a mapping each. */
bool site_blocks_are_large(const struct site_numbers *numbers);
/* What the site held when the memory was last looked at. */
struct site_live advised_held(const struct advised *of, const struct profile_site *site);

/* The sites of one function of the program, added up: of one process, or of all that have the finding. */
struct tally {
	size_t sites, processes;
	uint64_t process_peak_bytes, process_ns; /* of those processes */
	struct site_numbers
		sums; /* of calls, bytes, frees, what is live and at the peak, with their variances */
	uint64_t temporary;
	uint64_t slack_bytes; /* of all calls */
	uint64_t lifetime_ms;
	struct realloc_numbers reallocs;
	uint64_t regrown_calls, regrown_bytes; /* by a C++ container that takes a larger block */
	uint64_t elsewhere;		       /* blocks that another thread freed, at least */
	int64_t growing_per_second;
	unsigned confidence_per_mille;	  /* the least of the sites that grow */
	uint64_t held_bytes, held_blocks; /* see advised_held */
	uint64_t most_without;		  /* what was live beside them, at most, at the snapshots */
	const struct tally_site *members;
};
struct tally_site {
	const struct tally_site *next;
	site_id id;
};

/* What a finding would save; 0 where it is about something else. */
struct saving {
	uint64_t peak_bytes, copied_bytes, leaked_bytes, calls, remote_frees;
	uint64_t reserved_bytes; /* asked for, and never used */
	uint64_t resident_bytes; /* that nothing uses */
	int64_t bytes_per_second;
};

struct rule_row {
	const char *name;  /* the key */
	const char *title; /* what it is, in a few words */
	const char *todo;  /* what to do about it */
	/* Whether the site is worth a look: by numbers, and by little enough for few to pass. */
	bool (*may)(const struct advised *of, const struct profile_site *site);
	/* Whether the function has it, and the saving. */
	bool (*holds)(const struct advised *of, const struct tally *tally, struct saving *ret);
	bool looks_back;    /* at most_without, which costs a pass over the snapshots */
	bool is_of_storage; /* how the blocks are stored: of no use where they should not be there */
	/* The evidence, as a sentence. */
	void (*say)(struct words *words, const struct advised *of, const struct tally *tally);
};
enum { RULE_LEAK }; /* the first of */
extern const struct rule_row rule_rows[];
extern const size_t rule_count;

struct finding {
	const struct rule_row *rule;
	const struct profile_process *process; /* the one that would save most */
	const struct profile_site *site;       /* the heaviest of them there */
	const struct location *owner;
	struct tally tally;
	struct saving saving;
	const struct advised *of;
};

struct findings {
	struct arena arena;
	struct finding
		*at; /* those that save most memory first, then most copying, then most calls */
	size_t count;
	const struct advised *last; /* of the processes, newest first */
};

/* Of the selection's sites. -1 if out of memory. */
int findings_make(struct findings *findings, const struct selection *selection,
		  struct locations *locations);
/* Of all heap sites. -1 if out of memory. */
int findings_make_all(struct findings *findings, const struct profile *profile,
		      struct locations *locations);
/* What is known of a process that was looked at; NULL: it was not. */
const struct advised *findings_of(const struct findings *findings,
				  const struct profile_process *process);
void findings_release(struct findings *findings);

#endif
