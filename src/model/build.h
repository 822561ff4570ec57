/* SPDX-License-Identifier: Apache-2.0 */
/* Recording -> profile. */
#ifndef MODEL_BUILD_H
#define MODEL_BUILD_H

#include "format/recording/recording.h"
#include "model/profile.h"
#include "util/error.h"

/*
 * Takes everything that `taken` owns, on success and on failure, and leaves it empty. Bad rows do
 * not fail: they are left out, counted and shown. NULL if out of memory.
 */
struct profile *profile_new(struct recording *taken, struct error *error);

/* Reads the file at `path`. NULL if it cannot be read or is no recording. */
struct profile *profile_load(const char *path, struct error *error);

#endif
