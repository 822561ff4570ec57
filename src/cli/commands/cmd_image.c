/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapgauge image: writes a recording of a running process, or of a core file, with what still refers to each block. The work is in
 * collect/image/.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/summary.h"
#include "collect/image/image.h"
#include "collect/kernel/ranks.h"
#include "collect/run/output_path.h"
#include "util/cleanup.h"
#include "util/output_file.h"
#include "util/terminal.h"

enum { OPT_OUTPUT, OPT_STOP };

static const struct option_row rows[] = {
	[OPT_OUTPUT] = { "output", 'o', "FILE",
			 "recording to write; may contain " OUTPUT_LETTERS ", or be a folder",
			 .scope = OPTION_TYPED_ONLY },
	[OPT_STOP] = { "stop", 0, NULL,
		       "keep the process stopped while its memory is read, instead of cloning it",
		       .scope = OPTION_TYPED_ONLY },
};

struct image_command {
	const char *output, *core;
	pid_t pid;
	bool stop;
};

static int take_option(void *state, int option, const char *value, struct error *error)
{
	struct image_command *c = state;

	switch (option) {
	case OPT_OUTPUT:
		c->output = value;
		return output_path_check(value, error);
	case OPT_STOP:
		c->stop = true;
		return 0;
	default:
		if (c->pid || c->core)
			return error_set(error, "one process at a time");
		/* A core file whose name is a number: ./4711 */
		if (options_pid("PID", value, &c->pid, error) < 0)
			c->core = value;
		return 0;
	}
}

static int check(void *state, struct error *error)
{
	const struct image_command *c = state;

	if (c->core && c->stop)
		return error_set(error, "--stop is for processes, and '%s' is not a process id",
				 c->core);
	return c->pid || c->core
		       ? 0
		       : error_set(
				 error,
				 "image needs the id of a recorded process, or a core file of one");
}

static void print_zombies(pid_t pid, const struct image_zombies *zombies)
{
	if (zombies->collected)
		cli_error("removed %u zombie%s that interrupted images had left in process %d",
			  zombies->collected, zombies->collected == 1 ? "" : "s", (int)pid);
	if (zombies->remaining.message[0])
		cli_error("%s; the next image removes it", zombies->remaining.message);
}

/* With Ctrl-Z the process would remain stopped, too: it takes effect afterwards. */
static int take_process(const struct image_command *c, struct recording *ret,
			struct image_zombies *zombies, struct error *error)
{
	static const int stops[] = { SIGTSTP, SIGTTIN, SIGTTOU };
	sigset_t blocked, before;

	sigemptyset(&blocked);
	for (size_t i = 0; i < ARRAY_SIZE(stops); i++)
		sigaddset(&blocked, stops[i]);
	pthread_sigmask(SIG_BLOCK, &blocked, &before);
	int status = image_take(c->pid, c->stop, HEAPGAUGE_VERSION, ret, zombies, error);

	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return status;
}

static int take_core(const char *path, struct recording *ret, struct error *error)
{
	if (image_take_core(path, HEAPGAUGE_VERSION, ret, error) < 0)
		return error_wrap(error, "no image can be made of %s", path);
	return 0;
}

/* It may take seconds: on a terminal a line says so meanwhile. */
static int take(const struct image_command *c, struct recording *ret, struct error *error)
{
	bool is_seen = terminal_of(STDERR_FILENO).redraws;

	if (is_seen)
		fputs("heapgauge: reading the memory of the process ...", stderr);
	struct image_zombies zombies = { 0 };
	int status =
		c->core ? take_core(c->core, ret, error) : take_process(c, ret, &zombies, error);

	if (is_seen)
		fputs("\r\033[K", stderr);
	print_zombies(c->pid, &zombies);
	return status;
}

static int image(void *state, const struct common_options *common, struct error *error)
{
	const struct image_command *c = state;
	AUTO(recording_release) struct recording recording = { 0 };
	AUTO_FREE char *path = NULL, *written = NULL;
	struct format_error reason = { { 0 } };
	AUTO_FREE void *bytes = NULL;
	size_t length;

	(void)common;
	if (c->output && output_path_is_given(c->output) &&
	    output_file_check(c->output, &c->core, 1, error) < 0)
		return -1;
	if (take(c, &recording, error) < 0)
		return -1;
	const struct process_row *process = &recording.processes[0].process;

	path = output_path(c->output, process->exe, (pid_t)process->pid,
			   process->rank ? (int)process->rank - 1 : RANK_NONE);
	if (!path || recording_encode(&recording, &bytes, &length, &reason) < 0)
		return error_set(error, "%s", path ? reason.message : "out of memory");
	if (output_path_write(c->output, path, span_of(bytes, length), &written, error) < 0)
		return -1;
	return summary_print(stdout, written, &recording, error);
}

static int run_image(int argc, char **argv)
{
	const struct command_steps steps = { take_option, check, image };
	struct image_command c = { 0 };

	return command_run(&command_image, &steps, &c, argc, argv);
}

static const char *const examples[] = {
	"heapgauge image 4711 -o now.hg",
	"then: heapgauge report now.hg --view leaks, also with --by type",
	"heapgauge check now.hg --max-unreachable 0",
	"fail if any block can no longer be reached",
	"heapgauge image core.4711",
	"the same for a process that was recorded with --core and crashed",
	NULL,
};

const struct command command_image = {
	.name = "image",
	.usage = "PID|CORE [-o FILE] [--stop]",
	.help = "find out what still refers to the blocks of a recorded process",
	.run = run_image,
	.group = COMMANDS_RECORD,
	.options = rows,
	.option_count = ARRAY_SIZE(rows),
	.words = WORDS_NONE,
	.about =
		"Writes a recording of the process at this moment that also says which blocks nothing refers to any more, which "
		"only a stack refers to, and which global variables hold the others. The process is stopped while its page "
		"tables are copied, and goes on while the copy is read; it does not notice the copy. It must record every block "
		"(--mode exact), and stopping it needs permission to ptrace it.\n\n"
		"CORE is a core file of a process that was recorded with 'heapgauge record --core', or with HEAPGAUGE_CORE=1 if it "
		"records itself. 'heapgauge report CORE' shows its profile, which also works if it was sampled.",
	.examples = examples,
};
