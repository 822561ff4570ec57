/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the recorder: settings, profile, tables. The process creates its own memory and hands it over (profile.c); any failure
 * leaves the recorder off and the target untouched. The log of the parent shows that this process should have been recorded
 * (process_log.h). After start-up the recorder holds no descriptor.
 *
 * Runs once, in the first hook that is called, possibly before any constructor: raw system calls only. */
#include "recorder/process/startup.h"

#include <sys/mman.h>

#include "recorder/hooks/allocator.h"
#include "recorder/clock.h"
#include "recorder/sampling/countdown.h"
#include "recorder/sampling/mode.h"
#include "recorder/process/exec.h"
#include "recorder/hooks/free.h"
#include "recorder/hooks/hook.h"
#include "recorder/api/labels.h"
#include "recorder/counters/maps.h"
#include "recorder/counters/marks.h"
#include "recorder/counters/pairs.h"
#include "recorder/sampling/cpu_limit.h"
#include "recorder/api/pools.h"
#include "recorder/otel/thread_context.h"
#include "recorder/process/profile.h"
#include "recorder/unwind/rules.h"
#include "recorder/python/codes.h"
#include "recorder/python/interpreter.h"
#include "recorder/python/tasks.h"
#include "recorder/sampling/sampled_blocks.h"
#include "recorder/sampling/timed_calls.h"
#include "recorder/process/settings.h"
#include "recorder/process/shell_environment.h"
#include "recorder/process/process_log.h"
#include "recorder/api/stats.h"
#include "recorder/sys.h"
#include "recorder/api/tags.h"
#include "recorder/api/wraps.h"
#include "recorder/counters/account.h"
#include "recorder/counters/sites.h"
#include "recorder/unwind/modules.h"
#include "recorder/unwind/stack_cache.h"
#include "recorder/unwind/readable_stack.h"

PROCESS_STATE bool start_was_forked;

void start_failed(void)
{
	fork_token = &fork_no_token;
	sample_start(true); /* no block is recorded */
}

/* Creates the word that is zeroed in a forked child. */
static bool make_token(void)
{
	static PROCESS_STATE uint64_t count;

	if (!countdown_start())
		return false;
	/* A thread that sees this sees that the recorder is starting, too: register_thread. */
	__atomic_store_n(countdown_token(), ++count, __ATOMIC_RELEASE);
	__atomic_store_n(&fork_token, countdown_token(), __ATOMIC_RELEASE);
	return true;
}

static void reset_all(void)
{
	rules_reset();
	sites_reset();
	slot_reset();
	account_reset();
	pairs_reset();
	blocks_reset();
	sampled_blocks_reset();
	maps_reset();
	modules_reset();
	tags_reset();
	marks_reset();
	pools_reset();
	labels_reset();
	stats_reset();
	python_codes_reset();
}

/* Initializes an empty profile in the mapped memory. */
static bool init_profile(bool forked)
{
	memory.head->peak.state = 1 << 1 | 1; /* epoch 1, rising */
	start_was_forked = forked;
	python_first_thread();
	python_visit = NULL;
	if (settings.python_domains)
		python_domains_start();
	free_notes_start(settings.free_sites != 0, settings.time_calls != 0);
	python_tasks_start(settings.python_tasks != 0);
	otel_start(settings.otel_labels);
	clock_start();
	clock_also = settings_every_ms != 0 ? marks_by_time : NULL;
	mode_start();
	cpu_limit_start();
	stack_start();
	allocator_probe();
	timed_calls_start(settings.time_calls);
	return rules_start() && sites_start();
}

/* In a forked child: unmaps the parent's memory, keeping a copy of its tags. False: it cannot be recorded, or should not be. */
static bool leave_parent(struct live_ticket *ret_ticket, struct tags_kept **ret_kept)
{
	bool wanted = memory.control->follow_fork;

	if (!sys_may(SYS_OTHERS | SYS_MEMORY | SYS_THREADS)) {
		if (wanted)
			process_log_publish(MISSED_sealed, NULL, false);
		return false; /* the parent's memory stays mapped: unmapping is a system call */
	}
	if (!wanted) {
		memory_release();
		return false;
	}
	*ret_ticket = process_log_ticket(process_log_publish(MISSED_child, NULL, false));
	*ret_kept = tags_keep();
	memory_release(); /* no hook is using it, and this is the only thread */
	reset_all();
	return true;
}

bool start_recording(bool forked)
{
	struct tags_kept *kept = NULL;
	struct live_ticket ticket = { 0 };

	if (CHECKED && !forked)
		chaos_start();
	if (next.is_recorder)
		return false;
	if (forked) {
		shell_environment_forked(); /* also of a fork that libc makes, in daemon or forkpty */
		if (!leave_parent(&ticket, &kept))
			return false;
	} else {
		if (!settings_read())
			return false;
		sys_page_bytes = sys_auxiliary(AT_PAGESZ);
		ticket = exec_take_ticket();
		modules_start();
		if (settings_of_collector)
			exec_hide();
	}
	/* With the token set, this no longer counts as a new child that shares its parent's memory. */
	bool begun = make_token() && profile_make(forked, ticket);

	if (begun && !init_profile(forked)) {
		profile_give_up();
		memory_release();
		begun = false;
	}
	if (begun && forked)
		tags_take_back(kept);
	tags_drop(kept);
	if (begun && !forked)
		wraps_start();
	if (begun)
		__atomic_store_n(&memory.head->ready, 1, __ATOMIC_RELEASE);
	return begun;
}
