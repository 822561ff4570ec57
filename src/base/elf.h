/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the recorder can be preloaded into a program, judged by the bytes of its file. Used by the collector before
 * it starts a program, and by the recorder before one program becomes another. Pure; the bytes are hostile input.
 */
#ifndef BASE_ELF_H
#define BASE_ELF_H

#include <stddef.h>
#include <stdint.h>

enum elf_verdict {
	ELF_FITS = 0,
	ELF_SCRIPT,	   /* "#!": judge the interpreter */
	ELF_LOADER,	   /* ld.so itself: judge the program it is told to run */
	ELF_UNKNOWN,	   /* no ELF file, or a damaged one */
	ELF_OTHER_CLASS,   /* 32-bit */
	ELF_OTHER_MACHINE, /* another processor */
	ELF_STATIC,	   /* no dynamic loader */
	ELF_OTHER_LIBC,	   /* a loader that is not glibc's */
	ELF_SANITIZED,	   /* a sanitizer's runtime must come first */
};

struct elf_judgement {
	enum elf_verdict verdict;
	/* ELF_SCRIPT: the interpreter's path; ELF_OTHER_LIBC: the loader's. Inside `bytes`, not terminated. */
	const char *path;
	size_t path_bytes;
};

struct elf_judgement elf_judge(const void *bytes, size_t length);

#endif
