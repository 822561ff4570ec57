/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings that are written while their process goes on, because a condition asked for it. They are numbered behind the name
 * of the recording that is written at the end, and there are so many at most; a file that exists is never replaced.
 */
#ifndef COLLECT_RUN_DUMP_H
#define COLLECT_RUN_DUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "collect/process/target.h"

struct dumps;
/* path: of the last recording: "run.hg" gives "run.1.hg". Both outlive it. NULL if out of memory. */
struct dumps *dumps_new(const struct collect_options *options, const char *path);
/* Waits for what is being written, and reports it. NULL is none. */
void dumps_free(struct dumps *dumps);

/* Whether another one can be taken now: not while one is being written. `dumps` may be NULL. */
bool dumps_ready(const struct dumps *dumps);
/* Takes the target, which is a clone; the condition's text must outlive it. */
void dumps_give(struct dumps *dumps, struct target *clone, const char *condition, uint64_t now_ns);
/* There is nothing to give. */
void dumps_fail(struct dumps *dumps, const char *condition, const struct error *error);
/* Reports what was written since. Called by the loop in every turn: cheap. */
void dumps_report(struct dumps *dumps);

#endif
