/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <heapgauge/profile.h>: profiles and reports.
 *
 * Works as `heapgauge report` does: the rows of cli/options/query_options.h parse options into a query, the view computes the
 * result, and table.c reads the result instead of rendering it. A report owns the names and the texts of its
 * options, because the result points into them. One thread at a time per profile; profiles share nothing.
 */
#include <heapgauge/profile.h>

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/analyses.h"
#include "base/compiler.h"
#include "cli/options/query_options.h"
#include "cli/profile_source.h"
#include "collect/kernel/container.h"
#include "model/build.h"
#include "model/frames/names.h"
#include "reader/table.h"
#include "render/renderers.h"
#include "util/cleanup.h"

_Static_assert((int)HG_ERROR_BYTES == (int)ERROR_MESSAGE_BYTES, "messages are passed on whole");

struct hg_profile {
	struct profile *profile;
	char *name;	/* as shown: the path, or "process 4711" */
	char *root;	/* root file system of a container; NULL: none */
	size_t reports; /* number of reports that point into the profile */
};

struct hg_report {
	struct hg_profile *profile; /* NULL: does not point into a profile yet */
	char **argv;		    /* copies; the query points into them */
	int argc;
	struct query_options asked;
	const struct analysis *view;
	struct names *names;
	struct locations *locations;
	struct result *result;
	struct hg_table rows, head;
};

static void pass_on(struct hg_error *ret, const struct error *error)
{
	if (ret)
		memcpy(ret->message, error->message, sizeof ret->message);
}

/* ---- profiles ---- */

void hg_profile_close(struct hg_profile *profile)
{
	if (!profile)
		return;
	profile_free(profile->profile);
	free(profile->name);
	free(profile->root);
	free(profile);
}

/* Returns NULL and passes the error on if the profile could not be opened. */
static struct hg_profile *opened(struct hg_profile *made, struct error *error, struct hg_error *ret)
{
	if (made && made->profile)
		return made;
	if (!made || !error->message[0])
		error_set(error, "out of memory");
	pass_on(ret, error);
	hg_profile_close(made);
	return NULL;
}

struct hg_profile *hg_profile_open(const char *path, struct hg_error *error)
{
	struct hg_profile *made = calloc(1, sizeof *made);
	struct error reason = ERROR_INIT;

	if (made)
		made->name = strdup(path);
	if (made && made->name)
		made->profile = recording_open(path, &reason);
	return opened(made, &reason, error);
}

struct hg_profile *hg_profile_open_process(int pid, struct hg_error *error)
{
	struct hg_profile *made = calloc(1, sizeof *made);
	struct error reason = ERROR_INIT;

	if (made)
		made->profile = process_open(pid, false, &made->name, &reason);
	if (made && made->profile)
		made->root = container_root(pid);
	return opened(made, &reason, error);
}

/* ---- options ---- */

enum { OPT_VIEW = QUERY_COUNT };

static const struct option_row option_rows[] = {
	[OPT_VIEW] = { "view", 'v', "VIEW", "which view to show",
		       .choices = WORDS_WITH_HELP(analyses) },
	QUERY_ROWS,
};

static int copy_options(struct hg_report *report, const char *const *options, size_t count,
			struct error *error)
{
	if (count >= INT32_MAX)
		return error_set(error, "a report takes no %zu options; give fewer", count);
	report->argv = calloc(count + 2, sizeof *report->argv);
	if (!report->argv)
		return error_set(error, "out of memory");
	for (size_t i = 0; i <= count; i++) {
		report->argv[i] = strdup(i ? options[i - 1] : "report");
		if (!report->argv[i])
			return error_set(error, "out of memory");
		report->argc++;
	}
	return 0;
}

static int take_option(struct hg_report *report, int option, const char *value, struct error *error)
{
	if (option == OPT_VIEW) {
		report->view = analysis_find(value);
		return 0;
	}
	if (option >= 0 && option < QUERY_COUNT)
		return query_options_take(&report->asked, (enum query_option)option, value, error);
	if (option == OPTIONS_WORD)
		return error_set(error, "'%s' is not an option; write --name VALUE or --name=VALUE",
				 value);
	if (option == OPTIONS_HELP)
		return error_set(error, "unknown option --help; 'heapgauge help report' lists the "
					"options");
	return -1; /* the error is set */
}

