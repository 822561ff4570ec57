/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion for zsh, based on _arguments. The specs are in single quotes; a colon, bracket or backslash in a text
 * is escaped with a backslash, because _arguments splits there.
 */
#include "cli/generate/generate.h"

#include <stdbool.h>
#include <string.h>

/* Text inside '...' of a spec. */
static void put_spec_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\'') {
			fputs("'\\''", out);
			continue;
		}
		if (strchr(":[]\\", *text))
			fputc('\\', out);
		fputc(*text, out);
	}
}

/* A list of names with descriptions gets its own function: _arguments would split the descriptions at each
 * colon. */
static void put_helped(FILE *out, const struct command *command, const struct option_row *row)
{
	const char *word, *help;

	fprintf(out, "_heapgauge_%s_%s() {\n\tlocal -a words=(\n", command->name, row->name);
	for (size_t i = 0; (word = words_at(&row->choices, i, &help)); i++) {
		fputs("\t\t'", out);
		put_spec_text(out, word);
		fputc(':', out);
		put_spec_text(out, help ? help : "");
		fputs("'\n", out);
	}
	fprintf(out, "\t)\n\t_describe -t values %s words\n}\n\n", row->argument);
}

static void put_action(FILE *out, const struct command *command, const struct option_row *row)
{
	const char *word;

	switch (value_kind_of(row)) {
	case VALUE_WORDS:
		if (row->choices.helped) {
			fprintf(out, "_heapgauge_%s_%s", command->name, row->name);
			break;
		}
		fputc('(', out);
		for (size_t i = 0; (word = words_at(&row->choices, i, NULL)); i++) {
			fputs(i ? " " : "", out);
			put_spec_text(out, word);
		}
		fputc(')', out);
		break;
	case VALUE_FILE:
		fputs("_files", out);
		break;
	case VALUE_FOLDER:
		fputs("_files -/", out);
		break;
	case VALUE_PID:
		fputs("_pids", out);
		break;
	case VALUE_OTHER:
	case VALUE_NONE:
		fputc(' ', out);
		break;
	}
}

/* '(-v --view)'{-v+,--view=}'[text]:VIEW:(...)' */
static void put_option(FILE *out, const struct command *command, const struct option_row *row)
{
	fputs(" \\\n\t\t\t'", out);
	if (row->letter)
		fprintf(out, "(-%c --%s)'{-%c%s,--%s%s}'[", row->letter, row->name, row->letter,
			row->argument ? "+" : "", row->name, row->argument ? "=" : "");
	else
		fprintf(out, "--%s%s%s[", row->name, row->argument ? "=" : "",
			row->if_omitted ? "-" : "");
	put_spec_text(out, row->help);
	fputc(']', out);
	if (row->argument) {
		fputs(row->if_omitted ? "::" : ":", out);
		put_spec_text(out, row->argument);
		fputc(':', out);
		put_action(out, command, row);
	}
	fputc('\'', out);
}

static void put_command(FILE *out, const struct command *command)
{
	static const char *const words[] = {
		[WORDS_NONE] = NULL,
		[WORDS_RECORDING] = "'*:recording:_files -g \"*.hg\"'",
		[WORDS_PROGRAM] = "'*::program:_normal -p heapgauge'",
		[WORDS_EXECUTABLE] = "'*:program:_command_names -e'",
		[WORDS_FOLDER] = "'1:folder:_files -/'",
		[WORDS_PROCESS] = "'1:process:_pids'",
		[WORDS_COMMAND] = "'1:command:_heapgauge_commands'",
	};
	struct row_walk walk = { command, 0 };
	const struct option_row *row;

	fprintf(out, "\t\t%s)\n\t\t\t_arguments -S", command->name);
	while ((row = row_walk_next(&walk)))
		put_option(out, command, row);
	if (words[command->words])
		fprintf(out, " \\\n\t\t\t%s", words[command->words]);
	fputs(" && ret=0\n\t\t\t;;\n", out);
}

void generate_zsh(FILE *out)
{
	const struct option_row *row;

	fputs("#compdef heapgauge\n"
	      "# SPDX-License-Identifier: Apache-2.0\n"
	      "# Completion of heapgauge for zsh; made by heapgauge generate zsh.\n\n"
	      "_heapgauge_commands() {\n"
	      "\tlocal -a commands=(\n",
	      out);
	for (size_t i = 0; commands[i]; i++) {
		if (commands[i]->group == COMMANDS_HIDDEN)
			continue;
		fprintf(out, "\t\t'%s:", commands[i]->name);
		put_spec_text(out, commands[i]->help);
		fputs("'\n", out);
	}
	fputs("\t)\n"
	      "\t_describe -t commands command commands\n"
	      "}\n\n",
	      out);
	for (size_t i = 0; commands[i]; i++) {
		struct row_walk walk = { commands[i], 0 };

		while (commands[i]->group != COMMANDS_HIDDEN && (row = row_walk_next(&walk)))
			if (row->choices.helped)
				put_helped(out, commands[i], row);
	}
	fputs("_heapgauge() {\n"
	      "\tlocal curcontext=$curcontext state line ret=1\n"
	      "\ttypeset -A opt_args\n\n"
	      "\t_arguments -C \\\n"
	      "\t\t'(- *)'{-h,--help}'[show help]' \\\n"
	      "\t\t'(- *)'{-V,--version}'[print the version]' \\\n"
	      "\t\t'1:command:_heapgauge_commands' \\\n"
	      "\t\t'*::argument:->argument' && ret=0\n\n"
	      "\tif [[ $state == argument ]]; then\n"
	      "\t\tcase $words[1] in\n",
	      out);
	for (size_t i = 0; commands[i]; i++)
		if (commands[i]->group != COMMANDS_HIDDEN)
			put_command(out, commands[i]);
	fputs("\t\tesac\n"
	      "\tfi\n"
	      "\treturn ret\n"
	      "}\n\n"
	      "_heapgauge \"$@\"\n",
	      out);
}
