/* SPDX-License-Identifier: Apache-2.0 */
/* See dial.h.
 *
 * Owns: what this process has made of the dial. Before the first block is recorded exactly, frees look for every block;
 * that stays so, since any block may be such a one from then on. */
#include "recorder/dial.h"

#include "recorder/gate.h"

enum {
	DORMANT_BYTES = 1 << 20, /* that a dormant thread allocates between two looks at the dial */
};
#define NO_MODE UINT32_MAX

uint32_t dial_exact = NO_MODE;
bool dial_was_turned;

/* Nothing is moved any more from here on: blocks that are recorded exactly do not go through the gate. */
static void turn_exact(void)
{
	bool entered = sample_filters && gate_enter_as_guest();

	sample_no_filter();
	if (entered)
		gate_leave_as_guest();
	__atomic_store_n(&dial_exact, LIVE_MODE_EXACT, __ATOMIC_RELEASE);
}

void dial_start(void)
{
	bool exact = memory.control->mode == LIVE_MODE_EXACT;

	dial_exact = NO_MODE;
	dial_was_turned = !exact;
	sample_start(!exact);
	if (exact)
		turn_exact();
	thread_state.left = 0;
	thread_state.interval = 0;
}

static uint64_t *random_of(struct thread_state *self)
{
	if (self->random ==
	    0) /* threads lie at different places, and processes begin at different times */
		self->random = (((uintptr_t)self ^ memory.head->started_mono_ns) *
					UINT64_C(0x9e3779b97f4a7c15) +
				clock_ms()) |
			       1;
	return &self->random;
}

/* A distance to the next sample, or the first part of it: never so much that a block as large as the interval would pass.
 * What is left of a distance is distributed as a whole one is. */
static int64_t draw(struct thread_state *self)
{
	int64_t most = (int64_t)self->interval - 1;
	int64_t distance = sample_draw(random_of(self), self->interval);

	self->left_is_part = distance >= most;
	return MIN(distance, most);
}

/* Begins what the dial says. True: the next block is to be recorded exactly. */
static bool begin(struct thread_state *self)
{
	uint32_t mode = memory.control->mode;
	uint64_t interval = memory.control->interval;

	self->interval = 0;
	self->left = 0;
	if (mode == LIVE_MODE_EXACT) {
		turn_exact();
		return true;
	}
	__atomic_store_n(&dial_was_turned, true, __ATOMIC_RELAXED);
	if (mode != LIVE_MODE_SAMPLE) {
		self->left = DORMANT_BYTES;
		return false;
	}
	self->interval =
		MIN(MAX(interval, (uint64_t)SAMPLE_INTERVAL_MIN), (uint64_t)SAMPLE_INTERVAL_MAX);
	self->left = (uint64_t)draw(self) + 1;
	return false;
}

/* Whether a block is a sample; if not, it is taken from the distance. */
static bool is_sample(struct thread_state *self, uint64_t size)
{
	if (size >= self->interval)
		return true; /* always: the distance is that of the others */
	int64_t rest = (int64_t)self->left - 1 - (int64_t)size;

	while (rest < 0 && self->left_is_part)
		rest += draw(self);
	self->left = rest < 0 ? 0 : (uint64_t)rest + 1;
	return rest < 0;
}

NOINLINE uint64_t dial_judge(uint64_t size)
{
	struct thread_state *self = &thread_state;

	if (self->interval == 0 &&
	    begin(self)) /* from another mode: the first block under the new one */
		return DIAL_EXACTLY;
	uint64_t interval = self->interval;

	if (interval == 0 || !is_sample(self, size))
		return DIAL_NOT;
	if (self->left == 0 || memory.control->mode != LIVE_MODE_SAMPLE)
		begin(self);
	return interval;
}
