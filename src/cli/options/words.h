/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of names: the rows of any table whose first member is the name, and how near one name is to another. */
#ifndef CLI_OPTIONS_WORDS_H
#define CLI_OPTIONS_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* Any array that ends with a row whose name is NULL: of structs that begin with `const char *name` (and, if `helped`,
 * `const char *help` behind it), or of plain strings. */
struct words {
	const void *rows; /* NULL: no list */
	size_t row_bytes;
	bool helped;
};
#define WORDS(table)                                                                               \
	{                                                                                          \
		(table), sizeof(table)[0], false                                                   \
	}
#define WORDS_WITH_HELP(table)                                                                     \
	{                                                                                          \
		(table), sizeof(table)[0], true                                                    \
	}

/* The name at `index`, NULL behind the last. *ret_help (may be NULL) gets its line, or NULL. */
const char *words_at(const struct words *words, size_t index, const char **ret_help);
/* Whether the list has it. A name that ends in ':' stands for everything that begins with it. */
bool words_have(const struct words *words, const char *name);
/* The name that is most like it; NULL if none is near. */
const char *words_nearest(const struct words *words, const char *name);

/* How many letters must be added, taken, changed or swapped with the next to make b out of a. */
size_t edit_distance(const char *a, const char *b);
/* The entry of names (count, may hold NULLs) that is most like `name`; NULL if none is near. */
const char *nearest_name(const char *name, const char *const *names, size_t count);

#endif
