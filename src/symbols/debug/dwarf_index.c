/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps an address to its unit, function, inlined calls and line.
 *
 * libdw finds a function by walking its whole unit for each address. So on the first hit in a unit,
 * a table of the ranges of all its functions is built. Finding the inlined calls is then a walk
 * inside one function.
 *
 * Invariant: a unit's functions are loaded, or its `loaded` is false. Bad DWARF makes names
 * missing, but never causes invalid memory accesses: libdw does all the reading.
 */
#include "symbols/debug/dwarf_index.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "symbols/ranges.h"
#include "symbols/names/scope_names.h"
#include "symbols/debug/split_package.h"
#include "symbols/debug/unit_map.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/vector.h"

enum { TREE_MAX_DEPTH = 128 };

struct unit {
	bool loaded;
	/* The following are valid only if loaded. */
	Dwarf_Die die;	      /* in the file: has ranges and lines */
	Dwarf_Die body;	      /* with the functions: the same, or the split unit's */
	const char *folder;   /* compilation directory */
	uint64_t base;	      /* base that libdw did not add to ranges of the body, or 0 */
	struct ranges ranges; /* item = index into functions */
	struct {
		Dwarf_Die *at;
		size_t count, capacity;
	} functions;
};

struct dwarf_index {
	Dwarf *dwarf;
	const char *file;
	const struct unit_map *map;
	struct split_package *package; /* may be NULL */
	struct scope_names *names;
	struct unit *units; /* one per unit of the map */
};

struct dwarf_index *dwarf_index_new(Dwarf *dwarf, const char *file, const struct unit_map *map,
				    struct split_package *package)
{
	struct dwarf_index *index = calloc(1, sizeof *index);

	if (!index)
		return NULL;
	index->dwarf = dwarf;
	index->file = file;
	index->map = map;
	index->package = package;
	index->names = scope_names_new();
	index->units = calloc(MAX(map->units.count, (size_t)1), sizeof *index->units);
	if (!index->names || !index->units) {
		dwarf_index_free(index);
		return NULL;
	}
	return index;
}

void dwarf_index_free(struct dwarf_index *index)
{
	if (!index)
		return;
	for (size_t i = 0; index->units && i < index->map->units.count; i++) {
		ranges_release(&index->units[i].ranges);
		vector_release(&index->units[i].functions);
	}
	free(index->units);
	scope_names_free(index->names);
	free(index);
}

/* Whether the DIE may contain a function with code. */
static bool may_hold_functions(int tag)
{
	switch (tag) {
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_subprogram:
	case DW_TAG_lexical_block:
		return true;
	default:
		return false;
	}
}

static bool collect_functions(struct unit *unit, Dwarf_Die *parent, unsigned depth)
{
	Dwarf_Die die;

	if (depth > TREE_MAX_DEPTH || dwarf_child(parent, &die) != 0)
		return true;
	do {
		int tag = dwarf_tag(&die);

		if (tag == DW_TAG_subprogram &&
		    (dwarf_hasattr(&die, DW_AT_low_pc) || dwarf_hasattr(&die, DW_AT_ranges))) {
			uint32_t item = (uint32_t)unit->functions.count;

			if (!vector_push(&unit->functions, die) ||
			    !die_ranges_add(&unit->ranges, &die, item))
				return false;
		}
		if (may_hold_functions(tag) && !collect_functions(unit, &die, depth + 1))
			return false;
	} while (dwarf_siblingof(&die, &die) == 0);
	return true;
}

static const char *string_attribute(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;

	return dwarf_formstring(dwarf_attr_integrate(die, name, &attribute));
}

static bool is_irregular(const char *folder, const char *inner, const char *name)
{
	AUTO_FREE char *middle = inner[0] == '/' ? strdup(inner) : path_join(folder, inner);
	AUTO_FREE char *path = name[0] == '/' ? strdup(name)
			       : middle	      ? path_join(middle, name)
					      : NULL;

	return !path || file_is_irregular(path);
}

