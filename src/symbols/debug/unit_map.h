/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which unit of a module's DWARF covers an address. Immutable once built: any number of threads may
 * query it, each with its own libdw handle.
 */
#ifndef SYMBOLS_DEBUG_UNIT_MAP_H
#define SYMBOLS_DEBUG_UNIT_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <elfutils/libdw.h>

#include "symbols/ranges.h"

struct unit_map {
	struct ranges ranges; /* item = index into units */
	struct {
		Dwarf_Off *at; /* offset of the unit's DIE */
		size_t count, capacity;
	} units;
	bool has_split_units; /* some units are only skeletons: the rest is in other files */
};

/* False if out of memory. */
bool unit_map_init(struct unit_map *map, Dwarf *dwarf);
void unit_map_release(struct unit_map *map);

/* False if no unit covers the address. */
bool unit_map_find(const struct unit_map *map, uint64_t address, uint32_t *ret_unit);

/* Adds the ranges of a DIE; false if out of memory. */
bool die_ranges_add(struct ranges *ranges, Dwarf_Die *die, uint32_t item);

#endif
