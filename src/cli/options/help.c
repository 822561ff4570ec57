/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints help from the rows: a list of commands in groups, or one command with its options in groups. The output
 * has two columns; the right one is wrapped to the width, so that no row needs to know how wide the terminal is. No
 * state.
 */
#include "cli/options/help.h"

#include <stdbool.h>
#include <string.h>

#include "util/buffer.h"
#include "util/cleanup.h"

enum {
	INDENT = 2,
	COMMAND_COLUMN = 15,
	OPTION_COLUMN = 27,
	COLUMNS_MIN = 40,
	COLUMNS_MAX = 100, /* longer lines are hard to read */
};

/* Prints the words of `text` wrapped, starting at column `at`; lines after the first are indented. */
static void print_wrapped(FILE *out, const char *text, size_t at, size_t indent, size_t columns)
{
	size_t column = at;
	bool first = true;

	while (*text) {
		size_t length = strcspn(text, " \n");
		bool ends_paragraph = text[length] == '\n' && text[length + 1] == '\n';

		if (!first && column + 1 + length > columns) {
			fprintf(out, "\n%*s", (int)indent, "");
			column = indent;
		} else if (!first) {
			fputc(' ', out);
			column++;
		}
		fprintf(out, "%.*s", (int)length, text);
		column += length;
		first = false;
		text += length;
		if (ends_paragraph) {
			fprintf(out, "\n\n%*s", (int)indent, "");
			column = indent;
			first = true;
		}
		text += strspn(text, " \n");
	}
	fputc('\n', out);
}

/* Prints a term and its description; the description starts on the next line if the term is too long. */
static void print_pair(FILE *out, const char *left, const char *right, size_t column,
		       size_t columns)
{
	size_t used = INDENT + strlen(left);

	fprintf(out, "%*s%s", INDENT, "", left);
	if (used + 1 >= column)
		fprintf(out, "\n%*s", (int)column, "");
	else
		fprintf(out, "%*s", (int)(column - used), "");
	print_wrapped(out, right, column, column, columns);
}

static size_t fitted(unsigned columns)
{
	if (columns < COLUMNS_MIN)
		return COLUMNS_MIN;
	return columns > COLUMNS_MAX ? COLUMNS_MAX : columns;
}

void help_all(FILE *out, unsigned columns)
{
	fputs("heapgauge: an exact heap profiler for Linux\n", out);
	for (size_t group = 0; group < ARRAY_SIZE(command_group_titles); group++) {
		bool begun = false;

		for (size_t i = 0; commands[i]; i++) {
			if (commands[i]->group != group)
				continue;
			if (!begun)
				fprintf(out, "\n%s\n", command_group_titles[group]);
			begun = true;
			print_pair(out, commands[i]->name, commands[i]->help, COMMAND_COLUMN,
				   fitted(columns));
		}
	}
	fputs("\nStart with:  heapgauge record ./program    and then:  heapgauge report\n", out);
}

char *help_sentence(const struct option_row *row)
{
	struct buffer text = BUFFER_INIT;
	const char *word;

	buffer_text(&text, row->help);
	for (size_t i = 0; !row->choices.helped && (word = words_at(&row->choices, i, NULL)); i++) {
		bool last = !words_at(&row->choices, i + 1, NULL);

		buffer_text(&text, i == 0 ? ": " : last ? " or " : ", ");
		buffer_text(&text, word);
	}
	if (row->fallback)
		buffer_printf(&text, " (default %s)", row->fallback);
	return buffer_take_string(&text);
}

static void print_option(FILE *out, const struct option_row *row, size_t columns)
{
	AUTO_FREE char *sentence = help_sentence(row);
	char left[96];

	snprintf(left, sizeof left, "%c%c%c --%s%s%s%s", row->letter ? '-' : ' ',
		 row->letter ? row->letter : ' ', row->letter ? ',' : ' ', row->name,
		 row->if_omitted ? "[=" : (row->argument ? " " : ""),
		 row->argument ? row->argument : "", row->if_omitted ? "]" : "");
	print_pair(out, left, sentence ? sentence : row->help, OPTION_COLUMN, columns);
}

static bool same_group(const struct option_row *a, const struct option_row *b)
{
	return a->group == b->group || (a->group && b->group && strcmp(a->group, b->group) == 0);
}

static void print_group(FILE *out, const struct option_row *rows, size_t count, size_t first,
			size_t columns)
{
	fprintf(out, "\n%s\n", rows[first].group ? rows[first].group : "Options");
	for (size_t i = first; i < count; i++)
		if (rows[i].name && same_group(&rows[i], &rows[first]))
			print_option(out, &rows[i], columns);
}

/* Prints options without a group, then each group once, in the order in which the groups first appear. */
static void print_options(FILE *out, const struct option_row *rows, size_t count, size_t columns)
{
	for (size_t i = 0; i < count; i++)
		if (rows[i].name && !rows[i].group) {
			print_group(out, rows, count, i, columns);
			break;
		}
	for (size_t i = 0; i < count; i++) {
		bool shown = !rows[i].name || !rows[i].group;

		for (size_t j = 0; j < i && !shown; j++)
			shown = rows[j].name && same_group(&rows[j], &rows[i]);
		if (!shown)
			print_group(out, rows, count, i, columns);
	}
}

/* Prints the lists of choices that have descriptions. */
static void print_choices(FILE *out, const struct command *command, size_t columns)
{
	for (size_t i = 0; i < command->option_count; i++) {
		const struct option_row *row = &command->options[i];
		const char *word, *help;

		if (!row->name || !row->choices.helped)
			continue;
		fprintf(out, "\n%s of --%s\n", row->argument, row->name);
		for (size_t w = 0; (word = words_at(&row->choices, w, &help)); w++)
			print_pair(out, word, help ? help : "", COMMAND_COLUMN, columns);
	}
}

void help_command(FILE *out, const struct command *command, unsigned columns)
{
	size_t width = fitted(columns);

	fprintf(out, "usage: heapgauge %s%s%s\n\n", command->name, *command->usage ? " " : "",
		command->usage);
	print_wrapped(out, command->about ? command->about : command->help, 0, 0, width);
	print_options(out, command->options, command->option_count, width);
	print_choices(out, command, width);
	print_options(out, common_rows, common_row_count, width);
	if (command->examples) {
		fputs("\nExamples\n", out);
		for (const char *const *e = command->examples; e[0]; e += 2)
			fprintf(out, "%*s%s\n%*s%s\n", INDENT, "", e[0], 3 * INDENT, "", e[1]);
	}
}
