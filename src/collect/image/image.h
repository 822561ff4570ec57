/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An image of a recorded process: its profile at one moment, with what still refers to each of its blocks. Either from a copy of the
 * process, which goes on meanwhile, or while it is stopped, or from a core file. If the memory of a process cannot be read within some seconds it is let
 * go, and a thread remains that waits for it.
 */
#ifndef COLLECT_IMAGE_IMAGE_H
#define COLLECT_IMAGE_IMAGE_H

#include <stdbool.h>
#include <sys/types.h>

#include "format/recording/recording.h"
#include "util/error.h"

/* The zombies of copies (trace/leftovers.h). */
struct image_zombies {
	unsigned collected; /* of earlier images, whose tracer was killed */
	struct error
		remaining; /* why the one of this image could not be collected; an empty message: it was */
};

/* -1 with error set: it is not recorded, not every block is, or it may not be stopped or cloned. Sets *ret_zombies in any case. */
int image_take(pid_t pid, bool stop, const char *version, struct recording *ret,
	       struct image_zombies *ret_zombies, struct error *error);
/* The same for the process that a core file is of, which must have been recorded with --core. */
int image_take_core(const char *path, const char *version, struct recording *ret,
		    struct error *error);
/* The same for a process that waits for it before it exits: cloned if it can be, since then it need not wait longer than it wants to. */
int image_take_exiting(pid_t pid, struct recording *ret, struct error *error);

#endif
