/* SPDX-License-Identifier: Apache-2.0 */
/* For the rule "untouched". bad: 48 MiB of which a page is used. good: 48 MiB that are. */
#include <time.h>

#include "target.h"

enum { RESERVED_BYTES = 48 << 20, PART_BYTES = 6 << 20 };

static NOINLINE char *take(size_t n)
{
	char *p = malloc(n);
	KEEP(p);
	return p;
}

int main(int argc, char **argv)
{
	int bad = argc > 1 && strcmp(argv[1], "bad") == 0;
	const struct timespec pause = { 2, 200000000 };

	if (bad) {
		memset(take(RESERVED_BYTES), 1, 4096);
	} else {
		/* After this, glibc places large blocks in its heap. */
		free(memset(take(8 << 20), 1, 8 << 20));
		for (int i = 0; i < RESERVED_BYTES / PART_BYTES; i++)
			memset(take(PART_BYTES), 1, PART_BYTES);
	}
	nanosleep(&pause, NULL);
	if (bad)
		say("ADVICE rule=untouched site=take saving_reserved_bytes>=%d\n",
		    RESERVED_BYTES / 100 * 95);
	return 0;
}
