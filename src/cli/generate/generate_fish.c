/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion for fish 3. One line per command, option and kind of argument; the condition tests the word after
 * heapgauge, so that the program to record may have any name.
 */
#include "cli/generate/generate.h"

#include <stdbool.h>

/* Inside '...'. */
static void put_text(FILE *out, const char *text)
{
	put_escaped(out, text, "'\\");
}

/* Writes the words as an -a argument: a command substitution inside '...', so that each word can have a
 * description. */
static void put_choices(FILE *out, const struct words *words)
{
	const char *word, *help;

	if (!words->helped) {
		fputs(" -a '", out);
		for (size_t i = 0; (word = words_at(words, i, NULL)); i++)
			fprintf(out, "%s%s", i ? " " : "", word);
		fputs("'", out);
		return;
	}
	fputs(" -a \"(printf '%s\\t%s\\n'", out);
	for (size_t i = 0; (word = words_at(words, i, &help)); i++) {
		fprintf(out, " %s '", word);
		/* Quoted twice: the inner quotes are parsed when the substitution runs. */
		for (const char *c = help ? help : ""; *c; c++) {
			if (*c == '\'' || *c == '\\')
				fputs("\\\\", out);
			if (*c == '"' || *c == '$' || *c == '\\')
				fputc('\\', out);
			fputc(*c, out);
		}
		fputc('\'', out);
	}
	fputs(")\"", out);
}

static void put_option(FILE *out, const struct command *command, const struct option_row *row)
{
	fprintf(out, "complete -c heapgauge -n '__heapgauge_%s %s' -l %s",
		command->words == WORDS_PROGRAM ? "before" : "in", command->name, row->name);
	if (row->letter)
		fprintf(out, " -s %c", row->letter);
	switch (value_kind_of(row)) {
	case VALUE_NONE:
		break;
	case VALUE_WORDS:
		fputs(" -x", out);
		put_choices(out, &row->choices);
		break;
	case VALUE_FILE:
		fputs(" -rF", out);
		break;
	case VALUE_FOLDER:
		fputs(" -x -a '(__fish_complete_directories)'", out);
		break;
	case VALUE_PID:
		fputs(" -x -a '(__fish_complete_pids)'", out);
		break;
	case VALUE_OTHER:
		fputs(" -x", out);
		break;
	}
	fputs(" -d '", out);
	put_text(out, row->help);
	fputs("'\n", out);
}

static void put_words(FILE *out, const struct command *command)
{
	static const char *const how[] = {
		[WORDS_NONE] = NULL,
		[WORDS_RECORDING] = "(__fish_complete_suffix .hg)",
		[WORDS_PROGRAM] = "(__heapgauge_program)",
		[WORDS_EXECUTABLE] = "(__fish_complete_command; __fish_complete_path)",
		[WORDS_FOLDER] = "(__fish_complete_directories)",
		[WORDS_PROCESS] = "(__fish_complete_pids)",
		[WORDS_COMMAND] = "(__heapgauge_commands)",
	};

	if (how[command->words])
		fprintf(out, "complete -c heapgauge -n '__heapgauge_in %s' -k -a '%s'\n",
			command->name, how[command->words]);
}

static const char helpers[] =
	"function __heapgauge_in\n"
	"\tset -l words (commandline -opc)\n"
	"\ttest (count $words) -gt 1; and test $words[2] = $argv[1]\n"
	"end\n\n"
	"function __heapgauge_first\n"
	"\ttest (count (commandline -opc)) -eq 1\n"
	"end\n\n"
	"# A program to record and what it is given, one to a line; nothing before there is one.\n"
	"function __heapgauge_rest\n"
	"\tset -l words (commandline -opc)\n"
	"\tset -e words[1..2]\n"
	"\twhile set -q words[1]; and string match -q -- '-*' $words[1]\n"
	"\t\tset -l word $words[1]\n"
	"\t\tset -e words[1]\n"
	"\t\tif test $word = --\n"
	"\t\t\tbreak\n"
	"\t\telse if __heapgauge_takes $word\n"
	"\t\t\tset -e words[1]\n"
	"\t\tend\n"
	"\tend\n"
	"\tset -q words[1]; and printf '%s\\n' $words\n"
	"end\n\n"
	"function __heapgauge_before\n"
	"\t__heapgauge_in $argv[1]; and not count (__heapgauge_rest) >/dev/null\n"
	"end\n\n"
	"function __heapgauge_program\n"
	"\tset -l rest (__heapgauge_rest)\n"
	"\tif set -q rest[1]\n"
	"\t\tcomplete -C \"$rest \"(commandline -ct)\n"
	"\telse\n"
	"\t\t__fish_complete_command\n"
	"\tend\n"
	"end\n\n";

static void put_takers(FILE *out)
{
	const struct option_row *row;
	struct row_walk walk = { &command_record, 0 };

	fputs("function __heapgauge_takes\n\tcontains -- $argv[1]", out);
	while ((row = row_walk_next(&walk))) {
		if (!row->argument || row->if_omitted)
			continue;
		fprintf(out, " --%s", row->name);
		if (row->letter)
			fprintf(out, " -%c", row->letter);
	}
	fputs("\nend\n\n", out);
}

void generate_fish(FILE *out)
{
	const struct option_row *row;

	fputs("# SPDX-License-Identifier: Apache-2.0\n"
	      "# Completion of heapgauge for fish; made by heapgauge generate fish.\n\n",
	      out);
	fputs(helpers, out);
	put_takers(out);
	fputs("function __heapgauge_commands\n\tprintf '%s\\t%s\\n'", out);
	for (size_t i = 0; commands[i]; i++) {
		if (commands[i]->group == COMMANDS_HIDDEN)
			continue;
		fprintf(out, " %s '", commands[i]->name);
		put_text(out, commands[i]->help);
		fputc('\'', out);
	}
	fputs("\nend\n\n"
	      "complete -c heapgauge -f\n"
	      "complete -c heapgauge -n __heapgauge_first -k -a '(__heapgauge_commands)'\n"
	      "complete -c heapgauge -n __heapgauge_first -s h -l help -d 'show help'\n"
	      "complete -c heapgauge -n __heapgauge_first -s V -l version -d 'print the version'\n",
	      out);
	for (size_t i = 0; commands[i]; i++) {
		struct row_walk walk = { commands[i], 0 };

		if (commands[i]->group == COMMANDS_HIDDEN)
			continue;
		fputc('\n', out);
		while ((row = row_walk_next(&walk)))
			put_option(out, commands[i], row);
		put_words(out, commands[i]);
	}
}
