/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapgauge record: runs a program under the recorder and writes its recording. All messages go to stderr, so that
 * the program's own output is unchanged. The exit status is the program's; if a signal killed the program, we end
 * ourselves by the same signal, so that a shell or test driver sees what it would have seen.
 */
#include <errno.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/budgets.h"
#include "cli/commands.h"
#include "cli/linked_in.h"
#include "cli/options/effective.h"
#include "cli/options/options.h"
#include "cli/options/own_option.h"
#include "cli/options/presets.h"
#include "cli/options/record_values.h"
#include "cli/options/settings.h"
#include "cli/summary.h"
#include "cli/options/wrap_option.h"
#include "cli/record_messages.h"
#include "collect/collect.h"
#include "collect/binaries/preflight.h"
#include "collect/run/output_path.h"
#include "format/live/live.h"
#include "util/cleanup.h"
#include "util/terminal.h"
#include "util/text/units.h"

enum {
	OPT_OUTPUT,
	OPT_QUIET,
	OPT_PRESET,
	OPT_CHILDREN,
	OPT_ONLY_EXE,
	OPT_WAIT,
	OPT_DURATION,
	OPT_RANKS,
	OPT_MODE,
	OPT_INTERVAL,
	OPT_OTEL_LABELS,
	OPT_START,
	OPT_STACKS_FROM,
	OPT_STACKS_TO,
	OPT_DEPTH,
	OPT_BUDGET,
	OPT_CHECK,
	OPT_EVERY,
	OPT_ON,
	OPT_WRITE_ON,
	OPT_WRITE_LIMIT,
	OPT_WRAP,
	OPT_WRAP_PREFIX,
	OPT_PYTHON,
	OPT_PYTHON_TASKS,
	OPT_FREE_SITES,
	OPT_OWN,
	OPT_PID,
};

static const char *const children_names[] = {
	[COLLECT_CHILDREN_ALL] = "all",
	[COLLECT_CHILDREN_FORK] = "fork",
	[COLLECT_CHILDREN_EXEC] = "exec",
	[COLLECT_CHILDREN_NONE] = "none",
	NULL,
};

enum { WRITE_LIMIT = 10, WRITE_LIMIT_MAX = 100000 };
_Static_assert(LIVE_DEPTH_MAX == 1024, "as the sentence about --depth says");
enum { INTERVAL_MIN = 256, INTERVAL_MAX = 16 << 20, INTERVAL_DEFAULT = 512 << 10 };
static const struct mode_word {
	const char *name, *help;
	enum live_mode mode;
} mode_words[] = {
	{ "exact", "every block with its stack", LIVE_MODE_EXACT },
	{ "tags", "every block by its tag, without stacks", LIVE_MODE_TAGS },
	{ "sample", "a sample of the blocks, at very low cost; numbers are estimates",
	  LIVE_MODE_SAMPLE },
	{ NULL, NULL, LIVE_MODE_EXACT },
};
static const struct python_word {
	const char *name, *help;
} python_words[] = {
	{ "native", "what the interpreter takes from malloc and mmap, as with any program" },
	{ "domains",
	  "also every block of Python's own allocators, as the pools python.raw, python.mem and python.object" },
	{ "malloc",
	  "every block, from malloc: sets PYTHONMALLOC=malloc, so that the program uses memory differently" },
	{ NULL, NULL },
};
static const char *const start_names[] = { "now", "dormant", NULL };

