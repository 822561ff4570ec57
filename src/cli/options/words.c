/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of names: see words.h. Every table of this program starts its rows with a name, so that one iteration
 * serves value checks, help, man page, completion and "did you mean". No state.
 */
#include "cli/options/words.h"

#include <stdint.h>
#include <string.h>

#include "base/compiler.h"

enum { NAME_MAX_BYTES = 32 };

static const char *name_of(const char *row)
{
	const char *name;

	memcpy(&name, row, sizeof name);
	return name;
}

const char *words_at(const struct words *words, size_t index, const char **ret_help)
{
	const char *row = words->rows;
	const char *help = NULL;

	if (ret_help)
		*ret_help = NULL;
	if (!row)
		return NULL;
	for (; name_of(row); row += words->row_bytes)
		if ((!words->lists || words->lists(row)) && index-- == 0)
			break;
	if (name_of(row) && words->helped)
		memcpy(&help, row + sizeof help, sizeof help);
	if (ret_help)
		*ret_help = help;
	return name_of(row);
}

bool words_have(const struct words *words, const char *name)
{
	const char *row = words->rows, *word;

	for (; row && (word = name_of(row)); row += words->row_bytes) {
		size_t length = strlen(word);

		if (strcmp(word, name) == 0 ||
		    (length && word[length - 1] == ':' && strncmp(word, name, length) == 0))
			return true;
	}
	return false;
}

/* Damerau-Levenshtein: two swapped letters are one edit. Names are short, so three rows of the table fit on the
 * stack. */
size_t edit_distance(const char *a, const char *b)
{
	size_t rows[3][NAME_MAX_BYTES + 1];
	size_t length = strlen(b), i;

	if (length > NAME_MAX_BYTES)
		return SIZE_MAX;
	for (size_t j = 0; j <= length; j++)
		rows[0][j] = j;
	for (i = 1; a[i - 1]; i++) {
		size_t *now = rows[i % 3], *before = rows[(i + 2) % 3];
		const size_t *earlier = rows[(i + 1) % 3];

		now[0] = i;
		for (size_t j = 1; j <= length; j++) {
			size_t change = before[j - 1] + (a[i - 1] != b[j - 1]);
			size_t insert = MIN(before[j], now[j - 1]) + 1;

			now[j] = MIN(change, insert);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				now[j] = MIN(now[j], earlier[j - 2] + 1);
		}
	}
	return rows[(i - 1) % 3][length];
}

/* Keeps the nearer candidate. */
static void consider(const char *name, const char *candidate, size_t *best, const char **found)
{
	size_t distance = edit_distance(name, candidate);

	if (distance < *best) {
		*best = distance;
		*found = candidate;
	}
}

/* A name more than half its length away is a different word. */
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
