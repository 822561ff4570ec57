/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of the doctor: each line has what was checked, what was found, and a remedy if something is wrong. */
#ifndef CLI_DOCTOR_DOCTOR_H
#define CLI_DOCTOR_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "util/arena.h"
#include "util/error.h"
#include "util/vector.h"

enum doctor_verdict {
	DOCTOR_OK,
	DOCTOR_WARN, /* recording works, but something will be missing */
	DOCTOR_NO,   /* nothing can be recorded */
};

struct doctor_line {
	const char *check;
	enum doctor_verdict verdict;
	const char *found;
	const char *way_out; /* the remedy; NULL: none needed */
};

struct doctor {
	VECTOR(struct doctor_line) lines;
	struct arena arena; /* owns the texts of the lines */
	bool failed;	    /* out of memory */
};
#define DOCTOR_INIT ((struct doctor){ 0 })
void doctor_release(struct doctor *doctor);

/* Adds a line. `check` is a literal, way_out may be NULL; the other two texts are copied. */
void doctor_add(struct doctor *doctor, const char *check, enum doctor_verdict verdict,
		const char *way_out, const char *format, ...) PRINTF_LIKE(5, 6);
/* Adds a line for an error: its hint is the remedy. */
void doctor_add_error(struct doctor *doctor, const char *check, enum doctor_verdict verdict,
		      const struct error *error);
/* Returns the worst verdict of all lines. */
enum doctor_verdict doctor_worst(const struct doctor *doctor);

/* Checks this machine: kernel, limits, recorder, names. Runs a small program under the recorder. */
void doctor_machine(struct doctor *doctor);
/* Checks a program, from its file alone, without running it. Looks it up as execvp does. */
void doctor_program(struct doctor *doctor, const char *program);

#endif