static const struct option_row rows[] = {
	[OPT_OUTPUT] = { "output", 'o', "FILE",
			 "write the recording to FILE, in which these are replaced: " OUTPUT_LETTERS
			 "; or to the default name in a folder",
			 .fallback =
				 "heapgauge.PROGRAM.PID.hg, or heapgauge.PROGRAM.rankN.PID.hg for a rank",
			 .scope = OPTION_NOT_IN_FOLDER },
	[OPT_QUIET] = { "quiet", 'q', NULL, "no progress line and no summary" },
	[OPT_PRESET] = { "preset", 0, "PRESET",
			 "set the options of PRESET; those given beside it take precedence",
			 .choices = WORDS_WITH_HELP(presets) },
	[OPT_CHILDREN] = { "children", 0, "WHICH", "which descendants to record",
			   .choices = WORDS(children_names), .fallback = "all" },
	[OPT_ONLY_EXE] = { "only-exe", 0, "REGEX",
			   "of the program and its descendants, record only those whose executable's path matches",
			   .fallback = "all" },
	[OPT_WAIT] = { "wait", 0, "TIME",
		       "after the program has ended, keep recording its descendants for TIME, or until they have ended if "
		       "TIME is 'all'",
		       .fallback = "end with the program" },
	[OPT_DURATION] = { "duration", 0, "TIME",
			   "stop recording after TIME and write the recording; the program runs on",
			   .fallback = "until it ends" },
	[OPT_RANKS] = { "ranks", 0, "LIST",
			"in a parallel job (MPI, SLURM) record only these ranks, e.g. 0,3-5",
			.fallback = "all" },
	[OPT_MODE] = { "mode", 0, "MODE", "which blocks to record",
		       .choices = WORDS_WITH_HELP(mode_words), .fallback = "exact" },
	[OPT_INTERVAL] = { "interval", 0, "SIZE",
			   "sampling interval: average bytes between samples",
			   .fallback = "512KiB" },
	[OPT_OTEL_LABELS] = { "otel-labels", 0, "KEYS",
			      "label samples with these attributes of OpenTelemetry's thread context, such as "
			      "http.route,tenant; requires --mode sample" },
	[OPT_START] = { "start", 0, "WHEN",
			"start recording at once, or wait for hg_start() or hg_mode()",
			.choices = WORDS(start_names), .fallback = "now" },
	[OPT_STACKS_FROM] = { "stacks-from", 0, "SIZE",
			      "count smaller blocks without their stacks" },
	[OPT_STACKS_TO] = { "stacks-to", 0, "SIZE", "count larger blocks without their stacks" },
	[OPT_DEPTH] = { "depth", 0, "N", "keep N frames of each stack, from the innermost",
			.fallback = "256" },
	[OPT_BUDGET] = { "budget", 0, "BUDGET",
			 "memory limit of the recorder, e.g. 64MiB; or CPU limit for sampling, e.g. 0.5%: the interval is raised to "
			 "stay below it; may be repeated",
			 .fallback = "a tenth of the free memory or a third of the live heap" },
	[OPT_CHECK] = { "check", 0, "FILE",
			"check the recording against the budgets in FILE at the end, as `heapgauge check --budgets` does" },
	[OPT_EVERY] = { "every", 0, "TIME", "take a snapshot every TIME: 10s; may be repeated",
			.group = "Snapshots" },
	[OPT_ON] = { "on", 0, "CONDITION",
		     "take a snapshot when the condition becomes true: " TRIGGER_WORDS
		     " to heapgauge; may be repeated",
		     .group = "Snapshots" },
	[OPT_WRITE_ON] = { "write-on", 0, "CONDITION",
			   "write a recording when the condition becomes true, and continue; may be repeated",
			   .group = "Snapshots" },
	[OPT_WRITE_LIMIT] = { "write-limit", 0, "N",
			      "write at most N of these, FILE.1.hg to FILE.N.hg; no file is ever overwritten",
			      .group = "Snapshots", .fallback = "10" },
	[OPT_WRAP] = { "wrap", 0, "LIST",
		       "record malloc-like functions as a pool: malloc:my_alloc,free:my_free; NAME= in front names the "
		       "pool; may be repeated",
		       .group = "Custom allocators" },
	[OPT_WRAP_PREFIX] = { "wrap-prefix", 0, "PREFIX",
			      "the same for PREFIXmalloc, PREFIXfree and so on; may be repeated",
			      .group = "Custom allocators" },
	[OPT_PYTHON] = { "python", 0, "WHICH", "which memory of Python programs to record",
			 .choices = WORDS_WITH_HELP(python_words), .group = "Custom allocators",
			 .fallback = "native" },
	[OPT_PYTHON_TASKS] = { "python-tasks", 0, NULL,
			       "label what an asyncio task allocates with its name, as task=NAME; Python 3.14 and newer",
			       .group = "Custom allocators" },
	[OPT_FREE_SITES] = { "free-sites", 0, NULL,
			     "also record the stacks that free blocks, for --view freed-by" },
	[OPT_OWN] = { "own", 0, "REGEX", "functions, files or modules that are your own code",
		      .fallback =
			      "sources in the program's git repository, else modules that are not the distribution's" },
	[OPT_PID] = { "pid", 'p', "PID",
		      "record the running process PID, which must be recording itself, until Ctrl-C or its end",
		      .scope = OPTION_TYPED_ONLY },
};

