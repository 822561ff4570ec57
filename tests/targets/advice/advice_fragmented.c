/* SPDX-License-Identifier: Apache-2.0 */
/* For the rule "fragmented". bad: every tenth block stays, and with it the pages of the others. good: those that stay were taken
 * together. */
#include <heapgauge/heapgauge.h>
#include <time.h>

#include "target.h"

enum { BLOCKS = 200000, BLOCK_BYTES = 240 };

static char *blocks[BLOCKS];

static NOINLINE char *take(size_t n)
{
	char *p = malloc(n);
	KEEP(p);
	memset(p, 1, n);
	return p;
}

int main(int argc, char **argv)
{
	int bad = argc > 1 && strcmp(argv[1], "bad") == 0;
	const struct timespec pause = { 3, 0 };

	for (int i = 0; i < BLOCKS; i++)
		blocks[i] = take(BLOCK_BYTES);
	for (int i = 0; i < BLOCKS; i++)
		if (bad ? i % 10 : i >= BLOCKS / 10) {
			free(blocks[i]);
			blocks[i] = NULL;
		}
	hg_snapshot("held"); /* so that the collector takes a sheet of it, on a busy machine too */
	nanosleep(&pause, NULL);
	if (bad)
		say("ADVICE rule=fragmented site=take saving_resident_bytes>=%d\n",
		    BLOCKS / 10 * 8 * BLOCK_BYTES);
	return 0;
}
