/* SPDX-License-Identifier: Apache-2.0 */
/* A .dwp file: the split units (-gsplit-dwarf) of a whole program, packed into one file. */
#ifndef SYMBOLS_DEBUG_SPLIT_PACKAGE_H
#define SYMBOLS_DEBUG_SPLIT_PACKAGE_H

#include <stdbool.h>
#include <stddef.h>

#include <elfutils/libdw.h>

struct split_package;

/*
 * Uses the first of the files that is a package; opens none before the first lookup. The paths must
 * outlive it. NULL if out of memory.
 */
struct split_package *split_package_new(char *const *paths, size_t count);
void split_package_free(struct split_package *package);

/*
 * Finds the unit that belongs to the skeleton; call once per skeleton. False if the package lacks it. *ret_body
 * lives as long as the package. Its ranges that are relative to the unit's base lack the base: libdw knows no
 * skeleton for the unit.
 */
bool split_package_find(struct split_package *package, Dwarf_CU *skeleton, Dwarf_Die *ret_body);

#endif
