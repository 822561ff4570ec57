/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -fno-builtin */
/* Proves that callers with a stack 8 bytes off are served: the rules want 16-byte alignment, but hand-written assembly and
 * some compilers' code do without, and the C library's malloc is content with it. */
#include "target.h"
#include <sys/mman.h>

/* Calls function(a, b, c, d, -1, 0) so. */
void *off_by_eight(const void *function, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d);
__asm__(".text\n"
	".globl off_by_eight\n"
	".type off_by_eight, @function\n"
	"off_by_eight:\n"
	"	.cfi_startproc\n"
	"	pushq %rbp\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset rbp, -16\n"
	"	movq %rsp, %rbp\n"
	"	.cfi_def_cfa_register rbp\n"
	"	andq $-16, %rsp\n"
	"	subq $8, %rsp\n"
	"	movq %rdi, %rax\n"
	"	movq %rsi, %rdi\n"
	"	movq %rdx, %rsi\n"
	"	movq %rcx, %rdx\n"
	"	movq %r8, %rcx\n"
	"	movq $-1, %r8\n"
	"	xorl %r9d, %r9d\n"
	"	call *%rax\n"
	"	leave\n"
	"	.cfi_def_cfa rsp, 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size off_by_eight, .-off_by_eight\n");

static struct truth malloc_truth = TRUTH(take_by_malloc), grow_truth = TRUTH(grow);
static struct truth calloc_truth = TRUTH(take_by_calloc), map_truth = TRUTH_MMAP(map);

static NOINLINE void *take_by_malloc(size_t n)
{
	void *p = off_by_eight((const void *)malloc, n, 0, 0, 0);
	KEEP(p);
	truth_take(&malloc_truth, n);
	return p;
}

static NOINLINE void *take_by_calloc(size_t n)
{
	void *p = off_by_eight((const void *)calloc, n, 3, 0, 0);
	KEEP(p);
	truth_take(&calloc_truth, 3 * n);
	return p;
}

static NOINLINE void *grow(void *p, size_t n)
{
	p = off_by_eight((const void *)realloc, (uintptr_t)p, n, 0, 0);
	KEEP(p);
	truth_take(&grow_truth, n);
	return p;
}

static NOINLINE void *map(size_t n)
{
	void *p = off_by_eight((const void *)mmap, 0, n, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS);
	KEEP(p);
	truth_take(&map_truth, n);
	return p;
}

static void drop(void *p)
{
	off_by_eight((const void *)free, (uintptr_t)p, 0, 0, 0);
}

static void print(const struct truth *t)
{
	say("EXPECT stack=off_by_eight<%s<main kind=%s calls=%lu bytes=%lu frees=%lu freed_bytes=%lu\n",
	    t->site, t->kind, t->calls, t->bytes, t->frees, t->freed_bytes);
}

int main(void)
{
	for (size_t n = 1; n < 2000; n += 3) {
		void *p = take_by_malloc(n);

		memset(p, 1, n);
		p = grow(p, 2 * n);
		truth_drop(&malloc_truth, n);
		drop(p);
		truth_drop(&grow_truth, 2 * n);
		drop(take_by_calloc(n));
		truth_drop(&calloc_truth, 3 * n);
	}
	void *p = map(1 << 16);

	off_by_eight((const void *)munmap, (uintptr_t)p, 1 << 16, 0, 0);
	truth_drop(&map_truth, 1 << 16);
	print(&malloc_truth);
	print(&grow_truth);
	print(&calloc_truth);
	print(&map_truth);
	return 0;
}
