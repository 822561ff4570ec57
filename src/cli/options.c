/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command line options from rows: see options.h.
 *
 * getopt_long is not used because it keeps global state, prints by itself, guesses abbreviations (which would make
 * every later option a change of meaning of an earlier spelling) and cannot name the nearest option.
 */
#include "cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

enum { NAME_MAX_BYTES = 32 };

struct options options_over(const struct option_row *rows, size_t row_count, int argc, char **argv)
{
	return (struct options){
		.rows = rows, .row_count = row_count, .argc = argc, .argv = argv, .at = 1
	};
}

/* Levenshtein's distance; names are short, so one row of the table on the stack does. */
static size_t edit_distance(const char *a, const char *b)
{
	size_t row[NAME_MAX_BYTES + 1];
	size_t length = strlen(b);

	if (length > NAME_MAX_BYTES)
		return SIZE_MAX;
	for (size_t j = 0; j <= length; j++)
		row[j] = j;
	for (size_t i = 0; a[i]; i++) {
		size_t diagonal = row[0];

		row[0] = i + 1;
		for (size_t j = 1; j <= length; j++) {
			size_t change = diagonal + (a[i] != b[j - 1]);
			size_t insert = MIN(row[j], row[j - 1]) + 1;

			diagonal = row[j];
			row[j] = MIN(change, insert);
		}
	}
	return row[length];
}

const char *nearest_name(const char *name, const char *const *names, size_t count)
{
	size_t best = strlen(name) / 2 + 1; /* farther than half of it is another word */
	const char *found = NULL;

	for (size_t i = 0; i < count; i++) {
		if (!names[i])
			continue;
		size_t distance = edit_distance(name, names[i]);

		if (distance < best) {
			best = distance;
			found = names[i];
		}
	}
	return found;
}

static int unknown_option(const struct options *o, const char *name, struct error *error)
{
	const char *names[64] = { 0 };
	size_t count = MIN(o->row_count, ARRAY_SIZE(names));

	for (size_t i = 0; i < count; i++)
		names[i] = o->rows[i].name;
	const char *near = nearest_name(name, names, count);

	if (near)
		error_set(error, "there is no option --%s; did you mean --%s?", name, near);
	else
		error_set(error, "there is no option --%s", name);
	return OPTIONS_ERROR;
}

/* `attached` is the value that came in the same word, or NULL. */
static int take_value(struct options *o, size_t row, const char *attached, const char **value,
		      struct error *error)
{
	const struct option_row *r = &o->rows[row];

	if (!r->argument) {
		if (attached) {
			error_set(error, "--%s takes no value", r->name);
			return OPTIONS_ERROR;
		}
		return (int)row;
	}
	if (!attached && o->at >= o->argc) {
		error_set(error, "--%s needs a value: %s", r->name, r->argument);
		return OPTIONS_ERROR;
	}
	*value = attached ? attached : o->argv[o->at++];
	return (int)row;
}

static int long_option(struct options *o, const char *word, const char **value, struct error *error)
{
	char name[NAME_MAX_BYTES];
	const char *equals = strchr(word, '=');
	size_t length = equals ? (size_t)(equals - word) : strlen(word);

	if (length >= sizeof name) {
		error_set(error, "there is no option --%s", word);
		return OPTIONS_ERROR;
	}
	memcpy(name, word, length);
	name[length] = 0;
	if (strcmp(name, "help") == 0)
		return OPTIONS_HELP;
	for (size_t i = 0; i < o->row_count; i++)
		if (o->rows[i].name && strcmp(o->rows[i].name, name) == 0)
			return take_value(o, i, equals ? equals + 1 : NULL, value, error);
	return unknown_option(o, name, error);
}

static int short_option(struct options *o, const char *word, const char **value,
			struct error *error)
{
	if (word[0] == 'h' && !word[1])
		return OPTIONS_HELP;
	for (size_t i = 0; i < o->row_count; i++)
		if (o->rows[i].letter && o->rows[i].letter == word[0])
			return take_value(o, i, word[1] ? word + 1 : NULL, value, error);
	error_set(error, "there is no option -%c", word[0]);
	return OPTIONS_ERROR;
}

int options_next(struct options *o, const char **value, struct error *error)
{
	*value = NULL;
	if (o->at >= o->argc)
		return OPTIONS_END;
	const char *word = o->argv[o->at++];

	if (!o->words_only && strcmp(word, "--") == 0) {
		o->words_only = true;
		if (o->at >= o->argc)
			return OPTIONS_END;
		word = o->argv[o->at++];
	}
	if (o->words_only || word[0] != '-' || !word[1]) {
		*value = word;
		return OPTIONS_WORD;
	}
	if (word[1] == '-')
		return long_option(o, word + 2, value, error);
	return short_option(o, word + 1, value, error);
}

void options_print(FILE *out, const struct option_row *rows, size_t row_count)
{
	for (size_t i = 0; i < row_count; i++) {
		char left[64];

		if (!rows[i].name)
			continue;
		if (rows[i].letter)
			snprintf(left, sizeof left, "-%c, --%s %s", rows[i].letter, rows[i].name,
				 rows[i].argument ? rows[i].argument : "");
		else
			snprintf(left, sizeof left, "    --%s %s", rows[i].name,
				 rows[i].argument ? rows[i].argument : "");
		fprintf(out, "  %-24s %s\n", left, rows[i].help);
	}
}

int options_number(const char *name, const char *text, uint64_t *ret, struct error *error)
{
	char *end;

	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)text[0]) || *end || errno)
		return error_set(error, "--%s needs a number, not '%s'", name, text);
	*ret = value;
	return 0;
}
