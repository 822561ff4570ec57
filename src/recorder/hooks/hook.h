/* SPDX-License-Identifier: Apache-2.0 */
/* How every hook begins and ends, and what it records in between.
 *
 * A hook that gets no slot from hook_enter forwards and records nothing: the recorder is off or not started, or this
 * thread is inside a hook already (an allocator that calls itself, a signal handler). */
#ifndef RECORDER_HOOKS_HOOK_H
#define RECORDER_HOOKS_HOOK_H

#include "recorder/arch/arch.h"
#include "recorder/counters/account.h"
#include "recorder/counters/blocks.h"
#include "recorder/checks/check.h"
#include "recorder/sampling/mode.h"
#include "recorder/unwind/stack_cache.h"
#include "recorder/unwind/modules.h"
#include "recorder/hooks/next.h"
#include "recorder/libc/libc.h"
#include "recorder/order.h"
#include "recorder/counters/sites.h"
#include "recorder/slot.h"
#include "recorder/checks/verify.h"
#include "recorder/unwind/walk.h"

#define EXPORT __attribute__((visibility("default")))

/* Points to a word that fork wipes: equal to thread_state.token for a registered thread of this process. */
extern HIDDEN const volatile uint64_t *fork_token;
extern HIDDEN const uint64_t fork_no_token; /* no thread has it */

/* A fork's child that has called no hook yet: it has no profile. */
static inline bool hook_in_new_child(void)
{
	return *fork_token == 0;
}

enum {
	GUARD_FORWARDING = 1, /* inside the forwarded call */
	GUARD_NESTS = 2,      /* of operator new: the malloc inside is not the program's */
	GUARD_BITS = 3,
};

struct slot *hook_enter_slow(const uintptr_t *frame);
struct slot *hook_enter_free_slow(const uintptr_t *frame);

static ALWAYS_INLINE void hook_guard(uintptr_t guard)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&thread_state.guard, guard, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static ALWAYS_INLINE struct slot *hook_enter_or(const uintptr_t *frame,
						struct slot *(*otherwise)(const uintptr_t *))
{
	struct thread_state *self = &thread_state;

	__asm__("" : "+r"(self)); /* or the compiler asks for the address again at each use */
	if (UNLIKELY((self->guard | (self->token ^ *fork_token)) != 0))
		return otherwise(frame);
	struct slot *slot = self->slot;

	if (slot == NULL) /* a thread with the token has one: callers need not ask */
		__builtin_unreachable();

