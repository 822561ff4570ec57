/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the page may request, by path, and the data it needs to form queries: see web.h.
 *
 * The lists of views, costs, axes and options come from the tables that the help is generated from, so that a new
 * row appears on the page and on the command line together.
 */
#include "cli/web/web.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/analyses.h"
#include "base/compiler.h"
#include "analysis/result/imported.h"
#include "cli/open.h"
#include "model/estimates.h"
#include "model/image/reach.h"
#include "model/memory/pages.h"
#include "model/tags.h"
#include "serve/page.h"
#include "serve/reply.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/text/json.h"

int web_open_file(struct web_file *file, const char *path, struct error *error)
{
	file->path = recording_path(path, error);
	file->profile = file->path ? recording_open(file->path, error) : NULL;
	return file->profile ? 0 : -1;
}

int web_open(struct web *web, const char *const *paths, size_t count, const char *before_path,
	     struct error *error)
{
	for (size_t i = 0; i < MAX(count, (size_t)1); i++) {
		if (!vector_push(&web->files, (struct web_file){ 0 }))
			return error_set(error, "out of memory");
		if (web_open_file(&web->files.at[i], count ? paths[i] : NULL, error) < 0)
			return -1;
	}
	return before_path ? web_open_file(&web->before, before_path, error) : 0;
}

int web_adopt(struct web *web, struct profile *profile, const char *name, struct error *error)
{
	struct web_file file = { .path = strdup(name), .profile = profile };

	if (file.path && vector_push(&web->files, file))
		return 0;
	free(file.path);
	profile_free(profile);
	return error_set(error, "out of memory");
}

static void release_file(struct web_file *file)
{
	for (size_t i = 0; i < WEB_STYLES; i++) {
		names_free(file->names[false][i]);
		names_free(file->names[true][i]);
	}
	profile_free(file->profile);
	free(file->path);
}

void web_release(struct web *web)
{
	for (size_t i = 0; i < web->files.count; i++)
		release_file(&web->files.at[i]);
	vector_release(&web->files);
	release_file(&web->before);
	web_live_free(web->live);
	buffer_release(&web->first);
	intern_release(&web->sources);
}

struct names *web_names(const struct web *web, struct web_file *file, bool compare,
			enum name_style style)
{
	struct names **names = &file->names[compare][style];
	struct names_options options = web->asked->names;

	options.style = style;
	if (!*names)
		*names = names_new(&options);
	return *names;
}

static void forget_names(struct web_file *file)
{
	for (size_t i = 0; i < WEB_STYLES; i++) {
		for (size_t compare = 0; compare < ARRAY_SIZE(file->names); compare++)
			if (file->names[compare][i])
				names_forget(file->names[compare][i]);
	}
}

void web_forget_names(struct web *web)
{
	for (size_t i = 0; i < web->files.count; i++)
		forget_names(&web->files.at[i]);
	forget_names(&web->before);
}

/* ---- about ---- */

static void print_words(struct json *j, const char *key, struct words words)
{
	const char *name, *help;

	json_key(j, key);
	json_array(j);
	for (size_t i = 0; (name = words_at(&words, i, &help)); i++) {
		json_object(j);
		json_field_string(j, "name", name);
		json_field_string(j, "help", help);
		json_end_object(j);
	}
	json_end_array(j);
}

static bool is_tagged(const struct profile *profile)
{
	for (size_t i = 0; i < profile->process_count; i++)
		if (profile_tag_count(&profile->processes[i]) > 1)
			return true;
	return false;
}

/* What only some recordings have: the page leaves out the others' parts. */
static void print_parts(struct json *j, const struct profile *profile)
{
	json_field_bool(j, "tagged", is_tagged(profile));
	json_field_bool(j, "pages", profile_any_pages(profile));
	json_field_bool(j, "image", profile_any_reach(profile));
	json_field_bool(j, "timed", profile_is_timed(profile));
}

/* A heap profile of another tool: the costs that it has. A recording has all, and no list. */
static void print_known(struct json *j, const struct profile *profile)
{
	if (!profile_is_imported(profile))
		return;
	json_key(j, "known_costs");
	json_array(j);
	for (const struct cost_word *c = cost_words; c->name; c++)
		if (imported_knows(profile, c->cost, c->at))
			json_string(j, c->name);
	json_end_array(j);
}

static void print_files(struct json *j, const struct web *web)
{
	json_key(j, "files");
	json_array(j);
	for (size_t i = 0; i < web->files.count; i++) {
		const char *path = web->files.at[i].path;
		AUTO_FREE char *command = report_again(path, web->files.at[i].pid);

		json_object(j);
		json_field_u64(j, "index", i);
		json_field_string(j, "path", path);
		json_field_string(j, "name", path_base(path));
		json_field_string(j, "command", command);
		print_parts(j, web->files.at[i].profile);
		print_known(j, web->files.at[i].profile);
		json_end_object(j);
	}
	json_end_array(j);
	json_field_bool(j, "compare", web->before.profile);
	json_field_string(j, "before", web->before.path);
	json_field_u64(j, "live_pid", web->live ? (uint64_t)web->files.at[0].pid : 0);
}

