/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the reading commands share: choosing the file, opening it, showing a view of it.
 *
 * The whole data flow is here: recording -> profile -> result -> output. A view that needs function names resolves
 * them on the way.
 */
#include "cli/open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/output.h"
#include "model/build.h"
#include "model/frames/names.h"
#include "base/compiler.h"
#include "util/cleanup.h"
#include "util/files.h"

/* What people see by default: a list of stacks fits a screen. */
enum { TEXT_STACK_FRAMES = 8, STACKS_SHOWN = 5 };

char *recording_path(const char *path, struct error *error)
{
	char *found = NULL;

	if (path) {
		found = strdup(path);
		if (!found)
			error_set(error, "out of memory");
		return found;
	}
	if (file_newest(".", ".hg", &found, error) < 0)
		return NULL;
	if (!found) {
		error_set(error, "no recording (*.hg) in this folder; make one with 'heapgauge "
				 "record PROGRAM', or name a file");
		return NULL;
	}
	const char *name = strncmp(found, "./", 2) == 0 ? found + 2 : found;

	cli_error("reading %s, the newest recording here", name);
	return found;
}

void append_shell_word(struct buffer *out, const char *word)
{
	static const char harmless[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				       "0123456789_./+:@%=,-";

	if (word[0] && word[strspn(word, harmless)] == '\0') {
		buffer_text(out, word);
		return;
	}
	buffer_char(out, '\'');
	for (; *word; word++) {
		if (*word == '\'')
			buffer_text(out, "'\\'");
		buffer_char(out, *word);
	}
	buffer_char(out, '\'');
}

char *report_again(const char *path, pid_t pid)
{
	struct buffer out = BUFFER_INIT;

	buffer_text(&out, "heapgauge report");
	if (pid)
		buffer_printf(&out, " --pid %d", (int)pid);
	else if (path) {
		buffer_char(&out, ' ');
		append_shell_word(&out, path);
	}
	return buffer_take_string(&out);
}

struct profile *profile_requested(struct profile *profile, const struct query_options *asked,
				  struct error *error)
{
	const char *own = asked->no_own ? "off" : asked->own;

	if (!profile || (profile_fold(profile, asked->fold, error) == 0 &&
			 (!own || profile_set_own(profile, own, error) == 0)))
		return profile;
	profile_free(profile);
	return NULL;
}

static int write_file(void *context, struct span bytes, struct error *error)
{
	FILE *out = context;

	if (fwrite(bytes.data, 1, bytes.size, out) != bytes.size)
		return error_errno(error, "cannot write the report");
	return 0;
}

int show_result(struct render_output *out, const struct profile *profile,
		struct locations *locations, const struct show *show, struct error *error)
{
	struct result *result = analysis_answer(show->view, profile, locations, show->query, error);

	if (!result)
		return -1;
	int status = show->renderer->run(result, &show->render, out, error);

	result_free(result);
	return status;
}

void show_asked(struct show *show, struct query_options *asked)
{
	asked->query.must_match = true;
	if (!asked->limit_given) {
		asked->query.limit = show->renderer->default_limit;
		if (show->view->sites && show->renderer->is_for_people &&
		    (!asked->query.has_axis || asked->query.by == AXIS_SITE))
			asked->query.limit = MIN(asked->query.limit, (size_t)STACKS_SHOWN);
	}
	show->query = &asked->query;
	show->names = asked->names;
	if (!asked->style_given && show->renderer->is_for_people)
		show->names.style = NAMES_SHORT;
	show->render.stack_frames = TEXT_STACK_FRAMES;
}

static void fit(struct render_options *options, const struct output *output)
{
	options->columns = output->cut_columns;
	options->colours = output->colours;
	options->utf8 = output->utf8;
	options->terminal = output->is_tty;
}

bool format_renders_one_result(const void *row)
{
	return ((const struct renderer *)row)->run != NULL;
}

int show_answer(const struct result *result, const struct renderer *renderer, bool exact_bytes,
		const struct common_options *common, struct error *error)
{
	if (!renderer->run)
		return error_set(error,
				 "only a report is written as %s: heapgauge report --format %s",
				 renderer->name, renderer->name);
	struct output output = output_open(common);
	struct render_output out = { .write = write_file, .context = output.file };
	struct render_options options = { .exact_bytes = exact_bytes };

	fit(&options, &output);
	int status = renderer->run(result, &options, &out, error);

	buffer_release(&out.buffer);
	return output_close(&output, status, error);
}

int show_profile(FILE *out, const struct profile *profile, const struct show *show,
		 struct error *error)
{
	struct render_output output = { .write = write_file, .context = out };
	struct names *names = names_new(&show->names);
	struct locations *locations = names ? locations_new(names) : NULL;
	int status = locations ? show_result(&output, profile, locations, show, error)
			       : error_set(error, "out of memory");

	buffer_release(&output.buffer);
	locations_free(locations);
	names_free(names);
	return status;
}

int show_on_output(const struct profile *profile, struct show *show,
		   const struct common_options *common, struct error *error)
{
	struct output output = output_open(common);

	fit(&show->render, &output);
	int status = show_profile(output.file, profile, show, error);

	return output_close(&output, status, error);
}
