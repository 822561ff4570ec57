/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -shared "-Wl,-rpath,'$$ORIGIN'" -Wl,--enable-new-dtags */
/* Opens a library by its bare name, which only this library's own RUNPATH can find. */
#include "target.h"
#include <dlfcn.h>

void *open_by_runpath(void);

void *open_by_runpath(void)
{
	void *handle = dlopen("lib_plugin.so", RTLD_NOW);
	KEEP(handle); /* no tail call: the loader looks at the return address to know whose RUNPATH counts */
	return handle;
}
