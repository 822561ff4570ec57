/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that the recorder is content with little stack: threads of PTHREAD_STACK_MIN, and handlers that allocate on an
 * alternate stack of the smallest size plus 2 KiB, with a guard page below; each from stacks never seen before. */
#include "target.h"
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

enum { PAGE = 4096, ROOM = 2048 };
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

/* An alternate stack that ends right above a page that cannot be touched. */
static void use_small_alternate_stack(void)
{
	size_t size = (size_t)sysconf(_SC_MINSIGSTKSZ) + ROOM;
	size_t mapped = (size + PAGE - 1) / PAGE * PAGE + PAGE;
	char *map = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(map != MAP_FAILED && mprotect(map, PAGE, PROT_NONE) == 0);
	CHECK(sigaltstack(&(stack_t){ .ss_sp = map + PAGE, .ss_size = size }, NULL) == 0);
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
