/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Source lines for the page, only of files whose exact path a frame of the recordings has; the path in a URL is
 * compared with those and never opened otherwise.
 *
 * The file on disk may have changed since. If the recording contains source lines that differ from the disk, the
 * recording wins.
 */
#include <string.h>

#include "base/compiler.h"
#include "cli/web/web.h"
#include "model/frames/bundle.h"
#include "model/frames/sources.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/text/json.h"

enum { FILE_MAX_BYTES = 8 << 20, LINES_MAX = 1 << 20 };

/* NULL: a line that is not known. */
typedef VECTOR(const char *) line_vector;

struct bundled {
	line_vector lines;
	bool failed;
};

/* ---- which files ---- */

/* Adds the file to `sources`. The value marks it as added, because a lookup also adds its text. */
static bool add_source(struct web *web, const char *file)
{
	struct intern_entry *entry = intern_entry(&web->sources, span_of(file, strlen(file)));

	if (entry)
		entry->value = web;
	return entry;
}

static bool add_sources(struct web *web, struct web_file *file)
{
	struct names *names = web_names(web, file, false, NAMES_FULL);

	for (size_t p = 0; names && p < file->profile->process_count; p++) {
		const struct profile_process *process = &file->profile->processes[p];

		names_prepare(names, process);
		for (uint32_t i = 1; i < process->frame_count; i++) {
			AUTO(arena_release) struct arena scratch = ARENA_INIT;
			struct named_stack stack;

			if (names_frame(names, process, profile_frame_at(process, (frame_id){ i }),
					&scratch, &stack) < 0)
				return false;
			for (size_t j = 0; j < stack.count; j++)
				if (stack.at[j].file && !add_source(web, stack.at[j].file))
					return false;
		}
	}
	return names;
}

static bool find_sources(struct web *web)
{
	if (web->sources_known)
		return true;
	for (size_t i = 0; i < web->files.count; i++)
		if (!add_sources(web, &web->files.at[i]))
			return false;
	if (web->before.profile && !add_sources(web, &web->before))
		return false;
	web->sources_known = true;
	return true;
}

static bool is_source(struct web *web, const char *file)
{
	struct intern_entry *entry = intern_entry(&web->sources, span_of(file, strlen(file)));

	return entry && entry->value;
}

/* ---- its lines ---- */

static void take_bundled(void *context, uint32_t line, const char *text)
{
	struct bundled *b = context;

	if (line == 0 || line > LINES_MAX)
		return;
	while (b->lines.count < line && !b->failed)
		b->failed = !vector_push(&b->lines, NULL);
	if (!b->failed)
		b->lines.at[line - 1] = text;
}

static void find_bundled(struct web_file *file, const char *name, struct bundled *ret)
{
	for (size_t i = 0; file->profile && i < file->profile->process_count; i++)
		bundle_lines(&file->profile->processes[i], name, take_bundled, ret);
}

/* Reads the file and replaces its line ends with NULs. Returns false if there is no such text file. */
static bool read_lines(const struct web *web, const char *file, struct buffer *text,
		       line_vector *lines)
{
	AUTO_FREE char *path = sources_path(web->asked->sources, file);

	if (!path || path[0] != '/' || file_read(path, FILE_MAX_BYTES, text, NULL) < 0)
		return false;
	if (memchr(text->data ? text->data : (const uint8_t *)"", 0, text->size))
		return false;
	char *at = buffer_string(text);

	while (at && *at) {
		char *end = strchr(at, '\n');

		if (!vector_push(lines, at))
			return false;
		if (end)
			*end = '\0';
		at = end ? end + 1 : NULL;
	}
	return true;
}

/* Bundled lines are truncated to a maximum length. */
static bool agree(const line_vector *disk, const line_vector *bundled)
{
	for (size_t i = 0; i < bundled->count; i++)
		if (bundled->at[i] && (i >= disk->count || strncmp(bundled->at[i], disk->at[i],
								   strlen(bundled->at[i])) != 0))
			return false;
	return true;
}

static void print_lines(struct buffer *out, const char *file, const char *from,
			const line_vector *lines)
{
	struct json j = json_to(out, JSON_COMPACT);

	json_object(&j);
	json_field_schema(&j);
	json_field_string(&j, "file", file);
	json_field_string(&j, "from", from);
	json_key(&j, "lines");
	json_array(&j);
	for (size_t i = 0; i < lines->count; i++)
		json_string(&j, lines->at[i]);
	json_end_array(&j);
	json_end_object(&j);
}

static void answer_lines(struct web *web, const char *file, struct serve_answer *answer)
{
	AUTO(buffer_release) struct buffer text = BUFFER_INIT;
	struct bundled bundled = { 0 };
	line_vector disk = { 0 };

	for (size_t i = 0; i < web->files.count; i++)
		find_bundled(&web->files.at[i], file, &bundled);
	find_bundled(&web->before, file, &bundled);
	if (read_lines(web, file, &text, &disk) && agree(&disk, &bundled.lines))
		print_lines(&answer->body, file, "disk", &disk);
	else if (bundled.lines.count && !bundled.failed)
		print_lines(&answer->body, file, "bundle", &bundled.lines);
	else
		serve_refuse(answer, 404,
			     "%s cannot be read here; 'heapgauge bundle --sources 10' includes "
			     "source lines",
			     file);
	vector_release(&disk);
	vector_release(&bundled.lines);
}

void web_source(struct web *web, const struct serve_request *request, struct serve_answer *answer)
{
	if (request->param_count != 1 || strcmp(request->params[0].name, "file") != 0)
		serve_refuse(answer, 400, "expected exactly one parameter, file=PATH");
	else if (!find_sources(web))
		serve_refuse(answer, 500, "out of memory");
	else if (!is_source(web, request->params[0].value))
		serve_refuse(answer, 404, "no frame of the recording is in %s",
			     request->params[0].value);
	else
		answer_lines(web, request->params[0].value, answer);
}
