/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sections are told by the program headers, not by section headers: a separate debug file has those of the program, but calls all its
 * sections empty.
 *
 * Aliases (environ and __environ) are one variable: that with the shortest name. DWARF is walked once for all variables.
 * libdw does all the reading; what it cannot read has no line.
 */
#include "symbols/debug/variables.h"

#include <dwarf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "util/search.h"
#include "util/vector.h"

enum {
	TREE_MAX_DEPTH = 128,
	/* A file may have any number of symbols whose names are megabytes of the same text: they are sorted by length. */
	NAME_MAX_BYTES = 32 << 10,
};

struct segment {
	uint64_t start, file_end, end;
};
/* What the program headers say. */
struct segments {
	VECTOR(struct segment) writable;
	uint64_t relro_start, relro_end;
};

static bool read_segments(Dwfl_Module *module, struct segments *ret)
{
	GElf_Addr bias;
	Elf *elf = dwfl_module_getelf(module, &bias);
	size_t count;
	GElf_Phdr header;

	if (!elf || elf_getphdrnum(elf, &count) != 0)
		return false;
	for (size_t i = 0; i < count && i < INT32_MAX; i++) {
		if (!gelf_getphdr(elf, (int)i, &header))
			continue;
		struct segment segment = { header.p_vaddr,
					   saturating_add(header.p_vaddr, header.p_filesz),
					   saturating_add(header.p_vaddr, header.p_memsz) };

		if (header.p_type == PT_GNU_RELRO) {
			ret->relro_start = segment.start;
			ret->relro_end = segment.end;
		} else if (header.p_type == PT_LOAD && (header.p_flags & PF_W) &&
			   !vector_push(&ret->writable, segment)) {
			return false;
		}
	}
	return true;
}

/* False: it is not writable. */
static bool find_section(const struct segments *segments, uint64_t address,
			 enum variable_section *ret)
{
	for (size_t i = 0; i < segments->writable.count; i++) {
		const struct segment *s = &segments->writable.at[i];

		if (address < s->start || address >= s->end)
			continue;
		if (address >= segments->relro_start && address < segments->relro_end)
			*ret = SECTION_RELRO;
		else
			*ret = address < s->file_end ? SECTION_DATA : SECTION_BSS;
		return true;
	}
	return false;
}

static int compare(const void *left, const void *right)
{
	const struct variable *a = left, *b = right;
	bool a_tls = a->section == SECTION_TLS, b_tls = b->section == SECTION_TLS;
	size_t a_length = strlen(a->linkage_name), b_length = strlen(b->linkage_name);

	if (a_tls != b_tls)
		return a_tls ? 1 : -1;
	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	if (a->size != b->size)
		return a->size > b->size ? -1 : 1;
	if (a_length != b_length)
		return a_length < b_length ? -1 : 1;
	return strcmp(a->linkage_name, b->linkage_name);
}

static void drop_aliases(struct variables *variables)
{
	size_t kept = 0;

	for (size_t i = 0; i < variables->count; i++) {
		const struct variable *v = &variables->at[i];
		const struct variable *last = kept ? &variables->at[kept - 1] : NULL;

		if (last && (last->section == SECTION_TLS) == (v->section == SECTION_TLS) &&
		    v->address < saturating_add(last->address, last->size))
			continue;
		variables->at[kept++] = *v;
	}
	variables->count = kept;
}

/* Whether the symbol is a writable variable. */
static bool take_symbol(const GElf_Sym *symbol, uint64_t address, const struct segments *segments,
			struct variable *ret)
{
	unsigned type = GELF_ST_TYPE(symbol->st_info);

	ret->size = symbol->st_size;
	ret->address = address;
	if (symbol->st_shndx == SHN_UNDEF || symbol->st_size == 0)
		return false;
	if (type == STT_TLS) {
		ret->section = SECTION_TLS;
		ret->address = symbol->st_value;
		return true;
	}
	return (type == STT_OBJECT || type == STT_COMMON) &&
	       find_section(segments, address, &ret->section);
}

int variables_load(struct variables *variables, Dwfl_Module *module, uint64_t bias)
{
	struct segments segments = { 0 };
	int count = read_segments(module, &segments) ? dwfl_module_getsymtab(module) : 0;
	bool done = true;

	/* Entry 0 of a symbol table is empty. */
	for (int i = 1; i < count && done; i++) {
		GElf_Sym symbol;
		GElf_Addr address;
		struct variable variable = { .linkage_name = dwfl_module_getsym_info(
						     module, i, &symbol, &address, NULL, NULL,
						     NULL) };

		size_t length =
			variable.linkage_name ? strnlen(variable.linkage_name, NAME_MAX_BYTES) : 0;

		if (length > 0 && length < NAME_MAX_BYTES &&
		    take_symbol(&symbol, address - bias, &segments, &variable))
			done = vector_push(variables, variable);
	}
	vector_release(&segments.writable);
	if (variables->count)
		qsort(variables->at, variables->count, sizeof *variables->at, compare);
	drop_aliases(variables);
	return done ? 0 : -1;
}

