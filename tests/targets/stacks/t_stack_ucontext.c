/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that stacks inside ucontext coroutines are right up to their root, on stacks that are reused, unmapped and mapped
 * again, and that swapping back and forth mixes nothing up. */
#include "target.h"
#include <alloca.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { COROUTINES = 4, STACK = 128 * 1024, ROUNDS = 20, YIELDS = 10 };
static ucontext_t here, there[COROUTINES];
static int current;

static NOINLINE void take_in_coroutine(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	free(p);
	__asm__ volatile("" ::: "memory");
}

static NOINLINE void even_step(size_t n)
{
	volatile char *room = alloca(n % 100 + 16);
	room[0] = 1;
	take_in_coroutine(n);
	room[1] = room[0];
}

static NOINLINE void odd_step(size_t n)
{
	volatile char room[300];
	room[0] = 1;
	take_in_coroutine(n);
	room[1] = room[0];
}

static void coroutine_root(void)
{
	for (size_t i = 0; i < YIELDS; i++) {
		if (current % 2)
			odd_step(10 + i);
		else
			even_step(10 + i);
		swapcontext(&there[current], &here);
	}
}

static NOINLINE void run_all(char *stack[])
{
	for (int c = 0; c < COROUTINES; c++) {
		getcontext(&there[c]);
		there[c].uc_stack.ss_sp = stack[c];
		there[c].uc_stack.ss_size = STACK;
		there[c].uc_link = &here;
		makecontext(&there[c], coroutine_root, 0);
	}
	for (int i = 0; i < (YIELDS + 1) * COROUTINES; i++) {
		current = i % COROUTINES;
		take_in_coroutine(5);
		swapcontext(&here, &there[current]);
	}
}

int main(void)
{
	char *stack[COROUTINES];

	for (int round = 0; round < ROUNDS; round++) {
		for (int c = 0; c < COROUTINES; c++) {
			if (round % 3 == 0 && round)
				munmap(stack[c], STACK);
			if (round % 3 == 0)
				stack[c] = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
						MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		}
		run_all(stack);
	}
	int each = ROUNDS * YIELDS * COROUTINES / 2;
	say("EXPECT stack=take_in_coroutine<even_step<coroutine_root kind=heap calls=%d frees=%d\n",
	    each, each);
	say("EXPECT stack=take_in_coroutine<odd_step<coroutine_root kind=heap calls=%d frees=%d\n",
	    each, each);
	say("EXPECT stack=take_in_coroutine<run_all<main kind=heap calls=%d\n",
	    ROUNDS * (YIELDS + 1) * COROUTINES);
	/* makecontext returns to the first byte of __start_context: there is no instruction before it. */
	say("HEALTH_MAYBE stacks_stopped\n");
	return 0;
}
