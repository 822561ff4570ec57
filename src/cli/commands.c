/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TABLE of subcommands, and the error messages that all of them share.
 *
 * To add a command, add a file cmd_<name>.c and a line here. `heapgauge --help` lists the commands in this order,
 * roughly the order in which a user needs them.
 */
#include "cli/commands.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/settings.h"
#include "util/cleanup.h"
#include "util/text/printable.h"

/* clang-format off */
const struct command *const commands[] = {
	&command_record,
	&command_report,
	&command_view,
	&command_list,
	&command_top,
	&command_snap,
	&command_image,
	&command_post_mortem,
	&command_diff,
	&command_check,
	&command_merge,
	&command_bundle,
	&command_export,
	&command_agent,
	&command_doctor,
	&command_help,
	&command_version,
	&command_generate,
	NULL,
};
/* clang-format on */

const char *const command_group_titles[COMMANDS_HIDDEN] = {
	[COMMANDS_RECORD] = "Record",
	[COMMANDS_LOOK] = "Inspect",
	[COMMANDS_COMPARE] = "Compare and check",
	[COMMANDS_SHARE] = "Share",
	[COMMANDS_HELP] = "Help",
};

const struct command *command_find(const char *name)
{
	for (size_t i = 0; commands[i]; i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}

int command_run(const struct command *command, const struct command_steps *steps, void *state,
		int argc, char **argv)
{
	struct options options = options_over(command->options, command->option_count, argc, argv);
	struct error error = ERROR_INIT;
	const char *value;
	int option, status;

	options.read_settings = command->option_count ? settings_for : NULL;
	while ((option = options_next(&options, &value, &error)) != OPTIONS_END) {
		if (option == OPTIONS_HELP)
			return command_show_help(command);
		if (option == OPTIONS_ERROR || steps->take(state, option, value, &error) < 0)
			return cli_usage_error(command->name, "%s", error.message);
	}
	if (steps->check && steps->check(state, &error) < 0)
		return cli_usage_error(command->name, "%s", error.message);
	status = steps->run(state, &options.common, &error);
	if (status >= 0)
		return status;
	cli_report(&error);
	return CLI_FAILED;
}

/* Escapes control characters: messages contain names of files and programs. */
static PRINTF_LIKE(1, 0) void print_message(const char *format, va_list args)
{
	AUTO_FREE char *text = NULL;

	if (vasprintf(&text, format, args) >= 0)
		print_printable(stderr, text);
}

void cli_error(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fputs("heapgauge: ", stderr);
	va_start(args, format);
	print_message(format, args);
	va_end(args);
	fputc('\n', stderr);
}

void cli_report(const struct error *error)
{
	cli_error("%s", error->message);
	if (error->hint)
		fprintf(stderr, "  %s\n", error->hint);
}

int cli_usage_error(const char *command, const char *format, ...)
{
	const char *origin = options_origin();
	va_list args;

	fflush(stdout);
	fputs("heapgauge: ", stderr);
	if (origin)
		print_printable(stderr, origin);
	if (origin)
		fputs(": ", stderr);
	va_start(args, format);
	print_message(format, args);
	va_end(args);
	fprintf(stderr, "\n  Run 'heapgauge help%s%s' for %s.\n", command ? " " : "",
		command ? command : "", command ? "its options" : "a list of commands");
	return CLI_USAGE;
}

int cli_unknown_command(const char *name)
{
	const char *names[64] = { 0 };
	size_t length = strlen(name);

	/* Two common mistakes. */
	if (length > 3 && strcmp(name + length - 3, ".hg") == 0)
		return cli_usage_error(NULL, "unknown command '%s'; did you mean 'report %s'?",
				       name, name);
	if (strchr(name, '/'))
		return cli_usage_error(NULL, "unknown command '%s'; did you mean 'record %s'?",
				       name, name);

	for (size_t i = 0; commands[i] && i < ARRAY_SIZE(names); i++)
		names[i] = commands[i]->group == COMMANDS_HIDDEN ? NULL : commands[i]->name;
	const char *near = nearest_name(name, names, ARRAY_SIZE(names));

	if (near)
		return cli_usage_error(NULL, "unknown command '%s'; did you mean '%s'?", name,
				       near);
	return cli_usage_error(NULL, "unknown command '%s'", name);
}
