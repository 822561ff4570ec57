/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each read adds a point to the series, and a snapshot if one is due. The rows are made from a clone, since making them
 * consumes a target; after the end they are made from the target itself.
 *
 * Owns the target. One thread at a time.
 */
#include "collect/attach/watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "collect/run/collector.h"
#include "collect/attach/inspect.h"
#include "collect/binaries/linked_in.h"
#include "collect/attach/copied_target.h"
#include "util/cleanup.h"
#include "util/clock.h"

struct watch {
	struct copied_target other;
	struct linked_in linked_in;
	uint64_t real_offset_ns;
	bool ended;
};

struct watch *watch_new(pid_t pid, struct error *error)
{
	struct watch *w = calloc(1, sizeof *w);

	if (!w) {
		error_set(error, "out of memory");
		return NULL;
	}
	w->other = COPIED_TARGET_INIT;
	w->real_offset_ns = clock_real_offset_ns();
	if (copied_target_begin(&w->other, pid, error) == 0)
		return w;
	watch_free(w);
	return NULL;
}

void watch_free(struct watch *w)
{
	if (!w)
		return;
	copied_target_release(&w->other);
	linked_in_release(&w->linked_in);
	free(w);
}

/* Takes another copy, and adds it to the data over time. */
static int read_it(struct watch *w, uint64_t now_ns, struct error *error)
{
	struct target *target = w->other.target;

	/* No collector updates its clock here, which does not count as stopped. */
	target->profile.control.clock_ms = saturating_sub(now_ns, target->started_ns) / NS_PER_MS;
	if (copied_target_is_gone(&w->other)) {
		copied_target_copy_last(&w->other, true);
		collector_end_other(target, now_ns);
	} else if (!copied_target_copy(&w->other, PROFILE_COPY_ALL)) {
		return error_set(error, "process %d cannot be read now", (int)target->pid);
	} else if (target_sample(target, now_ns, 0, false)) {
		target_sample_run(target);
	}
	w->ended = target->ended_ns != 0; /* or called exec */
	return 0;
}

static int make_rows(struct watch *w, uint64_t now_ns, struct process_rows *ret,
		     struct error *error)
{
	struct target *target = w->other.target;
	struct target *from = w->ended ? target : target_clone(target);
	int status;

	if (!from)
		return error_set(error, "out of memory");
	live_profile_lend(&from->profile, &w->other.copied);
	status = target_rows(from, now_ns, target->started_ns, w->real_offset_ns, ret, error);
	if (from != target)
		target_free(from);
	return status;
}

int watch_take(struct watch *w, const char *version, struct recording *ret, bool *ret_ended,
	       struct error *error)
{
	struct recording recording = { 0 };
	uint64_t now_ns = clock_monotonic_ns();

	if (w->ended)
		return error_set(error, "process %d has ended", (int)w->other.recorded.pid);
	if (read_it(w, now_ns, error) < 0)
		return -1;
	recording.processes = calloc(1, sizeof *recording.processes);
	if (!recording.processes)
		return error_set(error, "out of memory");
	recording.process_count = 1;
	struct process_row *process = &recording.processes->process;

	if (make_rows(w, now_ns, recording.processes, error) < 0 ||
	    inspect_run(&w->other.copied, process, version, &recording.run, error) < 0) {
		recording_release(&recording);
		return -1;
	}
	linked_in_find(&w->linked_in, recording.processes);
	*ret = recording;
	*ret_ended = w->ended;
	return 0;
}
