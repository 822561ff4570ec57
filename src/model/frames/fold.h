/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Omits frames that are not part of a Python program's stacks, and merges sites that become equal: native frames of the interpreter
 * that are inside of Python functions or lead to one, and frames of the recorder; optionally also frames that import modules, and all
 * native ones. Every stack keeps at least one frame. The rows are not modified. Used by the model only.
 */
#ifndef MODEL_FRAMES_FOLD_H
#define MODEL_FRAMES_FOLD_H

#include "format/recording/rows.h"
#include "model/profile.h"
#include "util/arena.h"

/* Sets the process' fold; NULL if nothing is omitted. Pre: its modules are set, its rows checked. -1 if out of memory. */
int fold_build(struct profile_process *process, struct fold_options options, struct arena *arena);

/* Whether the name is that of a Python function: its module is its source file. */
bool fold_is_python(const struct process_rows *rows, const struct name_row *name);

/* The node that represents a node of the rows. */
static inline uint32_t fold_node(const struct profile_process *p, uint32_t row_node)
{
	return p->fold && row_node < p->node_count ? p->fold[row_node] : row_node;
}

#endif
