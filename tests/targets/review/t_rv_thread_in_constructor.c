/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that a plugin's constructor may start a thread that calls operator new and wait for it inside dlopen. */
#include "plugin.h"

int main(void)
{
	struct truth sum = { "rv_take_in_thread", "heap", 0, 0, 0, 0 };

	alarm(900); /* a deadlock ends here */
	for (int i = 0; i < 5; i++) {
		void *plugin = plugin_open("lib_rv_thread_in_constructor", RTLD_NOW | RTLD_LOCAL);
		const struct truth *truth = plugin_symbol(plugin, "rv_thread_truth");

		sum.calls += truth->calls;
		sum.bytes += truth->bytes;
		sum.frees += truth->frees;
		sum.freed_bytes += truth->freed_bytes;
		CHECK(dlclose(plugin) == 0);
	}
	CHECK(sum.calls == 5 * 90);
	truth_print(&sum, "");
	return 0;
}
