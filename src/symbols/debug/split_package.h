/* SPDX-License-Identifier: Apache-2.0 */
/* A .dwp file: the split units (-gsplit-dwarf) of a whole program, packed into one file. */
#ifndef SYMBOLS_DEBUG_SPLIT_PACKAGE_H
#define SYMBOLS_DEBUG_SPLIT_PACKAGE_H

#include <stdbool.h>
#include <stddef.h>

#include <elfutils/libdw.h>

struct split_package;

/*
 * The first of the files that is a package; none is opened before the first question. The paths must
 * outlive it. NULL if out of memory.
 */
struct split_package *split_package_new(char *const *paths, size_t count);
void split_package_free(struct split_package *package);

/*
 * The unit that belongs to the skeleton; to be asked once for each. False if the package does not have
 * it. *ret_body lives as long as the package. Ranges in it that are relative to the unit's base are not based: libdw
 * knows no skeleton for it.
 */
bool split_package_find(struct split_package *package, Dwarf_CU *skeleton, Dwarf_Die *ret_body);

#endif
