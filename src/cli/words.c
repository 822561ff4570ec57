/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of names: see words.h. Every table of this program begins its rows with a name, so that one way of walking
 * serves checking a value, help, man page, completion and "did you mean". No state.
 */
#include "cli/words.h"

#include <stdint.h>
#include <string.h>

#include "base/compiler.h"

enum { NAME_MAX_BYTES = 32 };

const char *words_at(const struct words *words, size_t index, const char **ret_help)
{
	const char *row = words->rows;
	const char *name, *help = NULL;

	if (ret_help)
		*ret_help = NULL;
	if (!row)
		return NULL;
	row += index * words->row_bytes;
	memcpy(&name, row, sizeof name);
	if (name && words->helped)
		memcpy(&help, row + sizeof name, sizeof help);
	if (ret_help)
		*ret_help = help;
	return name;
}

bool words_have(const struct words *words, const char *name)
{
	const char *word;

	for (size_t i = 0; (word = words_at(words, i, NULL)); i++) {
		size_t length = strlen(word);

		if (strcmp(word, name) == 0 ||
		    (length && word[length - 1] == ':' && strncmp(word, name, length) == 0))
			return true;
	}
	return false;
}

/* Levenshtein's; names are short, so one row of the table on the stack does. */
size_t edit_distance(const char *a, const char *b)
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

/* Keeps the nearer of two. */
static void consider(const char *name, const char *candidate, size_t *best, const char **found)
{
	size_t distance = edit_distance(name, candidate);

	if (distance < *best) {
		*best = distance;
		*found = candidate;
	}
}

/* Farther than half of it is another word. */
static size_t too_far(const char *name)
{
	return strlen(name) / 2 + 1;
}

const char *words_nearest(const struct words *words, const char *name)
{
	size_t best = too_far(name);
	const char *found = NULL, *word;

	for (size_t i = 0; (word = words_at(words, i, NULL)); i++)
		consider(name, word, &best, &found);
	return found;
}

const char *nearest_name(const char *name, const char *const *names, size_t count)
{
	size_t best = too_far(name);
	const char *found = NULL;

	for (size_t i = 0; i < count; i++)
		if (names[i])
			consider(name, names[i], &best, &found);
	return found;
}
