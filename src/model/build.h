/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a profile from a recording. */
#ifndef MODEL_BUILD_H
#define MODEL_BUILD_H

#include "format/recording/recording.h"
#include "model/profile.h"
#include "util/error.h"

/*
 * Takes over everything that `taken` owns, on success and on failure, and leaves it empty. Bad rows
 * are not an error: they are dropped, counted and reported. NULL if out of memory.
 */
struct profile *profile_new(struct recording *taken, struct error *error);

/*
 * Rebuilds the profile unless it is already folded that way. A rebuild invalidates pointers into its processes. -1 if out of
 * memory; the profile then has no processes.
 */
int profile_fold(struct profile *profile, struct fold_options fold, struct error *error);

/* Reads the file at `path`. NULL if it cannot be read or is not a recording. */
struct profile *profile_load(const char *path, struct error *error);

/* Uses another rule for own code than the recording's. Returns -1 with the error set if the text is no rule. */
int profile_set_own(struct profile *profile, const char *rule, struct error *error);
/* For a comparison: a rule that was given, not found, holds for both sides. */
int profile_own_like(struct profile *profile, const struct profile *baseline, struct error *error);

#endif
