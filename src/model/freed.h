/* SPDX-License-Identifier: Apache-2.0 */
/* Who freed the blocks of a site: `record --free-sites`. */
#ifndef MODEL_FREED_H
#define MODEL_FREED_H

#include "model/profile.h"

/* The blocks of one site that were freed on one stack, by all threads. */
struct profile_freed {
	site_id site; /* that allocated them; 0: not known */
	node_id node;
	uint64_t blocks, bytes;
};

/* Ordered by site, then by node. *ret is in the arena; returns their number, 0 if none were recorded, or -1 if out of memory. */
ptrdiff_t profile_freed(const struct profile_process *process, struct arena *arena,
			struct profile_freed **ret);

#endif
