/* SPDX-License-Identifier: Apache-2.0 */
/* The entry point: finds the row of the subcommand and runs it. */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"
#include "cli/commands.h"
#include "util/files.h"
#include "util/output_file.h"

static int run(int argc, char **argv)
{
	if (argc < 2) {
		command_help.run(0, NULL);
		return CLI_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return command_help.run(1, argv + 1);
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
		return command_version.run(1, argv + 1);

	const struct command *command = command_find(argv[1]);

	return command ? command->run(argc - 1, argv + 1) : cli_unknown_command(argv[1]);
}

/* Reading and writing recordings allocates and frees one large buffer after another. Keep the memory instead of
 * returning it to the kernel: page faults took a quarter of the time of a report. */
static void keep_memory(void)
{
	enum { RESPONSE_CACHE_BYTES = 16 << 20 };

	mallopt(M_MMAP_THRESHOLD, RESPONSE_CACHE_BYTES);
	mallopt(M_TRIM_THRESHOLD, RESPONSE_CACHE_BYTES);
}

/* Replaces a page beyond the end of its file by one of zeros: the bytes are untrusted in any case. */
static void replace_page(int number, siginfo_t *info, void *context)
{
	const uintptr_t bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	void *page = (void *)((uintptr_t)info->si_addr & ~(bytes - 1));
	int before = errno;

	(void)context;
	if (info->si_code != BUS_ADRERR ||
	    mmap(page, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
		    MAP_FAILED)
		signal(number, SIG_DFL); /* the signal is raised again */
	errno = before;
}

/* Another process may truncate a file that is mapped here, or by libdw. */
static void survive_truncation(void)
{
	struct sigaction action = { .sa_sigaction = replace_page, .sa_flags = SA_SIGINFO };

	if (sigaction(SIGBUS, &action, NULL) == 0)
		file_map_allow();
}

/* Takes a signal that `record` blocks. One that is not blocked ends the process or has a handler. */
static bool pause_for_output(long milliseconds)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	const struct timespec time = { .tv_nsec = milliseconds * 1000000 };
	struct sigaction action;
	sigset_t blocked, set;

	sigemptyset(&set);
	pthread_sigmask(SIG_BLOCK, NULL, &blocked);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (sigismember(&blocked, numbers[i]) &&
		    sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(&set, numbers[i]);
	return sigtimedwait(&set, NULL, &time) < 0 && errno == EAGAIN;
}

int main(int argc, char **argv)
{
	keep_memory();
	survive_truncation();
	output_file_pause = pause_for_output;
	int status = run(argc, argv);

	/* A full disk must not look like success. */
	if (fflush(stdout) != 0 && status == CLI_OK) {
		cli_error("cannot write the output: %s", strerror(errno));
		return CLI_FAILED;
	}
	return status;
}
