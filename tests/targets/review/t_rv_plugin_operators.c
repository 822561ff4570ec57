/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that plugins of a C program which bring operator new and delete of their own each get their own, whatever was
 * loaded, used and closed before, and with both open at once. */
#include "plugin.h"

struct tool {
	void *handle;
	void *(*make)(void);
	void (*drop)(void *);
};

static struct truth sum = { "rv_malloc_body", "heap", 0, 0, 0, 0 };

static struct tool tool_open(const char *name)
{
	struct tool tool = { .handle = plugin_open(name, RTLD_NOW | RTLD_LOCAL) };

	*(void **)&tool.make = plugin_symbol(tool.handle, "rv_make");
	*(void **)&tool.drop = plugin_symbol(tool.handle, "rv_drop");
	return tool;
}

static void tool_close(struct tool *tool)
{
	const struct truth *truth = dlsym(tool->handle, "rv_truth");

	if (truth != NULL) {
		sum.calls += truth->calls;
		sum.bytes += truth->bytes;
		sum.frees += truth->frees;
		sum.freed_bytes += truth->freed_bytes;
	}
	CHECK(dlclose(tool->handle) == 0);
}

static void use(const struct tool *tool, int count)
{
	void *kept[50];

	for (int i = 0; i < count; i++)
		kept[i] = tool->make();
	for (int i = 0; i < count; i++)
		tool->drop(kept[i]);
}

int main(void)
{
	static const char *const names[] = { "lib_rv_operators_malloc", "lib_rv_operators_pool" };

	for (int round = 0; round < 6; round++) {
		struct tool first = tool_open(names[round % 2]);
		use(&first, 50);
		tool_close(&first);
		struct tool second = tool_open(names[(round + 1) % 2]);
		use(&second, 50);
		first = tool_open(names[round % 2]);
		void *a = first.make(), *b = second.make();
		use(&first, 20);
		use(&second, 20);
		second.drop(b);
		first.drop(a);
		first.make();
		tool_close(&first);
		use(&second, 5);
		tool_close(&second);
	}
	CHECK(sum.calls > 0 && sum.calls > sum.frees);
	truth_print(&sum, "");
	return 0;
}
