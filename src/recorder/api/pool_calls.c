/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of pools.h that programs call, through <heapgauge/pools.h>. Owns nothing. */
#include "recorder/api/pools.h"

#include "recorder/arch/arch.h"
#include "recorder/hooks/hook.h"

struct slot *pools_begin(const uintptr_t *frame)
{
	struct slot *slot = hook_enter(frame);

	if (slot == NULL)
		return NULL;
	hook_record(frame);
	return slot;
}

uint64_t pool_new(const char *name)
{
	struct slot *slot = pools_begin(HOOK_FRAME());

	if (slot == NULL)
		return 0;
	uint64_t handle = pools_make(slot, name, false);

	hook_leave();
	return handle;
}

void pool_alloc(uint64_t pool, const void *address, size_t bytes)
{
	const uintptr_t *frame = HOOK_FRAME();
	struct slot *slot = pools_begin(frame);

	if (slot == NULL)
		return;
	pools_add(slot, pools_given(pool), (uintptr_t)address, bytes, frame);
	hook_leave();
}

void pool_resize(uint64_t pool, const void *old, const void *address, size_t bytes)
{
	const uintptr_t *frame = HOOK_FRAME();
	struct slot *slot = pools_begin(frame);
	struct pool_block block = { 0 };

	if (slot == NULL)
		return;
	pool = pools_given(pool);
	if (old != NULL)
		block = pools_take(slot, pool, (uintptr_t)old, false);
	pools_moved(slot, pool, &block, (uintptr_t)address, bytes, frame);
	hook_leave();
}

void pool_free(uint64_t pool, const void *address)
{
	struct slot *slot = address != NULL ? pools_begin(HOOK_FRAME()) : NULL;

	if (slot == NULL)
		return;
	pool = pools_given(pool);
	struct pool_block block = pools_take(slot, pool, (uintptr_t)address, false);

	if (block.counters != 0)
		pools_end_block(slot, pool, &block);
	hook_leave();
}
