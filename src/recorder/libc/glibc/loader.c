/* SPDX-License-Identifier: Apache-2.0 */
/* _dl_find_object, which takes no lock. Owns: its address. */
#include <dlfcn.h>

#include "recorder/libc/libc.h"
#include "recorder/lookup.h"

typedef int find_object_fn(void *pc, struct dl_find_object *result);
static find_object_fn *find_object;

/* Looked up by name: a program linked with us may run with an older glibc. */
void libc_find_start(void)
{
	find_object = (find_object_fn *)lookup_first("_dl_find_object");
}

bool libc_find(uintptr_t address, struct libc_found *ret)
{
	struct dl_find_object found;

	if (find_object == NULL || find_object((void *)address, &found) != 0)
		return false;
	*ret = (struct libc_found){ (const struct libc_object *)found.dlfo_link_map,
				    (uintptr_t)found.dlfo_map_start, (uintptr_t)found.dlfo_map_end,
				    found.dlfo_eh_frame };
	return true;
}