/* Whether libdw may search for the split unit: it opens the file itself, and would block on a pipe of that name. */
static bool may_look_for_body(const struct dwarf_index *index, struct unit *unit)
{
	AUTO_FREE char *folder = path_folder(index->file), *package = NULL;
	const char *compiled_in = string_attribute(&unit->die, DW_AT_comp_dir);
	const char *name = string_attribute(&unit->die, DW_AT_dwo_name);

	if (!name)
		name = string_attribute(&unit->die, DW_AT_GNU_dwo_name);
	/* Newer versions of libdw also open the package. */
	if (!folder || asprintf(&package, "%s.dwp", index->file) < 0)
		return false;
	return !name || !(is_irregular(folder, "", name) || file_is_irregular(package) ||
			  (compiled_in && is_irregular(folder, compiled_in, name)));
}

/* Finds the split unit of a skeleton: next to the program, in the compilation directory, or in the package. */
static void load_body(struct dwarf_index *index, struct unit *unit)
{
	Dwarf_Die body;
	uint8_t type;

	unit->body = unit->die;
	if (dwarf_cu_info(unit->die.cu, NULL, &type, NULL, NULL, NULL, NULL, NULL) != 0 ||
	    type != DW_UT_skeleton)
		return;
	if (may_look_for_body(index, unit) &&
	    dwarf_cu_info(unit->die.cu, NULL, NULL, NULL, &body, NULL, NULL, NULL) == 0 &&
	    dwarf_tag(&body) != DW_TAG_invalid) {
		unit->body = body;
	} else if (index->package && split_package_find(index->package, unit->die.cu, &body)) {
		unit->body = body;
		if (dwarf_lowpc(&unit->die, &unit->base) != 0)
			unit->base = 0;
	}
}

/* NULL if the file can no longer be read. */
static struct unit *load_unit(struct dwarf_index *index, uint32_t number)
{
	struct unit *unit = &index->units[number];

	if (unit->loaded)
		return unit;
	if (!dwarf_offdie(index->dwarf, index->map->units.at[number], &unit->die))
		return NULL;
	load_body(index, unit);
	unit->folder = string_attribute(&unit->die, DW_AT_comp_dir);
	/* Out of memory: the functions found so far are right, the rest has no names. */
	(void)collect_functions(unit, &unit->body, 0);
	ranges_sort(&unit->ranges);
	unit->loaded = true;
	return unit;
}

struct chain {
	uint64_t address;
	const struct unit *unit;
	const struct range *function;
	Dwarf_Die die[DWARF_CHAIN_MAX]; /* outermost first; [0] is the function itself */
	size_t count;
};

/*
 * Whether the DIE covers the address. If libdw did not add the base to ranges, a range is relative if
 * it is within the function only after adding it.
 */
static bool covers(const struct chain *chain, Dwarf_Die *die)
{
	uint64_t unit_base = chain->unit->base;
	Dwarf_Addr base, low, high;
	ptrdiff_t offset = 0;

	if (unit_base == 0 || dwarf_hasattr(die, DW_AT_low_pc))
		return dwarf_haspc(die, chain->address) > 0;
	while ((offset = dwarf_ranges(die, offset, &base, &low, &high)) > 0) {
		if (low < chain->function->low || high > chain->function->high) {
			low += unit_base;
			high += unit_base;
		}
		if (low <= chain->address && chain->address < high)
			return true;
	}
	return false;
}

/* Adds the inlined calls below `parent` that cover the address. True if there is one. */
static bool descend(struct chain *chain, Dwarf_Die *parent, unsigned depth)
{
	Dwarf_Die die;

	if (depth > TREE_MAX_DEPTH || dwarf_child(parent, &die) != 0)
		return false;
	do {
		int tag = dwarf_tag(&die);

		if (tag == DW_TAG_inlined_subroutine && covers(chain, &die)) {
			if (chain->count < DWARF_CHAIN_MAX)
				chain->die[chain->count++] = die;
			descend(chain, &die, depth + 1);
			return true;
		}
		/* Search a block without a range: its children may have ranges. */
		if (tag == DW_TAG_lexical_block &&
		    (dwarf_hasattr(&die, DW_AT_low_pc) || dwarf_hasattr(&die, DW_AT_ranges)) &&
		    !covers(chain, &die))
			continue;
		if (tag == DW_TAG_lexical_block && descend(chain, &die, depth + 1))
			return true;
	} while (dwarf_siblingof(&die, &die) == 0);
	return false;
}

