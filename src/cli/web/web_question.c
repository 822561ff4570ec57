/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters -> query -> result.
 *
 * A parameter is a command-line option by its long name, parsed by the same rows, so that a page and a user get the
 * same error messages. Options that read files or use the network are not among the rows: only the user who started
 * the server may set them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/query/comparison.h"
#include "base/compiler.h"
#include "cli/open.h"
#include "cli/web/web.h"
#include "model/build.h"
#include "util/cleanup.h"
#include "util/files.h"

enum { OPT_VIEW = QUERY_COUNT, OPT_FILE, OPT_COMPARE };

static const struct option_row option_rows[] = {
	[OPT_VIEW] = { "view", 0, "VIEW", "which view to show",
		       .choices = WORDS_WITH_HELP(analyses) },
	[OPT_FILE] = { "file", 0, "N", "which recording, or 'before': the older one" },
	[OPT_COMPARE] = { "compare", 0, NULL, "what changed since the other recording" },
	QUERY_QUESTION_ROWS,
};

struct question {
	struct web_file *file;
	const struct analysis *view; /* NULL: not given */
	bool compare;
	struct query_options asked;
};

static void release_question(struct question *q)
{
	query_options_release(&q->asked);
}

static int take_file(struct web *web, struct question *q, const char *value, struct error *error)
{
	uint64_t number;

	if (strcmp(value, "before") == 0 && web->before.profile) {
		q->file = &web->before;
		return 0;
	}
	if (options_number("file", value, &number, error) < 0)
		return -1;
	if (number >= web->files.count)
		return error_set(error,
				 "--file is out of range: there are %zu recordings, counted "
				 "from 0",
				 web->files.count);
	q->file = &web->files.at[number];
	return 0;
}

static int take_parsed(struct web *web, struct question *q, int option, const char *value,
		       struct error *error)
{
	switch (option) {
	case OPTIONS_END: /* a flag that is off */
		return 0;
	case OPT_VIEW:
		q->view = analysis_find(value);
		return 0;
	case OPT_FILE:
		return take_file(web, q, value, error);
	case OPT_COMPARE:
		q->compare = true;
		return 0;
	default:
		if (option >= 0 && option < QUERY_COUNT)
			return query_options_take(&q->asked, (enum query_option)option, value,
						  error);
		return -1; /* the error is set */
	}
}

/* Options for the look of terminal output do not apply to a page. */
static bool is_common(const char *name)
{
	for (size_t i = 0; i < common_row_count; i++)
		if (strcmp(common_rows[i].name, name) == 0)
			return true;
	return false;
}

/* `room` gets the parameter as an option; the query's texts point into it. */
static int take_param(struct web *web, struct question *q, const struct serve_param *param,
		      char **room, struct error *error)
{
	char *argv[] = { (char[]){ "view" }, NULL, NULL };
	const char *value;

	/* The number of a reading only makes the URL unique: the newest reading is always used. */
	if (web->live && strcmp(param->name, "reading") == 0)
		return 0;
	if (is_common(param->name))
		return error_set(error, "unknown option --%s", param->name);
	if (asprintf(room, "--%s=%s", param->name, param->value) < 0) {
		*room = NULL;
		return error_set(error, "out of memory");
	}
	argv[1] = *room;
	struct options options = options_over(option_rows, ARRAY_SIZE(option_rows), 2, argv);
	/* Settings are not read: only the parameters that the page shows may decide. */
	int option = options_next(&options, &value, error);

	return take_parsed(web, q, option, value, error);
}

/* ---- the answer ---- */

static int write_buffer(void *context, struct span bytes, struct error *error)
{
	struct buffer *out = context;

	buffer_append(out, bytes.data, bytes.size);
	return out->failed ? error_set(error, "out of memory") : 0;
}

/*
 * Names are cached, because resolving them takes time. Locations are not: they are numbered in the order of first
 * use, and a response must not depend on earlier requests.
 */
static struct locations *locations_for(const struct web *web, const struct question *q)
{
	struct names *names = web_names(web, q->file, q->compare, q->asked.names.style);

	return names ? locations_new(names) : NULL;
}

static int answer(struct web *web, struct question *q, const char *title,
		  const struct comparison *against, struct buffer *out, struct error *error)
{
	AUTO_FREE char *again = report_again(q->file->path, q->file->pid);
	struct locations *locations = locations_for(web, q);
	struct render_output output = { .write = write_buffer, .context = out };
	struct query *query = &q->asked.query;
	const struct show show = { .view = q->view,
				   .renderer = renderer_find("json"),
				   .query = query };

	if (!locations)
		return error_set(error, "out of memory");
	query->file = title;
	query->again = again;
	query->against = against;
	if (!q->asked.limit_given)
		query->limit = show.renderer->default_limit;
	int status = show_result(&output, q->file->profile, locations, &show, error);

	buffer_release(&output.buffer);
	locations_free(locations);
	query->file = query->again = NULL;
	query->against = NULL;
	return status;
}

/* Folds the files only if the last query needed another folding: most need the same. */
static int fold_files(struct web *web, const struct question *q, struct error *error)
{
	struct profile *profiles[] = { q->file->profile, q->compare ? web->before.profile : NULL };

	for (size_t i = 0; i < ARRAY_SIZE(profiles); i++) {
		if (!profiles[i] || fold_options_equal(profiles[i]->fold, q->asked.fold))
			continue;
		web_forget_names(web);
		if (profile_fold(profiles[i], q->asked.fold, error) < 0)
			return -1;
	}
	return 0;
}

static int answer_compared(struct web *web, struct question *q, struct buffer *out,
			   struct error *error)
{
	const struct profile *before = web->before.profile, *after = q->file->profile;
	const struct comparison against = {
		.before = &before, .before_count = 1, .after = &after, .after_count = 1
	};
	AUTO_FREE char *title = NULL;

	if (!before)
		return error_set(error, "no recording to compare with: start 'heapgauge view' with "
					"--against OLD.hg");
	if (!q->view->compares)
		return error_set(error, "the view %s does not compare recordings", q->view->name);
	if (asprintf(&title, "%s -> %s", path_base(web->before.path), path_base(q->file->path)) < 0)
		return error_set(error, "out of memory");
	return answer(web, q, title, &against, out, error);
}

static int ask(struct web *web, struct question *q, const struct serve_param *params, size_t count,
	       char **rooms, struct buffer *out, struct error *error)
{
	const char *suppressions = web->asked->query.filters.suppression_path;

	if (suppressions && filters_suppress(&q->asked.query.filters, suppressions, error) < 0)
		return -1;
	for (size_t i = 0; i < count; i++)
		if (take_param(web, q, &params[i], &rooms[i], error) < 0)
			return -1;
	if (!q->view)
		q->view = query_options_default_view(&q->asked, q->compare);
	if ((!q->compare && analysis_check(q->view, &q->asked.query, error) < 0) ||
	    fold_files(web, q, error) < 0)
		return -1;
	return q->compare ? answer_compared(web, q, out, error)
			  : answer(web, q, q->file->path, NULL, out, error);
}

int web_result(struct web *web, const struct serve_param *params, size_t count, struct buffer *out,
	       struct error *error)
{
	AUTO(release_question)
	struct question q = { .file = &web->files.at[0], .asked = query_options_init() };
	char **rooms = calloc(count + 1, sizeof *rooms);
	int status = rooms ? ask(web, &q, params, count, rooms, out, error)
			   : error_set(error, "out of memory");

	for (size_t i = 0; i < count && rooms; i++)
		free(rooms[i]);
	free(rooms);
	return status;
}
