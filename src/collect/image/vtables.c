/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout is that of the Itanium C++ ABI: before the table are the offset to the top of the object, which is 0 in the first table, and
 * the type_info; that has a table of its own, whose type_info is a class of the namespace __cxxabiv1, and a pointer to the name. All
 * four are in memory of modules. An integer that only looks like such a pointer passes none of these tests.
 *
 * The memory is untrusted: each word in it may be anything, so there is a limit for the number of tables, of types and of letters.
 * Owned by one thread.
 */
#include "collect/image/vtables.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "util/search.h"

enum {
	WORD = sizeof(uint64_t),
	TABLES_MAX = 1 << 17,
	TYPES_MAX = UINT16_MAX,
	NAME_MAX_BYTES = 4096,
};

struct vtable {
	uint64_t address; /* 0: empty */
	uint32_t type;	  /* 0: it is no such table */
};

void vtables_init(struct vtables *v, const struct scanner *scanner, const struct root_ranges *roots)
{
	*v = (struct vtables){ .scanner = scanner, .roots = roots };
	if (roots->modules.count == 0)
		return;
	v->low = roots->modules.at[0].start;
	v->high = roots->modules.at[roots->modules.count - 1].end;
}

void vtables_release(struct vtables *v)
{
	free(v->known);
	intern_release(&v->texts);
	vector_release(&v->names);
	*v = (struct vtables){ 0 };
}

/* The end of the module's memory with the address; 0: it is in none. */
static uint64_t end_of_module(const struct vtables *v, uint64_t address)
{
	if (!v->roots || address < v->low || address >= v->high)
		return 0;
	size_t low = FIRST_WHERE(i, v->roots->modules.count, v->roots->modules.at[i].end > address);

	if (low == v->roots->modules.count || v->roots->modules.at[low].start > address)
		return 0;
	return v->roots->modules.at[low].end;
}

static bool is_aligned_in_module(const struct vtables *v, uint64_t address)
{
	return address % WORD == 0 && end_of_module(v, address) >= address + (uint64_t)2 * WORD;
}

/* The table and the name of the type_info before a table. */
struct type_info {
	uint64_t table, name;
};

static bool read_type_info(const struct vtables *v, uint64_t table, struct type_info *ret)
{
	uint64_t before[2]; /* offset to the top, type_info */

	return is_aligned_in_module(v, table - (uint64_t)2 * WORD) &&
	       scan_bytes(v->scanner, table - (uint64_t)2 * WORD, before, sizeof before) &&
	       before[0] == 0 && is_aligned_in_module(v, before[1]) &&
	       scan_bytes(v->scanner, before[1], ret, sizeof *ret);
}

static size_t name_length(const char *name, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		bool letter = (name[i] >= 'a' && name[i] <= 'z') ||
			      (name[i] >= 'A' && name[i] <= 'Z') ||
			      (name[i] >= '0' && name[i] <= '9') || name[i] == '_' ||
			      name[i] == '.' || name[i] == '$';

		if (name[i] == '\0')
			return i;
		if (!letter && (i > 0 || name[i] != '*'))
			return 0;
	}
	return 0;
}

/* Reads a mangled name into `buffer`, of NAME_MAX_BYTES. Empty: it is none. */
static struct span read_name(const struct vtables *v, uint64_t address, char *buffer)
{
	uint64_t end = end_of_module(v, address);
	size_t bytes = end ? MIN(end - address, (uint64_t)NAME_MAX_BYTES) : 0;

	if (bytes == 0 || !scan_bytes(v->scanner, address, buffer, bytes))
		return span_of(buffer, 0);
	size_t length = name_length(buffer, bytes);

	/* gcc begins names of local types with a star: they are equal only if their addresses are. */
	return length > 0 && buffer[0] == '*' ? span_of(buffer + 1, length - 1)
					      : span_of(buffer, length);
}

/* Whether objects with this table describe a class. There are three such tables in a process, or as many for each C++ library. */
static bool describes_class(struct vtables *v, uint64_t table, char *buffer)
{
	static const char space[] = "N10__cxxabiv1";
	struct type_info info;

	for (size_t i = 0; i < v->kind_count; i++)
		if (v->kinds[i] == table)
			return true;
	if (!read_type_info(v, table, &info))
		return false;
	struct span name = read_name(v, info.name, buffer);

	if (name.size < sizeof space || memcmp(name.data, space, sizeof space - 1) != 0)
		return false;
	if (v->kind_count < ARRAY_SIZE(v->kinds))
		v->kinds[v->kind_count++] = table;
	return true;
}

static uint16_t read_type(struct vtables *v, uint64_t table)
{
	struct type_info info;
	char buffer[NAME_MAX_BYTES];

	if (!read_type_info(v, table, &info) || !describes_class(v, info.table, buffer))
		return 0;
	struct span name = read_name(v, info.name, buffer);
	struct intern_entry *entry = name.size ? intern_entry(&v->texts, name) : NULL;

	if (!entry)
		return 0;
	if (!entry->value) {
		if (v->names.count == TYPES_MAX || !vector_push(&v->names, entry->text))
			return 0;
		entry->value = (void *)(uintptr_t)v->names.count;
	}
	return (uint16_t)(uintptr_t)entry->value;
}

static struct vtable *slot_of(const struct vtables *v, uint64_t address)
{
	size_t at = hash_mix(address) & (v->size - 1);

	while (v->known[at].address && v->known[at].address != address)
		at = (at + 1) & (v->size - 1);
	return &v->known[at];
}

/* At most half full. */
static bool grow(struct vtables *v)
{
	struct vtable *old = v->known;
	size_t old_size = v->size;

	if (v->size > 2 * v->used)
		return true;
	struct vtable *more = calloc(MAX(2 * old_size, (size_t)64), sizeof *more);

	if (!more)
		return false;
	v->known = more;
	v->size = MAX(2 * old_size, (size_t)64);
	for (size_t i = 0; i < old_size; i++)
		if (old[i].address)
			*slot_of(v, old[i].address) = old[i];
	free(old);
	return true;
}

uint16_t vtables_type(struct vtables *v, uint64_t first_word)
{
	if (first_word < v->low || first_word >= v->high || !end_of_module(v, first_word))
		return 0;
	struct vtable *known = v->size ? slot_of(v, first_word) : NULL;

	if (known && known->address)
		return (uint16_t)known->type;
	if (v->used == TABLES_MAX || !grow(v))
		return 0;
	known = slot_of(v, first_word);
	*known = (struct vtable){ first_word, read_type(v, first_word) };
	v->used++;
	return (uint16_t)known->type;
}
