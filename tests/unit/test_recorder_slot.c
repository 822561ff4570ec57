/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-parts format base */
/* Threads without a slot, for lack of memory. */
#include <sys/mman.h>

#include "recorder/counters/sites.h"
#include "recorder/slot.h"
#include "unit.h"

enum { TOTAL_BYTES = 256 << 20, STEP_BYTES = 4 << 10, STEPS = 200 };

static struct live_control control = { .budget_bytes = UINT64_MAX, .depth_limit = 256 };

static int make_profile(void **state)
{
	struct live_header *head = mmap(NULL, TOTAL_BYTES, PROT_NONE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	(void)state;
	if (head == MAP_FAILED || mprotect(head, sizeof *head, PROT_READ | PROT_WRITE) != 0 ||
	    live_header_init(head, TOTAL_BYTES) != 0)
		return -1;
	memory_use(head, &control);
	head->depth_limit = control.depth_limit;
	return sites_start() ? 0 : -1;
}

/* However much memory there is for it. */
static void a_slot_that_cannot_be_made_uses_nothing(void **state)
{
	const uint64_t *used = memory.head->used;
	uint64_t slots = used[LIVE_SLOTS], scratch = used[LIVE_SCRATCH],
		 threads = used[LIVE_THREADS], opened = memory.head->opened_bytes;
	struct slot *slot = NULL;
	int steps = 0;

	(void)state;
	for (; slot == NULL && steps < STEPS; steps++) {
		assert_int_equal(used[LIVE_SLOTS], slots);
		assert_int_equal(used[LIVE_SCRATCH], scratch);
		assert_int_equal(used[LIVE_THREADS], threads);
		control.budget_bytes = opened + (uint64_t)steps * STEP_BYTES;
		slot = slot_acquire();
	}
	assert_true(steps > 5);
	assert_non_null(slot);
	assert_int_equal(used[LIVE_SLOTS], slots + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slot_that_cannot_be_made_uses_nothing),
	};

	return cmocka_run_group_tests(tests, make_profile, NULL);
}
