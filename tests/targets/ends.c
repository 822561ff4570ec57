/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates, then ends as its argument says; test_exit.py compares how. */
#include "target.h"
#include <signal.h>
#include <sys/resource.h>

static NOINLINE void *take_before_end(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	return p;
}

static NOINLINE void raise_segv(void)
{
	volatile int *volatile nowhere = NULL;
	*nowhere = 1;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "return";
	int value = argc > 2 ? atoi(argv[2]) : 0;

	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	for (size_t n = 0; n < 1000; n++)
		free(take_before_end(n));
	take_before_end(4321);
	say("ending by %s %d\n", how, value);
	if (strcmp(how, "exit") == 0)
		exit(value);
	if (strcmp(how, "_exit") == 0)
		_exit(value);
	if (strcmp(how, "quick_exit") == 0)
		quick_exit(value);
	if (strcmp(how, "abort") == 0)
		abort();
	if (strcmp(how, "segv") == 0)
		raise_segv();
	if (strcmp(how, "raise") == 0)
		raise(value);
	if (strcmp(how, "wait") == 0)
		for (;;)
			pause();
	return value;
}
