/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Determines from the bytes of a program's file whether the recorder can be preloaded into it. Used by the collector before it
 * starts a program, and by the recorder before an exec. Pure; the bytes are untrusted input.
 */
#ifndef BASE_ELF_H
#define BASE_ELF_H

#include <stddef.h>
#include <stdint.h>

enum elf_verdict {
	ELF_FITS = 0,
	ELF_SCRIPT,	   /* "#!": check the interpreter */
	ELF_LOADER,	   /* ld.so itself: check the program that it is to run */
	ELF_UNKNOWN,	   /* not an ELF file, or damaged */
	ELF_OTHER_CLASS,   /* 32-bit */
	ELF_OTHER_MACHINE, /* another architecture */
	ELF_STATIC,	   /* no dynamic loader */
	ELF_OTHER_LIBC,	   /* a loader of neither glibc nor musl */
	ELF_SANITIZED,	   /* the sanitizer's runtime must be loaded first */
};

struct elf_judgement {
	enum elf_verdict verdict;
	/* ELF_SCRIPT: the interpreter's path; ELF_OTHER_LIBC: the loader's. Inside `bytes`, not terminated. */
	const char *path;
	size_t path_bytes;
};

struct elf_judgement elf_judge(const void *bytes, size_t length);

#endif
