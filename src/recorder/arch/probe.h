/* SPDX-License-Identifier: Apache-2.0 */
/* Static probes (USDT): places in the code that a tracer such as bpftrace can attach to in a running process.
 *
 * A probe is a nop, and a note in the ELF file that says where it is and in which registers its arguments are. A tracer replaces the
 * nop by a breakpoint, and increments the probe's semaphore, a word that tells the program that somebody listens. The note is the one
 * that <sys/sdt.h> of SystemTap emits, version 3; it is not loaded into memory:
 *
 *   4 bytes   size of the owner's name, 8
 *   4 bytes   size of what follows the name
 *   4 bytes   type, 3
 *   8 bytes   "stapsdt"
 *   8 bytes   address of the nop
 *   8 bytes   address of .stapsdt.base, by which a reader notices that prelink has moved the code
 *   8 bytes   address of the semaphore
 *   strings   provider, name, arguments: "8@%rdi 8@%rsi", 8 bytes unsigned each
 *
 * The same text serves all 64-bit architectures, since the compiler spells the registers: 8@%rdi, on aarch64 8@x0. */
#ifndef RECORDER_ARCH_PROBE_H
#define RECORDER_ARCH_PROBE_H

#include <stdint.h>

/* The section of semaphores: writable and in the file, because the kernel finds a semaphore by its offset in the file. */
#define PROBE_SEMAPHORE(provider, name)                                                            \
	uint16_t provider##_##name##_semaphore __attribute__((section(".probes"), used))

/* The nop has one byte: newer kernels replace one of five bytes by a call, which writes below the stack pointer. */
#define PROBE_NOTE(provider, name, arguments)                                                      \
	"990:	nop\n"                                                                               \
	"	.pushsection .note.stapsdt,\"\",\"note\"\n"                                              \
	"	.balign 4\n"                                                                             \
	"	.4byte 992f-991f, 994f-993f, 3\n"                                                        \
	"991:	.asciz \"stapsdt\"\n"                                                                \
	"992:	.balign 4\n"                                                                         \
	"993:	.8byte 990b\n"                                                                       \
	"	.8byte _.stapsdt.base\n"                                                                 \
	"	.8byte " #provider "_" #name "_semaphore\n"                                        \
	"	.asciz \"" #provider "\"\n"                                                        \
	"	.asciz \"" #name "\"\n"                                                            \
	"	.asciz \"" arguments "\"\n"                                                        \
	"994:	.balign 4\n"                                                                         \
	"	.popsection\n"                                                                           \
	"	.ifndef _.stapsdt.base\n" /* one byte for the whole ELF file */                    \
	"	.pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"                   \
	"	.weak _.stapsdt.base\n"                                                                  \
	"	.hidden _.stapsdt.base\n"                                                                \
	"_.stapsdt.base: .space 1\n"                                                               \
	"	.size _.stapsdt.base, 1\n"                                                               \
	"	.popsection\n"                                                                           \
	"	.endif\n"

/* Arguments are 64 bits wide. Memory is clobbered, so that a tracer finds everything written that was written before. */
#define PROBE_1(provider, name, a)                                                                 \
	__asm__ volatile(PROBE_NOTE(provider, name, "8@%0") : : "r"(a) : "memory")
#define PROBE_3(provider, name, a, b, c)                                                           \
	__asm__ volatile(PROBE_NOTE(provider, name, "8@%0 8@%1 8@%2")                              \
			 :                                                                         \
			 : "r"(a), "r"(b), "r"(c)                                                  \
			 : "memory")
#endif
