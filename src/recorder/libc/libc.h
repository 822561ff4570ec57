/* SPDX-License-Identifier: Apache-2.0 */
/* Differences between C libraries, including their allocator and loader, provided by a folder beside this file;
 * README.md lists what it must define. */
#ifndef RECORDER_LIBC_LIBC_H
#define RECORDER_LIBC_LIBC_H

#include <features.h>
#include <stdbool.h>
#include <stdint.h>

/* The loader's descriptor of an object: a block that it frees when the object is unloaded. */
struct libc_object;

struct libc_found {
	const struct libc_object *object;
	uintptr_t start, end;
	const uint8_t *unwind_header; /* .eh_frame_hdr; NULL: none */
};
/* Finds the object that contains an address. Any thread, any time: no lock. False: none, or before libc_find_start. */
bool libc_find(uintptr_t address, struct libc_found *ret);
void libc_find_start(void);

/* The address of a thread-local variable in the calling thread. words: where the loader has stored what it knows of it for code that
 * uses it, as that relocation says (ARCH_RELOCATION_TLS_*). *ret 0: the thread has no block for it yet. False: unreadable. Any thread, any
 * time. */
bool libc_tls_find(long pid, uint32_t relocation, uintptr_t words, uintptr_t *ret);
/* The same of a variable that the executable defines, by the value of its symbol. */
bool libc_tls_find_in_executable(long pid, uint64_t value, uintptr_t *ret);

#if defined(__GLIBC__)
#include "recorder/libc/glibc/libc.h"
#else
#error "src/recorder/libc has no folder for this C library: see \"Porting\" in src/recorder/README.md"
#endif
#endif
