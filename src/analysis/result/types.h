/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Infers the type of a block from the functions on its stack: the C++ or Rust container that
 * allocated it. Not thread-safe.
 */
#ifndef ANALYSIS_RESULT_TYPES_H
#define ANALYSIS_RESULT_TYPES_H

#include "analysis/result/locations.h"

#define TYPE_UNKNOWN "(no type)"

struct types;

/* `locations` must outlive it. NULL if out of memory. */
struct types *types_new(struct locations *locations);
void types_free(struct types *types);

/*
 * Returns the number of the type of the stack's blocks. Equal types have equal numbers; 0 is
 * TYPE_UNKNOWN: the names do not reveal it. -1 if out of memory.
 */
int types_of_stack(struct types *types, const struct profile_process *process, node_id node,
		   uint32_t *ret);

/* "std::vector<int>", "HashMap<u32, Blob>"; "inside Owner" for allocations by a constructor. Lives as long as `types`. */
const char *types_name(const struct types *types, uint32_t number);

#endif
