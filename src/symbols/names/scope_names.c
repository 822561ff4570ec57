/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Qualified names from the position of a declaration in the DIE tree.
 *
 * A DIE has no link to its parent, and libdw finds it by walking the unit from its start: a millisecond
 * per name in a C++ unit. But DIEs are laid out in tree order, so a function is in the last scope of a
 * level that begins before it. So the scopes of a level are listed on the first lookup there, and the
 * way down is then one binary search per level. With LTO the declaration may be in another unit than
 * the code: the declaration's unit is used.
 *
 * Invariant: the children of a listed scope are sorted by address, and include all that can contain a
 * function.
 */
#include "symbols/names/scope_names.h"

#include <dwarf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "util/arena.h"
#include "util/buffer.h"
#include "util/intern.h"
#include "util/search.h"
#include "util/vector.h"

enum { TREE_MAX_DEPTH = 128, FIRST_SIZE = 64 };

struct scope {
	Dwarf_Die die;
	bool listed;
	struct scope *children; /* in the arena */
	size_t count;
};

struct scope_names {
	struct arena arena;
	struct intern strings;
	struct buffer text;
	VECTOR(struct scope) scratch;
	struct scope **units; /* open addressing by the unit's DIE; NULL: free */
	size_t size;	      /* a power of two */
	size_t used;
};

struct scope_names *scope_names_new(void)
{
	struct scope_names *names = calloc(1, sizeof *names);

	if (!names)
		return NULL;
	names->size = FIRST_SIZE;
	names->units = calloc(names->size, sizeof *names->units);
	if (!names->units) {
		free(names);
		return NULL;
	}
	return names;
}

void scope_names_free(struct scope_names *names)
{
	if (!names)
		return;
	vector_release(&names->scratch);
	buffer_release(&names->text);
	intern_release(&names->strings);
	arena_release(&names->arena);
	free(names->units);
	free(names);
}

static struct scope **slot_of(struct scope **units, size_t size, const void *die)
{
	for (size_t i = hash_mix((uintptr_t)die) & (size - 1);; i = (i + 1) & (size - 1))
		if (!units[i] || units[i]->die.addr == die)
			return &units[i];
}

static bool grow(struct scope_names *names)
{
	size_t size = names->size * 2;
	struct scope **units = calloc(size, sizeof *units);

	if (!units)
		return false;
	for (size_t i = 0; i < names->size; i++)
		if (names->units[i])
			*slot_of(units, size, names->units[i]->die.addr) = names->units[i];
	free(names->units);
	names->units = units;
	names->size = size;
	return true;
}

/* The root of the function's unit; NULL if out of memory. */
static struct scope *unit_of(struct scope_names *names, Dwarf_Die *function)
{
	Dwarf_Die die;

	if (!dwarf_diecu(function, &die, NULL, NULL) ||
	    (names->used * 4 >= names->size * 3 && !grow(names)))
		return NULL;
	struct scope **slot = slot_of(names->units, names->size, die.addr);

	if (!*slot) {
		*slot = ARENA_NEW(&names->arena, struct scope);
		if (!*slot)
			return NULL;
		(*slot)->die = die;
		names->used++;
	}
	return *slot;
}

/* Whether the tag is a function, or can contain one. */
static bool is_scope(int tag)
{
	switch (tag) {
	case DW_TAG_namespace:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_module:
	case DW_TAG_subprogram:
	case DW_TAG_lexical_block:
		return true;
	default:
		return false;
	}
}

/* Lists the direct children of the scope. Out of memory leaves it empty. */
static void list_children(struct scope_names *names, struct scope *scope)
{
	Dwarf_Die die;

	scope->listed = true;
	names->scratch.count = 0;
	if (dwarf_child(&scope->die, &die) != 0)
		return;
	do {
		if (is_scope(dwarf_tag(&die)) &&
		    !vector_push(&names->scratch, ((struct scope){ .die = die })))
			return;
	} while (dwarf_siblingof(&die, &die) == 0);
	size_t count = names->scratch.count;
	struct scope *children = ARENA_ARRAY(&names->arena, struct scope, count);

	if (!children || count == 0)
		return;
	memcpy(children, names->scratch.at, count * sizeof *children);
	scope->children = children;
	scope->count = count;
}

/* The last child that begins at or before the address, or NULL. */
static struct scope *child_at(struct scope *scope, const void *address)
{
	size_t low = FIRST_WHERE(i, scope->count,
				 (uintptr_t)scope->children[i].die.addr > (uintptr_t)address);

	return low > 0 ? &scope->children[low - 1] : NULL;
}

/* An unnamed callable type is a lambda. */
static bool is_lambda(struct scope_names *names, struct scope *type)
{
	if (!type->listed)
		list_children(names, type);
	for (size_t i = 0; i < type->count; i++) {
		const char *name = dwarf_diename(&type->children[i].die);

		if (name && strcmp(name, "operator()") == 0)
			return true;
	}
	return false;
}

/* Appends "scope::", if the scope has a name in the source language. */
static void append_scope(struct scope_names *names, struct scope *scope)
{
	const char *name = dwarf_diename(&scope->die);

	switch (dwarf_tag(&scope->die)) {
	case DW_TAG_namespace:
		name = name ? name : "(anonymous namespace)";
		break;
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
		name = name ? name : is_lambda(names, scope) ? "{lambda}" : "(unnamed type)";
		break;
	case DW_TAG_lexical_block:
		return;
	default:
		break;
	}
	if (name) {
		buffer_text(&names->text, name);
		buffer_text(&names->text, "::");
	}
}

/* Appends the scopes that enclose the function to the text; false if it is not found. */
static bool append_scopes(struct scope_names *names, struct scope *unit, const void *function)
{
	struct scope *at = unit;

	for (unsigned depth = 0; depth < TREE_MAX_DEPTH; depth++) {
		if (!at->listed)
			list_children(names, at);
		at = child_at(at, function);
		if (!at)
			return false;
		if (at->die.addr == function)
			return true;
		append_scope(names, at);
	}
	return false;
}

/* The declaration, or the abstract instance, whose position in the tree determines the scopes. */
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
	const char *name = dwarf_diename(function);
	Dwarf_Die origin;

	if (!name)
		return NULL;
	origin_of(function, &origin);
	struct scope *unit = unit_of(names, &origin);

	buffer_clear(&names->text);
	if (!unit || !append_scopes(names, unit, origin.addr) || names->text.size == 0)
		return name;
	buffer_text(&names->text, name);
	if (names->text.failed)
		return name;
	const char *text = intern_span(&names->strings, buffer_span(&names->text));

	return text ? text : name;
}
