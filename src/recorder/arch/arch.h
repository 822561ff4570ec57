/* SPDX-License-Identifier: Apache-2.0 */
/* Differences between architectures, provided by a folder beside this file; README.md lists what it must define. */
#ifndef RECORDER_ARCH_ARCH_H
#define RECORDER_ARCH_ARCH_H

#if defined(__x86_64__)
#include "recorder/arch/x86_64/arch.h"
#elif defined(__aarch64__) && !defined(__AARCH64EB__)
#include "recorder/arch/aarch64/arch.h"
#else
#error "src/recorder/arch has no folder for this architecture: see \"Porting\" in src/recorder/README.md"
#endif

/* Other threads and processes see the counters changed before this no later than those changed after it. */
#ifndef ARCH_ORDER_STORES
#define ARCH_ORDER_STORES() __atomic_thread_fence(__ATOMIC_RELEASE)
#endif
#endif
