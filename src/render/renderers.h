/* SPDX-License-Identifier: Apache-2.0 */
/* Result -> text, JSON or CSV. A renderer is one file and one row in renderers.c, and knows no view. */
#ifndef RENDER_RENDERERS_H
#define RENDER_RENDERERS_H

#include <stdbool.h>
#include <stddef.h>

#include "analysis/result/result.h"
#include "base/span.h"
#include "util/buffer.h"
#include "util/error.h"

/* Everything the output depends on besides the result: plain values, so that tests can fix them. */
struct render_options {
	bool exact_bytes;    /* 224395264 instead of 214.0 MiB */
	unsigned columns;    /* width to stay within where cutting a name helps; 0: no limit */
	size_t stack_frames; /* of a stack shown to people; 0: all */
	bool colours;	     /* escape sequences are understood */
	bool utf8;	     /* else ASCII only, but for what stands in names */
	bool terminal; /* the output goes to one as it is: nothing in it may do more than be seen */
};

/* Where the output goes, piece by piece: a result may be far larger than its text should be in memory. */
struct render_output {
	struct buffer buffer;
	bool printable; /* what is not text is replaced as it leaves: for formats without colours */
	/* Writes all bytes; 0, or -1 with the error set. */
	int (*write)(void *context, struct span bytes, struct error *error);
	void *context;
};

/* Hands on what is in the buffer if that is much, or if `all`. 0, or -1 if writing or memory failed. */
int render_flush(struct render_output *out, bool all, struct error *error);

/* By column: whether any of its values is an estimate, so that all rows show how far it may be off. For free(); NULL if
 * out of memory. */
bool *render_estimated(const struct result_table *table);

typedef int renderer_run(const struct result *result, const struct render_options *options,
			 struct render_output *out, struct error *error);

struct renderer {
	const char *name;
	const char *help; /* one line, no full stop */
	/* Returns 0, or -1 with the error set. NULL: made of more than one result, by the command. */
	renderer_run *run;
	size_t default_limit; /* rows if nobody says; SIZE_MAX: all */
};

/* Ends with a row whose name is NULL; the first is the default. */
extern const struct renderer renderers[];
const struct renderer *renderer_find(const char *name);

renderer_run render_text;
renderer_run render_json;
renderer_run render_csv;

#endif
