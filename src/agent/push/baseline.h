/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was already sent of each process, on disk: the numbers of its sites, the serial of its last profile. The next profile is
 * the difference, even after the agent was killed.
 */
#ifndef AGENT_PUSH_BASELINE_H
#define AGENT_PUSH_BASELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "util/error.h"

struct baseline_head {
	char magic[8];
	uint64_t serial;     /* of the last profile, from 1 */
	uint64_t at_real_ns; /* when it was made */
	uint64_t
		at_mono_ns; /* the same by CLOCK_MONOTONIC: no process outlives the boot that it counts from */
	uint64_t is_last; /* the process has ended: nothing follows */
};

/* Creates the folder. Returns a descriptor that keeps other agents out of it until it is closed; -1 with the error set. */
int baseline_prepare(const char *folder, struct error *error);
/* Reads the head; the returned descriptor is at the rows (heap_profile.h). -1: there is none, or it is damaged. */
int baseline_open(const char *folder, const char *key, struct baseline_head *ret);
/* Replaces it, or leaves it unchanged. Sets the magic. */
int baseline_write(const char *folder, const char *key, struct baseline_head head, struct span rows,
		   struct error *error);
void baseline_remove(const char *folder, const char *key);

/* Removes those of processes that are no more. */
typedef bool baseline_is_wanted(void *context, const char *key);
void baseline_sweep(const char *folder, baseline_is_wanted *is_wanted, void *context);

#endif
