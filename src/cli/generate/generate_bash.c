/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion for bash 4 and later. It needs only bash; the package bash-completion, if installed, completes the
 * arguments of a recorded program. The tables are in the script, so that completion never runs heapgauge.
 */
#include "cli/generate/generate.h"

#include <stdbool.h>

static bool is_listed(const struct command *command)
{
	return command->group != COMMANDS_HIDDEN;
}

static void put_commands(FILE *out)
{
	for (size_t i = 0; commands[i]; i++)
		if (is_listed(commands[i]))
			fprintf(out, "%s ", commands[i]->name);
}

/* "report:--view|report:-v" */
static void put_pattern(FILE *out, const struct command *command, const struct option_row *row)
{
	fprintf(out, "\t%s:--%s", command->name, row->name);
	if (row->letter)
		fprintf(out, "|%s:-%c", command->name, row->letter);
	fputs(") ", out);
}

static void put_value(FILE *out, const struct command *command, const struct option_row *row)
{
	enum value_kind kind = value_kind_of(row);
	const char *word;

	if (kind == VALUE_NONE)
		return;
	put_pattern(out, command, row);
	switch (kind) {
	case VALUE_WORDS:
		fputs("_heapgauge_words \"", out);
		for (size_t i = 0; (word = words_at(&row->choices, i, NULL)); i++)
			fprintf(out, "%s%s", i ? " " : "", word);
		fputs("\"", out);
		break;
	case VALUE_FILE:
		fputs("_heapgauge_files -f", out);
		break;
	case VALUE_FOLDER:
		fputs("_heapgauge_files -d", out);
		break;
	case VALUE_PID:
		fputs("_heapgauge_words \"$(cd /proc && echo [0-9]*)\"", out);
		break;
	case VALUE_OTHER:
	case VALUE_NONE:
		fputc(':', out);
		break;
	}
	fputs(" ;;\n", out);
}

/* Lists the options whose value is the next word, so that it is not mistaken for the program. */
static void put_takers(FILE *out)
{
	const struct option_row *row;

	fputs("# Whether the option takes its value from the next word.\n"
	      "_heapgauge_takes() {\n\tcase $1 in\n",
	      out);
	for (size_t i = 0; commands[i]; i++) {
		struct row_walk walk = { commands[i], 0 };

		while (is_listed(commands[i]) && (row = row_walk_next(&walk)))
			if (row->argument && !row->if_omitted) {
				put_pattern(out, commands[i], row);
				fputs("return 0 ;;\n", out);
			}
	}
	fputs("\tesac\n\treturn 1\n}\n\n", out);
}

static void put_values(FILE *out)
{
	const struct option_row *row;

	fputs("# Offers the values of an option; fails if it takes none.\n"
	      "_heapgauge_value() {\n\tcase $1 in\n",
	      out);
	for (size_t i = 0; commands[i]; i++) {
		struct row_walk walk = { commands[i], 0 };

		while (is_listed(commands[i]) && (row = row_walk_next(&walk)))
			put_value(out, commands[i], row);
	}
	fputs("\t*) return 1 ;;\n\tesac\n}\n\n", out);
}

static void put_options(FILE *out)
{
	const struct option_row *row;

	fputs("_heapgauge_options() {\n\tcase $1 in\n", out);
	for (size_t i = 0; commands[i]; i++) {
		struct row_walk walk = { commands[i], 0 };

		if (!is_listed(commands[i]))
			continue;
		fprintf(out, "\t%s) _heapgauge_words \"", commands[i]->name);
		while ((row = row_walk_next(&walk)))
			fprintf(out, "--%s ", row->name);
		fputs("\" ;;\n", out);
	}
	fputs("\tesac\n}\n\n", out);
}

static void put_words(FILE *out)
{
	static const char *const how[] = {
		[WORDS_NONE] = ":",
		[WORDS_RECORDING] = "_heapgauge_files -f -X '!*.hg'; _heapgauge_files -d",
		[WORDS_PROGRAM] = "_heapgauge_files -c; _heapgauge_files -d",
		[WORDS_EXECUTABLE] = "_heapgauge_files -c; _heapgauge_files -f",
		[WORDS_FOLDER] = "_heapgauge_files -d",
		[WORDS_PROCESS] = "_heapgauge_words \"$(cd /proc && echo [0-9]*)\"",
		[WORDS_COMMAND] = "_heapgauge_words \"$_heapgauge_commands\"",
	};

	fputs("_heapgauge_word() {\n\tcase $1 in\n", out);
	for (size_t i = 0; commands[i]; i++)
		if (is_listed(commands[i]))
			fprintf(out, "\t%s) %s ;;\n", commands[i]->name, how[commands[i]->words]);
	fputs("\tesac\n}\n\n", out);
}

