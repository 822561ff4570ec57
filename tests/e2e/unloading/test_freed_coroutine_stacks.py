# SPDX-License-Identifier: Apache-2.0
"""The recorder does not read the stack of a coroutine again after free or realloc returned its memory, in any mode."""

import platform

import pytest

from compiled import compile_c

# A coroutine runs on a large block and calls inner() on the block's lower part. Then the block loses its upper part, and another
# coroutine calls inner() from the same code on the same addresses, without anything mapped above its own stack.
PROGRAM = r"""
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#define NOIPA __attribute__((noipa))
enum { HALF = 512 * 1024, PAGE = 4096, ROUNDS = 40, BLOCK = 20 << 20 };
static char *area;
static ucontext_t home, coroutine;
void on_stack(void (*function)(void), void *top);
__asm__(".text\n.globl on_stack\n.type on_stack, @function\non_stack:\n"
	".cfi_startproc\n pushq %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset rbp, -16\n movq %rsp, %rbp\n"
	".cfi_def_cfa_register rbp\n movq %rsi, %rsp\n call *%rdi\n leave\n.cfi_def_cfa rsp, 8\n ret\n.cfi_endproc\n"
	".size on_stack, .-on_stack\n");
NOIPA static void inner(void) { void *volatile block = malloc(BLOCK); free(block); }
NOIPA static void from_here(void) { on_stack(inner, area + HALF); __asm__ volatile("" ::: "memory"); }
NOIPA static void from_there(void) { on_stack(inner, area + HALF); __asm__ volatile("nop" ::: "memory"); }
static void on_whole_stack(void) { for (int i = 0; i < ROUNDS; i++) from_here(); }
static void on_lower_part(void)
{
	for (int i = 0; i < ROUNDS; i++) from_here();
	for (int i = 0; i < ROUNDS; i++) from_there();
	from_here();
}
static void run(void (*function)(void), char *stack, size_t size)
{
	getcontext(&coroutine);
	coroutine.uc_stack.ss_sp = stack;
	coroutine.uc_stack.ss_size = size;
	coroutine.uc_link = &home;
	makecontext(&coroutine, function, 0);
	swapcontext(&home, &coroutine);
}
int main(int count, char **arguments)
{
	/* glibc maps blocks of this size one by one, each below the last one: nothing follows the second. */
	void *above = malloc(2 * HALF);
	char *block = malloc(2 * HALF);
	free(above);
	area = (char *)((uintptr_t)block & -(uintptr_t)PAGE);
	run(on_whole_stack, block, 2 * HALF);
	size_t rest = HALF + 2 * PAGE;
	if (strcmp(arguments[1], "realloc") == 0) {
		if (realloc(block, rest - 64) != block) return 3;
	} else {
		free(block);
		if (mmap(area, rest, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != area) return 4;
	}
	run(on_lower_part, area + 64, rest - 64);
	return 0;
}
"""

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the program switches stacks in assembly")


@pytest.mark.parametrize("how", ["free", "realloc"])
@pytest.mark.parametrize("options", [[], ["--mode", "sample", "--interval", "16MiB"]], ids=["exact", "sampled"])
def test_words_of_a_stack_that_is_gone_are_not_compared(scratch, record, how, options):
    program = compile_c(scratch, "coroutine", PROGRAM)
    done = record([program, how], *options)
    assert done.returncode == 0, done.stderr
