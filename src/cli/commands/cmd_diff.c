/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapgauge diff: what changed between recordings. It takes the query options of `report`; its numbers have a sign.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/query/comparison.h"
#include "base/compiler.h"
#include "cli/options/query_options.h"
#include "cli/commands.h"
#include "cli/open.h"
#include "model/build.h"
#include "util/cleanup.h"
#include "util/files.h"

enum diff_option { OPT_VIEW = QUERY_COUNT, OPT_FORMAT, OPT_BYTES, OPT_TO, OPT_PER };

static bool view_compares(const void *row)
{
	return ((const struct analysis *)row)->compares;
}

static const struct option_row option_rows[] = {
	[OPT_VIEW] = { "view", 'v', "VIEW", "which view to show",
		       .choices = WORDS_THAT(analyses, view_compares),
		       .fallback = "summary; sites with --cost; functions with --by" },
	[OPT_FORMAT] = { "format", 'f', "FORMAT", "output format",
			 .choices = WORDS_WITH_HELP_THAT(renderers, format_renders_one_result),
			 .fallback = "text" },
	[OPT_BYTES] = { "bytes", 'b', NULL, "show exact byte counts" },
	[OPT_TO] = { "to", 0, NULL, "the recordings after it are the new ones: OLD... --to NEW...",
		     .scope = OPTION_TYPED_ONLY },
	[OPT_PER] = { "per", 0, "N", "each run did N units of work: show numbers per unit" },
	QUERY_ROWS,
};

typedef VECTOR(const char *) path_vector;
typedef VECTOR(const struct profile *) profile_vector;

struct diff_command {
	path_vector before_paths, after_paths;
	profile_vector before, after;
	bool to_given, view_given;
	uint64_t per;
	uint64_t typed; /* bits of enum query_option: given on the command line, not in settings */
	struct show show;
	struct query_options asked;
};

static int take_word(struct diff_command *c, const char *word, struct error *error)
{
	/* Two files without --to are before and after. */
	bool after = c->to_given || c->before_paths.count == 1;

	if (!vector_push(after ? &c->after_paths : &c->before_paths, word))
		return error_set(error, "out of memory");
	return 0;
}

/* --to: all files before it belong to "before". */
static int take_to(struct diff_command *c, struct error *error)
{
	for (size_t i = 0; i < c->after_paths.count && !c->to_given; i++)
		if (!vector_push(&c->before_paths, c->after_paths.at[i]))
			return error_set(error, "out of memory");
	if (!c->to_given)
		c->after_paths.count = 0;
	c->to_given = true;
	return 0;
}

static int take_option(void *state, int option, const char *value, struct error *error)
{
	struct diff_command *c = state;

	if (option >= 0 && option < QUERY_COUNT && !options_origin())
		c->typed |= UINT64_C(1) << option;
	if (option >= 0 && option < QUERY_COUNT)
		return query_options_take(&c->asked, (enum query_option)option, value, error);
	switch (option) {
	case OPTIONS_WORD:
		return take_word(c, value, error);
	case OPT_VIEW:
		c->view_given = true;
		c->show.view = analysis_find(value);
		return 0;
	case OPT_FORMAT:
		c->show.renderer = renderer_find(value);
		return 0;
	case OPT_BYTES:
		c->show.render.exact_bytes = true;
		return 0;
	case OPT_TO:
		return take_to(c, error);
	case OPT_PER:
		if (options_number("per", value, &c->per, error) < 0)
			return -1;
		return c->per ? 0 : error_set(error, "--per needs at least 1");
	default:
		return error_set(error, "internal error: unhandled option");
	}
}

