/* SPDX-License-Identifier: Apache-2.0 */
/* Removes from a recording what says where and by whom a program was run, so that it can be shared. */
#ifndef MODEL_FRAMES_REDACT_H
#define MODEL_FRAMES_REDACT_H

#include "model/profile.h"
#include "util/error.h"

enum redaction {
	REDACT_NOTHING,
	REDACT_PRIVATE, /* host, user, arguments, options, folders outside the distribution, values of labels */
	REDACT_NAMES, /* also names of the program's own: functions, files, modules, build-ids, tags, threads, marks */
};

/*
 * Changes the rows of the recording, after names were added to it. Numbers, sites and pids stay. The profile must not be analysed
 * afterwards: it refers to texts that are replaced. -1 with the error set: out of memory.
 */
int redact_recording(struct profile *profile, enum redaction redaction, struct error *error);

#endif
