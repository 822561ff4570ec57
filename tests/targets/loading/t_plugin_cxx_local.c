/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that operator new works in a C++ plugin that a C program opens RTLD_LOCAL: libstdc++ is in nobody else's scope,
 * and may go and come again at another place. */
#include "plugin.h"

int main(void)
{
	struct truth sum = { "cxx_plugin_take", "heap", 0, 0, 0, 0 };

	for (int i = 0; i < 10; i++) {
		void *plugin = plugin_open("lib_cxx_plugin", RTLD_NOW | RTLD_LOCAL);
		struct truth *truth = plugin_symbol(plugin, "cxx_plugin_truth");
		struct truth before = *truth;
		int (*work)(int);
		*(void **)&work = plugin_symbol(plugin, "cxx_plugin_work");
		CHECK(work(200) == 37);
		sum.calls += truth->calls - before.calls;
		sum.bytes += truth->bytes - before.bytes;
		sum.frees += truth->frees - before.frees;
		sum.freed_bytes += truth->freed_bytes - before.freed_bytes;
		CHECK(dlclose(plugin) == 0);
	}
	CHECK(dlsym(RTLD_DEFAULT, "_ZNSt9bad_allocC1Ev") == NULL);
	truth_print(&sum, "");
	return 0;
}
