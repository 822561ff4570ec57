/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -Wl,-z,now */
/* Proves that the recorder needs little stack: threads of PTHREAD_STACK_MIN, and handlers that allocate on an alternate
 * stack with 2 KiB below the kernel's frame and a guard page below these; each from stacks never seen before.
 *
 * T12: what the CPU decides is kept out of the 2 KiB, or the bare program would crash on one CPU and have kilobytes to
 * spare on another. The kernel's frame is measured: it is 1 to 4 KiB, while MINSIGSTKSZ also counts AMX state (12 KB in
 * all), which the frame of a program that never asked for AMX does not hold. Nothing is bound lazily: the dynamic linker
 * would save the vector registers on the same stack, 2.5 KiB with AVX-512. */
#include "target.h"
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

enum {
	PAGE = 4096,
	VECTOR = 64,	   /* the kernel aligns saved vector registers to this */
	ROOM = 512 + 1536, /* what the handler needs by itself, and what the recorder may take */
};
static size_t frame_bytes;
static char *frame_end;
static struct truth thread_truth = TRUTH(take_in_thread);
static struct truth handler_truth = TRUTH(take_in_handler);

static NOINLINE void *take_in_thread(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&thread_truth, n);
	return p;
}

static NOINLINE void *take_in_handler(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&handler_truth, n);
	return p;
}

static void *small_thread(void *arg)
{
	size_t most = (size_t)(uintptr_t)arg;
	for (size_t n = 1; n <= most; n += 100) {
		free(take_in_thread(n));
		truth_drop(&thread_truth, n);
	}
	return NULL;
}

static void on_signal(int number)
{
	(void)number;
	for (size_t n = 1; n < 5000; n += 999) {
		free(take_in_handler(n));
		truth_drop(&handler_truth, n);
	}
	void *p = take_in_handler(10);
	p = realloc(p, 20);
	KEEP(p);
	truth_drop(&handler_truth, 10);
	free(p);
}

static NOINLINE void raise_at(int depth)
{
	if (depth > 0)
		raise_at(depth - 1);
	else
		raise(SIGUSR1);
	__asm__ volatile("" ::: "memory");
}

static void *thread_with_small_handler(void *arg)
{
	for (int depth = 0; depth < 10; depth++)
		raise_at(depth);
	return arg;
}

static size_t round_up(size_t n, size_t unit)
{
	return (n + unit - 1) / unit * unit;
}

/* Sets an alternate stack that has `usable` bytes above memory that cannot be touched, and returns its end. The kernel may
 * refuse one that is declared smaller than its minimum. */
static char *use_alternate_stack(size_t usable)
{
	size_t declared = round_up(usable + (size_t)sysconf(_SC_MINSIGSTKSZ), PAGE);
	char *map = mmap(NULL, declared + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *bottom = map + declared + PAGE - round_up(usable, PAGE), *end = bottom + usable;

	CHECK(map != MAP_FAILED &&
	      mprotect(bottom, round_up(usable, PAGE), PROT_READ | PROT_WRITE) == 0);
	CHECK(sigaltstack(&(stack_t){ .ss_sp = end - declared, .ss_size = declared }, NULL) == 0);
	return end;
}

static void on_probe(int number)
{
	(void)number;
	frame_bytes = round_up((size_t)(frame_end - (char *)__builtin_frame_address(0)), VECTOR);
}

/* How much of an alternate stack the kernel takes before the handler's first instruction. */
static void measure_frame(void)
{
	struct sigaction action = { .sa_handler = on_probe, .sa_flags = SA_ONSTACK };

	frame_end =
		use_alternate_stack(round_up((size_t)sysconf(_SC_MINSIGSTKSZ), PAGE) + 4 * PAGE);
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && raise(SIGUSR1) == 0 && frame_bytes > 0);
}

static void use_small_alternate_stack(void)
{
	use_alternate_stack(frame_bytes + ROOM);
}

static void *thread_alternate(void *arg)
{
	use_small_alternate_stack();
	return thread_with_small_handler(arg);
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	CHECK(pthread_attr_setstacksize(&attr, (size_t)PTHREAD_STACK_MIN) == 0);
	for (uintptr_t i = 0; i < 60; i++) {
		CHECK(pthread_create(&thread, &attr, small_thread, (void *)(i * 150)) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
	}
	measure_frame();
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	use_small_alternate_stack();
	for (int depth = 0; depth < 30; depth++)
		raise_at(depth);
	for (int i = 0; i < 5; i++) {
		CHECK(pthread_create(&thread, NULL, thread_alternate, NULL) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
	}
	truth_print(&thread_truth, "");
	truth_print(&handler_truth, "");
	return 0;
}
