/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings that a condition triggers while the process continues to run. They are numbered after the name of the final
 * recording, up to a limit; an existing file is never replaced.
 */
#ifndef COLLECT_RUN_DUMP_H
#define COLLECT_RUN_DUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "collect/process/target.h"

struct dumps;
/* path: of the final recording; "run.hg" gives "run.1.hg". Both arguments must outlive the object. NULL if out of memory. */
struct dumps *dumps_new(const struct collect_options *options, const char *path);
/* Waits for a pending write, and reports it. NULL is a no-op. */
void dumps_free(struct dumps *dumps);

/* Whether another recording can start now; false while one is being written. `dumps` may be NULL. */
bool dumps_ready(const struct dumps *dumps);
/* Takes ownership of the clone; the condition's text must outlive `dumps`. */
void dumps_give(struct dumps *dumps, struct target *clone, const char *condition, uint64_t now_ns);
/* Reports that no clone could be made. */
void dumps_fail(struct dumps *dumps, const char *condition, const struct error *error);
/* Reports a recording that has been written since the last call. Cheap; the loop calls it in every iteration. */
void dumps_report(struct dumps *dumps);

#endif