static const char helpers[] = "_heapgauge_words() {\n"
			      "\tlocal found\n"
			      "\tmapfile -t found < <(compgen -W \"$1\" -- \"$cur\")\n"
			      "\tCOMPREPLY+=(\"${found[@]}\")\n"
			      "\tif [[ ${#found[@]} == 1 && ${found[0]} == *: ]]; then\n"
			      "\t\tcompopt -o nospace 2>/dev/null\n"
			      "\tfi\n"
			      "\treturn 0\n"
			      "}\n\n"
			      "_heapgauge_files() {\n"
			      "\tlocal found\n"
			      "\tmapfile -t found < <(compgen \"$@\" -- \"$cur\")\n"
			      "\tCOMPREPLY+=(\"${found[@]}\")\n"
			      "\tcompopt -o filenames 2>/dev/null\n"
			      "\treturn 0\n"
			      "}\n\n";

static const char body[] =
	"_heapgauge() {\n"
	"\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
	"\tlocal command=${COMP_WORDS[1]} i word\n"
	"\tCOMPREPLY=()\n"
	"\tif ((COMP_CWORD == 1)); then\n"
	"\t\t_heapgauge_words \"$_heapgauge_commands --help --version\"\n"
	"\t\treturn\n"
	"\tfi\n"
	"\t# --view=si comes as three words.\n"
	"\tif [[ $cur == = ]]; then\n"
	"\t\tcur=\n"
	"\telif [[ $prev == = ]]; then\n"
	"\t\tprev=${COMP_WORDS[COMP_CWORD - 2]}\n"
	"\tfi\n"
	"\t# Behind a program to record, or behind --, everything is somebody else's.\n"
	"\tfor ((i = 2; i < COMP_CWORD; i++)); do\n"
	"\t\tword=${COMP_WORDS[i]}\n"
	"\t\tif [[ $word == -- ]]; then\n"
	"\t\t\tif ((i + 1 < COMP_CWORD)) && [[ $command == record ]]; then\n"
	"\t\t\t\t_heapgauge_program $((i + 1))\n"
	"\t\t\telse\n"
	"\t\t\t\t_heapgauge_word \"$command\"\n"
	"\t\t\tfi\n"
	"\t\t\treturn\n"
	"\t\telif _heapgauge_takes \"$command:$word\"; then\n"
	"\t\t\t[[ ${COMP_WORDS[i + 1]} == = ]] && ((i++))\n"
	"\t\t\t((i++))\n"
	"\t\telif [[ $word != -* && $command == record ]]; then\n"
	"\t\t\t_heapgauge_program \"$i\"\n"
	"\t\t\treturn\n"
	"\t\tfi\n"
	"\tdone\n"
	"\t_heapgauge_value \"$command:$prev\" && return\n"
	"\tif [[ $cur == -* ]]; then\n"
	"\t\t_heapgauge_options \"$command\"\n"
	"\telse\n"
	"\t\t_heapgauge_word \"$command\"\n"
	"\tfi\n"
	"}\n\n"
	"_heapgauge_program() {\n"
	"\tif declare -F _command_offset >/dev/null; then\n"
	"\t\t_command_offset \"$1\"\n"
	"\telse\n"
	"\t\t_heapgauge_files -f\n"
	"\tfi\n"
	"}\n\n"
	"complete -F _heapgauge heapgauge\n";

void generate_bash(FILE *out)
{
	fputs("# SPDX-License-Identifier: Apache-2.0\n"
	      "# Completion of heapgauge for bash; made by heapgauge generate bash.\n\n"
	      "_heapgauge_commands=\"",
	      out);
	put_commands(out);
	fputs("\"\n\n", out);
	fputs(helpers, out);
	put_takers(out);
	put_values(out);
	put_options(out);
	put_words(out);
	fputs(body, out);
}
