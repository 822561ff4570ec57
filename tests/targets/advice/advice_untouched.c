/* SPDX-License-Identifier: Apache-2.0 */
/* For the rule "untouched". bad: 48 MiB of which a page is used. good: 48 MiB that are. */
#include <heapgauge/heapgauge.h>
#include <time.h>

#include "target.h"

enum { RESERVED_BYTES = 48 << 20 };

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
	char *p = take(RESERVED_BYTES);

	memset(p, 1, bad ? 4096 : RESERVED_BYTES);
	nanosleep(&pause, NULL);
	if (bad)
		say("ADVICE rule=untouched site=take saving_reserved_bytes>=%d\n",
		    RESERVED_BYTES / 100 * 95);
	free(p);
	/* A sheet of the freed heap: the rule looks at what was before. */
	hg_snapshot("freed");
	nanosleep(&(struct timespec){ 0, 100000000 }, NULL);
	return 0;
}
