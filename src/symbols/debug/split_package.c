/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packages of split units, which libdw (before 0.191) does not read.
 *
 * A package is an ELF file whose .debug_cu_index maps the id of a split unit to its part of each
 * section. For a requested unit, an ELF file is constructed in memory whose sections *are* those
 * parts (nothing is copied), with the addresses from the program's own .debug_addr, and libdw reads
 * that like a program with one unit. The sections are named like those of a program and not of a
 * .dwo, because libdw accepts .debug_addr only then.
 *
 * The index is untrusted input and read through a cursor. Owned by one module; not thread-safe.
 */
#include "symbols/debug/split_package.h"

#include <dwarf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "base/cursor.h"
#include "symbols/debug/debug_search.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/vector.h"

/* The sections that a column of the index can refer to. */
enum part {
	PART_INFO,
	PART_ABBREV,
	PART_LINE,
	PART_STR_OFFSETS,
	PART_RNGLISTS,
	PART_STR,  /* not in the index: the whole section */
	PART_ADDR, /* from the program, starting at its unit's base */
	PART_RANGES,
	PART_COUNT,
};

static const struct {
	const char *packed, *plain;
	uint32_t id_2, id_5; /* section ids in index versions 2 and 5 */
} part_rows[PART_COUNT] = {
	[PART_INFO] = { ".debug_info.dwo", ".debug_info", 1, 1 },
	[PART_ABBREV] = { ".debug_abbrev.dwo", ".debug_abbrev", 3, 3 },
	[PART_LINE] = { ".debug_line.dwo", ".debug_line", 4, 4 },
	[PART_STR_OFFSETS] = { ".debug_str_offsets.dwo", ".debug_str_offsets", 6, 6 },
	[PART_RNGLISTS] = { ".debug_rnglists.dwo", ".debug_rnglists", 0, 8 },
	[PART_STR] = { ".debug_str.dwo", ".debug_str", 0, 0 },
	[PART_ADDR] = { NULL, ".debug_addr", 0, 0 },
	[PART_RANGES] = { NULL, ".debug_ranges", 0, 0 },
};

/* A requested unit. */
struct packed_unit {
	Elf *elf;
	Dwarf *dwarf;
	struct {
		Elf64_Ehdr header;
		Elf64_Shdr none; /* section 0: libelf can extend a table but not start one */
	} image;
	char *names; /* section names */
};

struct split_package {
	char *const *paths;
	size_t path_count;
	bool asked;
	struct file_map map;
	Elf *elf;
	struct span sections[PART_COUNT];
	struct span index;
	VECTOR(struct packed_unit *) units;
};

struct split_package *split_package_new(char *const *paths, size_t count)
{
	struct split_package *package = calloc(1, sizeof *package);

	if (package) {
		package->paths = paths;
		package->path_count = count;
	}
	return package;
}

static void unit_free(struct packed_unit *unit)
{
	if (unit->dwarf)
		dwarf_end(unit->dwarf);
	if (unit->elf)
		elf_end(unit->elf);
	free(unit->names);
	free(unit);
}

void split_package_free(struct split_package *package)
{
	if (!package)
		return;
	for (size_t i = 0; i < package->units.count; i++)
		unit_free(package->units.at[i]);
	vector_release(&package->units);
	if (package->elf)
		elf_end(package->elf);
	file_map_release(&package->map);
	free(package);
}

/* The contents of the section, or nothing. libdw has decompressed those that it uses. */
static struct span section_of(Elf *elf, const char *wanted)
{
	Elf_Scn *scn = elf_section(elf, wanted);
	const Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;

	return data ? span_of(data->d_buf, data->d_size) : span_of(NULL, 0);
}

