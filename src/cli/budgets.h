/* SPDX-License-Identifier: Apache-2.0 */
/* Budgets from options and from an INI file, which has one section per program name; its keys are the names of
 * the options. */
#ifndef CLI_BUDGETS_H
#define CLI_BUDGETS_H

#include <stdio.h>

#include "analysis/advice/check.h"
#include "util/arena.h"

struct budgets {
	struct arena arena;
	struct budget given; /* from options: apply to every process */
	bool has_given;
	VECTOR(struct budget) list;
	VECTOR(const char *) files; /* that budgets_read has read; not owned */
};

/* Parses "64MiB", "1000" or "4KiB/s". Returns -1 with the error set. */
int budget_set(struct budget *budget, enum check_measure measure, const char *value,
	       struct error *error);
/* Adds the budgets in the file. An unknown key is an error that names file and line. */
int budgets_read(struct budgets *budgets, const char *path, struct error *error);
void budgets_release(struct budgets *budgets);

struct check_command {
	char *sites; /* one regex that matches every stack to count; NULL: count all stacks */
	const char *recording, *baseline, *junit; /* baseline and junit may be NULL */
	const char *format;			  /* "text", "json", "github" */
	double tolerance;			  /* see struct check_options */
	int64_t tolerance_bytes;
	struct budgets *budgets;
	struct query query;
	struct names_options names;
	FILE *out;
};
/* The defaults of `heapgauge check` and `record --check`. Release with check_command_release. */
struct check_command check_command_make(struct budgets *budgets, FILE *out);
void check_command_release(struct check_command *command);
/*
 * Checks the recording and prints the findings. Returns the exit status: 0 if all budgets are met, 1 if one is
 * exceeded, 2 if one cannot be judged.
 */
int check_recording(const struct check_command *command, struct error *error);

#endif
