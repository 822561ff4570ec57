/* SPDX-License-Identifier: Apache-2.0 */
/* The entry point: finds the row of the subcommand and runs it. */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"

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

int main(int argc, char **argv)
{
	keep_memory();
	int status = run(argc, argv);

	/* A full disk must not look like success. */
	if (fflush(stdout) != 0 && status == CLI_OK) {
		cli_error("cannot write the output: %s", strerror(errno));
		return CLI_FAILED;
	}
	return status;
}
