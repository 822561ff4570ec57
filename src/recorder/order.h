/* SPDX-License-Identifier: Apache-2.0 */
/* What orders two threads without ThreadSanitizer knowing: the allocator, which gives a block to one thread after it had it back
 * from another. What the recorder keeps for the block's address has one writer at a time because of that. Nothing in any other
 * build. The same for loads that are plain on purpose. */
#ifndef RECORDER_ORDER_H
#define RECORDER_ORDER_H

#include <stdint.h>

#ifdef __SANITIZE_THREAD__
void __tsan_release(void *address);
void __tsan_acquire(void *address);
/* By its page: the next block there may begin a little further on, and have the same place in the block map. Of the block itself
 * everything is forgotten when it is freed. */
extern char order_page[1 << 16];
#define ORDER_PAGE(block) (&order_page[(uintptr_t)(block) >> 12 & 0xffff])
/* The allocator is about to have the block back; it has given one out. */
#define ORDER_GIVES(block) __tsan_release(ORDER_PAGE(block))
#define ORDER_GETS(block) __tsan_acquire(ORDER_PAGE(block))
/* A word that others write atomically, where nothing depends on when it is seen. Elsewhere a plain load: compilers do not compare
 * with memory what they had to load atomically, and on the way of every call that would be one instruction each. */
#define ORDER_LOAD(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)
#else
#define ORDER_LOAD(word) (word)
#define ORDER_GIVES(block) ((void)(block))
#define ORDER_GETS(block) ((void)(block))
#endif
#endif
