/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of interned strings: open addressing, at most three quarters full. The texts are in an
 * arena and never move; only the table grows. An entry has the hash and length, so that a text is
 * compared only with one that is almost certainly equal, and growing reads no text.
 */
#include "util/intern.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { FIRST_SIZE = 256 };

void intern_release(struct intern *intern)
{
	arena_release(&intern->arena);
	free(intern->table);
	*intern = INTERN_INIT;
}

static bool grow(struct intern *intern)
{
	size_t size = intern->size ? intern->size * 2 : FIRST_SIZE;
	struct intern_entry *table = calloc(size, sizeof *table);

	if (!table)
		return false;
	for (size_t i = 0; i < intern->size; i++) {
		const struct intern_entry *e = &intern->table[i];

		if (!e->text)
			continue;
		size_t at = e->hash & (size - 1);

		while (table[at].text)
			at = (at + 1) & (size - 1);
		table[at] = *e;
	}
	free(intern->table);
	intern->table = table;
	intern->size = size;
	return true;
}

struct intern_entry *intern_entry(struct intern *intern, struct span bytes)
{
	if (bytes.size > UINT32_MAX)
		return NULL;
	if (intern->used * 4 >= intern->size * 3 && !grow(intern))
		return NULL;
	uint32_t hash = (uint32_t)hash_bytes(bytes.data, bytes.size, 0);
	uint32_t length = (uint32_t)bytes.size;
	size_t at = hash & (intern->size - 1);

	for (; intern->table[at].text; at = (at + 1) & (intern->size - 1)) {
		struct intern_entry *e = &intern->table[at];

		if (e->hash == hash && e->length == length &&
		    (length == 0 || memcmp(e->text, bytes.data, length) == 0))
			return e;
	}
	const char *text = arena_string(&intern->arena, bytes);

	if (!text)
		return NULL;
	intern->table[at] = (struct intern_entry){ .text = text, .hash = hash, .length = length };
	intern->used++;
	return &intern->table[at];
}

const char *intern_span(struct intern *intern, struct span bytes)
{
	const struct intern_entry *e = intern_entry(intern, bytes);

	return e ? e->text : NULL;
}

const char *intern_text(struct intern *intern, const char *text)
{
	return intern_span(intern, span_of(text, strlen(text)));
}
