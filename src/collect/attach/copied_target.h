/* SPDX-License-Identifier: Apache-2.0 */
/* A recorded process whose memory is not ours, as a target: what the collector reads of it is a copy. */
#ifndef COLLECT_ATTACH_COPIED_TARGET_H
#define COLLECT_ATTACH_COPIED_TARGET_H

#include "collect/profile/profile_copy.h"
#include "collect/process/target.h"

struct copied_target {
	struct recorded recorded;
	struct target *target; /* its memory is `copied`'s */
	struct profile_copy copied;
	struct profile_copy
		spare; /* where nothing is held: a copy that is cut off by the end replaces none that is whole */
	struct cgroups cgroups;
};
#define COPIED_TARGET_INIT                                                                         \
	((struct copied_target){ .copied = PROFILE_COPY_INIT, .spare = PROFILE_COPY_INIT })

/* Finds the process and takes a first copy. -1 with the error set. copied_target_release either way. */
int copied_target_begin(struct copied_target *other, pid_t pid, struct error *error);
void copied_target_release(struct copied_target *other);

/* Whether it has ended. */
bool copied_target_is_gone(const struct copied_target *other);
/* Another copy. False: it cannot be made, and the last one stays. Not while a worker reads the target. */
bool copied_target_copy(struct copied_target *other, enum profile_copy_parts parts);
/* All of it once more, with the blocks: from what we hold of it, or, unless it is gone, from itself. Without either, the last
 * copy stays. */
void copied_target_copy_last(struct copied_target *other, bool gone);

#endif
