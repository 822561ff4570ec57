/* SPDX-License-Identifier: Apache-2.0 */
/* Symbol lookup in the loaded objects' own tables. At start-up only, when the list of objects is the search order: the executable,
 * preloaded objects, their dependencies. Objects that a constructor has opened with dlopen may follow; they are not searched, since
 * they may be unloaded. The tables are trusted, as ld.so trusts them.
 *
 * Owns: the last object known to be from start-up. Any thread, while `next` is being filled in.
 *
 * Why not dlsym: for a missing name it allocates an error message, and the allocator may be what called us, holding its own
 * lock. */
#include "recorder/lookup.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder/sys.h"

/* ld.so has relocated the addresses here, unless the section is read-only. With a positive bias, a relocated address is not below
 * the bias. With a negative one (the object was linked for a higher address), a relocated address is closer to the section than one
 * relocated twice. */
const void *lookup_bucket(const struct libc_object *map, const Elf64_Dyn *entry)
{
	uintptr_t here = (uintptr_t)entry, at = entry->d_un.d_ptr, bias = libc_bias(map);
	uintptr_t moved = at + bias;
	uintptr_t distance = at > here ? at - here : here - at;
	uintptr_t moved_distance = moved > here ? moved - here : here - moved;
	bool is_moved = (intptr_t)bias > 0 ? at >= bias : distance <= moved_distance;

	return (const void *)(is_moved ? at : moved);
}

static bool find_tables(const struct libc_object *map, struct lookup_tables *ret)
{
	*ret = (struct lookup_tables){ 0 };
	for (const Elf64_Dyn *entry = libc_dynamic(map); entry != NULL && entry->d_tag != DT_NULL;
	     entry++) {
		switch (entry->d_tag) {
		case DT_SYMTAB:
			ret->symbols = lookup_bucket(map, entry);
			break;
		case DT_STRTAB:
			ret->names = lookup_bucket(map, entry);
			break;
		case DT_VERSYM:
			ret->versions = lookup_bucket(map, entry);
			break;
		case DT_GNU_HASH:
			ret->gnu_hash = lookup_bucket(map, entry);
			break;
		case DT_HASH:
			ret->sysv_hash = lookup_bucket(map, entry);
			break;
		default:
			break;
		}
	}
	return ret->symbols != NULL && ret->names != NULL;
}

static bool same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

/* True if the symbol is a definition of the name that an unversioned lookup finds. */
static bool is_definition(const struct lookup_tables *tables, uint32_t i, const char *name)
{
	enum { OLD_VERSION = 0x8000 }; /* only for programs that request it */
	const Elf64_Sym *symbol = &tables->symbols[i];

	bool is_tls = ELF64_ST_TYPE(symbol->st_info) == STT_TLS;

	return symbol->st_shndx != SHN_UNDEF && (is_tls || symbol->st_value != 0) &&
	       ELF64_ST_BIND(symbol->st_info) != STB_LOCAL && is_tls == tables->only_tls &&
	       (tables->versions == NULL || !(tables->versions[i] & OLD_VERSION)) &&
	       same(tables->names + symbol->st_name, name);
}

static uint32_t hash_of(const char *name)
{
	uint32_t value = 5381;

	for (; *name; name++)
		value = value * 33 + (unsigned char)*name;
	return value;
}

static const Elf64_Sym *by_gnu_hash(const struct lookup_tables *tables, const char *name)
{
	const uint32_t *table = tables->gnu_hash;
	uint32_t buckets = table[0], first = table[1], bloom_words = table[2];
	const uint32_t *bucket = table + 4 + 2 * bloom_words;
	const uint32_t *chain = bucket + buckets;
	uint32_t hash = hash_of(name);
	uint32_t i = buckets != 0 ? bucket[hash % buckets] : 0;

	for (; i >= first && i != 0; i++) {
		uint32_t link = chain[i - first];

		if ((link | 1) == (hash | 1) && is_definition(tables, i, name))
			return &tables->symbols[i];
		if (link & 1)
			break;
	}
	return NULL;
}

/* For objects with only the old hash table: its second word is the number of symbols. */
static const Elf64_Sym *by_sysv_hash(const struct lookup_tables *tables, const char *name)
{
	for (uint32_t i = 0; i < tables->sysv_hash[1]; i++) {
		if (is_definition(tables, i, name))
			return &tables->symbols[i];
	}
	return NULL;
}

static const Elf64_Sym *find(const struct lookup_tables *tables, const char *name)
{
	if (tables->gnu_hash != NULL)
		return by_gnu_hash(tables, name);
	return tables->sysv_hash != NULL ? by_sysv_hash(tables, name) : NULL;
}

