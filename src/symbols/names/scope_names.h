/* SPDX-License-Identifier: Apache-2.0 */
/* "space::Type::name" for functions without a linkage name: static ones, and those in unnamed namespaces. */
#ifndef SYMBOLS_NAMES_SCOPE_NAMES_H
#define SYMBOLS_NAMES_SCOPE_NAMES_H

#include <elfutils/libdw.h>

struct scope_names;

/* NULL if out of memory. */
struct scope_names *scope_names_new(void);
void scope_names_free(struct scope_names *names);

/*
 * The qualified name of a function's DIE, or its plain name at top level; NULL if it has none. Lives
 * as long as `names` or the DWARF.
 */
const char *scope_names_find(struct scope_names *names, Dwarf_Die *function);

#endif
