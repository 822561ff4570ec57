/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that a plugin which only its opener's RUNPATH finds is still found. */
#include "plugin.h"

int main(void)
{
	CHECK(dlopen("lib_plugin.so", RTLD_NOW) == NULL);
	void *caller = plugin_open("lib_runpath_caller", RTLD_NOW);
	void *(*open)(void);
	*(void **)&open = plugin_symbol(caller, "open_by_runpath");
	void *plugin = open();
	if (!plugin)
		say("%s\n", dlerror());
	CHECK(plugin);
	void (*work)(int);
	*(void **)&work = plugin_symbol(plugin, "plugin_work");
	work(100);
	truth_print(plugin_symbol(plugin, "plugin_truth"), "");
	_exit(0); /* before the plugin's destructor: what it holds is live */
}
