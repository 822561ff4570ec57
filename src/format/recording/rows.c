/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ownership of rows: everything in a process_rows or a recording was malloc'd by the code that filled it (live_read, the
 * decoder, the collector) and is freed here, once.
 */
#include "format/recording/rows.h"

#include <stdlib.h>

#include "format/recording/recording.h"

void image_rows_release(struct image_rows *rows)
{
	free(rows->reach);
	free(rows->reach_sites);
	free(rows->retained);
	for (size_t i = 0; i < rows->holder_count; i++)
		free(rows->holders[i].name);
	free(rows->holders);
	free(rows->paths);
	for (size_t i = 0; i < rows->type_count; i++)
		free(rows->types[i].name);
	free(rows->types);
	free(rows->site_types);
	*rows = (struct image_rows){ 0 };
}

void process_rows_release(struct process_rows *rows)
{
	for (size_t i = 0; i < rows->module_count; i++)
		free(rows->modules[i].path);
	free(rows->modules);
	free(rows->frames);
	free(rows->nodes);
	for (size_t i = 0; i < rows->tag_count; i++) {
		if (rows->tags[i].name == i)
			free(rows->tags[i].text);
	}
	free(rows->tags);
	free(rows->visits);
	free(rows->sites);
	free(rows->site_counters);
	free(rows->bars);
	free(rows->ages);
	free(rows->live_sizes);
	free(rows->pairs);
	free(rows->size_moments);
	free(rows->threads);
	free(rows->remote_frees);
	free(rows->series);
	free(rows->snapshots);
	free(rows->snapshot_sites);
	free(rows->snapshot_counts);
	for (size_t i = 0; i < rows->mark_count; i++)
		free(rows->marks[i].name);
	free(rows->marks);
	free(rows->memory);
	for (size_t i = 0; i < rows->unrecorded_count; i++)
		free(rows->unrecorded[i].path);
	free(rows->unrecorded);
	for (size_t i = 0; i < rows->globals.file_count; i++)
		free(rows->globals.files[i].path);
	free(rows->globals.files);
	free(rows->globals.ranges);
	pages_rows_release(&rows->pages);
	image_rows_release(&rows->image);
	free(rows->names);
	free(rows->sources);
	free(rows->texts);
	free(rows->process.command);
	free(rows->process.exe);
	free(rows->process.allocator);
	free(rows->process.linked_in);
	*rows = (struct process_rows){ 0 };
}

uint64_t process_rows_bytes(const struct process_rows *rows)
{
	return rows->module_count * sizeof *rows->modules +
	       rows->frame_count * sizeof *rows->frames + rows->node_count * sizeof *rows->nodes +
	       rows->site_count * sizeof *rows->sites +
	       rows->site_counters_count * sizeof *rows->site_counters +
	       rows->bar_count * sizeof *rows->bars + rows->age_count * sizeof *rows->ages +
	       rows->thread_count * sizeof *rows->threads +
	       rows->series_count * sizeof *rows->series +
	       rows->snapshot_site_count *
		       (sizeof *rows->snapshot_sites +
			(rows->snapshot_counts ? sizeof *rows->snapshot_counts : 0)) +
	       rows->memory_count * sizeof *rows->memory +
	       rows->globals.range_count * sizeof *rows->globals.ranges;
}

void run_row_release(struct run_row *run)
{
	for (size_t i = 0; i < run->missed_count; i++)
		free(run->missed[i].path);
	free(run->missed);
	free(run->host);
	free(run->kernel);
	free(run->version);
	free(run->command);
	free(run->own_code);
	free(run->options);
	*run = (struct run_row){ 0 };
}

void recording_release(struct recording *recording)
{
	for (size_t i = 0; i < recording->process_count; i++)
		process_rows_release(&recording->processes[i]);
	free(recording->processes);
	run_row_release(&recording->run);
	*recording = (struct recording){ 0 };
}
