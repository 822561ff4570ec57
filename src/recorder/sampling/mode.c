/* SPDX-License-Identifier: Apache-2.0 */
/* See mode.h and countdown.h.
 *
 * Owns: the words wiped on fork, each written by the thread whose slot it belongs to, and this process' view of the mode. Before
 * the first block is recorded exactly, the filter of frees is turned off; it stays off, since from then on any block may be an
 * exact one. */
#include "recorder/sampling/mode.h"

#include <sys/mman.h>

#include "recorder/clock.h"
#include "recorder/sampling/cpu_limit.h"
#include "recorder/process/settings.h"
#include "recorder/sys.h"
#include "recorder/unwind/modules.h"

/* ---- the countdown ---- */

enum {
	WORD_TOKEN = 6,	   /* after the empty countdown; the slots' words follow */
	GENERATION = 4099, /* a child's slots use other words: shift per generation */
};
_Static_assert(sizeof(struct live_countdown) <= WORD_TOKEN * sizeof(uint64_t), "words");

static uint64_t before_start[COUNTDOWN_WORDS];
char *countdown_base = (char *)before_start;

bool countdown_start(void)
{
	if (countdown_base != (char *)before_start)
		return true; /* all generations of children use the same words */
	long words = sys_mmap(NULL, COUNTDOWN_BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (sys_failed(words))
		return false;
	if (sys_failed(sys_madvise((void *)words, COUNTDOWN_BYTES, SYS_WIPE_ON_FORK))) {
		sys_munmap((void *)words, COUNTDOWN_BYTES);
		return false;
	}
	/* No thread has a countdown yet: offset 0 is valid with the old base and the new one. */
	__atomic_store_n(&countdown_base, (char *)words, __ATOMIC_RELEASE);
	return true;
}

uint64_t *countdown_token(void)
{
	return (uint64_t *)(void *)countdown_base + WORD_TOKEN;
}

static uintptr_t offset_from_base(const void *to)
{
	return (uintptr_t)to - (uintptr_t)countdown_base;
}

void countdown_own(uint64_t left)
{
	struct thread_state *self = &thread_state;

	self->own_countdown.left = left;
	self->own_word = offset_from_base(&self->own_countdown);
	self->countdown = offset_from_base(&self->own_word);
}

/* A thread that forked still points to its old word until it registers in the child. If another thread of the child got that word
 * first, both would count in one countdown. */
static uint64_t *word_of(const struct slot *slot)
{
	uint64_t number = (slot->id + *countdown_token() * GENERATION) % SLOT_LIMIT;

	return (uint64_t *)(void *)countdown_base + COUNTDOWN_WORDS + number;
}

/* Readers compute allotted - left: an odd `changes` tells them that only one of the two has been updated. */
void countdown_shared(struct slot *slot, uint64_t left)
{
	struct live_countdown *shared = &slot->live->countdown;
	uint64_t *word = word_of(slot);
	uint64_t changes = shared->changes | 1; /* already odd: a hook was abandoned */

	countdown_none();
	__atomic_store_n(&shared->changes, changes, __ATOMIC_RELAXED);
	__atomic_store_n(&shared->allotted, shared->allotted + (left - shared->left),
			 __ATOMIC_RELEASE);
	__atomic_store_n(&shared->left, left, __ATOMIC_RELEASE);
	__atomic_store_n(&shared->changes, changes + 1, __ATOMIC_RELEASE);
	__atomic_store_n(word, offset_from_base(shared), __ATOMIC_RELAXED);
	thread_state.countdown = offset_from_base(word);
}

bool countdown_skips(struct slot *slot, uint64_t size)
{
	struct live_countdown *now = countdown_now();
	uint64_t left =
		__atomic_load_n(&now->left, __ATOMIC_RELAXED); /* a signal handler may subtract */

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

/* ---- the mode ---- */

enum {
	DORMANT_BYTES = 1 << 20, /* a dormant thread rereads the mode after allocating this much */
	LEASED_CALLS = 64,	 /* between two clock reads, while the mode is leased */
};
#define NO_MODE UINT32_MAX
#define FOR_EVER (UINT64_MAX / 2)

PROCESS_STATE uint32_t mode_exact = NO_MODE;
PROCESS_STATE const uint32_t *mode_word;
/* The program's last setting, if any: a forked child starts with it; and the mode before hg_stop. Relaxed: if threads change it at
 * once, any may be the last. */
static PROCESS_STATE uint32_t own_mode = NO_MODE, before_stop = NO_MODE;
/* The program's limits for stacks; 0 and UINT64_MAX: none. */
static PROCESS_STATE uint64_t stack_least, stack_most = UINT64_MAX;

/* True if every block gets its stack. */
static bool has_no_limits(void)
{
	return __atomic_load_n(&stack_least, __ATOMIC_SEQ_CST) == 0 &&
	       __atomic_load_n(&stack_most, __ATOMIC_SEQ_CST) == UINT64_MAX &&
	       memory.control->stack_least_bytes == 0 && memory.control->stack_most_bytes == 0;
}

/* True if someone outside has set the mode for a limited time: then every call is examined, so that the end is noticed. */
static bool is_leased(void)
{
	return __atomic_load_n(&memory.control->lease_until_ms, __ATOMIC_RELAXED) != 0;
}

/* Called for every block without a stack: writes only what differs, because all threads share these cache lines. */
static void switch_to_exact(void)
{
	sample_no_filter();
	if (__atomic_load_n(&mode_exact, __ATOMIC_SEQ_CST) == LIVE_MODE_EXACT || !has_no_limits() ||
	    is_leased())
		return;
	__atomic_store_n(&mode_exact, LIVE_MODE_EXACT, __ATOMIC_SEQ_CST);
	if (!has_no_limits()) /* another thread has set limits meanwhile */
		__atomic_store_n(&mode_exact, NO_MODE, __ATOMIC_SEQ_CST);
}

/* Written only if it differs: the header is shared by all threads. */
static void miss_blocks(void)
{
	if (mode_misses_blocks())
		return;
	__atomic_fetch_or(&memory.head->compatible, (uint64_t)LIVE_MISSES_BLOCKS, __ATOMIC_RELAXED);
	modules_miss_loads();
}

/* A stopped thread skips every call and never rereads the mode. */
void mode_reread(void)
{
	struct thread_state *self = &thread_state;

	if (self->stopped)
		countdown_own(FOR_EVER);
	else
		countdown_none();
	self->interval = self->stopped;
	self->left_is_part = false;
}

static bool counts_all(uint32_t mode)
{
	return mode == LIVE_MODE_EXACT || mode == LIVE_MODE_TAGS;
}

/* The program's mode, now or again after the lease. */
static uint32_t mode_after_lease(void)
{
	return is_leased() ? __atomic_load_n(&memory.control->mode_after, __ATOMIC_RELAXED)
			   : mode_now();
}

/* The authoritative word is in the control page, so that others can change it again. A mode set by the program does not end a
 * lease, but outlives it. */
static void set_mode(uint32_t mode)
{
	__atomic_store_n(&memory.control->mode_after, mode, __ATOMIC_RELEASE);
	__atomic_store_n(&memory.control->mode, mode, __ATOMIC_RELEASE);
}

static void follow(void)
{
	uint32_t own = __atomic_load_n(&own_mode, __ATOMIC_RELAXED);

	if (own != NO_MODE)
		set_mode(own);
	if (mode_word != &memory.control->mode) /* a process starts */
		__atomic_store_n(&mode_word, &memory.control->mode, __ATOMIC_RELEASE);
}

void mode_start(void)
{
	follow();
	bool all = counts_all(mode_now());

	mode_exact = NO_MODE;
	if (!all)
		miss_blocks();
	sample_start(!all);
	if (all)
		switch_to_exact();
	mode_reread();
}

static uint64_t *random_of(struct thread_state *self)
{
	if (self->random ==
	    0) /* threads have different addresses, and processes different start times */
		self->random = (((uintptr_t)self ^ memory.head->started_mono_ns) *
					UINT64_C(0x9e3779b97f4a7c15) +
				clock_ms()) |
			       1;
	return &self->random;
}

uint32_t mode_round_weight(uint64_t weight)
{
	return sample_round(random_of(&thread_state), weight);
}

bool mode_chooses(uint64_t chance)
{
	return sample_random(random_of(&thread_state)) <= chance;
}

/* Draws a distance to the next sample, or the first part of it: never so much that a block as large as the interval would be
 * skipped. The distribution is memoryless, so the rest can be drawn later. */
static int64_t draw(struct thread_state *self)
{
	int64_t most = (int64_t)self->interval - 1;
	int64_t distance = sample_draw(random_of(self), self->interval);

	self->left_is_part = distance >= most;
	return MIN(distance, most);
}

/* The interval of the next samples. */
static uint64_t interval_now(void)
{
	uint64_t requested = memory.control->interval;

	requested = requested != 0 ? MAX(requested, (uint64_t)SAMPLE_INTERVAL_MIN)
				   : SAMPLE_INTERVAL_DEFAULT;
	requested <<= __atomic_load_n(&cpu_limit_doublings, __ATOMIC_RELAXED);
	return MIN(requested, (uint64_t)SAMPLE_INTERVAL_MAX);
}

/* Sets up the current mode. True: count the next block, with or without its stack. */
static bool begin(struct thread_state *self)
{
	uint32_t mode = mode_now();

	self->interval = 0;
	countdown_none();
	if (counts_all(mode)) {
		switch_to_exact();
		return true;
	}
	miss_blocks();
	self->slot->last_block = NULL; /* allocations between it and its free are not seen */
	if (mode != LIVE_MODE_SAMPLE) {
		countdown_own(DORMANT_BYTES);
		return false;
	}
	self->interval = interval_now();
	countdown_shared(self->slot, (uint64_t)draw(self) + 1);
	return false;
}

/* True if a block is a sample; if not, subtracts it from the distance. */
static bool is_sample(struct thread_state *self, uint64_t size)
{
	if (size >= self->interval)
		return true; /* always a sample: the distance is for smaller blocks */
	int64_t rest = (int64_t)countdown_now()->left - 1 - (int64_t)size;

	while (rest < 0 && self->left_is_part)
		rest += draw(self);
	countdown_shared(self->slot, rest < 0 ? 0 : (uint64_t)rest + 1);
	return rest < 0;
}

/* Decides whether a block gets its stack. The collector's limits: 0 is none. */
static uint64_t decide_stack(uint64_t size)
{
	uint64_t most = memory.control->stack_most_bytes;

	if (mode_now() == LIVE_MODE_TAGS || size < stack_least || size > stack_most ||
	    size < memory.control->stack_least_bytes || (most != 0 && size > most))
		return MODE_WITHOUT_STACK;
	return MODE_EXACTLY;
}

NOINLINE uint64_t mode_decide(uint64_t size, struct slot *counts_in)
{
	struct thread_state *self = &thread_state;

	if (UNLIKELY(is_leased()) && ++self->slot->leased_calls % LEASED_CALLS == 0)
		clock_tick_slow(self->slot);
	if (self->stopped)
		return MODE_SKIP;
	if (self->interval <= MODE_INTERVAL_TIMED &&
	    begin(self)) /* the mode changed: this is the first block under the new one */
		return decide_stack(size);
	uint64_t interval = self->interval;

	if (interval == 0)
		return MODE_SKIP;
	if (counts_in != NULL)
		countdown_add(counts_in, 1, size);
	if (!is_sample(self, size))
		return MODE_SKIP;
	/* Memoryless: the distance may be redrawn at any time. */
	if (countdown_now()->left == 0 || interval != interval_now() ||
	    mode_now() != LIVE_MODE_SAMPLE)
		begin(self);
	return interval;
}

uint64_t mode_decide_map(void)
{
	if (thread_state.stopped || mode_now() == LIVE_MODE_DORMANT) {
		miss_blocks();
		return MODE_SKIP;
	}
	return mode_now() == LIVE_MODE_TAGS ? MODE_WITHOUT_STACK : MODE_EXACTLY;
}

/* ---- by the program ---- */

static void turn(uint32_t mode)
{
	if (mode == LIVE_MODE_DORMANT && mode_after_lease() != LIVE_MODE_DORMANT)
		health_add(HEALTH_turned_off);
	__atomic_store_n(&own_mode, mode, __ATOMIC_RELAXED);
	follow();
	mode_reread();
}

void mode_set(uint32_t mode)
{
	__atomic_store_n(&before_stop, NO_MODE, __ATOMIC_RELAXED);
	if (mode <= LIVE_MODE_EXACT) {
		turn(mode);
	} else if (mode == MODE_FOLLOW) {
		__atomic_store_n(&own_mode, NO_MODE, __ATOMIC_RELAXED);
		set_mode((uint32_t)settings.mode);
		follow();
		mode_reread();
	}
}

void mode_stop(bool of_thread)
{
	struct thread_state *self = &thread_state;

	miss_blocks();
	if (of_thread) {
		if (!self->stopped)
			health_add(HEALTH_turned_off);
		self->stopped = true;
		self->slot->last_block = NULL;
		mode_reread();
		return;
	}
	uint32_t now = mode_after_lease();

	if (now != LIVE_MODE_DORMANT)
		__atomic_store_n(&before_stop, now, __ATOMIC_RELAXED);
	turn(LIVE_MODE_DORMANT);
}

void mode_resume(bool of_thread)
{
	struct thread_state *self = &thread_state;
	uint32_t requested = memory.control->mode_on;

	if (of_thread) {
		self->stopped = false;
		mode_reread();
		return;
	}
	if (mode_after_lease() != LIVE_MODE_DORMANT)
		return;
	uint32_t before = __atomic_exchange_n(&before_stop, NO_MODE, __ATOMIC_RELAXED);

	if (before != NO_MODE)
		requested = before;
	turn(requested != LIVE_MODE_DORMANT && requested <= LIVE_MODE_EXACT ? requested
									    : LIVE_MODE_EXACT);
}

void mode_limit_stacks(uint64_t least, uint64_t most)
{
	__atomic_store_n(&stack_least, least, __ATOMIC_SEQ_CST);
	__atomic_store_n(&stack_most, most, __ATOMIC_SEQ_CST);
	__atomic_store_n(&mode_exact, NO_MODE, __ATOMIC_SEQ_CST); /* until a thread reads it */
	modules_miss_loads();
	mode_reread();
}
