/* SPDX-License-Identifier: Apache-2.0 */
/* Tells ThreadSanitizer about an ordering it cannot see: the allocator hands a block to one thread after another thread has freed
 * it. Because of that, the recorder's entry for the block's address has one writer at a time. No-ops in any other build. Also
 * wraps loads that are plain on purpose. */
#ifndef RECORDER_ORDER_H
#define RECORDER_ORDER_H

#include <stdint.h>

#ifdef __SANITIZE_THREAD__
void __tsan_release(void *address);
void __tsan_acquire(void *address);
/* Keyed by page: the next block there may start a little later and use the same word of the block map. ThreadSanitizer forgets
 * the state of the block itself on free. */
extern char order_page[1 << 16];
#define ORDER_PAGE(block) (&order_page[(uintptr_t)(block) >> 12 & 0xffff])
/* Before a block goes back to the allocator; after the allocator has returned one. */
#define ORDER_GIVES(block) __tsan_release(ORDER_PAGE(block))
#define ORDER_GETS(block) __tsan_acquire(ORDER_PAGE(block))
/* Loads a word that others write atomically, if it does not matter when a change is seen. A plain load in other builds: compilers
 * do not fold an atomic load into a comparison with memory, which would cost one instruction per load on the fast path. */
#define ORDER_LOAD(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)
#else
#define ORDER_LOAD(word) (word)
#define ORDER_GIVES(block) ((void)(block))
#define ORDER_GETS(block) ((void)(block))
#endif
#endif
