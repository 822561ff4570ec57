/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Budgets: whether a recording keeps within its limits, and if not, who is to blame.
 *
 * A budget holds for every process whose program's name matches its pattern. A limit is an upper bound of one measure;
 * with a baseline, the measure of the process of the same name there, and a tolerance, is one more.
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
	CHECK_CALLS,
	CHECK_TOTAL,
	CHECK_TEMPORARY,
	CHECK_GROWTH, /* bytes per second, of all that is live */
	CHECK_MEASURES,
};

/* What they are called: the word, the option and key of a budget, whether it is in bytes. Ends with a NULL name. */
struct check_measure_row {
	const char *name, *key;
	const char *words; /* for people */
	enum result_unit unit;
};
extern const struct check_measure_row check_measures[CHECK_MEASURES + 1];

struct budget {
	const char *pattern; /* of a program's name, with * and ?; NULL: every process */
	bool has[CHECK_MEASURES];
	int64_t limit[CHECK_MEASURES];
};

struct check_options {
	const struct budget *budgets;
	size_t budget_count;
	const struct profile *baseline; /* NULL: none */
	double tolerance;		/* 0.02: two per cent more than the baseline is fine */
	int64_t tolerance_bytes;	/* and as many bytes more, of what is in bytes */
	const struct query *query;	/* its filters say which stacks count */
};

enum check_verdict { CHECK_OK, CHECK_BROKEN, CHECK_UNKNOWN };

enum { CHECK_RESPONSIBLE = 3 };
struct check_row {
	const char *program; /* the name of the process' program */
	uint32_t pid;
	enum check_measure measure;
	enum check_verdict verdict;
	int64_t value, limit;
	/* Of an estimate: its standard error, and between what the truth is in 95 of 100 cases. A limit that lies there is
	 * neither kept nor broken. Against a baseline that is an estimate too, of the difference. */
	bool estimate;
	double error;
	int64_t low, high;
	bool has_baseline; /* the limit is made from it */
	int64_t baseline;
	double limit_error; /* of a limit that comes from an estimate */
	const char *why;    /* UNKNOWN: the reason */
	/* BROKEN: the stacks that hold most, or that grew most since the baseline. */
	struct {
		const char *label;
		const char *file; /* of its source; NULL: not known */
		uint32_t line;
		int64_t value;
	} responsible[CHECK_RESPONSIBLE];
	size_t responsible_count;
};

struct check {
	struct arena arena;
	VECTOR(struct check_row) rows; /* by process, by measure */
	size_t broken, unknown;
};

/* -1 with the error set. A budget that no process matches is a row of its own: unknown. */
int check_run(struct check *check, const struct profile *profile, struct locations *locations,
	      const struct check_options *options, struct error *error);
void check_release(struct check *check);

/* "71.3 MiB", "1.2 KiB/s", "23,400" */
struct units check_text(enum check_measure measure, int64_t value);

#endif
