/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pager, and what stdout can show: see output.h.
 *
 * Output to a terminal is buffered until a screen is full; only then a pager is started, so that short output
 * appears at once. The pager is our child and we wait for it; otherwise the shell would take the terminal back
 * while it still runs. When the user quits the pager, writes fail with EPIPE instead of raising SIGPIPE, and that
 * is not an error. Ctrl-C reaches both processes: our handler closes the pipe, lets the pager show what it has, and
 * then ends us with the signal.
 */
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "cli/commands.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/terminal.h"

static const int fatal_signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

struct pager {
	const char *command;
	struct buffer held; /* buffered until we know whether it fits the screen */
	unsigned columns, rows;
	unsigned row, column; /* the cursor position after `held` */
	bool decided;	      /* no longer buffered: fd is open, or everything goes to stdout */
	bool quit;	      /* the user quit the pager */
	struct sigaction saved_pipe, saved[ARRAY_SIZE(fatal_signals)];
};

/* For the signal handler; set while a pager runs. */
static volatile sig_atomic_t pager_fd = -1, pager_pid;

static void end_with_pager(int number)
{
	int saved = errno;

	close((int)pager_fd);
	while (waitpid((pid_t)pager_pid, NULL, 0) < 0 && errno == EINTR)
		;
	signal(number, SIG_DFL);
	raise(number); /* delivered when the handler returns */
	errno = saved;
}

/* ---- which pager ---- */

static bool can_run(const char *command)
{
	AUTO_FREE char *program = strndup(command, strcspn(command, " \t"));

	/* A command with shell syntax cannot be looked up; the shell itself will complain. */
	if (!program || strpbrk(program, "\"'$`\\|&;<>(){}*?~="))
		return true;
	AUTO_FREE char *path = program_path(program);

	return path && access(path, X_OK) == 0;
}

/* NULL: no pager is wanted or found. An empty variable means no pager. */
static const char *pager_command(void)
{
	const char *command = getenv("HEAPGAUGE_PAGER");

	if (!command)
		command = getenv("PAGER");
	if (!command)
		return can_run("less") ? "less" : NULL;
	if (!*command || strcmp(command, "cat") == 0)
		return NULL;
	if (!can_run(command)) {
		cli_error("pager '%s' not found; set PAGER to another, or to cat for none",
			  command);
		return NULL;
	}
	return command;
}

/* ---- starting and stopping it ---- */

static void catch_signals(struct pager *pager)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct sigaction ours = { .sa_handler = end_with_pager };

	sigfillset(&ours.sa_mask);
	sigaction(SIGPIPE, &ignore, &pager->saved_pipe);
	for (size_t i = 0; i < ARRAY_SIZE(fatal_signals); i++) {
		sigaction(fatal_signals[i], NULL, &pager->saved[i]);
		if (pager->saved[i].sa_handler != SIG_IGN)
			sigaction(fatal_signals[i], &ours, NULL);
	}
}

static void release_signals(const struct pager *pager)
{
	for (size_t i = 0; i < ARRAY_SIZE(fatal_signals); i++)
		sigaction(fatal_signals[i], &pager->saved[i], NULL);
	sigaction(SIGPIPE, &pager->saved_pipe, NULL);
}

/* Returns false if the pager cannot be started; everything then goes to stdout. */
static bool start_pager(struct pager *pager)
{
	char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, (char *)(uintptr_t)pager->command,
			 NULL };
	posix_spawn_file_actions_t actions;
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	setenv("LESS", "FRX", 0);
	setenv("LV", "-c", 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
	int failed = posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ);

	posix_spawn_file_actions_destroy(&actions);
	close(ends[0]);
	if (failed) {
		close(ends[1]);
		return false;
	}
	pager_fd = ends[1];
	pager_pid = pid;
	catch_signals(pager);
	return true;
}

static void stop_pager(struct pager *pager)
{
	if (pager_fd < 0)
		return;
	close((int)pager_fd);
	while (waitpid((pid_t)pager_pid, NULL, 0) < 0 && errno == EINTR)
		;
	release_signals(pager);
	pager_fd = -1;
	pager_pid = 0;
}

/* ---- writing ---- */

/* Advances the cursor over the text; escape sequences have no width. */
static void advance(struct pager *pager, const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (text[i] == '\033' && i + 1 < size && text[i + 1] == '[') {
			for (i += 2; i < size && (text[i] < '@' || text[i] > '~');)
				i++;
		} else if (text[i] == '\n') {
			pager->row++;
			pager->column = 0;
		} else if (((unsigned char)text[i] & 0xc0) != 0x80 &&
			   ++pager->column > pager->columns) {
			pager->row++;
			pager->column = 1;
		}
	}
}

static bool write_on(struct pager *pager, struct span bytes)
{
	if (bytes.size == 0)
		return true;
	if (pager_fd < 0)
		return file_write_all(STDOUT_FILENO, bytes, "", NULL) == 0;
	if (file_write_all((int)pager_fd, bytes, "", NULL) == 0)
		return true;
	pager->quit = errno == EPIPE;
	return false;
}

/* Chooses the pager or stdout, and writes the buffered output to it. */
static bool decide(struct pager *pager)
{
	pager->decided = true;
	bool written = write_on(pager, buffer_span(&pager->held));

	buffer_release(&pager->held);
	return written;
}

static ssize_t write_paged(void *cookie, const char *text, size_t size)
{
	struct pager *pager = cookie;

	if (pager->decided)
		return write_on(pager, span_of(text, size)) ? (ssize_t)size : 0;
	advance(pager, text, size);
	buffer_append(&pager->held, text, size);
	if (pager->held.failed) {
		errno = ENOMEM;
		return 0;
	}
	/* Leave one row for the prompt. */
	if (pager->row < pager->rows)
		return (ssize_t)size;
	start_pager(pager);
	return decide(pager) ? (ssize_t)size : 0;
}

static int close_paged(void *cookie)
{
	struct pager *pager = cookie;

	return pager->decided || decide(pager) ? 0 : -1;
}

static FILE *open_paged(struct pager *pager)
{
	const cookie_io_functions_t functions = { .write = write_paged, .close = close_paged };

	return fopencookie(pager, "w", functions);
}

struct output output_open(const struct common_options *requests)
{
	struct terminal terminal = terminal_of(STDOUT_FILENO);
	struct output output = {
		.file = stdout,
		.is_tty = terminal.is_tty,
		.colours = terminal.colours,
		.utf8 = terminal.utf8,
		.columns = terminal.columns,
		.cut_columns = terminal.columns_given ? terminal.columns : 0,
	};
	const char *command = NULL;

	if (requests && requests->color != WHEN_AUTO)
		output.colours = requests->color == WHEN_ALWAYS;
	if (terminal.redraws && !(requests && requests->no_pager))
		command = pager_command();
	struct pager *pager = command ? calloc(1, sizeof *pager) : NULL;

	if (!pager)
		return output;
	fflush(stdout);
	pager->command = command;
	pager->columns = terminal.columns;
	pager->rows = terminal.rows;
	FILE *file = open_paged(pager);

	if (!file) {
		free(pager);
		return output;
	}
	output.file = file;
	output.pager = pager;
	return output;
}

int output_close(struct output *output, int status, struct error *error)
{
	struct pager *pager = output->pager;
	int failed = pager ? fclose(output->file) : fflush(output->file);

	if (failed && status == 0)
		status = error_errno(error, "cannot write the output");
	if (!pager)
		return status;
	stop_pager(pager);
	if (pager->quit)
		status = 0;
	buffer_release(&pager->held);
	free(pager);
	*output = (struct output){ .file = stdout };
	return status;
}