static int parse(struct hg_report *report, struct error *error)
{
	/* Settings are not read: a program gets only what it asks for. */
	struct options options =
		options_over(option_rows, ARRAY_SIZE(option_rows), report->argc, report->argv);
	const char *value;
	int option;

	while ((option = options_next(&options, &value, error)) != OPTIONS_END)
		if (take_option(report, option, value, error) < 0)
			return -1;
	if (!report->view)
		report->view = query_options_default_view(&report->asked, false);
	if (!report->asked.limit_given)
		report->asked.query.limit = SIZE_MAX;
	report->asked.query.must_match = true;
	report->asked.names.fetch.progress = NULL; /* nothing is printed */
	return analysis_check(report->view, &report->asked.query, error);
}

/* ---- reports ---- */

void hg_report_free(struct hg_report *report)
{
	if (!report)
		return;
	if (report->result)
		result_free(report->result);
	if (report->profile)
		report->profile->reports--;
	locations_free(report->locations);
	names_free(report->names);
	query_options_release(&report->asked);
	for (int i = 0; i < report->argc; i++)
		free(report->argv[i]);
	free(report->argv);
	free(report);
}

/* Folding of Python frames applies to the whole profile, which is rebuilt; this fails while a report points into
 * it. */
static int fold(struct hg_profile *profile, struct fold_options wanted, struct error *error)
{
	if (profile->reports > 0 && !fold_options_equal(profile->profile->fold, wanted))
		return error_set(
			error,
			"--frames and --fold-imports differ from those of reports that are still in "
			"use; free them first, or open the recording once more");
	return profile_fold(profile->profile, wanted, error);
}

static int answer(struct hg_report *report, struct hg_profile *profile, struct error *error)
{
	if (fold(profile, report->asked.fold, error) < 0)
		return -1;
	report->profile = profile;
	profile->reports++;
	report->asked.query.file = profile->name;
	report->asked.names.root = profile->root;
	report->names = names_new(&report->asked.names);
	report->locations = report->names ? locations_new(report->names) : NULL;
	if (!report->locations)
		return error_set(error, "out of memory");
	report->result = analysis_answer(report->view, profile->profile, report->locations,
					 &report->asked.query, error);
	if (!report->result)
		return -1;
	if (table_of_rows(&report->rows, report->result) < 0 ||
	    table_of_head(&report->head, report->result) < 0)
		return error_set(error, "out of memory");
	return 0;
}

struct hg_report *hg_profile_report(struct hg_profile *profile, const char *const *options,
				    size_t option_count, struct hg_error *error)
{
	struct error reason = ERROR_INIT;
	struct hg_report *report = calloc(1, sizeof *report);

	if (!report) {
		error_set(&reason, "out of memory");
		pass_on(error, &reason);
		return NULL;
	}
	report->asked = query_options_init();
	if (copy_options(report, options, option_count, &reason) == 0 &&
	    parse(report, &reason) == 0 && answer(report, profile, &reason) == 0)
		return report;
	pass_on(error, &reason);
	hg_report_free(report);
	return NULL;
}

const struct hg_table *hg_report_rows(const struct hg_report *report)
{
	return &report->rows;
}

const struct hg_table *hg_report_head(const struct hg_report *report)
{
	return &report->head;
}

/* ---- as text ---- */

static int write_all(void *context, struct span bytes, struct error *error)
{
	const int fd = *(const int *)context;
	size_t at = 0;

	while (at < bytes.size) {
		ssize_t wrote = write(fd, (const char *)bytes.data + at, bytes.size - at);

		if (wrote < 0 && errno != EINTR)
			return error_errno(error, "cannot write the report");
		at += wrote > 0 ? (size_t)wrote : 0;
	}
	return 0;
}

int hg_report_write(const struct hg_report *report, const char *format, int fd,
		    struct hg_error *error)
{
	enum { STACK_FRAMES = 8 };
	const struct renderer *renderer = renderer_find(format);
	const struct render_options options = { .stack_frames = STACK_FRAMES, .utf8 = true };
	struct render_output out = { .write = write_all, .context = &fd };
	struct error reason = ERROR_INIT;
	int status =
		renderer && renderer->run
			? renderer->run(report->result, &options, &out, &reason)
			: error_set(&reason,
				    "a report is not written as '%s'; there are text, markdown, "
				    "json and csv",
				    format);

	buffer_release(&out.buffer);
	if (status < 0)
		pass_on(error, &reason);
	return status;
}
