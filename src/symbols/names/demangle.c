/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Demangling by libiberty, which gcc, gdb and perf use too, so its output is familiar.
 *
 * Names come from untrusted binaries. libiberty limits its own recursion; we limit the length,
 * because the output of a crafted name can be exponentially longer than the name.
 */
#include "symbols/names/demangle.h"

#include <stddef.h>
#include <string.h>

#include <libiberty/demangle.h>

enum { MANGLED_MAX_BYTES = 32 * 1024 };

char *demangle(const char *linkage_name)
{
	/* All mangled names start like this; saves the work for C. */
	if (strncmp(linkage_name, "_Z", 2) != 0 && strncmp(linkage_name, "_R", 2) != 0)
		return NULL;
	if (strnlen(linkage_name, MANGLED_MAX_BYTES) == MANGLED_MAX_BYTES)
		return NULL;
	/* AUTO tries Rust first, which recognizes legacy names by their hash; without VERBOSE the
	 * hash is dropped and std::string is not expanded. */
	return cplus_demangle(linkage_name, DMGL_PARAMS | DMGL_ANSI | DMGL_AUTO);
}
