/* SPDX-License-Identifier: Apache-2.0 */
/* heapgauge report: a view of a recording. */
#include "cli/commands.h"

int cmd_report(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	cli_error("reading recordings is not built yet");
	return CLI_FAILED;
}
