/* SPDX-License-Identifier: Apache-2.0 */
/* The text of source files: where they are on this machine, and their lines. Not thread-safe, except for sources_path. */
#ifndef MODEL_FRAMES_SOURCES_H
#define MODEL_FRAMES_SOURCES_H

#include <stdint.h>

#include "model/profile.h"
#include "util/error.h"

struct sources;
/* NULL if out of memory. */
struct sources *sources_new(void);
void sources_free(struct sources *sources);

/* "FROM=TO": files below FROM are read below TO. The text must outlive the sources. -1 with the error set: not of that form. */
int sources_move(struct sources *sources, const char *from_to, struct error *error);
/* Where the file is read: the first move that fits applies. The caller frees it; NULL if out of memory. sources NULL: no moves. */
char *sources_path(const struct sources *sources, const char *file);

/* The line's text without leading white space, from the recording if that has it, else from the file; NULL: unknown. Lives as long
 * as sources and profile. */
const char *sources_line(struct sources *sources, const struct profile *profile, const char *file,
			 uint32_t line);

#endif
