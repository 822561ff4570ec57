/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapgauge check: checks a recording against memory budgets. For CI: exits with 0 if all are kept, 1 with the
 * responsible stacks if not, and 2 if the check cannot be made.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "cli/options/query_options.h"
#include "cli/budgets.h"
#include "cli/commands.h"
#include "cli/open.h"
#include "util/cleanup.h"
#include "util/text/units.h"

enum check_option {
	OPT_FIRST_LIMIT,
	OPT_AFTER_LIMITS = OPT_FIRST_LIMIT + CHECK_MEASURES,
	OPT_BUDGETS = OPT_AFTER_LIMITS,
	OPT_BASELINE,
	OPT_TOLERANCE,
	OPT_PROCESS,
	OPT_SITE,
	OPT_SUPPRESSIONS,
	OPT_JUNIT,
	OPT_FORMAT,
};

static const char *const formats[] = { "text", "json", "github", NULL };

static const struct option_row option_rows[] = {
	[CHECK_PEAK] = { "max-peak", 0, "SIZE", "maximum live bytes" },
	[CHECK_LEAKED] = { "max-leaked", 0, "SIZE", "maximum bytes not freed at exit" },
	[CHECK_LEAKED_BLOCKS] = { "max-leaked-blocks", 0, "N", "maximum blocks not freed at exit" },
	[CHECK_UNREACHABLE] = { "max-unreachable", 0, "SIZE",
				"maximum bytes that nothing refers to any more; needs an image" },
	[CHECK_CALLS] = { "max-calls", 0, "N", "maximum number of allocations" },
	[CHECK_TOTAL] = { "max-total", 0, "SIZE", "maximum bytes requested in total" },
	[CHECK_TEMPORARY] = { "max-temporary", 0, "N", "maximum number of temporary allocations" },
	[CHECK_GROWTH] = { "max-growth", 0, "SIZE/s", "maximum steady growth" },
	[OPT_BUDGETS] = { "budgets", 0, "FILE",
			  "budgets by program name: [NAME] max-peak = 64MiB" },
	[OPT_BASELINE] = { "baseline", 0, "FILE",
			   "peak, bytes not freed and calls may not exceed those of the recording FILE" },
	[OPT_TOLERANCE] = { "tolerance", 0, "PERCENT[,SIZE]",
			    "how far they may exceed the baseline: 2%, or 2%,4KiB for as many bytes more",
			    .fallback = "0" },
	[OPT_PROCESS] = { "process", 0, "PID|REGEX", "check only these processes" },
	[OPT_SITE] = { "site", 0, "REGEX",
		       "count only stacks with a matching function or file; may be repeated, any match counts" },
	[OPT_SUPPRESSIONS] = { "suppressions", 0, "FILE",
			       "do not count stacks that match FILE, in LeakSanitizer's syntax; none: also count memory that "
			       "libraries keep by design",
			       .fallback = "builtin" },
	[OPT_JUNIT] = { "junit", 0, "FILE", "also write the result as JUnit XML" },
	[OPT_FORMAT] = { "format", 'f', "FORMAT", "output format", .choices = WORDS(formats),
			 .fallback = "text" },
};

static int take_tolerance(struct check_command *c, const char *value, struct error *error)
{
	char *end;
	double percent = strtod(value, &end);
	uint64_t bytes = 0;

	if (*end == '%')
		end++;
	if (end == value || (*end && *end != ',') || !isfinite(percent) || percent < 0)
		return error_set(error, "--tolerance needs a percentage, not '%s'", value);
	if (*end == ',' && (!units_parse_bytes(end + 1, &bytes) || bytes > INT64_MAX / 2))
		return error_set(error, "--tolerance needs a size after the comma, not '%s'",
				 end + 1);
	c->tolerance = percent / 100;
	c->tolerance_bytes = (int64_t)bytes;
	return 0;
}

/* A stack counts if it matches any of them. */
static int add_site(struct check_command *c, const char *regex, struct error *error)
{
	struct filters alone = { 0 };
	char *before = c->sites;
	int status = filters_add(&alone, RULE_FOCUS, regex,
				 error); /* so that the error names this regex */

	filters_release(&alone);
	if (status < 0)
		return -1;
	if (asprintf(&c->sites, before ? "%s|(%s)" : "%s(%s)", before ? before : "", regex) < 0) {
		c->sites = NULL;
		status = error_set(error, "out of memory");
	}
	free(before);
	return status;
}

static int take_option(void *state, int option, const char *value, struct error *error)
{
	struct check_command *c = state;

	if (option >= 0 && option < CHECK_MEASURES) {
		c->budgets->has_given = true;
		return budget_set(&c->budgets->given, (enum check_measure)option, value, error);
	}
	switch (option) {
	case OPTIONS_WORD:
		return options_once(&c->recording, "recording", value, error);
	case OPT_BUDGETS:
		return budgets_read(c->budgets, value, error);
	case OPT_BASELINE:
		c->baseline = value;
		return 0;
	case OPT_TOLERANCE:
		return take_tolerance(c, value, error);
	case OPT_PROCESS:
		c->query.filters.process = value;
		return 0;
	case OPT_SITE:
		return add_site(c, value, error);
	case OPT_SUPPRESSIONS:
		return filters_suppress(&c->query.filters, value, error);
	case OPT_JUNIT:
		c->junit = value;
		return 0;
	case OPT_FORMAT:
		c->format = value;
		return 0;
	default:
		return error_set(error, "internal error: unhandled option");
	}
}

static int check_options(void *state, struct error *error)
{
	struct check_command *c = state;

	if (c->sites && filters_add(&c->query.filters, RULE_FOCUS, c->sites, error) < 0)
		return -1;
	if (!c->budgets->has_given && c->budgets->list.count == 0 && !c->baseline)
		return error_set(error, "nothing to check: give a budget such as --max-peak 64MiB, "
					"--budgets FILE or --baseline FILE");
	return 0;
}

static int check(void *state, const struct common_options *common, struct error *error)
{
	struct check_command *c = state;
	AUTO_FREE char *path = recording_path(c->recording, error);

	(void)common;
	if (!path) {
		cli_error("%s", error->message);
		return CLI_USAGE; /* 1 means that a budget is exceeded */
	}
	c->recording = c->query.file = path;
	return check_recording(c, error);
}

static int run_check_command(int argc, char **argv)
{
	struct budgets budgets = { .arena = ARENA_INIT };
	struct check_command c = check_command_make(&budgets, stdout);
	const struct command_steps steps = { take_option, check_options, check };
	int status = command_run(&command_check, &steps, &c, argc, argv);

	check_command_release(&c);
	budgets_release(&budgets);
	return status;
}

static const char *const examples[] = {
	"heapgauge check run.hg --max-peak 64MiB --max-leaked 0",
	"0 if within both budgets, 1 if not, with the stacks responsible",
	"heapgauge check run.hg --baseline main.hg --tolerance 2% --junit heap.xml",
	"at most two percent above the last good run",
	NULL,
};

const struct command command_check = {
	.name = "check",
	.usage = "[FILE] --max-peak SIZE ... | --budgets FILE | --baseline FILE",
	.help = "check a recording against memory budgets",
	.run = run_check_command,
	.group = COMMANDS_COMPARE,
	.options = option_rows,
	.option_count = ARRAY_SIZE(option_rows),
	.words = WORDS_RECORDING,
	.about = "Checks the recording FILE, or the newest one in this folder, against budgets. "
		 "Exit status: 0 if all are met, 1 if one is exceeded (the stacks responsible are "
		 "shown), 2 if one cannot be checked.",
	.examples = examples,
};
