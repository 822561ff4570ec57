/* SPDX-License-Identifier: Apache-2.0 */
/* Facts in the file of a program or library that determine how well it can be recorded. */
#ifndef COLLECT_BINARIES_ELF_FACTS_H
#define COLLECT_BINARIES_ELF_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

struct elf_facts {
	uint8_t build_id[64];
	size_t build_id_bytes; /* 0: none */
	bool has_unwind;       /* .eh_frame_hdr: its code can be unwound */
	bool has_recorder;     /* libheapgauge.a is linked in: only it defines confstr */
	bool defines_malloc;   /* globally, so that it precedes libraries and the recorder */
	bool defines_new;      /* operator new, likewise */
	bool links_cxx;	       /* libstdc++ or libc++ */
	bool is_go;
	uint64_t entry;	       /* entry point */
	uint64_t unrecorded;   /* what may hide memory: bits of enum unrecorded */
	uint64_t zeroed_bytes; /* static data that is not in the file */
	/* The name of an allocator other than the C library's; NULL: none was found. Literals. */
	const char *linked_in; /* its code is in this file */
	const char *shared;    /* it is a shared library */
};

/* False if the bytes are not a readable ELF file. The bytes are untrusted. */
bool elf_facts_of(struct span bytes, struct elf_facts *ret);

#endif