struct arguments {
	struct progress_line line; /* first: it is the context of the collector's messages */
	struct collect_options collect;
	bool quiet;
	uint64_t given,
		typed; /* bits of the options given anywhere, and of those on the command line */
	const struct preset *preset; /* NULL: none */
	uint64_t preset_sets;	     /* bits of the options that the preset has set */
	struct budgets
		budgets; /* read before the program runs, so that a mistake does not cost a run */
	bool checks;
	bool python_malloc;
	struct wrap_option wraps;
	struct effective_options effective;
	regex_t only_exe; /* valid if collect.only_exe is set */
	bool reported;	  /* before the program's end, because of --duration */
	int checked;	  /* exit status of --check */
};

static int take_size(int option, const char *value, const char *example, uint64_t *ret,
		     struct error *error)
{
	if (!units_parse_bytes(value, ret) || *ret == 0)
		return error_set(error, "--%s takes a size such as %s, not %s", rows[option].name,
				 example, value);
	return 0;
}

static int take_wait(const char *value, uint64_t *ret, struct error *error)
{
	if (strcmp(value, "all") == 0)
		*ret = COLLECT_WAIT_ALL;
	else if (!units_parse_duration(value, ret))
		return error_set(error, "--wait takes a time such as 10s, or all, not %s", value);
	return 0;
}

static int take_duration(const char *value, uint64_t *ret, struct error *error)
{
	if (!units_parse_duration(value, ret) || *ret == 0)
		return error_set(error, "--duration takes a time such as 30s, not %s", value);
	return 0;
}

static int take_interval(const char *value, uint64_t *ret, struct error *error)
{
	if (!units_parse_bytes(value, ret) || *ret < INTERVAL_MIN || *ret > INTERVAL_MAX)
		return error_set(error, "--interval takes 256B to 16MiB, not %s", value);
	return 0;
}

/* Parses a number from 1 to `most`; `what` describes it in the error. */
static int take_number(int option, const char *value, uint64_t most, const char *what,
		       uint64_t *ret, struct error *error)
{
	if (options_number(rows[option].name, value, ret, error) < 0)
		return -1;
	if (*ret < 1 || *ret > most)
		return error_set(error, "--%s takes %s, not %s", rows[option].name, what, value);
	return 0;
}

static enum live_mode mode_of(const char *name)
{
	const struct mode_word *word = mode_words;

	while (word->name && strcmp(name, word->name) != 0)
		word++;
	return word->mode;
}

static enum collect_children children_of(const char *name)
{
	size_t i = 0;

	while (children_names[i] && strcmp(name, children_names[i]) != 0)
		i++;
	return (enum collect_children)i;
}

/* Those that say where and how to print do not describe the recording. */
static void note_effective(struct arguments *arguments, int option, const char *value)
{
	bool repeats = option == OPT_BUDGET || option == OPT_EVERY || option == OPT_ON ||
		       option == OPT_WRITE_ON || option == OPT_WRAP || option == OPT_WRAP_PREFIX;

	if (option < 0 || option == OPT_OUTPUT || option == OPT_QUIET || option == OPT_PID)
		return;
	effective_options_take(&arguments->effective, &rows[option], option, value, repeats);
}

/* Options of the recorder: what it records of a process, and how. */
static int take_recorder_option(struct arguments *arguments, int option, const char *value,
				struct error *error)
{
	struct collect_options *collect = &arguments->collect;
	uint64_t number = 0;
	int status;