static void print_views(struct json *j)
{
	json_key(j, "views");
	json_array(j);
	for (const struct analysis *a = analyses; a->name; a++) {
		json_object(j);
		json_field_string(j, "name", a->name);
		json_field_string(j, "help", a->help);
		json_field_bool(j, "compares", a->compares);
		json_end_object(j);
	}
	json_end_array(j);
}

static void print_costs(struct json *j)
{
	json_key(j, "costs");
	json_array(j);
	for (const struct cost_word *c = cost_words; c->name; c++) {
		json_object(j);
		json_field_string(j, "name", c->name);
		json_field_string(j, "help", c->help);
		json_field_string(j, "unit", cost_unit_name(c->cost));
		json_field_string(j, "key", cost_rows[c->cost].key);
		json_field_bool(j, "of_moment", cost_rows[c->cost].time == COST_OF_MOMENT);
		json_end_object(j);
	}
	json_end_array(j);
}

static void print_options(struct json *j)
{
	static const struct option_row rows[] = { QUERY_QUESTION_ROWS };

	json_key(j, "options");
	json_array(j);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (!rows[i].name)
			continue;
		json_object(j);
		json_field_string(j, "name", rows[i].name);
		json_field_string(j, "help", rows[i].help);
		json_field_string(j, "argument", rows[i].argument);
		print_words(j, "choices", rows[i].choices);
		json_end_object(j);
	}
	json_end_array(j);
}

void web_about(const struct web *web, struct buffer *out)
{
	struct json j = json_to(out, JSON_PRETTY);
	AUTO_FREE char *command = report_again(web->files.at[0].path, web->files.at[0].pid);

	json_object(&j);
	json_field_schema(&j);
	json_field_string(&j, "version", HEAPGAUGE_VERSION);
	print_files(&j, web);
	print_views(&j);
	print_costs(&j);
	print_words(&j, "axes", (struct words)WORDS_WITH_HELP(axis_rows));
	print_words(&j, "moments", (struct words)WORDS_WITH_HELP(moment_words));
	print_options(&j);
	json_field_string(&j, "command", command);
	json_end_object(&j);
}

/* ---- requests by path ---- */

/* Builds the data for the first view, which is embedded in the page. It is built once, except for a running
 * process. */
static int make_first(struct web *web, struct error *error)
{
	static const struct serve_param summary = { "view", "summary" };
	AUTO(buffer_release) struct buffer data = BUFFER_INIT;

	if (web->first.size && !web->live)
		return 0;
	buffer_release(&web->first);
	buffer_text(&data, "{\"about\":");
	web_about(web, &data);
	buffer_text(&data, ",\"results\":{\"view=summary\":");
	if (web_result(web, &summary, 1, &data, error) < 0)
		return -1;
	buffer_text(&data, "}}");
	if (data.failed)
		return error_set(error, "out of memory");
	web->first = data;
	data = BUFFER_INIT;
	return 0;
}

static void answer_page(struct web *web, const struct serve_request *request,
			struct serve_answer *answer)
{
	struct error error = ERROR_INIT;

	answer->type = reply_page;
	if (make_first(web, &error) < 0)
		serve_refuse(answer, 500, "%s", error.message);
	else if (!page_fill(&answer->body, request->nonce, buffer_span(&web->first)))
		serve_refuse(answer, 500, "%s", WEB_NO_PAGE);
}

static void answer_about(struct web *web, const struct serve_request *request,
			 struct serve_answer *answer)
{
	(void)request;
	web_about(web, &answer->body);
	answer->keep = true;
}

static void answer_result(struct web *web, const struct serve_request *request,
			  struct serve_answer *answer)
{
	struct error error = ERROR_INIT;

	answer->keep = !web->live;
	if (web_result(web, request->params, request->param_count, &answer->body, &error) < 0)
		serve_refuse(answer, 400, "%s", error.message);
}

typedef void route_answer(struct web *web, const struct serve_request *request,
			  struct serve_answer *answer);
static const struct route {
	const char *path;
	route_answer *answer;
} routes[] = {
	{ "/", answer_page },
	{ "/api/about", answer_about },
	{ "/api/result", answer_result },
	{ "/api/source", web_source },
	{ "/api/live", web_live },
};

void web_answer(void *context, const struct serve_request *request, struct serve_answer *answer)
{
	for (size_t i = 0; i < ARRAY_SIZE(routes); i++)
		if (strcmp(request->path, routes[i].path) == 0) {
			routes[i].answer(context, request, answer);
			return;
		}
	serve_refuse(answer, 404, "not found: %s", request->path);
}
