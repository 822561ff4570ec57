/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interpreter's own functions are no part of a Python program's stacks: its native frames inside of Python functions, and those
 * that lead to one, are left out, and sites that are then the same are one. So are the recorder's. The rows are left as they are.
 * Used by the model only.
 */
#ifndef MODEL_FOLD_H
#define MODEL_FOLD_H

#include "model/profile.h"
#include "util/arena.h"

/* Sets the process' fold; NULL if nothing is left out. Pre: its modules were taken, its rows checked. -1 if out of memory. */
int fold_build(struct profile_process *process, struct arena *arena);

/* The node that stands for one of the rows. */
static inline uint32_t fold_node(const struct profile_process *p, uint32_t row_node)
{
	return p->fold && row_node < p->node_count ? p->fold[row_node] : row_node;
}

#endif
