/* SPDX-License-Identifier: Apache-2.0 */
/* See countdown.h.
 *
 * Owns: the words that fork wipes. A word is written by the thread whose slot it belongs to. */
#include "recorder/sampling/countdown.h"

#include <sys/mman.h>

#include "recorder/sys.h"

enum {
	WORD_TOKEN = 6,	   /* behind the countdown of nothing; the slots' are behind both */
	GENERATION = 4099, /* slots of a child have others' words: by so many */
};
_Static_assert(sizeof(struct live_countdown) <= WORD_TOKEN * sizeof(uint64_t), "words");

static uint64_t before_start[COUNTDOWN_WORDS];
char *countdown_base = (char *)before_start;

bool countdown_start(void)
{
	if (countdown_base != (char *)before_start)
		return true; /* the same words in every generation of children */
	long words = sys_mmap(NULL, COUNTDOWN_BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (sys_failed(words))
		return false;
	if (sys_failed(sys_madvise((void *)words, COUNTDOWN_BYTES, SYS_WIPE_ON_FORK))) {
		sys_munmap((void *)words, COUNTDOWN_BYTES);
		return false;
	}
	/* No thread has a countdown yet: their distances are 0 from here and from there. */
	__atomic_store_n(&countdown_base, (char *)words, __ATOMIC_RELEASE);
	return true;
}

uint64_t *countdown_token(void)
{
	return (uint64_t *)(void *)countdown_base + WORD_TOKEN;
}

static uintptr_t distance(const void *to)
{
	return (uintptr_t)to - (uintptr_t)countdown_base;
}

void countdown_own(uint64_t left)
{
	struct thread_state *self = &thread_state;

	self->own_countdown.left = left;
	self->own_word = distance(&self->own_countdown);
	self->countdown = distance(&self->own_word);
}

/* The thread that has forked leads to its word of before until it is looked at. If that were the word of a slot that another
 * thread of the child got first, both would count in one. */
static uint64_t *word_of(const struct slot *slot)
{
	uint64_t number = (slot->id + *countdown_token() * GENERATION) % SLOT_LIMIT;

	return (uint64_t *)(void *)countdown_base + COUNTDOWN_WORDS + number;
}

/* A reader adds `allotted` to what is not left: while one was changed and not the other it sees an odd number of changes. */
void countdown_shared(struct slot *slot, uint64_t left)
{
	struct live_countdown *shared = &slot->live->countdown;
	uint64_t *word = word_of(slot);
	uint64_t changes = shared->changes | 1; /* odd already: a hook was left without its end */

	countdown_none();
	__atomic_store_n(&shared->changes, changes, __ATOMIC_RELAXED);
	__atomic_store_n(&shared->allotted, shared->allotted + (left - shared->left),
			 __ATOMIC_RELEASE);
	__atomic_store_n(&shared->left, left, __ATOMIC_RELEASE);
	__atomic_store_n(&shared->changes, changes + 1, __ATOMIC_RELEASE);
	__atomic_store_n(word, distance(shared), __ATOMIC_RELAXED);
	thread_state.countdown = distance(word);
}

bool countdown_skips(struct slot *slot, uint64_t size)
{
	struct live_countdown *now = countdown_now();
	uint64_t left =
		__atomic_load_n(&now->left, __ATOMIC_RELAXED); /* a signal handler takes of it */

	if (size >= left)
		return false;
	if (now == &thread_state.own_countdown)
		countdown_own(left - size);
	else
		countdown_shared(slot, left - size);
	return true;
}

void countdown_add(struct slot *slot, uint64_t calls, uint64_t bytes)
{
	struct live_countdown *shared = &slot->live->countdown;

	__atomic_fetch_add(&shared->calls, calls,
			   __ATOMIC_RELAXED); /* a signal handler counts there */
	__atomic_store_n(&shared->allotted, shared->allotted + bytes, __ATOMIC_RELAXED);
}
