/* SPDX-License-Identifier: Apache-2.0 */
/* What a check found, for people, for programs and for CI. */
#ifndef CLI_CHECK_REPORT_H
#define CLI_CHECK_REPORT_H

#include <stdio.h>

#include "analysis/advice/check.h"

/* Prints what is broken or cannot be decided, or that everything is kept. */
void check_print_text(FILE *out, const struct check *check);
/* Workflow commands: an annotation for each broken budget. */
void check_print_github(FILE *out, const struct check *check);
/* 0, or -1 if out of memory. */
int check_print_json(FILE *out, const struct check *check);
/* A test case for each budget. */
void check_print_junit(FILE *out, const struct check *check);

#endif
