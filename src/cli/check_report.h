/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the findings of a check for people, programs and CI. */
#ifndef CLI_CHECK_REPORT_H
#define CLI_CHECK_REPORT_H

#include <stdio.h>

#include "analysis/advice/check.h"

/* Prints the budgets that are exceeded or cannot be checked, or that all are kept. */
void check_print_text(FILE *out, const struct check *check);
/* Prints workflow commands: one annotation per exceeded budget. */
void check_print_github(FILE *out, const struct check *check);
/* Returns 0, or -1 if out of memory. */
int check_print_json(FILE *out, const struct check *check);
/* Prints one test case per budget. */
void check_print_junit(FILE *out, const struct check *check);

#endif
