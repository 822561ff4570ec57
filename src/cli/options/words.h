/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of names: the rows of any table whose first member is the name; and the edit distance between names. */
#ifndef CLI_OPTIONS_WORDS_H
#define CLI_OPTIONS_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* An array that ends with a row whose name is NULL: of structs that start with `const char *name` (followed by
 * `const char *help` if `helped`), or of plain strings. */
struct words {
	const void *rows; /* NULL: no list */
	size_t row_bytes;
	bool helped;
	/* Whether a row is listed. The others are known too: what takes them can say why it refuses. NULL: all are. */
	bool (*lists)(const void *row);
};
#define WORDS(table)                                                                               \
	{                                                                                          \
		(table), sizeof(table)[0], false, NULL                                             \
	}
#define WORDS_THAT(table, lists)                                                                   \
	{                                                                                          \
		(table), sizeof(table)[0], false, (lists)                                          \
	}
#define WORDS_WITH_HELP_THAT(table, lists)                                                         \
	{                                                                                          \
		(table), sizeof(table)[0], true, (lists)                                           \
	}
#define WORDS_WITH_HELP(table)                                                                     \
	{                                                                                          \
		(table), sizeof(table)[0], true, NULL                                              \
	}

/* Returns the name at `index` of those listed, NULL after the last. *ret_help (may be NULL) gets its description, or NULL. */
const char *words_at(const struct words *words, size_t index, const char **ret_help);
/* Whether the list has the name. A list entry that ends in ':' matches everything that starts with it. */
bool words_have(const struct words *words, const char *name);
/* Returns the nearest name; NULL if none is near. */
const char *words_nearest(const struct words *words, const char *name);

/* Returns how many insertions, deletions, changes or swaps of neighbouring letters turn a into b. */
size_t edit_distance(const char *a, const char *b);
/* Returns the entry of `names` (`count` entries, some may be NULL) that is nearest to `name`; NULL if none is
 * near. */
const char *nearest_name(const char *name, const char *const *names, size_t count);

#endif
