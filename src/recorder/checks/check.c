/* SPDX-License-Identifier: Apache-2.0 */
/* See check.h: failing a check, the lock rules, and the checks at the end of a hook. Only in the checking build.
 *
 * Owns: which lock the calling thread holds. */
#include "recorder/checks/check.h"

#include "recorder/counters/account.h"
#include "recorder/checks/chaos.h"
#include "recorder/hooks/hook.h"
#include "recorder/lock.h"
#include "recorder/slot.h"
#include "recorder/sys.h"

static __thread struct {
	const struct lock *held;
	struct check_pace pace;
} self;

void check_failed(const char *line, size_t bytes)
{
	arch_syscall(SYS_write, 2, (long)line, (long)bytes, 0, 0, 0);
	__builtin_trap();
}

/* ---- locks ---- */

void check_lock_acquired(const struct lock *lock)
{
	RECORDER_CHECK(self.held == NULL);
	/* Otherwise the hook of a signal handler could wait for the very thread that it has interrupted. */
	RECORDER_CHECK(thread_state.guard != 0);
	self.held = lock;
	chaos_delay();
}

void check_lock_released(const struct lock *lock)
{
	RECORDER_CHECK(self.held == lock);
	RECORDER_CHECK(lock_is_held(lock));
	chaos_delay();
	self.held = NULL;
}

void check_lock_recovered(const struct lock *lock)
{
	self.held = lock;
}

const struct lock *check_lock_set_aside(void)
{
	const struct lock *lock = self.held;

	self.held = NULL;
	return lock;
}

void check_lock_put_back(const struct lock *lock)
{
	self.held = lock;
}

void check_system_call(void)
{
	RECORDER_CHECK(self.held == NULL);
}

/* ---- entries ---- */

void check_counters(const struct slot *slot, uint32_t id)
{
	RECORDER_CHECK(id != 0);
	RECORDER_CHECK(id < memory_used(LIVE_SITE_COUNTERS));
	const struct live_site_counters *counters = memory_counters(id);

	RECORDER_CHECK(counters->thread == slot->thread);
	RECORDER_CHECK(counters->site != 0);
	RECORDER_CHECK(counters->site < memory_used(LIVE_SITES));
	RECORDER_CHECK(counters->key == memory_site(counters->site)->key);
}

void check_block(const struct block *block)
{
	RECORDER_CHECK(block->counters != 0);
	RECORDER_CHECK(block->counters < memory_used(LIVE_SITE_COUNTERS));
	RECORDER_CHECK(live_era(block->birth_ms) <= UINT16_MAX);
	const struct live_site_counters *counters = memory_counters(block->counters);

	RECORDER_CHECK(counters->site != 0);
	RECORDER_CHECK(memory_site(counters->site)->kind == LIVE_KIND_HEAP);
	RECORDER_CHECK(counters->thread < memory_used(LIVE_THREADS));
	RECORDER_CHECK(__atomic_load_n(&memory_thread(counters->thread)->tid, __ATOMIC_ACQUIRE) !=
		       0);
}

/* ---- whole structures ---- */

bool check_is_due(struct check_pace *pace)
{
	return ++pace->visits >= pace->due &&
	       __atomic_load_n(&memory.head->health[HEALTH_abandoned_hooks], __ATOMIC_RELAXED) == 0;
}

static bool is_shared(const struct live_peak *peak)
{
	return __atomic_load_n(&peak->shared, __ATOMIC_ACQUIRE) != 0;
}

/* With one slot the limits follow the peak to the byte. A second one may begin at any moment: that is asked last. */
static void check_limits(const struct slot *slot)
{
	const struct live_peak *peak = &memory.head->peak;
	int64_t live = account_live(slot->live);

	if (is_shared(peak))
		return;
	RECORDER_CHECK(slot->ceiling == peak->peak_bytes || is_shared(peak));
	RECORDER_CHECK(slot->floor == (peak->state & 1 ? peak->peak_bytes + 1 : INT64_MIN) ||
		       is_shared(peak));
	RECORDER_CHECK(live <= peak->peak_bytes || is_shared(peak));
	RECORDER_CHECK(live >= 0);
}

void check_leaving(void)
{
	const struct slot *slot = thread_state.slot;

	RECORDER_CHECK(self.held == NULL);
	/* A child that a signal handler forked ends the hook in its parent's tables. The parent does so again, and finds
	 * entries that it has not counted. */
	if (slot != NULL && hook_in_new_child())
		health_add(HEALTH_abandoned_hooks);
	if (slot == NULL || thread_state.token != *fork_token)
		return; /* this thread has no slot, or is a forked child that still has its parent's */
	RECORDER_CHECK(slot->owner == &thread_state);
	check_limits(slot);
	if (check_is_due(&self.pace))
		check_done(&self.pace, check_structures(slot));
}
