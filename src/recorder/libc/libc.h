/* SPDX-License-Identifier: Apache-2.0 */
/* What differs between C libraries, their allocator and their loader included. A folder beside this file provides it;
 * README.md lists what that is. */
#ifndef RECORDER_LIBC_LIBC_H
#define RECORDER_LIBC_LIBC_H

#include <features.h>
#include <stdbool.h>
#include <stdint.h>

/* The loader's description of an object: a block that it frees when the object goes. */
struct libc_object;

struct libc_found {
	const struct libc_object *object;
	uintptr_t start, end;
	const uint8_t *unwind_header; /* .eh_frame_hdr; NULL: it has none */
};
/* Which object an address belongs to. Any thread at any moment: no lock. False: none, or before libc_find_start. */
bool libc_find(uintptr_t address, struct libc_found *ret);
void libc_find_start(void);

#if defined(__GLIBC__)
#include "recorder/libc/glibc/libc.h"
#else
#error "src/recorder/libc has no folder for this C library: see \"Porting\" in src/recorder/README.md"
#endif
#endif