static bool open_file(struct split_package *package, const char *path)
{
	if (file_map_open(&package->map, path, NULL) < 0)
		return false;
	void *bytes = (void *)(uintptr_t)package->map.bytes.data; /* libelf only reads it */

	package->elf = elf_memory(bytes, package->map.bytes.size);
	if (package->elf)
		package->index = section_of(package->elf, ".debug_cu_index");
	if (package->index.size == 0) {
		if (package->elf)
			elf_end(package->elf);
		package->elf = NULL;
		file_map_release(&package->map);
		return false;
	}
	for (size_t i = 0; i < PART_COUNT; i++)
		if (part_rows[i].packed)
			package->sections[i] = section_of(package->elf, part_rows[i].packed);
	return true;
}

/* The parts in the unit's row; false if the index lacks the unit or is damaged. */
static bool find_parts(const struct split_package *package, uint64_t id,
		       struct span parts[PART_COUNT])
{
	struct cursor c = cursor_over(package->index);
	uint32_t version = cursor_u32(&c) & 0xffff; /* version 5 has two bytes and two of padding */
	uint32_t columns = cursor_u32(&c);
	uint32_t units = cursor_u32(&c);
	uint32_t slots = cursor_u32(&c);
	size_t ids_at = cursor_offset(&c), rows_at, columns_at, offsets_at, sizes_at;
	uint32_t row = 0;

	if (c.failed || (version != 2 && version != 5) || columns > 64 ||
	    !checked_add(ids_at, (size_t)slots * 8, &rows_at) ||
	    !checked_add(rows_at, (size_t)slots * 4, &columns_at) ||
	    !checked_add(columns_at, (size_t)columns * 4, &offsets_at) ||
	    !checked_add(offsets_at, (size_t)units * columns * 4, &sizes_at))
		return false;
	/* A hash table, but searched linearly: each unit is looked up only once. */
	for (uint32_t i = 0; i < slots && row == 0 && !c.failed; i++) {
		cursor_seek(&c, ids_at + (size_t)i * 8);
		if (cursor_u64(&c) != id)
			continue;
		cursor_seek(&c, rows_at + (size_t)i * 4);
		row = cursor_u32(&c);
	}
	if (c.failed || row == 0 || row > units)
		return false;
	for (uint32_t column = 0; column < columns; column++) {
		size_t cell = ((size_t)(row - 1) * columns + column) * 4;

		cursor_seek(&c, columns_at + (size_t)column * 4);
		uint32_t kind = cursor_u32(&c);

		cursor_seek(&c, offsets_at + cell);
		uint32_t offset = cursor_u32(&c);

		cursor_seek(&c, sizes_at + cell);
		uint32_t size = cursor_u32(&c);

		for (size_t i = 0; i < PART_COUNT; i++) {
			uint32_t known = version == 2 ? part_rows[i].id_2 : part_rows[i].id_5;

			if (known != 0 && known == kind &&
			    !span_part(package->sections[i], offset, size, &parts[i]))
				return false;
		}
	}
	parts[PART_STR] = package->sections[PART_STR];
	return !c.failed && parts[PART_INFO].size > 0;
}

/* The program's section, starting at the base that the skeleton gives for its unit. */
static struct span based_section(Dwarf_Die *skeleton, Elf *elf, const char *name,
				 const unsigned *attributes, size_t count)
{
	struct span whole = section_of(elf, name), part;
	Dwarf_Attribute attribute;
	Dwarf_Word base = 0;

	for (size_t i = 0; i < count; i++)
		if (dwarf_formudata(dwarf_attr(skeleton, attributes[i], &attribute), &base) == 0)
			break;
	if (base > whole.size || !span_part(whole, base, whole.size - base, &part))
		return span_of(NULL, 0);
	return part;
}

static void add_program_parts(Dwarf_CU *skeleton, Dwarf_Die *die, struct span parts[PART_COUNT])
{
	static const unsigned addr_base[] = { DW_AT_addr_base, DW_AT_GNU_addr_base };
	static const unsigned ranges_base[] = { DW_AT_GNU_ranges_base };
	Elf *elf = dwarf_getelf(dwarf_cu_getdwarf(skeleton));

	parts[PART_ADDR] = based_section(die, elf, part_rows[PART_ADDR].plain, addr_base,
					 ARRAY_SIZE(addr_base));
	parts[PART_RANGES] = based_section(die, elf, part_rows[PART_RANGES].plain, ranges_base,
					   ARRAY_SIZE(ranges_base));
}

