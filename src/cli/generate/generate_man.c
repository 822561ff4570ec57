/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Man pages: one for each command and one for all. Only man(7) macros that every implementation has; every text goes
 * through put_text, so that a dash is a dash to copy and no line begins a macro by accident. There is no date in them:
 * the same source gives the same bytes.
 */
#include "cli/generate/generate.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "cli/options/help.h"
#include "cli/options/settings.h"
#include "util/cleanup.h"

/* One paragraph, up to the end or an empty line; returns what follows it. */
static const char *put_paragraph(FILE *out, const char *text)
{
	bool line_begins = true;

	for (; *text && !(text[0] == '\n' && text[1] == '\n'); text++) {
		if (line_begins && (*text == '.' || *text == '\''))
			fputs("\\&", out);
		line_begins = *text == '\n';
		switch (*text) {
		case '\\':
			fputs("\\e", out);
			break;
		case '-':
			fputs("\\-", out);
			break;
		case '\'':
			fputs("\\(aq", out);
			break;
		case '`':
			fputs("\\(ga", out);
			break;
		case '^':
			fputs("\\(ha", out);
			break;
		case '~':
			fputs("\\(ti", out);
			break;
		default:
			fputc(*text, out);
		}
	}
	return *text ? text + 2 : text;
}

static void put_text(FILE *out, const char *text)
{
	put_paragraph(out, text);
}

/* Rows hold phrases: a page has sentences. */
static void put_sentence(FILE *out, const char *phrase)
{
	char first[2] = { (char)toupper((unsigned char)phrase[0]), 0 };

	if (!phrase[0])
		return;
	put_text(out, first);
	put_text(out, phrase + 1);
	fputs(".\n", out);
}

static void put_paragraphs(FILE *out, const char *text)
{
	for (bool first = true; *text; first = false) {
		if (!first)
			fputs(".PP\n", out);
		text = put_paragraph(out, text);
		fputc('\n', out);
	}
}

static void put_bold(FILE *out, const char *text)
{
	fputs("\\fB", out);
	put_text(out, text);
	fputs("\\fR", out);
}

static void put_tag(FILE *out, const char *tag)
{
	fputs(".TP\n", out);
	put_bold(out, tag);
	fputc('\n', out);
}

static void put_option(FILE *out, const struct option_row *row)
{
	AUTO_FREE char *sentence = help_sentence(row);
	const char *word, *help;

	fputs(".TP\n", out);
	if (row->letter)
		fprintf(out, "\\fB\\-%c\\fR, ", row->letter);
	fputs("\\fB\\-\\-", out);
	put_text(out, row->name);
	fputs("\\fR", out);
	if (row->argument)
		fprintf(out, " \\fI%s\\fR", row->argument);
	fputc('\n', out);
	put_sentence(out, sentence ? sentence : row->help);
	if (row->scope == OPTION_NOT_IN_FOLDER)
		fputs("Not accepted in the settings of a folder.\n", out);
	else if (row->scope == OPTION_TYPED_ONLY)
		fputs("Only on the command line.\n", out);
	if (!row->choices.helped)
		return;
	fputs(".RS\n", out);
	for (size_t i = 0; (word = words_at(&row->choices, i, &help)); i++) {
		put_tag(out, word);
		put_sentence(out, help ? help : "");
	}
	fputs(".RE\n", out);
}

static bool same_group(const struct option_row *a, const struct option_row *b)
{
	return a->group == b->group || (a->group && b->group && strcmp(a->group, b->group) == 0);
}

/* Options without a group first: behind a heading they would be taken for its. */
static void put_options(FILE *out, const struct command *command)
{
	struct row_walk plain = { command, 0 }, outer = { command, 0 };
	const struct option_row *row, *other;

	fputs(".SH OPTIONS\n", out);
	while ((row = row_walk_next(&plain)))
		if (!row->group)
			put_option(out, row);
	while ((row = row_walk_next(&outer))) {
		struct row_walk inner = { command, 0 };
		bool first = row->group != NULL;

		while ((other = row_walk_next(&inner)) && other != row)
			first = first && !same_group(other, row);
		if (!first)
			continue;
		fputs(".SS ", out);
		put_text(out, row->group);
		fputc('\n', out);
		put_option(out, row);
		while ((other = row_walk_next(&inner)))
			if (same_group(other, row))
				put_option(out, other);
	}
}

/* By one that the command has, because an example says more than a rule. */
static void put_environment(FILE *out, const struct command *command)
{
	struct row_walk walk = { command, 0 };
	char variable[SETTINGS_VARIABLE_BYTES];
	const struct option_row *row;

	while ((row = row_walk_next(&walk)) && !settings_variable(row, variable))
		;
	if (!row)
		return;
	fputs(".SH ENVIRONMENT\nOptions are also taken from variables, as ", out);
	put_bold(out, variable);
	fputs(" for \\-\\-", out);
	put_text(out, row->name);
	fputs(", and from settings files: see\n.BR heapgauge (1).\n", out);
}

static void put_header(FILE *out, const char *name, const char *help)
{
	char upper[64];
	size_t at = 0;

	for (; name[at] && at + 1 < sizeof upper; at++)
		upper[at] = (char)toupper((unsigned char)name[at]);
	upper[at] = 0;
	fputs(".\\\" SPDX-License-Identifier: Apache-2.0\n", out);
	fputs(".\\\" Made by heapgauge generate man; what to change are the rows in src/cli.\n",
	      out);
	fputs(".TH ", out);
	put_text(out, upper);
	fputs(" 1 \"\" \"heapgauge " HEAPGAUGE_VERSION "\" \"heapgauge\"\n.SH NAME\n", out);
	put_text(out, name);
	fputs(" \\- ", out);
	put_text(out, help);
	fputs("\n.SH SYNOPSIS\n", out);
}

