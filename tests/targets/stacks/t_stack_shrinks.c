/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that a stack which was remembered is not read again where its memory has gone: a coroutine's stack loses its
 * upper half, and another coroutine runs in the lower half and calls from the very place where the first one did. */
#include "target.h"
#include <sys/mman.h>
#include <ucontext.h>

enum { HALF = 512 * 1024, PAGE = 4096, ROUNDS = 3 };
static struct truth truth = TRUTH(inner);
static char *area;
static ucontext_t home, coroutine;

/* Calls function on the stack that ends at `top`. */
void on_stack(void (*function)(void), void *top);
__asm__(".text\n"
	".globl on_stack\n"
	".type on_stack, @function\n"
	"on_stack:\n"
	"	.cfi_startproc\n"
	"	pushq %rbp\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset rbp, -16\n"
	"	movq %rsp, %rbp\n"
	"	.cfi_def_cfa_register rbp\n"
	"	movq %rsi, %rsp\n"
	"	call *%rdi\n"
	"	leave\n"
	"	.cfi_def_cfa rsp, 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size on_stack, .-on_stack\n");

static NOINLINE void inner(void)
{
	void *p = malloc(40);
	KEEP(p);
	free(p);
	truth_take(&truth, 40);
	truth_drop(&truth, 40);
}

static NOINLINE void from_here(void)
{
	on_stack(inner, area + HALF);
	__asm__ volatile("" ::: "memory");
}

static NOINLINE void from_there(void)
{
	on_stack(inner, area + HALF);
	__asm__ volatile("nop" ::: "memory");
}

static void on_whole_stack(void)
{
	for (int i = 0; i < ROUNDS; i++)
		from_here();
}

static void on_lower_half(void)
{
	for (int i = 0; i < ROUNDS; i++)
		from_here();
	for (int i = 0; i < ROUNDS; i++)
		from_there();
	from_here();
}

static void run(void (*function)(void), size_t size)
{
	CHECK(getcontext(&coroutine) == 0);
	coroutine.uc_stack.ss_sp = area;
	coroutine.uc_stack.ss_size = size;
	coroutine.uc_link = &home;
	makecontext(&coroutine, function, 0);
	CHECK(swapcontext(&home, &coroutine) == 0);
}

int main(void)
{
	/* Nothing is mapped behind it. */
	area = mmap(NULL, 4 * HALF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(area != MAP_FAILED && munmap(area + 2 * HALF, 2 * HALF) == 0);
	run(on_whole_stack, 2 * HALF);
	CHECK(munmap(area + HALF + 2 * PAGE, HALF - 2 * PAGE) == 0);
	run(on_lower_half, HALF + 2 * PAGE);
	say("HEALTH_MAYBE stacks_stopped\n");
	truth_print(&truth, "");
	return 0;
}
