/* SPDX-License-Identifier: Apache-2.0 */
/* A symbol of one loaded object, by its own GNU hash table: what dlsym would find there first, without the loader's
 * lock. The object is the caller's, so it stays where it is; its tables are trusted as ld.so trusts them. Cold. */
#include "recorder/own_symbol.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tables {
	const Elf64_Sym *symbols;
	const char *names;
	const uint32_t *hash;
};

/* ld.so has added the bias to these entries (glibc does so on x86-64). */
static bool find_tables(const struct link_map *map, struct tables *ret)
{
	*ret = (struct tables){ 0 };
	for (const Elf64_Dyn *entry = map->l_ld; entry != NULL && entry->d_tag != DT_NULL;
	     entry++) {
		const void *at = (const void *)entry->d_un.d_ptr;

		if (entry->d_tag == DT_SYMTAB)
			ret->symbols = at;
		else if (entry->d_tag == DT_STRTAB)
			ret->names = at;
		else if (entry->d_tag == DT_GNU_HASH)
			ret->hash = at;
	}
	return ret->symbols != NULL && ret->names != NULL && ret->hash != NULL &&
	       (uintptr_t)ret->hash >= map->l_addr;
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

static bool same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

void *own_symbol(const struct link_map *map, const char *name)
{
	struct tables tables;

	if (!find_tables(map, &tables))
		return NULL;
	uint32_t buckets = tables.hash[0], first = tables.hash[1], bloom_words = tables.hash[2];
	const uint32_t *bucket = tables.hash + 4 + 2 * bloom_words;
	const uint32_t *chain = bucket + buckets;
	uint32_t hash = gnu_hash(name);

	if (buckets == 0)
		return NULL;
	uint32_t i = bucket[hash % buckets];

	for (; i >= first && i != 0; i++) {
		const Elf64_Sym *symbol = &tables.symbols[i];

		if ((chain[i - first] | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF &&
		    same(tables.names + symbol->st_name, name))
			return (void *)(map->l_addr + symbol->st_value);
		if (chain[i - first] & 1)
			break;
	}
	return NULL;
}