static int check(void *state, struct error *error)
{
	struct diff_command *c = state;

	if (c->before_paths.count == 0 || c->after_paths.count == 0)
		return error_set(error, "name an older and a newer recording");
	if (!c->to_given && c->after_paths.count > 1)
		return error_set(error,
				 "with more than two recordings, name the newer ones after --to: "
				 "OLD... --to NEW...");
	if (!c->show.renderer->run)
		return error_set(error,
				 "a comparison cannot be saved as a page: 'heapgauge view %s "
				 "--against %s' shows it in the browser",
				 c->after_paths.at[0], c->before_paths.at[0]);
	if (!c->view_given)
		c->show.view = query_options_default_view(&c->asked, true);
	if (!c->show.view->compares)
		return error_set(error, "the view %s does not compare recordings",
				 c->show.view->name);
	if (filters_look_at(&c->asked.query.filters, RULE_FREED_IN))
		return error_set(error,
				 "recordings are not compared by who frees: omit --freed-in, "
				 "or use 'heapgauge report --view freed-by' of each");
	return query_options_check_typed(c->show.view, c->typed, true, error);
}

static int open_all(struct diff_command *c, const path_vector *paths, profile_vector *profiles,
		    struct error *error)
{
	for (size_t i = 0; i < paths->count; i++) {
		struct profile *profile =
			profile_requested(recording_open(paths->at[i], error), &c->asked, error);

		if (!profile)
			return -1;
		if ((c->before.count && profile_own_like(profile, c->before.at[0], error) < 0) ||
		    !vector_push(profiles, profile)) {
			profile_free(profile);
			return error_set(error, "out of memory");
		}
	}
	return 0;
}

static int show_difference(void *state, const struct common_options *common, struct error *error)
{
	struct diff_command *c = state;

	if (open_all(c, &c->before_paths, &c->before, error) < 0 ||
	    open_all(c, &c->after_paths, &c->after, error) < 0)
		return -1;
	const struct comparison against = { .before = c->before.at,
					    .before_count = c->before.count,
					    .after = c->after.at,
					    .after_count = c->after.count,
					    .per = c->per };
	AUTO_FREE char *title = NULL;

	if (!c->before_paths.at || !c->after_paths.at)
		return error_set(error, "name an older and a newer recording");
	if (asprintf(&title, "%s -> %s", path_base(c->before_paths.at[0]),
		     path_base(c->after_paths.at[0])) < 0)
		return error_set(error, "out of memory");
	c->asked.query.file = title;
	c->asked.query.against = &against;
	show_asked(&c->show, &c->asked);
	int status = show_on_output(c->after.at[0], &c->show, common, error);

	c->asked.query.against = NULL;
	c->asked.query.file = NULL;
	return status;
}

static void release(struct diff_command *c)
{
	for (size_t i = 0; i < c->before.count; i++)
		profile_free((struct profile *)(uintptr_t)c->before.at[i]);
	for (size_t i = 0; i < c->after.count; i++)
		profile_free((struct profile *)(uintptr_t)c->after.at[i]);
	vector_release(&c->before);
	vector_release(&c->after);
	vector_release(&c->before_paths);
	vector_release(&c->after_paths);
	query_options_release(&c->asked);
}

static int run_diff(int argc, char **argv)
{
	struct diff_command c = { .asked = query_options_init(),
				  .show = { .view = &analyses[0], .renderer = &renderers[0] } };
	const struct command_steps steps = { take_option, check, show_difference };
	int status = command_run(&command_diff, &steps, &c, argc, argv);

	release(&c);
	return status;
}

static const char *const examples[] = {
	"heapgauge diff old.hg new.hg",
	"what changed: peak, bytes not freed at exit, calls",
	"heapgauge diff old.hg new.hg --view tree --cost peak",
	"where the peak grew or shrank",
	"heapgauge diff old1.hg old2.hg old3.hg --to new1.hg new2.hg new3.hg --cost leaked",
	"means of three runs each; changes within their spread are marked",
	NULL,
};

const struct command command_diff = {
	.name = "diff",
	.usage = "OLD NEW | OLD... --to NEW... [options]",
	.help = "show what changed between recordings",
	.run = run_diff,
	.group = COMMANDS_COMPARE,
	.options = option_rows,
	.option_count = ARRAY_SIZE(option_rows),
	.words = WORDS_RECORDING,
	.about =
		"Compares recordings. Stacks match by their functions and modules, not by addresses: a rebuild or "
		"moved lines change nothing. Numbers are after minus before; with several runs on a side, means.",
	.examples = examples,
};
