/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Determines from the bytes of a program's file whether the recorder can be preloaded into it. Used by the collector before it
 * starts a program, and by the recorder before an exec. No state; the bytes are untrusted input and may change between two reads.
 */
#ifndef BASE_ELF_H
#define BASE_ELF_H

#include <stddef.h>
#include <stdint.h>

/* What runs with this build: the machine (<elf.h>), the file names of glibc's and musl's loader, and the folder of libraries on Debian. */
#if defined(__x86_64__)
#define ELF_MACHINE_HERE EM_X86_64
#define ELF_LOADER_HERE "ld-linux-x86-64.so.2"
#define ELF_MUSL_HERE "ld-musl-x86_64.so.1"
#define ELF_FOLDER_HERE "x86_64-linux-gnu"
#elif defined(__aarch64__)
#define ELF_MACHINE_HERE EM_AARCH64
#define ELF_LOADER_HERE "ld-linux-aarch64.so.1"
#define ELF_MUSL_HERE "ld-musl-aarch64.so.1"
#define ELF_FOLDER_HERE "aarch64-linux-gnu"
#else
#error "base/elf.h does not know this architecture"
#endif

enum elf_verdict {
	ELF_FITS = 0,
	ELF_SCRIPT,	   /* "#!": check the interpreter */
	ELF_LOADER,	   /* ld.so itself: check the program that it is to run */
	ELF_TEXT,	   /* neither an ELF file nor a script that names its interpreter */
	ELF_UNKNOWN,	   /* a damaged ELF file, or unreadable */
	ELF_OTHER_CLASS,   /* 32-bit */
	ELF_OTHER_MACHINE, /* another architecture */
	ELF_STATIC,	   /* no dynamic loader */
	ELF_OTHER_LIBC,	   /* a loader of neither glibc nor musl */
	ELF_SANITIZED,	   /* the sanitizer's runtime must be loaded first */
};

struct elf_judgement {
	enum elf_verdict verdict;
	/* ELF_SCRIPT: the interpreter's path; ELF_OTHER_LIBC: the loader's. Inside the part that was read last, not terminated. */
	const char *path;
	size_t path_bytes;
};

enum { ELF_PART_MAX = 64 * 1024 };

/* Where the bytes of a file come from. */
struct elf_source {
	uint64_t length;
	/* Returns at most ELF_PART_MAX bytes, which stay valid until the next call; NULL: they cannot be read. */
	const char *(*get_part)(struct elf_source *source, uint64_t at, size_t bytes);
};

struct elf_judgement elf_judge_source(struct elf_source *source);

/* The same for a file that is in memory as a whole. */
struct elf_judgement elf_judge(const void *bytes, size_t length);

#endif
