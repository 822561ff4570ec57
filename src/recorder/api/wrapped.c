/* SPDX-License-Identifier: Apache-2.0 */
/* See wrapped.h. */
#include "recorder/api/wrapped.h"

#include "recorder/hooks/hook.h"
#include "recorder/unwind/walk.h"

bool wrapped_is_inside(const uintptr_t *frame)
{
	struct thread_state *self = &thread_state;
	uintptr_t outer = self->wrapping;
	struct slot *slot = self->token == *fork_token ? self->slot : NULL;

	return (uintptr_t)frame < outer && slot != NULL &&
	       walk_is_running(slot, (uintptr_t)frame, outer);
}

static uint64_t handle_of(struct wrapped_pool *pool, struct slot *slot)
{
	uint64_t handle = __atomic_load_n(&pool->handle, __ATOMIC_ACQUIRE);

	if (handle == 0) {
		uint64_t made = pools_make(slot, pool->name, pool->has_words);

		if (__atomic_compare_exchange_n(&pool->handle, &handle, made, false,
						__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			handle = made;
	}
	return handle;
}

void *wrapped_took(struct wrapped_pool *pool, void *block, size_t bytes, const uintptr_t *frame)
{
	struct slot *slot = block != NULL ? pools_begin(frame) : NULL;

	if (slot != NULL) {
		pools_add(slot, handle_of(pool, slot), (uintptr_t)block, bytes, frame);
		hook_leave();
	}
	return block;
}

struct pool_block wrapped_gives(struct wrapped_pool *pool, const void *block,
				const uintptr_t *frame)
{
	struct slot *slot = block != NULL ? pools_begin(frame) : NULL;
	struct pool_block old = { 0 };

	if (slot == NULL)
		return old;
	uint64_t handle = handle_of(pool, slot);

	old = pools_take(slot, handle, (uintptr_t)block, pool->began_late);
	if (old.counters != 0)
		pools_end_block(slot, handle, &old);
	old.counters = 0; /* already ended: only its address and size matter from here on */
	hook_leave();
	return old;
}

void *wrapped_moved(struct wrapped_pool *pool, struct pool_block old, bool had_block, void *block,
		    size_t size, const uintptr_t *frame)
{
	bool failed = block == NULL && (size != 0 || !had_block);

	if (failed && old.address == 0)
		return NULL;
	struct slot *slot = failed || block != NULL ? pools_begin(frame) : NULL;

	if (slot == NULL)
		return block;
	uint64_t handle = handle_of(pool, slot);

	if (failed)
		pools_add(slot, handle, old.address, old.bytes, frame);
	else
		pools_moved(slot, handle, &old, (uintptr_t)block, size, frame);
	hook_leave();
	return block;
}
