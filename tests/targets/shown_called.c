/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -O1 */
/* Serves requests under tags and labels, and gives out memory of its own as a pool. */
#include <heapgauge/heapgauge.h>

#include <stdio.h>
#include <stdlib.h>

enum { REQUESTS = 60, LINES = 20, CHUNK = 64 };

static void *kept[REQUESTS * LINES * 2];
static int count;
static char memory[REQUESTS * CHUNK];

static void parse(int request)
{
	HG_SCOPE("parse");
	for (int i = 0; i < LINES; i++)
		free(malloc(40 + (size_t)request));
	kept[count++] = malloc(500);
}

static void answer(int request)
{
	HG_SCOPE("answer");
	for (int i = 0; i < LINES; i++)
		kept[count++] = malloc(100 + (size_t)request);
}

static void serve(int request)
{
	HG_SCOPE("serve");
	HG_LABEL("tenant", request % 3 ? "acme" : "globex");
	parse(request);
	if (request % 2)
		answer(request);
}

int main(void)
{
	hg_pool pool = hg_pool_new("arena");

	kept[count++] = malloc(10000);
	for (int i = 0; i < REQUESTS; i++) {
		serve(i);
		hg_pool_alloc(pool, memory + (size_t)i * CHUNK, CHUNK);
	}
	for (int i = 1; i < 300; i++)
		free(kept[i]);
	printf("kept %d\n", count);
	return 0;
}
