/* SPDX-License-Identifier: Apache-2.0 */
/* Definitions of a name among the objects that the program started with. As dlsym finds them, but without the loader:
 * no lock, no message to allocate about a name that is not there, no trace in dlerror. */
#ifndef RECORDER_LOOKUP_H
#define RECORDER_LOOKUP_H

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>

#include "recorder/libc/libc.h"

/* The first definition in the order of search; NULL: none. */
void *lookup_first(const char *name);

/* The same among the objects before ours, which are there for good: at any time. */
void *lookup_before(const char *name);

/* The first one behind ours: what RTLD_NEXT means. */
void *lookup_next(const char *name);

/* The objects behind ours, one at a time, for many names: finding the tables of an object takes longer than a name in them. */
struct lookup_tables {
	const Elf64_Sym *symbols;
	const char *names;
	const uint16_t *versions;  /* NULL: none */
	const uint32_t *gnu_hash;  /* NULL: none */
	const uint32_t *sysv_hash; /* NULL: none */
};
struct lookup_search {
	const struct libc_object *map;
	struct lookup_tables tables;
	uintptr_t vdso;
};
struct lookup_search lookup_behind_us(void);
bool lookup_next_object(struct lookup_search *search); /* before the first name too */
void *lookup_here(const struct lookup_search *search, const char *name);

/* A function of the vdso, which is in the list and never searched; NULL: there is none. */
void *lookup_vdso(const char *name);

/* Our own symbol table's entry of a name that we export; NULL: there is none. */
const Elf64_Sym *lookup_own(const char *name);

/* An object's own definition of a name; NULL: it has none. */
const Elf64_Sym *lookup_in(const struct libc_object *map, const char *name);

/* Whether the program was started with the object. */
bool lookup_was_there_at_start(const struct libc_object *map);

/* What an entry of an object's dynamic section points to. */
const void *lookup_place(const struct libc_object *map, const Elf64_Dyn *entry);

/* Where our own symbol table lies; 0 bytes: not known. */
void lookup_own_table(uintptr_t *ret_start, uintptr_t *ret_bytes);
#endif