static bool unit_mangles(struct unit *unit)
{
	switch (dwarf_srclang(&unit->body)) {
	case DW_LANG_C:
	case DW_LANG_C89:
	case DW_LANG_C99:
	case DW_LANG_C11:
	case DW_LANG_Mips_Assembler:
		return false;
	default:
		return true;
	}
}

/* Rust's legacy mangling ends in a hash instead of the generic arguments of a function: "17h0123456789abcdefE". */
static bool is_rust_legacy(const char *linkage_name)
{
	enum { HASH_BYTES = 20 };
	size_t length = strlen(linkage_name);

	return length > HASH_BYTES && strncmp(linkage_name, "_ZN", 3) == 0 &&
	       strncmp(linkage_name + length - HASH_BYTES, "17h", 3) == 0 &&
	       linkage_name[length - 1] == 'E';
}

static void set_name(struct dwarf_index *index, struct dwarf_frame *frame, Dwarf_Die *die,
		     bool mangles)
{
	frame->linkage_name = string_attribute(die, DW_AT_linkage_name);
	if (!frame->linkage_name)
		frame->linkage_name = string_attribute(die, DW_AT_MIPS_linkage_name);
	frame->mangles = mangles;
	if (frame->linkage_name) {
		const char *name = is_rust_legacy(frame->linkage_name) ? dwarf_diename(die) : NULL;

		frame->arguments = name ? strchr(name, '<') : NULL;
		return;
	}
	frame->name = mangles ? scope_names_find(index->names, die) : dwarf_diename(die);
}

/* The call site of an inlined function: the source location in the enclosing frame. */
static void set_call_location(struct dwarf_frame *frame, struct unit *unit, Dwarf_Die *inlined)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;
	Dwarf_Files *files;
	size_t count;

	if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attribute), &value) == 0)
		frame->line = (uint32_t)value;
	if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &value) != 0)
		return;
	/* clang gives a split unit no file table: the indices refer to the skeleton's. */
	if (dwarf_getsrcfiles(&unit->body, &files, &count) != 0 &&
	    dwarf_getsrcfiles(&unit->die, &files, &count) != 0)
		return;
	if (value < count)
		frame->file = dwarf_filesrc(files, value, NULL, NULL);
	frame->folder = unit->folder;
}

static void set_line(struct dwarf_frame *frame, struct unit *unit, uint64_t address)
{
	Dwarf_Line *line = dwarf_getsrc_die(&unit->die, address);
	int number;

	if (!line)
		return;
	frame->file = dwarf_linesrc(line, NULL, NULL);
	frame->folder = unit->folder;
	if (dwarf_lineno(line, &number) == 0 && number > 0)
		frame->line = (uint32_t)number;
}

size_t dwarf_index_find(struct dwarf_index *index, uint64_t address, struct dwarf_frame *frames)
{
	uint32_t number;
	struct unit *unit = NULL;

	if (unit_map_find(index->map, address, &number))
		unit = load_unit(index, number);
	if (!unit)
		return 0;
	const struct range *found = ranges_find(&unit->ranges, address);

	frames[0] = (struct dwarf_frame){ 0 };
	set_line(&frames[0], unit, address);
	if (!found)
		return 1;

	struct chain chain = { .address = address, .unit = unit, .function = found };

	chain.die[chain.count++] = unit->functions.at[found->item];
	descend(&chain, &chain.die[0], 0);
	bool mangles = unit_mangles(unit);

	for (size_t i = 0; i < chain.count; i++) {
		Dwarf_Die *die = &chain.die[chain.count - 1 - i];

		if (i > 0) {
			frames[i] = (struct dwarf_frame){ 0 };
			set_call_location(&frames[i], unit, die + 1);
		}
		frames[i].inlined = i + 1 < chain.count;
		set_name(index, &frames[i], die, mangles);
	}
	return chain.count;
}
