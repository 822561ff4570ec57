/* SPDX-License-Identifier: Apache-2.0 */
/* Opening recordings and showing results: what the commands that read share. */
#ifndef CLI_OPEN_H
#define CLI_OPEN_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "analysis/analyses.h"
#include "cli/options/ask.h"
#include "cli/options/options.h"
#include "model/profile.h"
#include "render/renderers.h"
#include "util/buffer.h"
#include "util/error.h"

/*
 * `path` (may be NULL) or the newest recording of this folder, which is then named on stderr. The
 * caller's (free). NULL, with the error set, if there is none.
 */
char *recording_path(const char *path, struct error *error);

/* A word as a shell takes it: in quotes if it needs them. */
void append_shell_word(struct buffer *out, const char *word);

/*
 * "heapgauge report run.hg": what to type to ask about the same file (NULL: the newest one here) or
 * process (0: a file) again. The caller's (free); NULL if out of memory.
 */
char *report_again(const char *path, pid_t pid);

/* Loads the recording; the error says what to do next. NULL if it cannot be read. */
struct profile *recording_open(const char *path, struct error *error);

/* Runs the view on the profile and writes it to `out`. 0, or -1 with the error set. */
struct show {
	const struct analysis *view;
	const struct renderer *renderer;
	const struct query *query;
	struct render_options render;
	struct names_options names;
};
/* What was asked, with the defaults of the renderer; the query stays the asker's. */
void show_asked(struct show *show, struct asked *asked);
/* The result alone, with names that are known already; to wherever `out` writes. */
int show_result(struct render_output *out, const struct profile *profile,
		struct locations *locations, const struct show *show, struct error *error);
/* A result that is there already, to where answers go: list, post-mortem. */
int show_answer(const struct result *result, const struct renderer *renderer, bool exact_bytes,
		const struct common_options *common, struct error *error);
int show_profile(FILE *out, const struct profile *profile, const struct show *show,
		 struct error *error);
/* The same, to where answers go. */
int show_on_output(const struct profile *profile, struct show *show,
		   const struct common_options *common, struct error *error);

#endif
