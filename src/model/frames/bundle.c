/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbolizes every frame of every process and adds the names to the recording: each text once, rows by
 * frame. The rows are then encoded as a complete recording.
 *
 * An incompletely read recording is refused: rewritten, it would look complete, and its defects would no
 * longer be reported.
 *
 * Invariant of the new rows: what format/recording/chunk_names.c requires of rows it reads.
 */
#include "model/frames/bundle.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "format/recording/recording.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/output_file.h"
#include "util/texts.h"
#include "util/vector.h"

enum { SOURCE_FILE_MAX_BYTES = 16 << 20, SOURCE_LINE_MAX_BYTES = 400 };

/* The names of one process, under construction. */
struct bundle {
	VECTOR(struct name_row) names;
	VECTOR(struct source_row) sources;
	struct texts texts;
	bool failed;
};

static void bundle_release(struct bundle *b)
{
	vector_release(&b->names);
	vector_release(&b->sources);
	texts_release(&b->texts);
}

static void add_frame(struct bundle *b, struct named_stack stack, uint32_t frame)
{
	for (size_t i = 0; i < stack.count && !b->failed; i++) {
		const struct named_frame *f = &stack.at[i];
		struct name_row row = {
			.frame = frame,
			.function = f->named ? texts_add(&b->texts, f->function) : 0,
			.file = texts_add(&b->texts, f->file),
			.line = f->line,
			.inlined = f->inlined,
			.arguments = texts_add(&b->texts, f->arguments),
		};

		b->failed = !vector_push(&b->names, row) || b->texts.bytes.failed;
	}
}

static void add_names(struct bundle *b, struct names *names, const struct profile_process *p,
		      struct bundle_counts *counts)
{
	names_prepare(names, p);
	for (uint32_t i = 1; i < p->frame_count && !b->failed; i++) {
		struct profile_frame frame = profile_frame_at(p, (frame_id){ i });
		AUTO(arena_release) struct arena scratch = ARENA_INIT;
		struct named_stack stack;

		if (frame.mark != MARK_NONE)
			continue;
		if (names_frame(names, p, frame, &scratch, &stack) < 0) {
			b->failed = true;
			return;
		}
		counts->frames++;
		if (!stack.at[stack.count - 1].named)
			continue;
		counts->named++;
		add_frame(b, stack, i);
	}
}

static int compare_locations(const void *left, const void *right)
{
	const struct source_row *a = left, *b = right;

	if (a->file != b->file)
		return a->file < b->file ? -1 : 1;
	return (a->line > b->line) - (a->line < b->line);
}

/* Collects the wanted lines without duplicates, by file and line; their texts come later. */
static void collect_locations(struct bundle *b, unsigned around)
{
	size_t kept = 0;

	for (size_t i = 0; i < b->names.count && !b->failed; i++) {
		const struct name_row *n = &b->names.at[i];

		if (n->file == 0 || n->line == 0)
			continue;
		uint32_t first = n->line > around ? n->line - around : 1;

		for (uint32_t line = first; line <= n->line + around && !b->failed; line++)
			b->failed = !vector_push(&b->sources,
						 ((struct source_row){ n->file, line, 0 }));
	}
	if (b->sources.count)
		qsort(b->sources.at, b->sources.count, sizeof *b->sources.at, compare_locations);
	for (size_t i = 0; i < b->sources.count; i++)
		if (kept == 0 ||
		    compare_locations(&b->sources.at[i], &b->sources.at[kept - 1]) != 0)
			b->sources.at[kept++] = b->sources.at[i];
	b->sources.count = kept;
}

/* Fills in the lines of one file, rows [first, end), and drops missing ones. Returns the end of those kept. */
static size_t read_lines(struct bundle *b, struct span text, size_t first, size_t end)
{
	size_t kept = first;

	for (uint32_t line = 1; text.size > 0 && first < end; line++) {
		const uint8_t *newline = memchr(text.data, '\n', text.size);
		size_t length = newline ? (size_t)(newline - text.data) : text.size;
		size_t shown = strnlen((const char *)text.data,
				       MIN(length, (size_t)SOURCE_LINE_MAX_BYTES));

		if (line == b->sources.at[first].line) {
			struct source_row row = b->sources.at[first++];

			row.text = texts_add_span(&b->texts, span_of(text.data, shown));
			b->sources.at[kept++] = row;
		}
		length += newline != NULL;
		text = span_of(text.data + length, text.size - length);
	}
	return kept;
}

