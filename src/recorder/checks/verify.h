/* SPDX-License-Identifier: Apache-2.0 */
/* The verifying build of the recorder (libheapgauge-verify.so, never installed) calls libunwind at every allocation and
 * compares its result with the frames of the site counters found, whether walked or cached. A no-op in the normal
 * build, which is otherwise the same. */
#ifndef RECORDER_CHECKS_VERIFY_H
#define RECORDER_CHECKS_VERIFY_H

#include "recorder/slot.h"

#ifdef HEAPGAUGE_VERIFY
void verify_stack(const uintptr_t *frame, uint32_t counters, bool remembered);
/* HEAPGAUGE_VERIFY_OLD=1: do without what glibc 2.35 brought. */
bool verify_is_old(void);
#else
static inline bool verify_is_old(void)
{
	return false;
}

static inline void verify_stack(const uintptr_t *frame, uint32_t counters, bool remembered)
{
	(void)frame, (void)counters, (void)remembered;
}
#endif
#endif
