/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Qualified names from the place of a declaration in the tree.
 *
 * A DIE does not know its parent, and libdw finds it by walking the unit from its start: a
 * millisecond for each name in a unit of C++. So a unit is walked once, when the first of its
 * functions is asked for, and every function that has a name but no linkage name is kept, by the
 * address of its DIE. With LTO the declaration is in another unit than the code: the unit that counts
 * is the declaration's.
 */
#include "symbols/scope_names.h"

#include <dwarf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "util/arena.h"
#include "util/buffer.h"
#include "util/vector.h"

enum { TREE_MAX_DEPTH = 128, FIRST_SIZE = 256 };

struct scope_entry {
	const void *die; /* NULL: free */
	const char *name;
};

struct scope_names {
	struct arena arena;
	struct scope_entry *table; /* open addressing */
	size_t size;		   /* a power of two */
	size_t used;
	VECTOR(const void *) walked; /* units, by the address of their DIE */
};

struct scope_names *scope_names_new(void)
{
	struct scope_names *names = calloc(1, sizeof *names);

	if (!names)
		return NULL;
	names->size = FIRST_SIZE;
	names->table = calloc(names->size, sizeof *names->table);
	if (!names->table) {
		free(names);
		return NULL;
	}
	return names;
}

void scope_names_free(struct scope_names *names)
{
	if (!names)
		return;
	vector_release(&names->walked);
	arena_release(&names->arena);
	free(names->table);
	free(names);
}

static struct scope_entry *slot_of(struct scope_entry *table, size_t size, const void *die)
{
	for (size_t i = hash_mix((uintptr_t)die) & (size - 1);; i = (i + 1) & (size - 1))
		if (!table[i].die || table[i].die == die)
			return &table[i];
}

static bool grow(struct scope_names *names)
{
	size_t size = names->size * 2;
	struct scope_entry *table = calloc(size, sizeof *table);

	if (!table)
		return false;
	for (size_t i = 0; i < names->size; i++)
		if (names->table[i].die)
			*slot_of(table, size, names->table[i].die) = names->table[i];
	free(names->table);
	names->table = table;
	names->size = size;
	return true;
}

static void keep(struct scope_names *names, Dwarf_Die *function, const struct buffer *scope)
{
	const char *name = dwarf_diename(function);

	if (!name || scope->size == 0 || scope->failed)
		return;
	if (names->used * 4 >= names->size * 3 && !grow(names))
		return;
	struct scope_entry *e = slot_of(names->table, names->size, function->addr);
	char *text = arena_printf(&names->arena, "%.*s%s", (int)scope->size,
				  (const char *)scope->data, name);

	if (e->die || !text)
		return;
	*e = (struct scope_entry){ function->addr, text };
	names->used++;
}

/* A type without a name that can be called is what became of a lambda. */
static bool is_lambda(Dwarf_Die *type)
{
	Dwarf_Die die;

	if (dwarf_child(type, &die) != 0)
		return false;
	do {
		const char *name;

		if (dwarf_tag(&die) == DW_TAG_subprogram && (name = dwarf_diename(&die)) &&
		    strcmp(name, "operator()") == 0)
			return true;
	} while (dwarf_siblingof(&die, &die) == 0);
	return false;
}

/* Appends "scope::" if the DIE is one; false if no function is looked for below it. */
static bool enter(struct buffer *scope, Dwarf_Die *die)
{
	int tag = dwarf_tag(die);
	const char *name = dwarf_diename(die);

	switch (tag) {
	case DW_TAG_namespace:
		name = name ? name : "(anonymous namespace)";
		break;
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_module:
		name = name ? name : is_lambda(die) ? "{lambda}" : "(unnamed type)";
		break;
	case DW_TAG_subprogram:
		break;
	default:
		return tag == DW_TAG_lexical_block;
	}
	if (name)
		buffer_printf(scope, "%s::", name);
	return true;
}

static bool has_linkage_name(Dwarf_Die *die)
{
	return dwarf_hasattr(die, DW_AT_linkage_name) ||
	       dwarf_hasattr(die, DW_AT_MIPS_linkage_name);
}

static void walk(struct scope_names *names, Dwarf_Die *parent, struct buffer *scope, unsigned depth)
{
	size_t outer = scope->size;
	Dwarf_Die die;

	if (depth > TREE_MAX_DEPTH || dwarf_child(parent, &die) != 0)
		return;
	do {
		if (dwarf_tag(&die) == DW_TAG_subprogram && !has_linkage_name(&die))
			keep(names, &die, scope);
		if (enter(scope, &die))
			walk(names, &die, scope, depth + 1);
		scope->size = outer;
	} while (dwarf_siblingof(&die, &die) == 0);
}

static void walk_unit_of(struct scope_names *names, Dwarf_Die *function)
{
	struct buffer scope = BUFFER_INIT;
	Dwarf_Die unit;

	if (!dwarf_diecu(function, &unit, NULL, NULL))
		return;
	for (size_t i = names->walked.count; i > 0; i--)
		if (names->walked.at[i - 1] == unit.addr)
			return;
	/* If it cannot be remembered it is not walked: better no qualification than one per name. */
	if (vector_push(&names->walked, unit.addr))
		walk(names, &unit, &scope, 0);
	buffer_release(&scope);
}

/* The declaration, or the abstract instance, whose place in the tree tells the scopes. */
static void origin_of(Dwarf_Die *die, Dwarf_Die *ret)
{
	static const unsigned links[] = { DW_AT_abstract_origin, DW_AT_specification };
	Dwarf_Attribute attribute;

	*ret = *die;
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		Dwarf_Die next;

		if (dwarf_attr(ret, links[i], &attribute) && dwarf_formref_die(&attribute, &next))
			*ret = next;
	}
}

const char *scope_names_find(struct scope_names *names, Dwarf_Die *function)
{
	Dwarf_Die origin;

	origin_of(function, &origin);
	walk_unit_of(names, &origin);
	const struct scope_entry *e = slot_of(names->table, names->size, origin.addr);

	return e->die ? e->name : dwarf_diename(function);
}
