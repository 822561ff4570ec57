/* SPDX-License-Identifier: Apache-2.0 */
/* The verifying build of the recorder (libheapgauge-verify.so, never installed) asks libunwind at every allocation and
 * compares: the frames of the walk, and the frames that the found site stands for. In the ordinary build this is
 * nothing. */
#ifndef RECORDER_VERIFY_H
#define RECORDER_VERIFY_H

#include "recorder/slot.h"

#ifdef HEAPGAUGE_VERIFY
enum { VERIFYING = 1 };
/* What the memo said, and what a walk says. */
void verify_memo(struct slot *slot, uint32_t known, uint32_t walked);
void verify_stack(struct slot *slot, const uintptr_t *frame, uint32_t record);
#else
enum { VERIFYING = 0 };
static inline void verify_memo(struct slot *slot, uint32_t known, uint32_t walked)
{
	(void)slot, (void)known, (void)walked;
}
static inline void verify_stack(struct slot *slot, const uintptr_t *frame, uint32_t record)
{
	(void)slot, (void)frame, (void)record;
}
#endif
#endif
