/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Budgets: whether a recording stays within its limits, and if not, which stacks are responsible.
 *
 * A budget applies to every process whose program name matches its pattern. A limit is an upper bound for one measure;
 * a baseline adds another limit: the measure of the process with the same name there, plus a tolerance.
 */
#ifndef ANALYSIS_ADVICE_CHECK_H
#define ANALYSIS_ADVICE_CHECK_H

#include "analysis/result/locations.h"
#include "analysis/result/query.h"
#include "model/profile.h"
#include "util/arena.h"
#include "util/error.h"
#include "util/vector.h"

enum check_measure {
	CHECK_PEAK,
	CHECK_LEAKED,
	CHECK_LEAKED_BLOCKS,
	CHECK_UNREACHABLE, /* needs an image */
	CHECK_CALLS,
	CHECK_TOTAL,
	CHECK_TEMPORARY,
	CHECK_GROWTH, /* bytes per second, of all live memory */
	CHECK_MEASURES,
};

/* The name, the option and key of a budget, the text, and the unit. Terminated by a NULL name. */
struct check_measure_row {
	const char *name, *key;
	const char *words; /* for text output */
	enum result_unit unit;
};
extern const struct check_measure_row check_measures[CHECK_MEASURES + 1];

struct budget {
	const char *pattern; /* glob for the program name; NULL: every process */
	bool has[CHECK_MEASURES];
	int64_t limit[CHECK_MEASURES];
};

struct check_options {
	const struct budget *budgets;
	size_t budget_count;
	const struct profile *baseline; /* NULL: none */
	double tolerance;		/* 0.02: two percent above the baseline is allowed */
	int64_t tolerance_bytes;	/* plus that many bytes, for measures in bytes */
	const struct query *query;	/* its filters select the stacks that count */
};

enum check_verdict { CHECK_OK, CHECK_BROKEN, CHECK_UNKNOWN };

enum { CHECK_RESPONSIBLE = 3 };
struct check_row {
	const char
		*program; /* base name of the executable; of a row about no process: the pattern */
	uint32_t pid;	  /* 0: the row is about no process */
	bool has_measure; /* false: nothing was measured, and `why` says why */
	enum check_measure measure;
	enum check_verdict verdict;
	bool has_value, has_limit; /* false: the value or the limit is unknown, and 0 */
	int64_t value, limit;
	/* For an estimate: its standard error and its 95 % confidence interval. A limit inside the interval is neither
	 * kept nor exceeded. If the baseline is an estimate too, they are of the difference. */
	bool estimate;
	double error;
	int64_t low, high;
	bool has_baseline; /* the limit is derived from it */
	int64_t baseline;
	double limit_error; /* standard error of a limit from an estimate */
	const char *why;    /* UNKNOWN: the reason */
	/* BROKEN: the heaviest stacks, or those that grew most since the baseline. */
	struct {
		const char *label;
		const char *file; /* source file; NULL: unknown */
		uint32_t line;
		int64_t value;
	} responsible[CHECK_RESPONSIBLE];
	size_t responsible_count;
};

struct check {
	struct arena arena;
	VECTOR(struct check_row) rows; /* by process, by measure; never empty */
	size_t broken, unknown;
	/* Mappings of the checked processes: no measure includes them. */
	struct {
		bool known;	     /* false: a heap profile of another tool does not have them */
		size_t processes;    /* that mapped memory */
		uint64_t most_bytes; /* the largest peak of one process ... */
		const char *program; /* ... and its base name; NULL: none */
	} mapped;
};

/* -1 with the error set. A budget that matches no process, or a baseline that nothing could be compared with, gets a row of its own, with
 * the verdict UNKNOWN. */
int check_run(struct check *check, const struct profile *profile, struct locations *locations,
	      const struct check_options *options, struct error *error);
void check_release(struct check *check);

/* "71.3 MiB", "1.2 KiB/s", "23,400" */
struct units check_text(enum check_measure measure, int64_t value);

#endif
