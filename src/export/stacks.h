/* SPDX-License-Identifier: Apache-2.0 */
/* What the exporters share: stacks one after the other, numbers for things by pointer, names made harmless. */
#ifndef EXPORT_STACKS_H
#define EXPORT_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "export/exporters.h"
#include "util/vector.h"

/* Pointers with dense numbers from 0, in the order they were first seen. */
struct numbering {
	VECTOR(const void *) items;
	uint32_t *slots; /* number + 1; 0: free */
	size_t slot_count;
};
/* SIZE_MAX if out of memory. */
size_t number_of(struct numbering *numbering, const void *item);
void numbering_release(struct numbering *numbering);

/* The stack of an entry, innermost first; lives until the next call with the same scratch. -1 if out of memory. */
struct stack_scratch {
	VECTOR(const struct place *) places;
};
int entry_stack(const struct export_input *input, const struct entry *entry,
		struct stack_scratch *scratch, struct place_chain *ret);
void stack_scratch_release(struct stack_scratch *scratch);

/* The text with every character of `bad`, and whatever would move a cursor, as `instead`. */
void write_safe(FILE *out, const char *text, const char *bad, char instead);

/* "0x401136: main (main.c:12)", as massif and DHAT have it. */
void write_valgrind_frame(FILE *out, const struct place *place);

int no_memory(struct error *error); /* "out of memory", -1 */

#endif
