/* SPDX-License-Identifier: Apache-2.0 */
/* Budgets from options and from an INI file: a section for each program's name, keys as the options. */
#ifndef CLI_BUDGETS_H
#define CLI_BUDGETS_H

#include <stdio.h>

#include "analysis/advice/check.h"
#include "util/arena.h"

struct budgets {
	struct arena arena;
	struct budget given; /* from options: of every process */
	bool has_given;
	VECTOR(struct budget) list;
};

/* "64MiB", "1000", "4KiB/s". -1 with the error set. */
int budget_set(struct budget *budget, enum check_measure measure, const char *value,
	       struct error *error);
/* Adds the file's budgets. An unknown key is an error that names file and line. */
int budgets_read(struct budgets *budgets, const char *path, struct error *error);
void budgets_release(struct budgets *budgets);

/*
 * Checks the recording and prints what was found. Returns the exit status: 0 all kept, 1 something is broken, 2 it
 * cannot be decided.
 */
struct check_command {
	char *sites; /* one regex of all that count; NULL: all stacks do */
	const char *recording, *baseline, *junit; /* the last two may be NULL */
	const char *format;			  /* "text", "json", "github" */
	double tolerance;			  /* see struct check_options */
	int64_t tolerance_bytes;
	struct budgets *budgets;
	struct query query;
	struct names_options names;
	FILE *out;
};
int check_recording(const struct check_command *command, struct error *error);

#endif