	RECORDER_CHECK(slot->owner == self);
	__atomic_store_n(&self->guard, (uintptr_t)frame | GUARD_FORWARDING, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return slot;
}

static ALWAYS_INLINE struct slot *hook_enter(const uintptr_t *frame)
{
	return hook_enter_or(frame, hook_enter_slow);
}

/* For what ends a block: inside operator new too it is recorded, where the first block taken is not. */
static ALWAYS_INLINE struct slot *hook_enter_free(const uintptr_t *frame)
{
	return hook_enter_or(frame, hook_enter_free_slow);
}

/* The forwarded call is over. */
static ALWAYS_INLINE void hook_record(const uintptr_t *frame)
{
	hook_guard((uintptr_t)frame);
}

static ALWAYS_INLINE void hook_leave(void)
{
	if (CHECKED)
		check_leaving();
	hook_guard(0);
}

/* Whether a hook without a slot is the call by which operator new gets its block. */
static inline bool hook_has_pending_new(void)
{
	return thread_state.guard & GUARD_NESTS;
}

/* What that call gave is left to the operator. If nothing: it may now throw and never come back, so its guard ends. */
static inline void *hook_taken(bool taking, void *block, uint64_t size)
{
	if (!taking)
		return block;
	thread_state.taken = block;
	thread_state.taken_bytes = size;
	if (UNLIKELY(block == NULL))
		hook_leave();
	return block;
}

/* A block that the map's short way does not take: a large one, the first of its leaf, or one whose entry still holds
 * another, the free of which we did not see. */
void record_put(struct slot *slot, void *block, uint64_t size, uint32_t record);
void record_unknown_free(const void *block);
/* The same where it may be what an operator is about to delete. */
void record_free_of_unknown(struct slot *slot, void *block);
/* The end of a block that may be a sample; false: it is none. */
bool record_free_sample(struct slot *slot, void *block);
/* realloc of a sample: takes it out of the list; false: it is none. And back. */
bool record_take_sample(const void *block, struct block *ret);
void record_put_sample_back(struct slot *slot, void *block, const struct block *entry,
			    uint64_t slack);
/* The freeing thread's record for a block of another thread. */
struct live_record *record_remote(struct slot *slot, const struct live_record *owner, uint64_t size,
				  uint64_t times);
/* What record_new does where the mode is not at exact. */
struct live_record *record_by_mode(struct slot *slot, void *block, uint64_t size, uint64_t slack,
				   const uintptr_t *frame);
/* record_end of a sample. */
void record_sample_end(struct slot *slot, const void *address, const struct block *block,
		       uint64_t slack, bool temporary);

/* The weight of a block of a record. */
static inline uint64_t record_weight(const struct live_record *record, uint64_t size)
{
	return sample_weight(size, record->samples != 0 ? memory_site(record->site)->interval : 0);
}

/* Usable minus requested; 0 where it cannot be asked. */
static ALWAYS_INLINE uint64_t slack_of(void *block, uint64_t size)
{
	if (LIKELY(next.usable_in_header && libc_header_has_size(block)))
		return libc_header_size(block) - size;
	size_t usable = next.usable != NULL ? next.usable(block) : 0;

	/* An allocator that is still starting may not know its own blocks: tcmalloc says 0. */
	return usable > size ? usable - size : 0;
}

/* The slot's record of the stack above the hook and of the thread's tag, in whatever way. */
uint32_t record_of_walk(struct slot *slot, const uintptr_t *frame);
/* The same of an anonymous mapping; 0: it is not to be recorded. */
uint32_t record_of_map(struct slot *slot, const uintptr_t *frame);
/* The same of a block from a pool; its name is a tag below the thread's. */
uint32_t record_of_pool(struct slot *slot, const uintptr_t *frame, uint32_t name, bool stack);

/* The same, from memory if it is remembered. */
static ALWAYS_INLINE uint32_t record_of_stack(struct slot *slot, const uintptr_t *frame)
{
	uint32_t remembered = stack_cache_find(slot, slot->quick, frame);
	uint32_t id = LIKELY(remembered != 0) ? remembered : record_of_walk(slot, frame);

	if (CHECKED)
		check_record(slot, id);
	verify_stack(frame, id, remembered != 0);
	return id;
}

/* Enters a new block and returns its record. slack: asked for while forwarding, since an allocator may allocate then. */
static ALWAYS_INLINE struct live_record *record_block(struct slot *slot, void *block, uint64_t size,
						      uint64_t slack, const uintptr_t *frame)
{
	uint64_t *word = blocks_expect(&slot->near, (uintptr_t)block, size);
	uint32_t id = record_of_stack(slot, frame);
	struct live_record *record = memory_record(id);

	if (UNLIKELY(
		    !blocks_put_quickly(&slot->near, word, (uintptr_t)block, id, clock_ms(), size)))
		record_put(slot, block, size, id);
	account_alloc(slot, record, size, slack, 1);
	slot->last_block = block;
	return record;
}

/* The same as the mode says; NULL: not at all. */
static ALWAYS_INLINE struct live_record *record_new(struct slot *slot, void *block, uint64_t size,
						    uint64_t slack, const uintptr_t *frame)
{
	ORDER_GETS(block);
	if (mode_is_not_exact())
		return record_by_mode(slot, block, size, slack, frame);
	return record_block(slot, block, size, slack, frame);
}

/* Accounts for the end of a block that the map knew at an address. */
static ALWAYS_INLINE void record_end(struct slot *slot, const void *address,
				     const struct block *block, uint64_t slack, bool temporary)
{
	struct live_record *record = memory_record(block->record);

	if (CHECKED)
		check_block(block);
	if (UNLIKELY(record->samples != 0)) {
		struct block sample = blocks_copy(*block);

		record_sample_end(slot, address, &sample, slack, temporary);
		return;
	}
	if (UNLIKELY(record->thread != slot->thread)) {
		record = record_remote(slot, record, block->size_bytes, 1);
		temporary = false; /* the address came back from another thread */
	}
	account_free(slot, record, block->size_bytes, slack, block->birth_ms, temporary, 1);
}

/* The same of one whose memory is about to go. */
static ALWAYS_INLINE void record_ended(struct slot *slot, void *block, const struct block *entry,
				       uint64_t slack, bool temporary)
{
	if (temporary)
		slot->last_block = NULL;
	record_end(slot, block, entry, slack, temporary);
	if (UNLIKELY(entry->size_bytes >= LIVE_SMALL_LIMIT))
		stack_memory_gone((uintptr_t)block, entry->size_bytes); /* a coroutine's stack? */
}

/* Removes a block that is about to be freed. */
static ALWAYS_INLINE void record_free(struct slot *slot, void *block, const uintptr_t *frame)
{
	if (modules_is_loader(frame[1]))
		modules_loader_frees(slot, block);
	struct block entry = blocks_take(&slot->near, (uintptr_t)block);

	if (UNLIKELY(entry.record == 0))
		record_free_of_unknown(slot, block);
	else
		record_ended(slot, block, &entry, slack_of(block, entry.size_bytes),
			     slot->last_block == block);
	ORDER_GIVES(block);
}
#endif
