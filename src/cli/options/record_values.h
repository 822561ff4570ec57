/* SPDX-License-Identifier: Apache-2.0 */
/* Values of options of `heapgauge record` that have a syntax of their own. Each returns -1 with the error set. */
#ifndef CLI_OPTIONS_RECORD_VALUES_H
#define CLI_OPTIONS_RECORD_VALUES_H

#include "collect/collect.h"
#include "util/error.h"

/* --budget: an amount of memory, or a percentage of CPU time. */
int record_take_budget(struct collect_options *collect, const char *value, struct error *error);

/* --wait: a time, or "all". */
int record_take_wait(struct collect_options *collect, const char *value, struct error *error);

/* --duration: a time. */
int record_take_duration(struct collect_options *collect, const char *value, struct error *error);

/* --otel-labels: attribute keys, separated by commas. The value must outlive the options. */
int record_take_otel_labels(struct collect_options *collect, const char *value,
			    struct error *error);

/* --time-calls: one call in so many. Fails where the time-stamp counter must not be read. */
int record_take_time_calls(struct collect_options *collect, const char *value, struct error *error);

/* --only-exe: compiled into `regex`, which the caller frees if collect->only_exe is set. */
int record_take_only_exe(regex_t *regex, struct collect_options *collect, const char *value,
			 struct error *error);
#endif
