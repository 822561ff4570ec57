/* SPDX-License-Identifier: Apache-2.0 */
/* What the file of a program or library tells about how well it can be recorded. */
#ifndef COLLECT_BINARIES_ELF_FACTS_H
#define COLLECT_BINARIES_ELF_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

struct elf_facts {
	uint8_t build_id[64];
	size_t build_id_bytes; /* 0: none */
	bool has_unwind;       /* .eh_frame_hdr: stacks can be walked through its code */
	bool has_recorder;     /* libheapgauge.a is linked in: nobody else defines confstr */
	bool defines_malloc;   /* for everybody, so that libraries and the recorder come second */
	bool defines_new;      /* operator new, likewise */
	bool links_cxx;	       /* libstdc++ or libc++ */
	bool is_go;
	uint64_t entry;	       /* where it begins */
	uint64_t unseen;       /* what may hide memory: bits of enum unseen */
	uint64_t zeroed_bytes; /* static data that is not in the file */
	/* The name of an allocator that is not the C library's; NULL: none was found. Literals. */
	const char *linked_in; /* its code is in this file */
	const char *shared;    /* it comes as a library */
};

/* False if the bytes are no ELF file that can be read. The bytes are hostile input. */
bool elf_facts_of(struct span bytes, struct elf_facts *ret);

#endif
