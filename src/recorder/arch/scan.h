/* SPDX-License-Identifier: Apache-2.0 */
/* Unwinding without unwind information: musl's libc has none, nor have programs that are built to be small. */
#ifndef RECORDER_ARCH_SCAN_H
#define RECORDER_ARCH_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "recorder/arch/arch.h"

struct cfi_scratch;

enum scan_result {
	SCAN_UNKNOWN,
	SCAN_FRAME,
	SCAN_SIGNAL, /* a signal frame */
};

#ifdef ARCH_HAS_SCAN
/* Derives how to get from the frame with this program counter to its caller, by following the code to where it returns; the result
 * is scratch->state. exact: not a return address. Any thread, any time. */
enum scan_result arch_scan(uintptr_t pc, bool exact, struct cfi_scratch *scratch);

/* Looks up functions that never return. At start-up. */
void arch_scan_start(void);
#else
static inline enum scan_result arch_scan(uintptr_t pc, bool exact, struct cfi_scratch *scratch)
{
	(void)pc, (void)exact, (void)scratch;
	return SCAN_UNKNOWN;
}

static inline void arch_scan_start(void)
{
}
#endif
#endif