const Elf64_Sym *lookup_in(const struct libc_object *map, const char *name)
{
	struct lookup_tables tables;

	return find_tables(map, &tables) ? find(&tables, name) : NULL;
}

const Elf64_Sym *lookup_tls_in(const struct libc_object *map, const char *name)
{
	struct lookup_tables tables;

	if (!find_tables(map, &tables))
		return NULL;
	tables.only_tls = true;
	return find(&tables, name);
}

bool lookup_relocations(const struct libc_object *map, struct lookup_relocations *ret)
{
	bool rela = true;

	*ret = (struct lookup_relocations){ 0 };
	for (const Elf64_Dyn *entry = libc_dynamic(map); entry != NULL && entry->d_tag != DT_NULL;
	     entry++) {
		const void *at = lookup_bucket(map, entry);

		if (entry->d_tag == DT_SYMTAB)
			ret->symbols = at;
		else if (entry->d_tag == DT_STRTAB)
			ret->names = at;
		else if (entry->d_tag == DT_JMPREL)
			ret->table[0].at = at;
		else if (entry->d_tag == DT_PLTRELSZ)
			ret->table[0].count = entry->d_un.d_val / sizeof(Elf64_Rela);
		else if (entry->d_tag == DT_RELA)
			ret->table[1].at = at;
		else if (entry->d_tag == DT_RELASZ)
			ret->table[1].count = entry->d_un.d_val / sizeof(Elf64_Rela);
		else if (entry->d_tag == DT_PLTREL)
			rela = entry->d_un.d_val == DT_RELA;
	}
	for (int k = 0; k < 2; k++) {
		if (ret->table[k].at == NULL)
			ret->table[k].count = 0;
	}
	return rela && ret->symbols != NULL && ret->names != NULL;
}

const char *lookup_relocation_name(const struct lookup_relocations *all,
				   const Elf64_Rela *relocation)
{
	return all->names + all->symbols[ELF64_R_SYM(relocation->r_info)].st_name;
}

bool lookup_relocation_is(const struct lookup_relocations *all, const Elf64_Rela *relocation,
			  const char *name)
{
	return same(lookup_relocation_name(all, relocation), name);
}

static const char *file_name(const char *path)
{
	const char *name = path;

	for (; *path; path++) {
		if (*path == '/')
			name = path + 1;
	}
	return name;
}

static const char *soname(const struct libc_object *map)
{
	struct lookup_tables tables;

	for (const Elf64_Dyn *entry = libc_dynamic(map); entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_SONAME && find_tables(map, &tables))
			return tables.names + entry->d_un.d_val;
	}
	return "";
}

/* True if another object depends on this one (DT_NEEDED, DT_AUXILIARY, DT_FILTER), by its own name or one that musl's libc answers to. */
static bool is_needed_by(const struct libc_object *map, const struct libc_object *by)
{
	struct lookup_tables tables;

	if (!find_tables(by, &tables))
		return false;
	for (const Elf64_Dyn *entry = libc_dynamic(by); entry->d_tag != DT_NULL; entry++) {
		const char *name = tables.names + entry->d_un.d_val;

		if ((entry->d_tag == DT_NEEDED || entry->d_tag == DT_AUXILIARY ||
		     entry->d_tag == DT_FILTER) &&
		    (same(name, soname(map)) || same(file_name(name), file_name(libc_path(map))) ||
		     (libc_is_own_name(name) && libc_is_own_loader(map))))
			return true;
	}
	return false;
}

static bool is_needed(const struct libc_object *map)
{
	const struct libc_object *by = libc_first_object();

	while (by != map && !is_needed_by(map, by))
		by = libc_next_object(by);
	return by != map;
}

/* NULL in a program without ld.so: next.c reports that. */
extern Elf64_Dyn own_dynamic[] __asm__("_DYNAMIC") __attribute__((weak, visibility("hidden")));

/* Falls back to the executable, if we are in another namespace. */
static const struct libc_object *own_map(void)
{
	const struct libc_object *map = libc_first_object();

	while (map != NULL && libc_dynamic(map) != own_dynamic)
		map = libc_next_object(map);
	return map != NULL ? map : libc_first_object();
}

/* This object and all before it were loaded at start. Any older value is also valid. */
static const struct libc_object *last_at_start;

