/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings kept once: equal text gives the same pointer, so that grouping and comparing can go by
 * pointer. One thread at a time. Zeroed is empty.
 */
#ifndef UTIL_INTERN_H
#define UTIL_INTERN_H

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "util/arena.h"

struct intern_entry {
	const char *text; /* NULL: free */
	void *value;	  /* the caller's; NULL at first */
	uint32_t hash;
	uint32_t length;
};

struct intern {
	struct arena arena; /* the texts */
	struct intern_entry *table;
	size_t size; /* a power of two, or 0 */
	size_t used;
};

#define INTERN_INIT ((struct intern){ 0 })

/* Frees all texts; empty and usable again. */
void intern_release(struct intern *intern);

/*
 * The one copy of the bytes, with a NUL behind them; stays where it is until the release. NULL if
 * out of memory, or if there are 4 GiB of them.
 */
const char *intern_span(struct intern *intern, struct span bytes);
const char *intern_text(struct intern *intern, const char *text);
/*
 * The same, with the place of a value that the caller may keep with the text. Valid until the next
 * text is added. NULL as above.
 */
struct intern_entry *intern_entry(struct intern *intern, struct span bytes);

#endif
