/* SPDX-License-Identifier: Apache-2.0 */
/* Finds definitions of a name in the objects that the program started with. Like dlsym, but without the loader: no lock, no
 * allocated error message for a missing name, no trace in dlerror. */
#ifndef RECORDER_LOOKUP_H
#define RECORDER_LOOKUP_H

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>

#include "recorder/libc/libc.h"

/* The first definition in search order; NULL: none. */
void *lookup_first(const char *name);

/* The same among the objects before ours, which are never unloaded: usable at any time. */
void *lookup_before(const char *name);

/* The first definition after ours, like RTLD_NEXT. */
void *lookup_next(const char *name);

/* Iterates over the objects after ours, to look up many names in each: finding
 * an object's tables takes longer than finding a name in them. */
struct lookup_tables {
	const Elf64_Sym *symbols;
	const char *names;
	const uint16_t *versions;  /* NULL: none */
	const uint32_t *gnu_hash;  /* NULL: none */
	const uint32_t *sysv_hash; /* NULL: none */
	bool only_tls;		   /* find thread-local variables, and nothing else */
};
struct lookup_search {
	const struct libc_object *map;
	struct lookup_tables tables;
	uintptr_t vdso;
};
struct lookup_search lookup_behind_us(void);
bool lookup_next_object(struct lookup_search *search); /* also call it before the first lookup */
void *lookup_here(const struct lookup_search *search, const char *name);

/* Finds a function of the vdso, which the other searches skip; NULL: none. */
void *lookup_vdso(const char *name);

/* The entry in our own symbol table of a name that we export; NULL: none. */
const Elf64_Sym *lookup_own(const char *name);

/* An object's own definition of a name; NULL: none. */
const Elf64_Sym *lookup_in(const struct libc_object *map, const char *name);

/* The same of a thread-local variable, which the other searches skip. */
const Elf64_Sym *lookup_tls_in(const struct libc_object *map, const char *name);

/* What the loader has stored in an object for names that the object refers to. */
struct lookup_relocations {
	const Elf64_Sym *symbols;
	const char *names;
	struct {
		const Elf64_Rela *at;
		uint64_t count;
	} table[2];
};
/* False: there are none, or none of this kind. */
bool lookup_relocations(const struct libc_object *map, struct lookup_relocations *ret);
/* "" if it is of no name. */
const char *lookup_relocation_name(const struct lookup_relocations *all,
				   const Elf64_Rela *relocation);
bool lookup_relocation_is(const struct lookup_relocations *all, const Elf64_Rela *relocation,
			  const char *name);

/* True if the object was loaded at program start. */
bool lookup_was_there_at_start(const struct libc_object *map);

/* Finds all objects that the program started with. At start-up. */
void lookup_find_permanent(void);

/* True if the object is certainly never unloaded: in musl, and in glibc if it was loaded at program start. False if unknown. Any
 * thread, any time: reads only descriptors that are never freed. */
bool lookup_is_permanent(const struct libc_object *map);

/* The address that an entry of an object's dynamic section points to. */
const void *lookup_bucket(const struct libc_object *map, const Elf64_Dyn *entry);

/* The range of our own symbol table; 0 bytes: unknown. */
void lookup_own_table(uintptr_t *ret_start, uintptr_t *ret_bytes);
#endif