static bool add_section(Elf *elf, struct span bytes, size_t name, unsigned type)
{
	Elf_Scn *scn = elf_newscn(elf);
	Elf_Data *data = scn ? elf_newdata(scn) : NULL;
	GElf_Shdr header = {
		.sh_name = (GElf_Word)name,
		.sh_type = type,
		.sh_size = bytes.size,
		.sh_addralign = 1,
	};

	if (!data)
		return false;
	data->d_buf = (void *)(uintptr_t)bytes.data;
	data->d_size = bytes.size;
	data->d_type = ELF_T_BYTE;
	data->d_align = 1;
	return gelf_update_shdr(scn, &header) != 0;
}

/* Builds an ELF file of the parts that exists only in libelf's tables. */
static bool make_elf(struct packed_unit *unit, const struct span parts[PART_COUNT])
{
	struct buffer names = BUFFER_INIT;
	size_t at[PART_COUNT], last, last_name;

	buffer_char(&names, 0);
	for (size_t i = 0; i < PART_COUNT; i++) {
		at[i] = names.size;
		buffer_append(&names, part_rows[i].plain, strlen(part_rows[i].plain) + 1);
	}
	last_name = names.size;
	buffer_append(&names, ".shstrtab", sizeof ".shstrtab");
	size_t names_size = names.size;

	unit->names = buffer_take_string(&names);
	unit->image.header = (Elf64_Ehdr){
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = ET_REL,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_shoff = sizeof(Elf64_Ehdr),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = 1,
	};
	unit->elf = elf_memory((char *)&unit->image, sizeof unit->image);
	if (!unit->elf || !unit->names)
		return false;
	for (size_t i = 0; i < PART_COUNT; i++)
		if (parts[i].size && !add_section(unit->elf, parts[i], at[i], SHT_PROGBITS))
			return false;
	if (!add_section(unit->elf, span_of(unit->names, names_size), last_name, SHT_STRTAB) ||
	    elf_getshdrnum(unit->elf, &last) != 0)
		return false;
	GElf_Ehdr header;

	if (!gelf_getehdr(unit->elf, &header))
		return false;
	header.e_shstrndx = (GElf_Half)(last - 1);
	return gelf_update_ehdr(unit->elf, &header) != 0;
}

static bool body_of(const struct packed_unit *unit, Dwarf_Die *ret_body)
{
	Dwarf_CU *cu = NULL;

	return unit->dwarf &&
	       dwarf_get_units(unit->dwarf, NULL, &cu, NULL, NULL, ret_body, NULL) == 0;
}

bool split_package_find(struct split_package *package, Dwarf_CU *skeleton, Dwarf_Die *ret_body)
{
	struct span parts[PART_COUNT] = { { 0 } };
	Dwarf_Die die;
	uint64_t id;

	for (size_t i = 0; !package->asked && i < package->path_count; i++)
		if (open_file(package, package->paths[i]))
			break;
	package->asked = true;
	if (!package->elf || dwarf_cu_info(skeleton, NULL, NULL, &die, NULL, &id, NULL, NULL) != 0)
		return false;
	if (!find_parts(package, id, parts))
		return false;
	add_program_parts(skeleton, &die, parts);
	struct packed_unit *unit = calloc(1, sizeof *unit);

	if (!unit || !vector_push(&package->units, unit)) {
		free(unit);
		return false;
	}
	if (make_elf(unit, parts))
		unit->dwarf = dwarf_begin_elf(unit->elf, DWARF_C_READ, NULL);
	return body_of(unit, ret_body);
}
