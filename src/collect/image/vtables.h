/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types of C++ objects with virtual functions, from memory alone, so that it works in stripped programs: the first word of the object
 * points to a table of functions, before which a pointer to the type_info of the class is stored. Programs that are compiled without
 * RTTI have no type_info, and tables of Rust's dyn Trait have none; so have objects without virtual functions.
 */
#ifndef COLLECT_IMAGE_VTABLES_H
#define COLLECT_IMAGE_VTABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "collect/image/roots.h"
#include "collect/image/scan.h"
#include "util/intern.h"

struct vtables {
	const struct scanner *scanner;
	const struct root_ranges *roots; /* the modules, in which all of this is */
	uint64_t low, high;
	struct vtable *known; /* a hash table */
	size_t size, used;    /* a power of two, or 0 */
	uint64_t kinds[8];    /* tables of the classes of type_info */
	size_t kind_count;
	struct intern texts;
	VECTOR(const char *) names; /* by type - 1: mangled, as in type_info */
};
/* Both must outlive it. All zero finds nothing. */
void vtables_init(struct vtables *vtables, const struct scanner *scanner,
		  const struct root_ranges *roots);
void vtables_release(struct vtables *vtables);

/* The type of an object whose first word this is, counted from 1; 0: none, or not known. */
uint16_t vtables_type(struct vtables *vtables, uint64_t first_word);

#endif
