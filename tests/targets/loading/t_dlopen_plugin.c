/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that a library's constructor inside dlopen and its destructor inside dlclose are recorded, again and again. */
#include "plugin.h"

enum { ROUNDS = 30 };

int main(void)
{
	struct truth sum = { "plugin_take", "heap", 0, 0, 0, 0 };

	for (int i = 0; i < ROUNDS; i++) {
		void *plugin = plugin_open("lib_plugin", i % 2 ? RTLD_NOW : RTLD_LAZY);
		struct truth *truth = plugin_symbol(plugin, "plugin_truth");
		void (*work)(int);
		*(void **)&work = plugin_symbol(plugin, "plugin_work");
		work(50);
		sum.calls += truth->calls;
		sum.bytes += truth->bytes;
		sum.frees += truth->frees + 8;
		sum.freed_bytes += truth->freed_bytes + 8 * 1000;
		CHECK(dlclose(plugin) == 0);
		CHECK(dlopen("/nowhere/at/all.so", RTLD_NOW) == NULL);
	}
	truth_print(&sum, "");
	return 0;
}