/* Whether the open file is below one of the folders; checked by descriptor, since the path may lead elsewhere by now. */
static bool is_below(int fd, const struct bundle_options *options)
{
	char link[64], path[PATH_MAX];

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t length = readlink(link, path, sizeof path - 1);

	path[MAX(length, (ssize_t)0)] = '\0';
	for (size_t i = 0; i < options->source_folder_count; i++) {
		size_t prefix = strlen(options->source_folders[i]);

		if (strncmp(path, options->source_folders[i], prefix) == 0 && path[prefix] == '/')
			return true;
	}
	return false;
}

/* False if the file does not exist or may not be included. */
static bool read_source(const char *file, const struct bundle_options *options,
			struct bundle_counts *counts, struct buffer *text)
{
	AUTO_FREE char *path = sources_path(options->sources, file);
	AUTO_CLOSE int fd = path ? file_open_regular(path, NULL, NULL) : -1;

	if (fd < 0)
		return false;
	if (!is_below(fd, options)) {
		counts->outside_files++;
		return false;
	}
	return file_read_all(fd, SOURCE_FILE_MAX_BYTES, path, text, NULL) == 0;
}

/* Skips files that cannot be read. */
static void add_sources(struct bundle *b, const struct bundle_options *options,
			struct bundle_counts *counts)
{
	AUTO(buffer_release) struct buffer text = BUFFER_INIT;
	size_t kept = 0;

	collect_locations(b, options->source_lines);
	for (size_t i = 0, end; i < b->sources.count && !b->failed; i = end) {
		uint32_t file = b->sources.at[i].file;

		for (end = i; end < b->sources.count && b->sources.at[end].file == file;)
			end++;
		buffer_clear(&text);
		/* A copy of the path: read_lines adds texts and may move them. */
		AUTO_FREE char *path = strdup((const char *)b->texts.bytes.data + file);

		if (!path || !read_source(path, options, counts, &text))
			continue;
		size_t behind = read_lines(b, buffer_span(&text), i, end);

		memmove(&b->sources.at[kept], &b->sources.at[i],
			(behind - i) * sizeof *b->sources.at);
		kept += behind - i;
		b->failed = b->texts.bytes.failed;
	}
	b->sources.count = kept;
}

/* Replaces the names of the process. */
static void hand_over(struct bundle *b, struct process_rows *rows)
{
	free(rows->names);
	free(rows->sources);
	free(rows->texts);
	rows->names = TAKE(b->names.at);
	rows->name_count = b->names.count;
	rows->sources = TAKE(b->sources.at);
	rows->source_count = b->sources.count;
	rows->text_bytes = b->texts.bytes.size;
	rows->texts = (char *)TAKE(b->texts.bytes.data);
	b->texts.bytes = BUFFER_INIT;
}

static int refuse_damaged(const struct recording_warnings *w, struct error *error)
{
	if (w->unknown_chunks)
		return error_set(error,
				 "the recording holds data of a newer heapgauge, which would "
				 "be lost: bundle it with that one");
	if (w->bad_chunks || w->cut_bytes || w->unfinished)
		return error_set(error, "the recording is damaged or was not finished, and would "
					"look whole: only whole ones are bundled");
	return 0;
}

int bundle_write(struct profile *profile, struct names *names, const struct bundle_options *options,
		 const char *path, struct bundle_counts *ret, struct error *error)
{
	struct recording *recording = profile->recording;
	struct format_error reason = { { 0 } };
	AUTO_FREE void *bytes = NULL;
	size_t length;

	*ret = (struct bundle_counts){ 0 };
	if (refuse_damaged(&recording->warnings, error) < 0)
		return -1;
	for (size_t i = 0; i < profile->process_count; i++) {
		AUTO(bundle_release) struct bundle b = { 0 };

		add_names(&b, names, &profile->processes[i], ret);
		if (options->source_lines)
			add_sources(&b, options, ret);
		if (b.failed)
			return error_set(error, "out of memory");
		ret->source_lines += b.sources.count;
		hand_over(&b, &recording->processes[i]);
	}
	if (options->redaction != REDACT_NOTHING &&
	    redact_recording(profile, options->redaction, error) < 0)
		return -1;
	if (recording_encode(recording, &bytes, &length, &reason) < 0)
		return error_set(error, "%s", reason.message);
	return output_file_write(path, span_of(bytes, length), 0666, error);
}

void bundle_lines(const struct profile_process *p, const char *file, bundle_line *take,
		  void *context)
{
	const struct process_rows *rows = p->rows;

	for (size_t i = 0; i < rows->source_count; i++) {
		const struct source_row *s = &rows->sources[i];

		if (strcmp(rows->texts + s->file, file) == 0)
			take(context, s->line, rows->texts + s->text);
	}
}
