/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges recordings: of ranks, of hosts, or of restarts of one service.
 *
 * Each recording has its start time by the clock of its host; the earliest is the start of the merged recording, and processes
 * are shifted by the difference.
 */
#include "collect/merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "collect/process/combined_peak.h"

static bool find_peak(const struct recording *merged, struct run_row *run)
{
	struct combined_peak together = { 0 };
	for (size_t i = 0; i < merged->process_count; i++)
		combined_peak_add(&together, &merged->processes[i]);
	bool done = combined_peak_find(&together, run);

	combined_peak_release(&together);
	return done;
}

static bool same_host(const struct recording *recordings, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (!recordings[i].run.host || !recordings[0].run.host ||
		    strcmp(recordings[i].run.host, recordings[0].run.host) != 0)
			return false;
	return true;
}

/* "db-0: ./server" */
static bool name_host(struct process_row *p, const char *host)
{
	char *named;

	if (asprintf(&named, "%s: %s", host ? host : "?", p->command ? p->command : "") < 0)
		return false;
	free(p->command);
	p->command = named;
	return true;
}

static bool take(struct recording *merged, struct recording *from, uint64_t shift_ns, bool name)
{
	for (size_t i = 0; i < from->process_count; i++) {
		struct process_row *p = &from->processes[i].process;

		p->started_offset_ns = saturating_add(p->started_offset_ns, shift_ns);
		if (name && !name_host(p, from->run.host))
			return false;
		merged->processes[merged->process_count++] = from->processes[i];
		from->processes[i] = (struct process_rows){ 0 };
	}
	uint64_t end = saturating_add(shift_ns, from->run.duration_ns);

	merged->run.duration_ns = MAX(merged->run.duration_ns, end);
	merged->warnings.cut_bytes += from->warnings.cut_bytes;
	merged->warnings.bad_chunks += from->warnings.bad_chunks;
	merged->warnings.unknown_chunks += from->warnings.unknown_chunks;
	merged->warnings.unfinished |= from->warnings.unfinished;
	return true;
}

static bool same_options(const struct recording *recordings, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!recordings[i].run.options ||
		    strcmp(recordings[i].run.options, recordings[0].run.options) != 0)
			return false;
	}
	return true;
}

static bool begin(struct recording *merged, const struct recording *recordings, size_t count,
		  bool one_host)
{
	const struct run_row *first = &recordings[0].run;
	size_t processes = 0;
	char *command;

	for (size_t i = 0; i < count; i++)
		processes += recordings[i].process_count;
	if (asprintf(&command, "%s (%zu recordings)", first->command ? first->command : "", count) <
	    0)
		return false;
	merged->run = (struct run_row){
		.started_real_ns = first->started_real_ns,
		.command = command,
		.host = strdup(one_host && first->host ? first->host : "several hosts"),
		.kernel = strdup(one_host && first->kernel ? first->kernel : ""),
		.version = strdup(first->version ? first->version : ""),
		.own_code = strdup(first->own_code ? first->own_code : ""),
		.options = strdup(same_options(recordings, count) ? first->options : ""),
	};
	merged->processes = calloc(processes + 1, sizeof *merged->processes);
	for (size_t i = 1; i < count; i++)
		merged->run.started_real_ns =
			MIN(merged->run.started_real_ns, recordings[i].run.started_real_ns);
	return merged->processes && merged->run.host && merged->run.kernel && merged->run.version &&
	       merged->run.own_code && merged->run.options;
}

int recordings_merge(struct recording *recordings, size_t count, struct recording *ret,
		     struct error *error)
{
	struct recording merged = { 0 };
	bool one_host = same_host(recordings, count);
	bool done = count > 0 && begin(&merged, recordings, count, one_host);

	for (size_t i = 0; i < count && done; i++)
		done = take(&merged, &recordings[i],
			    recordings[i].run.started_real_ns - merged.run.started_real_ns,
			    !one_host);
	done = done && find_peak(&merged, &merged.run);
	for (size_t i = 0; i < count; i++)
		recording_release(&recordings[i]);
	if (!done) {
		recording_release(&merged);
		return error_set(error, "out of memory");
	}
	*ret = merged;
	return 0;
}
