/* SPDX-License-Identifier: Apache-2.0 */
/* An allocator inside the executable that calls hooks of its own, and where its functions are. The collector finds them in the
 * symbol table, which is not in memory; the recorder uses them only in the very program that they were found in. For both sides: no
 * allocation, no libc. */
#ifndef FORMAT_LIVE_LIVE_HOOKS_H
#define FORMAT_LIVE_LIVE_HOOKS_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

/* doc: live_hooks: ELF virtual addresses in the executable. */
struct live_hooks {
	uint64_t program; /* live_program_id of the executable; 0 = no hooks */
	uint64_t mallctl; /* jemalloc's; 0 = it is the tcmalloc of gperftools */
	uint64_t add_new, remove_new, add_delete, remove_delete; /* its MallocHook */
	uint64_t realloc;
	uint64_t free,
		sdallocx; /* free or dallocx; or, if the linker dropped both, the other one */
	uint64_t usable;  /* malloc_usable_size or sallocx; 0 = the linker dropped both */
	/* Code of the allocator: what maps memory for it, and functions that the program may call, jemalloc's C++ operators and all
	 * of tcmalloc's; 0 bytes = none, or unknown. */
	uint64_t pages, pages_bytes, entry, entry_bytes;
};

/* Ends the allocator's name in live_header and recordings: "jemalloc 5.3.0 (hooks)". */
#define LIVE_HOOKS_MARK " (hooks)"

/* The program header that a note is loaded with; NULL: none. */
static inline const Elf64_Phdr *live_load_of(const Elf64_Phdr *note, const Elf64_Phdr *headers,
					     size_t count)
{
	for (const Elf64_Phdr *load = headers; load < headers + count; load++) {
		if (load->p_type == PT_LOAD && note->p_offset >= load->p_offset &&
		    note->p_filesz <= load->p_filesz &&
		    note->p_offset - load->p_offset <= load->p_filesz - note->p_filesz &&
		    note->p_vaddr - load->p_vaddr == note->p_offset - load->p_offset)
			return load;
	}
	return NULL;
}

/* Identifies an executable by its program headers and its notes, among them the build-id. The bytes of a note begin at `base` plus
 * its address in memory, or plus its offset in a file. Never 0. */
static inline uint64_t live_program_id(const Elf64_Phdr *headers, size_t count, const char *base,
				       bool in_memory)
{
	uint64_t id = hash_bytes(headers, count * sizeof *headers, 0);

	for (const Elf64_Phdr *note = headers; note < headers + count; note++) {
		if (note->p_type == PT_NOTE && live_load_of(note, headers, count) != NULL)
			id = hash_bytes(base + (in_memory ? note->p_vaddr : note->p_offset),
					note->p_filesz, id);
	}
	return id != 0 ? id : 1;
}
#endif
