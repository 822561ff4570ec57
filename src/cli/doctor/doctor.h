/* SPDX-License-Identifier: Apache-2.0 */
/* What the doctor looks at: lines of a check, what was found, and the remedy where something is wrong. */
#ifndef CLI_DOCTOR_DOCTOR_H
#define CLI_DOCTOR_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "util/arena.h"
#include "util/vector.h"

enum doctor_verdict {
	DOCTOR_OK,
	DOCTOR_WARN, /* recording works, something will be missing */
	DOCTOR_NO,   /* nothing can be recorded */
};

struct doctor_line {
	const char *check;
	enum doctor_verdict verdict;
	const char *found;
	const char *way_out; /* NULL: none is needed */
};

struct doctor {
	VECTOR(struct doctor_line) lines;
	struct arena arena; /* of the lines' texts */
	bool failed;	    /* out of memory */
};
#define DOCTOR_INIT ((struct doctor){ 0 })
void doctor_release(struct doctor *doctor);

/* One more line. `check` is a literal, way_out may be NULL; both other texts are copied. */
void doctor_add(struct doctor *doctor, const char *check, enum doctor_verdict verdict,
		const char *way_out, const char *format, ...) PRINTF_LIKE(5, 6);
/* The same of an error's message: a sentence, and the remedy in its second line. */
void doctor_add_error(struct doctor *doctor, const char *check, enum doctor_verdict verdict,
		      const char *message);
/* The worst of all lines. */
enum doctor_verdict doctor_worst(const struct doctor *doctor);

/* This machine: kernel, limits, recorder, names. Runs a small program under the recorder. */
void doctor_machine(struct doctor *doctor);
/* A program, from its file alone: it is not run. Looked up as execvp does. */
void doctor_program(struct doctor *doctor, const char *program);

#endif