	switch (option) {
	case OPT_MODE:
		collect->mode = mode_of(value);
		return 0;
	case OPT_INTERVAL:
		return take_interval(value, &collect->interval, error);
	case OPT_START:
		collect->begins_dormant = strcmp(value, "dormant") == 0;
		return 0;
	case OPT_STACKS_FROM:
		return take_size(option, value, "128", &collect->stack_least_bytes, error);
	case OPT_STACKS_TO:
		return take_size(option, value, "4KiB", &collect->stack_most_bytes, error);
	case OPT_DEPTH:
		status = take_number(option, value, LIVE_DEPTH_MAX, "1 to 1024 frames", &number,
				     error);
		collect->depth_limit = (uint32_t)number;
		return status;
	case OPT_BUDGET:
		return record_take_budget(collect, value, error);
	case OPT_WRAP:
	case OPT_WRAP_PREFIX:
		collect->wraps = arguments->wraps.text;
		return wrap_option_add(&arguments->wraps, value, option == OPT_WRAP_PREFIX, error);
	case OPT_PYTHON:
		collect->python_domains = strcmp(value, "domains") == 0;
		arguments->python_malloc = strcmp(value, "malloc") == 0;
		return 0;
	case OPT_OTEL_LABELS:
		return record_take_otel_labels(collect, value, error);
	case OPT_FREE_SITES:
		collect->free_sites = true;
		return 0;
	case OPT_PYTHON_TASKS:
		collect->python_tasks = true;
		return 0;
	default:
		return error_set(error, "internal error: unhandled option");
	}
}

/* options_next has already checked values against their choices. */
static int take_option(struct arguments *arguments, int option, const char *value,
		       struct error *error)
{
	struct collect_options *collect = &arguments->collect;
	uint64_t number = 0;
	int status;

	if (option >= 0)
		arguments->given |= 1ull << option;
	note_effective(arguments, option, value);
	if (option >= 0 && !options_origin())
		arguments->typed |= 1ull << option;
	switch (option) {
	case OPT_OUTPUT:
		collect->output = value;
		return output_path_check(value, error);
	case OPT_QUIET:
		arguments->quiet = true;
		return 0;
	case OPT_PRESET:
		arguments->preset = preset_find(value);
		return 0;
	case OPT_CHILDREN:
		collect->children = children_of(value);
		return 0;
	case OPT_ONLY_EXE:
		return record_take_only_exe(&arguments->only_exe, collect, value, error);
	case OPT_WAIT:
		return take_wait(value, &collect->wait_ns, error);
	case OPT_DURATION:
		return take_duration(value, &collect->duration_ns, error);
	case OPT_RANKS:
		return ranks_parse(value, &collect->ranks, error);
	case OPT_OWN:
		return own_option_take(value, &collect->own_code, error);
	case OPT_PID:
		return options_pid("pid", value, &collect->pid, error);
	case OPT_CHECK:
		arguments->checks = true;
		return budgets_read(&arguments->budgets, value, error);
	case OPT_EVERY:
		return triggers_every(&collect->triggers, value, error);
	case OPT_ON:
	case OPT_WRITE_ON:
		return triggers_on(&collect->triggers, value, option == OPT_WRITE_ON, error);
	case OPT_WRITE_LIMIT:
		status = take_number(option, value, WRITE_LIMIT_MAX, "1 to 100000", &number, error);
		collect->write_limit = (unsigned)number;
		return status;
	default:
		return take_recorder_option(arguments, option, value, error);
	}
}

static bool is_typed(const struct arguments *arguments, int option)
{
	return arguments->typed >> option & 1;
}

static const int preset_options[] = { [PRESET_MODE] = OPT_MODE, [PRESET_PYTHON] = OPT_PYTHON };

/* An option on the command line overrides the preset; one from the settings does so only if the preset comes
 * from there too. */
static int apply_preset(struct arguments *arguments, struct error *error)
{
	uint64_t stays = is_typed(arguments, OPT_PRESET) ? arguments->typed : arguments->given;

	if (!arguments->preset || arguments->collect.pid)
		return 0;
	for (size_t i = 0; i < PRESET_OPTIONS; i++) {
		int option = preset_options[i];

		if (stays >> option & 1)
			continue;
		arguments->preset_sets |= 1ull << option;
		if (take_option(arguments, option, arguments->preset->values[i], error) < 0)
			return -1;
	}
	return 0;
}

