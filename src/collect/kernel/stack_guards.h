/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the stacks of threads whose guards are no mappings of their own. */
#ifndef COLLECT_KERNEL_STACK_GUARDS_H
#define COLLECT_KERNEL_STACK_GUARDS_H

#include "collect/kernel/smaps.h"

/* pagemap: of the same process; what cannot be read by it (-1: nothing), or before Linux 6.16, stays as it is. False: out of memory. */
bool stack_guards_find(int pagemap, struct smaps *smaps);

/* Whether this kernel installs guards but does not tell them, as Linux 6.13 to 6.15. */
bool stack_guards_are_hidden(void);

#endif
