/* SPDX-License-Identifier: Apache-2.0 */
/* How a target opens the libraries that lie beside it. */
#ifndef PLUGIN_H
#define PLUGIN_H
#include "target.h"
#include <dlfcn.h>

/* Opens NAME.so in the folder of the running program. A failure ends the target. */
static inline void *plugin_open(const char *name, int flags)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 100);

	CHECK(n > 0);
	path[n] = '\0';
	snprintf(strrchr(path, '/') + 1, 90, "%s.so", name);
	void *handle = dlopen(path, flags);
	if (!handle)
		say("%s\n", dlerror());
	CHECK(handle);
	return handle;
}

static inline void *plugin_symbol(void *handle, const char *name)
{
	void *symbol = dlsym(handle, name);
	CHECK(symbol);
	return symbol;
}
#endif
