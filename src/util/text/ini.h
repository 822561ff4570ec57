/* SPDX-License-Identifier: Apache-2.0 */
/*
 * INI files: sections, keys, values, and the line number of each.
 *
 *	# a comment
 *	[section]
 *	key = value with blanks, # and ; in it
 *
 * A comment has its own line, so that a value may contain anything. Values are not unquoted. The
 * caller defines the meaning of sections and keys.
 */
#ifndef UTIL_TEXT_INI_H
#define UTIL_TEXT_INI_H

#include <stddef.h>

#include "base/span.h"
#include "util/arena.h"
#include "util/error.h"

struct ini_entry {
	const char *section; /* "" before the first [section] */
	const char *key;     /* letters, digits, '-', '_', '.' */
	const char *value;   /* without leading and trailing blanks; may be empty */
	unsigned line;	     /* from 1 */
};

struct ini {
	struct ini_entry *entries; /* in file order; a key may occur twice */
	size_t count;
};

/* The entries are allocated in the arena. -1 with the error set ("NAME:3: ..."); `name` is only for that. */
int ini_parse(struct ini *ret, struct span text, const char *name, struct arena *arena,
	      struct error *error);

#endif
