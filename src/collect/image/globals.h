/* SPDX-License-Identifier: Apache-2.0 */
/* Names of global variables, from the symbol tables of modules. Untrusted files: collect/binaries/elf_walk.h limits what is read. */
#ifndef COLLECT_IMAGE_GLOBALS_H
#define COLLECT_IMAGE_GLOBALS_H

#include <stdint.h>

#include "collect/kernel/memory_source.h"
#include "util/vector.h"

struct global {
	uint64_t start, end; /* addresses; without a name the space between two variables */
	const char *name;    /* NULL: none; valid until globals_release */
};
struct module_globals;
struct globals {
	const struct memory_source
		*source; /* a process, in whose root the paths are; or a core file: in ours */
	VECTOR(struct module_globals *) modules;
	uint64_t used_bytes; /* limited: the rest has no names */
};
void globals_init(struct globals *globals, const struct memory_source *source);
void globals_release(struct globals *globals);

/* The variable of a module at an address. file_at: where the beginning of its file is mapped, to see whether it is still that file; 0: not
 * known. */
struct global globals_find(struct globals *globals, const char *path, uint64_t file_at,
			   uint64_t bias, uint64_t address);
/* "variable (module)", or the module alone. malloc'd; NULL if out of memory. */
char *global_name(const struct global *global, const char *path);

#endif
