/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that mappings at the peak are those that there were when the heap was largest, however many are unmapped or added later, and that
 * how long they lived is not known. */
#include "target.h"
#include <sys/mman.h>

enum { WINDOWS = 60, LEFT = 3, WINDOW = 1 << 20, BLOCK = 5 << 20 };

static NOINLINE char *map_window(void)
{
	char *p = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	KEEP(p);
	CHECK(p != MAP_FAILED);
	return p;
}

static NOINLINE char *map_later(void)
{
	char *p = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	KEEP(p);
	CHECK(p != MAP_FAILED);
	return p;
}

static NOINLINE void *take_block(void)
{
	void *p = malloc(BLOCK);
	KEEP(p);
	return p;
}

int main(void)
{
	static char *windows[WINDOWS];

	for (int i = 0; i < WINDOWS; i++)
		windows[i] = map_window();
	free(take_block());
	for (int i = LEFT; i < WINDOWS; i++)
		CHECK(munmap(windows[i], WINDOW) == 0);
	map_later();
	say("EXPECT site=map_window kind=mmap calls=%d frees=%d peak_bytes=%d peak_blocks=%d "
	    "live_bytes=%d lifetimes:0-1000000=0\n",
	    WINDOWS, WINDOWS - LEFT, WINDOWS * WINDOW, WINDOWS, LEFT * WINDOW);
	say("EXPECT site=map_later kind=mmap calls=1 peak_bytes=0 live_bytes=%d\n", WINDOW);
	say("EXPECT site=take_block kind=heap calls=1 peak_bytes=%d\n", BLOCK);
	return 0;
}
