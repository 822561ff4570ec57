/* SPDX-License-Identifier: Apache-2.0 */
/* Samples as they happen, for tracers outside of the process: the probes `alloc` and `free` of the provider `otel_memory`, which is
 * the contract of OpenTelemetry's eBPF profiler. Heap blocks of sampled mode only. */
#ifndef RECORDER_SAMPLING_PROBES_H
#define RECORDER_SAMPLING_PROBES_H

#include "base/compiler.h"
#include "recorder/order.h"

/* Not 0 while a tracer is attached. Written by the kernel. */
extern HIDDEN uint16_t otel_memory_alloc_semaphore, otel_memory_free_semaphore;

void probes_alloc_attached(const void *block, uint64_t size, uint64_t weighted_bytes);
void probes_free_attached(const void *block);

/* After a block has become a sample. weight: the number of blocks that it represents. Like any call of the kernel, never under a lock. */
static ALWAYS_INLINE void probes_alloc(const void *block, uint64_t size, uint64_t weight)
{
	if (UNLIKELY(ORDER_LOAD(otel_memory_alloc_semaphore) != 0))
		probes_alloc_attached(block, size, size * weight);
}

/* Before the memory of a sample may be allocated again. */
static ALWAYS_INLINE void probes_free(const void *block)
{
	if (UNLIKELY(ORDER_LOAD(otel_memory_free_semaphore) != 0))
		probes_free_attached(block);
}
#endif