static void put_exit_status(FILE *out, const struct command *command)
{
	fputs(".SH \"EXIT STATUS\"\n", out);
	put_paragraphs(
		out,
		command && command->exit_status
			? command->exit_status
			: "0 on success, 1 if something could not be read or written, 2 if the command line, a variable or a "
			  "settings file is wrong.");
}

static void put_examples(FILE *out, const char *const *examples)
{
	fputs(".SH EXAMPLES\n", out);
	for (; examples[0]; examples += 2) {
		put_tag(out, examples[0]);
		put_sentence(out, examples[1]);
	}
}

static void put_references(FILE *out, const struct command *command)
{
	bool first = true;

	fputs(".SH \"SEE ALSO\"\n", out);
	if (command)
		fputs(".BR heapgauge (1)", out);
	for (size_t i = 0; commands[i]; i++) {
		if (commands[i] == command || commands[i]->group == COMMANDS_HIDDEN)
			continue;
		fputs(command || !first ? ",\n.BR heapgauge\\-" : ".BR heapgauge\\-", out);
		put_text(out, commands[i]->name);
		fputs(" (1)", out);
		first = false;
	}
	fputc('\n', out);
}

static void command_page(FILE *out, const struct command *command)
{
	char name[64];

	snprintf(name, sizeof name, "heapgauge-%s", command->name);
	put_header(out, name, command->help);
	fprintf(out, "\\fBheapgauge %s\\fR ", command->name);
	put_text(out, command->usage);
	fputs("\n.SH DESCRIPTION\n", out);
	if (command->about)
		put_paragraphs(out, command->about);
	else
		put_sentence(out, command->help);
	put_options(out, command);
	put_environment(out, command);
	put_exit_status(out, command);
	if (command->examples)
		put_examples(out, command->examples);
	put_references(out, command);
}

static const struct {
	const char *name, *help;
} variables[] = {
	{ "HEAPGAUGE_<OPTION>",
	  "The value of an option, for every command that has it: its name in capitals, with _ for "
	  "each dash, as in HEAPGAUGE_LIMIT or HEAPGAUGE_NO_PAGER. A flag takes yes or no" },
	{ "HEAPGAUGE_PAGER",
	  "The pager; if unset, PAGER, else less. Empty or cat: no pager. LESS is set to FRX if it is not set" },
	{ "HEAPGAUGE_DISABLE",
	  "1: nothing is recorded. heapgauge record runs the program without the recorder, and a preloaded or "
	  "linked recorder does nothing" },
	{ "HEAPGAUGE_RECORDER", "Path of the recorder, if it is not where heapgauge was installed" },
	{ "NO_COLOR", "If not empty: no colours, unless --color asks for them" },
	{ "COLUMNS", "The width of output that does not go to a terminal" },
	{ "LC_ALL, LC_CTYPE, LANG", "The first that is set decides between UTF-8 and ASCII" },
}, files[] = {
	{ SETTINGS_FOLDER_FILE,
	  "Settings of the current folder. Ignored if it belongs to another user or is writable by others" },
	{ "~/.config/heapgauge/config.ini",
	  "The user's settings; in XDG_CONFIG_HOME if that is set" },
	{ "heapgauge.PROGRAM.PID.hg", "A recording" },
};

#define SETTINGS_ABOUT                                                                             \
	"An option that is not on the command line is taken from the environment, then from the "  \
	"settings of the current folder, then from the user's; the first one found is used. "      \
	"A settings file has a section for each command, and [all] for all commands that have "    \
	"the option:"

static void main_page(FILE *out)
{
	put_header(out, "heapgauge", "an exact heap profiler for Linux");
	fputs("\\fBheapgauge\\fR \\fICOMMAND\\fR [options] ...\n.SH DESCRIPTION\n", out);
	put_text(
		out,
		"Counts every allocation of a program with its full call stack, exactly, and reports what was live "
		"at the peak, what was not freed at exit and where temporary allocations come from. The program "
		"needs no change; built with -g its frames have names and lines.");
	fputs("\n.SH COMMANDS\n", out);
	for (size_t group = 0; group < ARRAY_SIZE(command_group_titles); group++) {
		bool begun = false;

		for (size_t i = 0; commands[i]; i++) {
			if (commands[i]->group != group)
				continue;
			if (!begun)
				fprintf(out, ".SS %s\n", command_group_titles[group]);
			begun = true;
			fputs(".TP\n.BR heapgauge\\-", out);
			put_text(out, commands[i]->name);
			fputs(" (1)\n", out);
			put_sentence(out, commands[i]->help);
		}
	}
	fputs(".SH SETTINGS\n", out);
	put_text(out, SETTINGS_ABOUT);
	fputs("\n.PP\n.nf\n.RS\n[report]\nlimit = 50\n\n[all]\ncolor = never\n.RE\n.fi\n", out);
	fputs(".SH ENVIRONMENT\n", out);
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		put_tag(out, variables[i].name);
		put_sentence(out, variables[i].help);
	}
	fputs(".SH FILES\n", out);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		put_tag(out, files[i].name);
		put_sentence(out, files[i].help);
	}
	put_exit_status(out, NULL);
	put_references(out, NULL);
}

void generate_man(FILE *out, const struct command *command)
{
	if (command)
		command_page(out, command);
	else
		main_page(out);
}
