/* SPDX-License-Identifier: Apache-2.0 */
/* Which frames to keep on stacks of Python programs: see fold.h. */
#ifndef MODEL_FRAMES_FOLD_OPTIONS_H
#define MODEL_FRAMES_FOLD_OPTIONS_H

#include <stdbool.h>

enum fold_frames { FRAMES_PROGRAM, FRAMES_ALL, FRAMES_PYTHON };

/* Zeroed: all except the interpreter's own. */
struct fold_options {
	enum fold_frames frames;
	bool imports; /* omit frames that import modules */
};

static inline bool fold_options_equal(struct fold_options a, struct fold_options b)
{
	return a.frames == b.frames && a.imports == b.imports;
}

#endif
