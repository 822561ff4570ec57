/* SPDX-License-Identifier: Apache-2.0 */
/* Installs the hooks of an allocator inside the executable, once, at start-up, if it is the one that the collector found: jemalloc
 * (hooks_jemalloc.c) or the tcmalloc of gperftools (hooks_tcmalloc.c).
 *
 * Owns nothing but whether that was done. */
#include <errno.h>

#include "recorder/hooks/allocator.h"
#include "recorder/hooks/next.h"
#include "recorder/hooks/operators.h"
#include "recorder/linked_in/called.h"
#include "recorder/process/settings.h"

COLD static void install_once(const struct live_hooks *at)
{
	char name[LINKED_IN_NAME] = "";

	linked_in_entry = (uintptr_t)linked_in_function(at->entry);
	linked_in_entry_bytes = at->entry_bytes;
	linked_in_pages = (uintptr_t)linked_in_function(at->pages);
	linked_in_pages_bytes = at->pages_bytes; /* from now on: it may initialize itself */
	if (!(at->mallctl != 0 ? jemalloc_install(at, name) : tcmalloc_install(at, name))) {
		linked_in_pages_bytes = 0;
		return;
	}
	if (next.other_malloc != NULL)
		operators_leave_to_malloc();
	__builtin_memcpy(linked_in_name, name, sizeof name);
	allocator_name();
}

void linked_in_install(void)
{
	static bool done;

	if (LIKELY(settings.hooks.program == 0) || done)
		return;
	done = true;
	if (!linked_in_is_expected())
		return;
	int before = errno;

	install_once(&settings.hooks);
	errno = before;
}
