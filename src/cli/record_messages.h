/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of `heapgauge record`, on stderr. */
#ifndef CLI_RECORD_MESSAGES_H
#define CLI_RECORD_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "collect/collect.h"

/* The progress line: redrawn in place, erased at the end. The context of the functions that the collector calls. */
struct progress_line {
	bool shown, quiet;
	uint64_t wait_ns;
};

/* For collect_options: progress, lives_on and say. Problems are printed even with --quiet. */
void progress_line_draw(void *context, const struct collect_progress *progress);
void progress_line_lives_on(void *context, pid_t program, const struct collect_survivors *who);
void progress_line_print(void *context, bool problem, const char *sentence);
void progress_line_erase(const struct progress_line *line);

/* Names the processes that are no longer recorded. */
void record_print_let_go(const struct collect_result *result);

/* The recording is not where it should be: where it is, or that it is lost. */
void record_print_elsewhere(const struct collect_result *result);

#endif
