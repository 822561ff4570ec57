/* SPDX-License-Identifier: Apache-2.0 */
/*
 * INI files: sections, keys, values, and the line each stands in.
 *
 *	# a comment
 *	[section]
 *	key = value with blanks, # and ; in it
 *
 * A comment has a line of its own, so that a value may hold anything. Values are not unquoted. What a
 * section or key means is the caller's affair.
 */
#ifndef UTIL_INI_H
#define UTIL_INI_H

#include <stddef.h>

#include "base/span.h"
#include "util/arena.h"
#include "util/error.h"

struct ini_entry {
	const char *section; /* "" above the first [section] */
	const char *key;     /* letters, digits, '-', '_', '.' */
	const char *value;   /* without blanks at its ends; may be empty */
	unsigned line;	     /* from 1 */
};

struct ini {
	struct ini_entry *entries; /* in the order of the file; a key may come twice */
	size_t count;
};

/* The entries live in the arena. -1 with the error set ("NAME:3: ..."); `name` is for that only. */
int ini_parse(struct ini *ret, struct span text, const char *name, struct arena *arena,
	      struct error *error);

#endif
