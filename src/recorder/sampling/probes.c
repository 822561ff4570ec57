/* SPDX-License-Identifier: Apache-2.0 */
/* See probes.h. Owns: the semaphores. Functions, so that each probe is at one place. */
#include "recorder/sampling/probes.h"

#include "recorder/arch/probe.h"

PROBE_SEMAPHORE(otel_memory, alloc);
PROBE_SEMAPHORE(otel_memory, free);

COLD void probes_alloc_attached(const void *block, uint64_t size, uint64_t weighted_bytes)
{
	PROBE_3(otel_memory, alloc, block, size, weighted_bytes);
}

COLD void probes_free_attached(const void *block)
{
	PROBE_1(otel_memory, free, block);
}
