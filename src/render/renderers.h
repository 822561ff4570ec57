/* SPDX-License-Identifier: Apache-2.0 */
/* Renders a result as text, Markdown, JSON or CSV. A renderer is one file and one row in renderers.c, and independent of views. */
#ifndef RENDER_RENDERERS_H
#define RENDER_RENDERERS_H

#include <stdbool.h>
#include <stddef.h>

#include "analysis/result/result.h"
#include "base/span.h"
#include "util/buffer.h"
#include "util/error.h"

/* Everything that the output depends on besides the result: plain values, so that tests can fix them. */
struct render_options {
	bool exact_bytes;    /* 224395264 instead of 214.0 MiB */
	unsigned columns;    /* line width, kept by cutting names where possible; 0: no limit */
	size_t max_bytes;    /* of Markdown; 0: no limit */
	size_t stack_frames; /* maximum frames of a stack in text output; 0: all */
	bool colours;	     /* the output supports escape sequences */
	bool utf8;	     /* else ASCII only, except in names */
	bool terminal;	     /* the output is a terminal: text must not be interpreted as control
			      * codes */
};

/* The destination, written incrementally: the text of a result may be too large for memory. */
struct render_output {
	struct buffer buffer;
	bool printable; /* replaces unprintable characters on output: for formats without colours */
	/* Writes all bytes; 0, or -1 with the error set. */
	int (*write)(void *context, struct span bytes, struct error *error);
	void *context;
};

/* Writes the buffer if it is large, or if `all`. 0, or -1 if writing failed or out of memory. */
int render_flush(struct render_output *out, bool all, struct error *error);

/* By column: whether any of its values is an estimate, so that all rows show an error. Owned by the caller (free); NULL
 * if out of memory. */
bool *render_estimated(const struct result_table *table);

typedef int renderer_run(const struct result *result, const struct render_options *options,
			 struct render_output *out, struct error *error);

struct renderer {
	const char *name;
	const char *help; /* one line, no full stop */
	/* Returns 0, or -1 with the error set. NULL: the command combines several results. */
	renderer_run *run;
	size_t default_limit; /* default number of rows; SIZE_MAX: all */
	bool is_for_people;   /* names are short */
};

/* Terminated by a row whose name is NULL; the first is the default. */
extern const struct renderer renderers[];
const struct renderer *renderer_find(const char *name);

renderer_run render_text;
renderer_run render_json;
renderer_run render_json_line;
renderer_run render_csv;
renderer_run render_markdown;

/* Appends a value as people read it, with its standard error. */
void render_value(struct buffer *b, const struct result_value *value,
		  const struct render_options *options);
/* Whether a column is a cell of a line, not a stack or a distribution below it. */
bool render_in_line(const struct result_column *column);

#endif
