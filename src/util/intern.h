/* SPDX-License-Identifier: Apache-2.0 */
/*
 * String interning: equal texts have the same pointer, so that they can be grouped and compared by
 * pointer. One thread at a time. All zero is empty.
 */
#ifndef UTIL_INTERN_H
#define UTIL_INTERN_H

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "util/arena.h"

struct intern_entry {
	const char *text; /* NULL: unused */
	void *value;	  /* owned by the caller; initially NULL */
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

/* Frees all texts; the table is empty and usable again. */
void intern_release(struct intern *intern);

/*
 * The interned copy of the bytes, NUL-terminated; does not move until the release. NULL if out of
 * memory, or if the text has 4 GiB or more.
 */
const char *intern_span(struct intern *intern, struct span bytes);
const char *intern_text(struct intern *intern, const char *text);
/*
 * The same, with a field for a value of the caller. Valid until the next text is added. NULL as
 * above.
 */
struct intern_entry *intern_entry(struct intern *intern, struct span bytes);

#endif