/* Returns the first object that we depend on. All preloaded objects precede it. */
static const struct libc_object *first_needed(void)
{
	const struct libc_object *own = own_map(), *map = own;

	while (libc_next_object(map) != NULL && (map == own || !is_needed_by(map, own)))
		map = libc_next_object(map);
	return map;
}

/* True if `map` is `last` or before it. */
static bool is_until(const struct libc_object *last, const struct libc_object *map)
{
	const struct libc_object *at = libc_first_object();

	while (at != NULL && at != map && at != last)
		at = libc_next_object(at);
	return at != NULL && at == map;
}

/* After libc, the first object that no earlier one depends on was loaded by dlopen. */
bool lookup_was_there_at_start(const struct libc_object *map)
{
	const struct libc_object *last = __atomic_load_n(&last_at_start, __ATOMIC_RELAXED), *next;

	if (last == NULL)
		last = first_needed();
	while (!is_until(last, map) && (next = libc_next_object(last)) != NULL && is_needed(next))
		last = next;
	__atomic_store_n(&last_at_start, last, __ATOMIC_RELAXED);
	return is_until(last, map);
}

void lookup_find_permanent(void)
{
	if (libc_first_object() != NULL)
		lookup_was_there_at_start(NULL);
}

bool lookup_is_permanent(const struct libc_object *map)
{
	const struct libc_object *last = __atomic_load_n(&last_at_start, __ATOMIC_RELAXED);

	return libc_is_musl() || (last != NULL && is_until(last, map));
}

/* Moves to the next object before `end` that has tables; end NULL: no limit. Skips the vdso. */
static bool advance(struct lookup_search *search, const struct libc_object *end)
{
	for (; search->map != end; search->map = libc_next_object(search->map)) {
		if ((search->vdso == 0 || libc_bias(search->map) != search->vdso) &&
		    find_tables(search->map, &search->tables))
			return true;
	}
	return false;
}

static struct lookup_search search_from(const struct libc_object *map)
{
	return (struct lookup_search){ .map = map, .vdso = sys_auxiliary(AT_SYSINFO_EHDR) };
}

static void *address_of(const struct libc_object *map, const Elf64_Sym *symbol)
{
	if (symbol == NULL || !lookup_was_there_at_start(map))
		return NULL;
	uintptr_t at = libc_bias(map) + symbol->st_value;

	/* The object's resolver selects the implementation. */
	if (ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC)
		at = ((uintptr_t(*)(void))at)();
	return (void *)at;
}

/* Searches up to `end`, exclusive; NULL: all. */
static void *find_between(const struct libc_object *map, const struct libc_object *end,
			  const char *name)
{
	struct lookup_search search = search_from(map);

	for (; advance(&search, end); search.map = libc_next_object(search.map)) {
		const Elf64_Sym *symbol = find(&search.tables, name);

		if (symbol != NULL)
			return address_of(search.map, symbol);
	}
	return NULL;
}

struct lookup_search lookup_behind_us(void)
{
	return search_from(own_map());
}

bool lookup_next_object(struct lookup_search *search)
{
	if (search->map == NULL)
		return false;
	search->map = libc_next_object(search->map);
	return advance(search, NULL);
}

void *lookup_here(const struct lookup_search *search, const char *name)
{
	return address_of(search->map, find(&search->tables, name));
}

void *lookup_first(const char *name)
{
	return find_between(libc_first_object(), NULL, name);
}

void *lookup_before(const char *name)
{
	return find_between(libc_first_object(), own_map(), name);
}

void *lookup_next(const char *name)
{
	const struct libc_object *own = own_map();

	return own != NULL ? find_between(libc_next_object(own), NULL, name) : NULL;
}

void *lookup_vdso(const char *name)
{
	uintptr_t vdso = sys_auxiliary(AT_SYSINFO_EHDR);
	const struct libc_object *map = libc_first_object();

	while (map != NULL && (vdso == 0 || libc_bias(map) != vdso))
		map = libc_next_object(map);
	const Elf64_Sym *symbol = map != NULL ? lookup_in(map, name) : NULL;

	return symbol != NULL ? (void *)(vdso + symbol->st_value) : NULL;
}

const Elf64_Sym *lookup_own(const char *name)
{
	return lookup_in(own_map(), name);
}

/* It ends where the string table starts. */
void lookup_own_table(uintptr_t *ret_start, uintptr_t *ret_bytes)
{
	struct lookup_tables tables = { 0 };

	find_tables(own_map(), &tables);
	*ret_start = (uintptr_t)tables.symbols;
	*ret_bytes =
		(uintptr_t)tables.names > *ret_start ? (uintptr_t)tables.names - *ret_start : 0;
}