void variables_release(struct variables *variables)
{
	vector_release(variables);
}

/* ---- lines ---- */

struct walk {
	struct variables *variables;
	uint64_t bias;
	/* Of the unit: its compilation directory and its source file. */
	const char *folder, *source;
};

static bool has_tls(const struct variable *v)
{
	return v->section == SECTION_TLS;
}

/* Sorted: thread-local ones last. */
static struct variable *find(const struct variables *variables, bool is_tls, uint64_t address)
{
	size_t at = FIRST_WHERE(i, variables->count,
				has_tls(&variables->at[i]) == is_tls
					? variables->at[i].address >= address
					: !is_tls);
	struct variable *v = at < variables->count ? &variables->at[at] : NULL;

	return v && has_tls(v) == is_tls && v->address == address ? v : NULL;
}

/* DW_OP_addr, or its index in a table; or a constant and the operation that makes it an address in the thread's memory. */
static struct variable *variable_of(struct walk *walk, Dwarf_Die *die)
{
	Dwarf_Attribute attribute, address;
	Dwarf_Op *ops;
	size_t count;
	Dwarf_Addr value;

	if (!dwarf_attr(die, DW_AT_location, &attribute) ||
	    dwarf_getlocation(&attribute, &ops, &count) != 0 || count == 0)
		return NULL;
	bool is_tls = count == 2 && (ops[1].atom == DW_OP_form_tls_address ||
				     ops[1].atom == DW_OP_GNU_push_tls_address);

	if (count != 1 && !is_tls)
		return NULL;
	switch (ops[0].atom) {
	case DW_OP_addr:
	case DW_OP_const4u:
	case DW_OP_const8u:
		value = ops[0].number;
		break;
	case DW_OP_addrx:
	case DW_OP_constx:
	case DW_OP_GNU_addr_index:
	case DW_OP_GNU_const_index:
		if (dwarf_getlocation_attr(&attribute, ops, &address) != 0 ||
		    dwarf_formaddr(&address, &value) != 0)
			return NULL;
		break;
	default:
		return NULL;
	}
	return find(walk->variables, is_tls, is_tls ? value : value - walk->bias);
}

/* File 0 is the unit's own since DWARF 5, as clang writes it, and none for libdw. */
static const char *file_of(const struct walk *walk, Dwarf_Die *die)
{
	const char *file = dwarf_decl_file(die);
	Dwarf_Attribute attribute;
	Dwarf_Word index;

	if (file || !dwarf_attr_integrate(die, DW_AT_decl_file, &attribute) ||
	    dwarf_formudata(&attribute, &index) != 0 || index != 0)
		return file;
	return walk->source;
}

static void locate(struct walk *walk, Dwarf_Die *die)
{
	struct variable *variable = variable_of(walk, die);
	int line;

	if (!variable || variable->line)
		return;
	variable->file = file_of(walk, die);
	variable->folder = walk->folder;
	if (dwarf_decl_line(die, &line) == 0 && line > 0)
		variable->line = (uint32_t)line;
}

static bool may_hold_variables(int tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_subprogram ||
	       tag == DW_TAG_lexical_block || tag == DW_TAG_common_block;
}

static void visit(struct walk *walk, Dwarf_Die *parent, unsigned depth)
{
	Dwarf_Die die;

	if (depth > TREE_MAX_DEPTH || dwarf_child(parent, &die) != 0)
		return;
	do {
		int tag = dwarf_tag(&die);

		if (tag == DW_TAG_variable)
			locate(walk, &die);
		else if (may_hold_variables(tag))
			visit(walk, &die, depth + 1);
	} while (dwarf_siblingof(&die, &die) == 0);
}

void variables_locate(struct variables *variables, Dwarf *dwarf, uint64_t bias)
{
	struct walk walk = { .variables = variables, .bias = bias };
	Dwarf_Off at = 0, next;
	size_t header_bytes;

	while (dwarf_nextcu(dwarf, at, &next, &header_bytes, NULL, NULL, NULL) == 0) {
		Dwarf_Die unit;
		Dwarf_Attribute folder;

		if (dwarf_offdie(dwarf, at + header_bytes, &unit)) {
			walk.folder = dwarf_formstring(dwarf_attr(&unit, DW_AT_comp_dir, &folder));
			walk.source = dwarf_diename(&unit);
			visit(&walk, &unit, 0);
		}
		at = next;
	}
}
