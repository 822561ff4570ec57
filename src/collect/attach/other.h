/* SPDX-License-Identifier: Apache-2.0 */
/* A recorded process whose memory is not ours, as a target: what the collector reads of it is a copy. */
#ifndef COLLECT_ATTACH_OTHER_H
#define COLLECT_ATTACH_OTHER_H

#include "collect/profile/copied.h"
#include "collect/process/target.h"

struct other {
	struct recorded recorded;
	struct target *target; /* its memory is `copied`'s */
	struct copied copied;
	struct copied
		spare; /* where nothing is held: a copy that is cut off by the end replaces none that is whole */
	struct cgroups cgroups;
};
#define OTHER_INIT ((struct other){ .copied = COPIED_INIT, .spare = COPIED_INIT })

/* Finds the process and takes a first copy. -1 with the error set. other_release either way. */
int other_begin(struct other *other, pid_t pid, struct error *error);
void other_release(struct other *other);

/* Whether it has ended. */
bool other_is_gone(const struct other *other);
/* Another copy. False: it cannot be had, and the last one stays. Not while a worker reads the target. */
bool other_copy(struct other *other, enum copied_parts parts);
/* All of it once more, with the blocks: from what we hold of it, or, unless it is gone, from itself. Without either, the last
 * copy stays. */
void other_copy_last(struct other *other, bool gone);

#endif
