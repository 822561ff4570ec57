/* SPDX-License-Identifier: Apache-2.0 */
/* Detects code that maps memory without calling mmap(). */
#ifndef COLLECT_BINARIES_RAW_MMAP_H
#define COLLECT_BINARIES_RAW_MMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "collect/binaries/elf_slots.h"

enum { CODE_SECTIONS_MAX = 32 };

/* The code sections of a file, with their link-time addresses. */
struct code {
	struct code_section {
		struct span bytes;
		uint64_t address;
	} sections[CODE_SECTIONS_MAX];
	size_t count;
};

/* By the instruction, or by syscall(), whose slots are given. */
bool raw_mmap_is_in_x86_64(const struct code *code, const struct elf_slots *syscalls);
bool raw_mmap_is_in_aarch64(const struct code *code, const struct elf_slots *syscalls);

#endif
