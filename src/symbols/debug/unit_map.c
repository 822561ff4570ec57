/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranges of all units of a module. .debug_aranges would have them with less work, but clang and
 * rustc do not emit it.
 */
#include "symbols/debug/unit_map.h"

#include <dwarf.h>

#include "util/vector.h"

bool die_ranges_add(struct ranges *ranges, Dwarf_Die *die, uint32_t item)
{
	Dwarf_Addr base, low, high;
	ptrdiff_t offset = 0;

	while ((offset = dwarf_ranges(die, offset, &base, &low, &high)) > 0)
		/* Code that the linker discarded keeps its ranges, starting at address 0. */
		if (low != 0 && !ranges_add(ranges, low, high, item, 0))
			return false;
	return true;
}

bool unit_map_init(struct unit_map *map, Dwarf *dwarf)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;
	uint8_t type;

	*map = (struct unit_map){ 0 };
	while (dwarf_get_units(dwarf, cu, &cu, NULL, &type, &die, NULL) == 0) {
		if (type != DW_UT_compile && type != DW_UT_skeleton)
			continue;
		uint32_t item = (uint32_t)map->units.count;

		map->has_split_units |= type == DW_UT_skeleton;

		if (!vector_push(&map->units, dwarf_dieoffset(&die)) ||
		    !die_ranges_add(&map->ranges, &die, item)) {
			unit_map_release(map);
			return false;
		}
	}
	ranges_sort(&map->ranges);
	return true;
}

void unit_map_release(struct unit_map *map)
{
	ranges_release(&map->ranges);
	vector_release(&map->units);
}

bool unit_map_find(const struct unit_map *map, uint64_t address, uint32_t *ret_unit)
{
	const struct range *found = ranges_find(&map->ranges, address);

	if (found)
		*ret_unit = found->item;
	return found != NULL;
}
