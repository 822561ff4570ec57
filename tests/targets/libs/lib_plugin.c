/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -shared */
/* A plugin that allocates in its constructor, in its work, and gives back in its destructor. Opened by several targets. */
#include "target.h"

struct truth plugin_truth = TRUTH(plugin_take);
static void *held[8];

NOINLINE void *plugin_take(size_t n);
void plugin_work(int rounds);

NOINLINE void *plugin_take(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&plugin_truth, n);
	return p;
}

void plugin_work(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		free(plugin_take(111));
		truth_drop(&plugin_truth, 111);
	}
}

__attribute__((constructor)) static void begin(void)
{
	for (int i = 0; i < 8; i++)
		held[i] = plugin_take(1000);
}

__attribute__((destructor)) static void end(void)
{
	for (int i = 0; i < 8; i++)
		free(held[i]);
}
