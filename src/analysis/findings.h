/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings: what could be done better, where the numbers prove it, and what that would save.
 *
 * A rule is a row in rules.c. It looks at one site first, by its numbers alone, and then at all sites
 * together that the same line of the program asks for. So only few stacks have to be named, and a
 * line that is reached on many ways is one finding.
 */
#ifndef ANALYSIS_FINDINGS_H
#define ANALYSIS_FINDINGS_H

#include "analysis/build.h"
#include "analysis/selection.h"
#include "analysis/trend.h"

/* What a rule knows of a process. */
struct advised {
	const struct advised *before; /* the process before it; NULL: none */
	const struct profile_process *process;
	struct trends trends;
	int64_t growing_per_second; /* of its sites that grow, bytes */
};

/* The sites of one line of the program, added up. */
struct tally {
	size_t sites;
	uint64_t calls, bytes, frees, temporary;
	uint64_t slack_bytes; /* of all calls */
	uint64_t live_bytes, live_blocks, peak_bytes, peak_blocks;
	uint64_t lifetime_ms;
	struct realloc_numbers reallocs;
	uint64_t regrown_calls, regrown_bytes; /* by a C++ container that takes a larger block */
	uint64_t elsewhere;		       /* blocks that another thread freed, at least */
	int64_t growing_per_second;
	unsigned confidence_per_mille; /* the least of the sites that grow */
	uint64_t most_without;	       /* what was live beside them, at most, at the kept moments */
	const struct tally_site *members;
	struct site_numbers sums; /* of them, with their variances */
};
struct tally_site {
	const struct tally_site *next;
	site_id id;
};

/* What a finding would save; 0 where it is about something else. */
struct saving {
	uint64_t peak_bytes, copied_bytes, leaked_bytes, calls, foreign_frees;
	int64_t bytes_per_second;
	double share; /* of what there is of it in the process: for the order */
};

struct rule_row {
	const char *name;  /* the key */
	const char *title; /* what it is, in a few words */
	const char *todo;  /* what to do about it */
	/* Whether the site is worth a look: by numbers, and by little enough for few to pass. */
	bool (*may)(const struct advised *of, const struct profile_site *site);
	/* Whether the line of the program has it, and the saving. */
	bool (*holds)(const struct advised *of, const struct tally *tally, struct saving *ret);
	bool looks_back; /* at most_without, which costs a pass over the kept moments */
	/* The evidence, as a sentence. */
	void (*say)(struct words *words, const struct advised *of, const struct tally *tally);
};
extern const struct rule_row rule_rows[];
extern const size_t rule_count;

struct finding {
	const struct rule_row *rule;
	const struct profile_process *process;
	const struct profile_site *site; /* the heaviest of them */
	const struct place *owner;
	struct tally tally;
	struct saving saving;
	const struct advised *of;
};

struct findings {
	struct arena arena;
	struct finding *at; /* the largest share of a saving first */
	size_t count;
	const struct advised *last; /* of the processes, newest first */
};

/* Of the selection's sites. -1 if out of memory. */
int findings_make(struct findings *findings, const struct selection *selection,
		  struct places *places);
/* Of all heap sites. -1 if out of memory. */
int findings_make_all(struct findings *findings, const struct profile *profile,
		      struct places *places);
/* What is known of a process that was looked at; NULL: it was not. */
const struct advised *findings_of(const struct findings *findings,
				  const struct profile_process *process);
/* How fast the process grows: its heap, or at least some sites; 0: it does not, or it is not worth a word. */
uint64_t advised_growth(const struct advised *of);
void findings_release(struct findings *findings);

#endif