/* "heapgauge: --preset python-sampled: --mode sample --python native" */
static void print_preset(const struct arguments *arguments)
{
	fprintf(stderr, "heapgauge: --preset %s:", arguments->preset->name);
	for (size_t i = 0; i < PRESET_OPTIONS; i++)
		if (arguments->preset_sets >> preset_options[i] & 1)
			fprintf(stderr, " --%s %s", rows[preset_options[i]].name,
				arguments->preset->values[i]);
	fputs("\n", stderr);
}

/* Rejects options that were decided when the process started. */
static int check_pid(const struct arguments *arguments, struct error *error)
{
	static const struct {
		int option;
		const char *instead;
	} others[] = {
		{ OPT_PRESET, "its options except --mode are fixed when the process starts" },
		{ OPT_CHILDREN,
		  "descendants of a process that records itself do so too: record --pid each" },
		{ OPT_ONLY_EXE, "one process is recorded, whatever its executable is" },
		{ OPT_WAIT, "descendants of the process are not recorded" },
		{ OPT_RANKS, "one process is recorded, whatever its rank is" },
		{ OPT_START, "recording starts at once and lasts as long as this command" },
		{ OPT_STACKS_FROM, "it is fixed when the process starts" },
		{ OPT_STACKS_TO, "it is fixed when the process starts" },
		{ OPT_WRAP, "it is fixed when the process starts: set HEAPGAUGE_WRAP there" },
		{ OPT_WRAP_PREFIX,
		  "it is fixed when the process starts: set HEAPGAUGE_WRAP there" },
		{ OPT_PYTHON, "it is fixed when the process starts: set HEAPGAUGE_PYTHON there" },
		{ OPT_PYTHON_TASKS,
		  "it is fixed when the process starts: set HEAPGAUGE_PYTHON_TASKS=1 there" },
		{ OPT_FREE_SITES,
		  "it is fixed when the process starts: set HEAPGAUGE_FREE_SITES=1 there" },
		{ OPT_OTEL_LABELS,
		  "it is fixed when the process starts: set HEAPGAUGE_OTEL_LABELS there" },
		{ OPT_DEPTH, "it is fixed when the process starts: set HEAPGAUGE_DEPTH there" },
		{ OPT_BUDGET, "it is fixed when the process starts: set HEAPGAUGE_BUDGET there" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (is_typed(arguments, others[i].option))
			return error_set(error, "--%s cannot be combined with --pid: %s",
					 rows[others[i].option].name, others[i].instead);
	return 0;
}

static int check(const struct arguments *arguments, struct error *error)
{
	if (is_typed(arguments, OPT_INTERVAL) && arguments->collect.mode != LIVE_MODE_SAMPLE)
		return error_set(error, "--interval requires --mode sample");
	if ((is_typed(arguments, OPT_STACKS_FROM) || is_typed(arguments, OPT_STACKS_TO)) &&
	    arguments->collect.mode != LIVE_MODE_EXACT)
		return error_set(error,
				 "--stacks-from and --stacks-to require --mode exact: samples "
				 "always have a stack, tags never do");
	if (arguments->collect.cpu_millionths && arguments->collect.mode != LIVE_MODE_SAMPLE)
		return error_set(error, "a --budget in percent requires --mode sample");
	if (arguments->collect.python_domains && arguments->collect.mode == LIVE_MODE_TAGS)
		return error_set(error, "--python domains needs stacks, which --mode tags does not "
					"record: use --mode exact or sample");
	if (arguments->collect.python_tasks && arguments->collect.mode == LIVE_MODE_TAGS)
		return error_set(error, "--python-tasks needs stacks, which --mode tags does not "
					"record: use --mode exact or sample");
	if (arguments->collect.python_tasks &&
	    (is_typed(arguments, OPT_STACKS_FROM) || is_typed(arguments, OPT_STACKS_TO)))
		return error_set(error,
				 "--python-tasks needs a stack for every block: record without "
				 "--stacks-from and --stacks-to");
	if (arguments->collect.free_sites && arguments->collect.mode == LIVE_MODE_TAGS)
		return error_set(error, "--free-sites needs stacks, which --mode tags does not "
					"record: use --mode exact or sample");
	if (is_typed(arguments, OPT_OTEL_LABELS) && arguments->collect.mode != LIVE_MODE_SAMPLE)
		return error_set(
			error,
			"--otel-labels requires --mode sample: only samples get these labels");
	if (is_typed(arguments, OPT_WRITE_LIMIT) && !triggers_write(&arguments->collect.triggers))
		return error_set(error, "--write-limit requires --write-on CONDITION");
	return arguments->collect.pid ? check_pid(arguments, error) : 0;
}

/* Returns -1 to continue, or the exit status. */
static int parse(int argc, char **argv, struct arguments *arguments)
{
	struct options options = options_over(rows, ARRAY_SIZE(rows), argc, argv);
	struct error error = ERROR_INIT;
	const char *value;

	options.program_follows = true;
	options.read_settings = settings_for;
	for (;;) {
		int got = options_next(&options, &value, &error);

		if (got == OPTIONS_WORD && arguments->collect.pid)
			return cli_usage_error("record", "either --pid or a program, not both");
		if (got == OPTIONS_END && !arguments->collect.pid)
			return cli_usage_error("record", "record needs a program to run");
		if (got == OPTIONS_END || got == OPTIONS_WORD) {
			arguments->collect.argv = argv + options.at - 1;
			return apply_preset(arguments, &error) < 0 || check(arguments, &error) < 0
				       ? cli_usage_error("record", "%s", error.message)
				       : -1;
		}
		if (got == OPTIONS_HELP)
			return command_show_help(&command_record);
		if (got == OPTIONS_ERROR || take_option(arguments, got, value, &error) < 0)
			return cli_usage_error("record", "%s", error.message);
	}
}

/* Ends this process the way the program ended. */
static int end_like(const struct collect_result *result)
{
	struct rlimit no_core = { 0, 0 };
	sigset_t set;

	if (result->end == COLLECT_LEFT)
		return 128 + result->number;
	if (result->end != COLLECT_SIGNALLED)
		return result->number;
	fflush(stdout);
	/* Do not overwrite the program's core dump with ours. */
	setrlimit(RLIMIT_CORE, &no_core);
	signal(result->number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, result->number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(result->number);
	return 128 + result->number;
}

/* Returns the exit status of the check. */
static int check_budgets(struct arguments *arguments, const char *path)
{
	const struct check_command check = {
		.recording = path,
		.format = "text",
		.budgets = &arguments->budgets,
		.query = { .file = path },
		.names = { .use_symbols = true, .use_store = true, .style = NAMES_SHORT },
		.out = stderr,
	};
	struct error error = ERROR_INIT;

	return check_recording(&check, &error);
}

/* Printed last, so that it is not overlooked. */
static void print_written_elsewhere(const struct collect_result *result)
{
	if (result->path)
		cli_error("%s. The recording is %s instead: move it to a folder with free space",
			  result->not_written, result->path);
	else
		cli_error("%s, and there is no space in TMPDIR, /var/tmp, /tmp, HOME or /dev/shm: "
			  "the recording is lost; free space or name another folder with -o",
			  result->not_written);
}

/* Prints what was recorded and checks it. */
static void print_result(struct arguments *arguments, struct collect_result *result)
{
	struct error error = ERROR_INIT;

	if (!result->recorded) {
		cli_error("nothing was recorded: %s", result->reason);
		return;
	}
	if (result->lost_processes > 0)
		cli_error("%llu of the recorded processes could not be read completely",
			  (unsigned long long)result->lost_processes);
	if (!arguments->quiet &&
	    summary_print(stderr, result->path, &result->recording, &error) < 0)
		cli_error("%s", error.message);
	if (result->not_written[0])
		print_written_elsewhere(result);
	if (result->path && arguments->checks)
		arguments->checked = check_budgets(arguments, result->path);
}

/* Returns the exit status. */
static int report_result(struct arguments *arguments, struct collect_result *result)
{
	if (!arguments->reported)
		print_result(arguments, result);
	if (!result->recorded || !result->path)
		return result->end == COLLECT_SIGNALLED ? end_like(result) : CLI_NOTHING_RECORDED;
	int status = end_like(result);

	/* The program's own failure takes precedence. */
	return status ? status : arguments->checked;
}

/* The program runs on, for a long time perhaps: the report does not wait for its end. */
static void report_stopped(void *context, struct collect_result *result)
{
	struct arguments *arguments = context;

	progress_line_erase(&arguments->line);
	if (!arguments->quiet)
		record_print_let_go(result);
	print_result(arguments, result);
	recording_release(&result->recording);
	arguments->reported = true;
}

/* Replaces us with the program, unrecorded: its rank is not selected, or recording is disabled. */
static int run_untouched(char *const *argv)
{
	execvp(argv[0], argv);
	int status = errno == ENOENT || errno == ENOTDIR ? 127 : 126;
	struct error error = ERROR_INIT;

	error_errno(&error, "cannot run %s", argv[0]);
	cli_error("%s", error.message);
	return status;
}

/* Ctrl-C or the end of the process ends the recording; both are success. */
static int run_attached(struct arguments *arguments)
{
	AUTO(collect_result_release) struct collect_result result = { 0 };
	struct error error = ERROR_INIT;
	int status;

	arguments->collect.sets_mode = is_typed(arguments, OPT_MODE);
	status = collect_attach(&arguments->collect, &result, &error);
	progress_line_erase(&arguments->line);
	if (status < 0) {
		cli_error("%s", error.message);
		return CLI_NOTHING_RECORDED;
	}
	result.end = COLLECT_EXITED;
	return report_result(arguments, &result);
}

static int run_started(struct arguments *arguments)
{
	struct collect_options *collect = &arguments->collect;
	AUTO(collect_result_release) struct collect_result result = { 0 };
	struct error error = ERROR_INIT;
	AUTO_FREE char *recorder = recorder_find(&error);
	int status;

	if (!recorder || preflight_recorder(recorder, &error) < 0 ||
	    preflight_program(collect->argv[0], &error) < 0) {
		cli_error("%s", error.message);
		return CLI_NOTHING_RECORDED;
	}
	if (!arguments->quiet && arguments->preset_sets)
		print_preset(arguments);
	linked_in_prepare(collect->argv, arguments->quiet, &collect->hooks);
	if (arguments->python_malloc && setenv("PYTHONMALLOC", "malloc", 1) < 0) {
		cli_error("out of memory");
		return CLI_NOTHING_RECORDED;
	}
	collect->recorder = recorder;
	collect->self = "/proc/self/exe";
	collect->wants_recording = !arguments->quiet;
	collect->stopped = report_stopped;
	if (!arguments->quiet)
		collect->lives_on = progress_line_lives_on;
	status = collect_run(collect, &result, &error);
	progress_line_erase(&arguments->line);
	if (status < 0) {
		cli_error("%s", error.message);
		return result.end == COLLECT_NOT_STARTED ? result.number : CLI_NOTHING_RECORDED;
	}
	if (!arguments->quiet && !arguments->reported)
		record_print_let_go(&result);
	return report_result(arguments, &result);
}

static int run(struct arguments *arguments)
{
	arguments->line = (struct progress_line){ .quiet = arguments->quiet,
						  .wait_ns = arguments->collect.wait_ns };
	arguments->collect.context = arguments;
	if (!arguments->quiet && terminal_of(STDERR_FILENO).redraws)
		arguments->collect.progress = progress_line_draw;
	if (arguments->collect.pid)
		return run_attached(arguments);
	if (live_is_disabled(getenv(LIVE_ENV_DISABLE))) {
		cli_error("nothing is recorded, because " LIVE_ENV_DISABLE
			  " is set: %s runs without the recorder. Unset it to record.",
			  arguments->collect.argv[0]);
		return run_untouched(arguments->collect.argv);
	}
	if (rank_own() != RANK_NONE && !ranks_have(&arguments->collect.ranks, rank_own()))
		return run_untouched(arguments->collect.argv);
	return run_started(arguments);
}

static int run_record(int argc, char **argv)
{
	struct arguments arguments = { .collect = { .argv = argv,
						    .depth_limit = LIVE_DEPTH_DEFAULT,
						    .mode = LIVE_MODE_EXACT,
						    .interval = INTERVAL_DEFAULT,
						    .write_limit = WRITE_LIMIT,
						    .say = progress_line_print,
						    .version = HEAPGAUGE_VERSION } };
	int status = parse(argc, argv, &arguments);

	AUTO_FREE char *effective = effective_options_text(&arguments.effective);

	arguments.collect.options = effective;
	if (status < 0)
		status = run(&arguments);
	effective_options_release(&arguments.effective);
	budgets_release(&arguments.budgets);
	triggers_release(&arguments.collect.triggers);
	free(arguments.collect.own_code);
	if (arguments.collect.only_exe)
		regfree(&arguments.only_exe);
	return status;
}

static const char *const examples[] = {
	"heapgauge record ./server --config small.conf",
	"the program runs normally; heapgauge exits with its status",
	"heapgauge record -o run.hg --children none -- make -j4",
	"only make itself, into run.hg",
	"heapgauge record -o runs/%h.%e.%p.hg ./server",
	"into runs/HOST.server.PID.hg; never replaces a file, as run.hg above would",
	"heapgauge record --only-exe '/cc1plus$' -- make -j4",
	"only the compiler proper: make, the shells and the linker are followed, but not recorded",
	"mpirun -n 8 heapgauge record --ranks 0,3-5 ./solver",
	"one recording for each of four ranks; the other four run without heapgauge",
	"heapgauge record --on 'rss>80%' --every 1min ./server",
	"take snapshots when memory gets short, and every minute: see the view snapshots",
	"heapgauge record --write-on 'growth>50MiB/min' ./server",
	"heapgauge.server.PID.1.hg, .2.hg and so on, each time a stack grows that fast",
	"heapgauge record --check budgets.ini -- ctest",
	"record a test suite and fail if a test needs more memory than its budget",
	"heapgauge record --preset python-domains python3 app.py",
	"every block of a Python program: see --view pools",
	"heapgauge record --duration 30s ./server",
	"its first 30 seconds; the server runs on, and heapgauge ends when it does",
	"heapgauge record --pid 4711",
	"a process that records itself, until Ctrl-C",
	"heapgauge record --pid 4711 --write-on 'pressure>20%' --every 1min",
	"the same, and a recording each time memory gets scarce",
	NULL,
};

const struct command command_record = {
	.name = "record",
	.usage = "[options] [--] PROGRAM [ARGS] | --pid PID",
	.help = "run a program and record its heap",
	.run = run_record,
	.group = COMMANDS_RECORD,
	.options = rows,
	.option_count = ARRAY_SIZE(rows),
	.words = WORDS_PROGRAM,
	.about =
		"Runs PROGRAM and records every allocation that it and its descendants make, with the full call "
		"stack. heapgauge writes its own messages to stderr and leaves the program's input and output "
		"alone.\n\n"
		"The recording survives however the program ends: exit, signal, SIGKILL, the OOM killer.\n\n"
		"Recording ends when PROGRAM ends. Descendants that are still running, such as daemons, are listed "
		"and recorded as they are at that moment; they continue unrecorded, as do the programs that they "
		"start later. With --wait all recording continues until they have ended; press Ctrl-C twice to stop "
		"it. With --duration it stops at that time: the recording is written, and PROGRAM runs on "
		"unrecorded, as do the programs that it starts later. heapgauge still exits when PROGRAM does.\n\n"
		"In a parallel job the rank of a process is taken from PMIX_RANK, OMPI_COMM_WORLD_RANK, PMI_RANK or, "
		"in a job step, SLURM_PROCID. 'mpirun heapgauge record ...' writes one recording per rank, and "
		"'heapgauge merge' combines them; 'heapgauge record mpirun ...' writes one recording of all ranks on "
		"this machine.",
	.examples = examples,
	.exit_status =
		"That of the program. If a signal kills the program, heapgauge ends by the same signal.\n\n"
		"With --check, if the program itself succeeded: 1 if a budget is exceeded, 2 if one cannot be checked.\n\n"
		"125 if nothing was recorded, 126 if the program cannot be run, 127 if it was not found, 2 if the "
		"command line is wrong.",
};
