/* SPDX-License-Identifier: Apache-2.0 */
/* Opens recordings and shows results, for all commands that read. */
#ifndef CLI_OPEN_H
#define CLI_OPEN_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "analysis/analyses.h"
#include "cli/options/query_options.h"
#include "cli/options/options.h"
#include "cli/profile_source.h"
#include "model/profile.h"
#include "render/renderers.h"
#include "util/buffer.h"
#include "util/error.h"

/*
 * Returns `path`, or if it is NULL the newest recording in this folder, and then prints its name to stderr. The
 * caller frees it. Returns NULL with the error set if there is no recording.
 */
char *recording_path(const char *path, struct error *error);

/* Appends the word, quoted for a shell if necessary. */
void append_shell_word(struct buffer *out, const char *word);

/*
 * Returns the command line that reports on the same file (NULL: the newest here) or process (0: a file), such as
 * "heapgauge report run.hg". The caller frees it; NULL if out of memory.
 */
char *report_again(const char *path, pid_t pid);

/* Applies the requested folding of frames to the profile (NULL: the error is already set). Frees the profile and
 * returns NULL on failure. */
struct profile *profile_requested(struct profile *profile, const struct query_options *asked,
				  struct error *error);

/* A view, how to render it, and how to name frames. The functions below return 0, or -1 with the error set. */
struct show {
	const struct analysis *view;
	const struct renderer *renderer;
	const struct query *query;
	struct render_options render;
	struct names_options names;
};
/* Fills in the query, with the renderer's defaults; the query remains owned by `asked`. */
void show_asked(struct show *show, struct query_options *asked);
/* Renders the view to `out`, with names that are already resolved. */
int show_result(struct render_output *out, const struct profile *profile,
		struct locations *locations, const struct show *show, struct error *error);
/* Returns true if a row of `renderers` needs only one result: all commands but `report` list these formats. */
bool format_renders_one_result(const void *row);
/* Writes a finished result to stdout or the pager: list, post-mortem. */
int show_answer(const struct result *result, const struct renderer *renderer, bool exact_bytes,
		const struct common_options *common, struct error *error);
int show_profile(FILE *out, const struct profile *profile, const struct show *show,
		 struct error *error);
/* Writes to stdout or the pager. */
int show_on_output(const struct profile *profile, struct show *show,
		   const struct common_options *common, struct error *error);

#endif
