/* SPDX-License-Identifier: Apache-2.0 */
/* For the rule "reuse". bad: each round takes a block and gives it back before the next. good: blocks overlap. */
#include "target.h"

enum { ROUNDS = 2000000 };

static NOINLINE char *take(size_t n)
{
	char *p = malloc(n);
	KEEP(p);
	return p;
}

int main(int argc, char **argv)
{
	int bad = argc > 1 && strcmp(argv[1], "bad") == 0;
	char *before = NULL;

	for (int i = 0; i < ROUNDS; i++) {
		char *p = take(300);

		if (bad) {
			free(p);
		} else {
			free(before);
			before = p;
		}
	}
	free(before);
	if (bad)
		say("ADVICE rule=reuse site=take saving_calls=%d\n", ROUNDS);
	return 0;
}
