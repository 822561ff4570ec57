/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Demangling by libiberty, which gcc, gdb and perf use too, so its output is familiar.
 *
 * Names come from untrusted binaries. libiberty limits its own recursion; we limit the length,
 * because the output of a crafted name can be exponentially longer than the name.
 */
#include "symbols/names/demangle.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <libiberty/demangle.h>

enum { MANGLED_MAX_BYTES = 32 * 1024 };

/* A procedure of a Fortran module, as gfortran calls it: __grid_MOD_solve is grid::solve, as for gdb. NULL: it is none. */
static char *demangle_fortran(const char *linkage_name)
{
	const char *middle = strstr(linkage_name, "_MOD_");
	char *name;

	if (!middle || middle == linkage_name + 2 || !middle[5] ||
	    asprintf(&name, "%.*s::%s", (int)(middle - linkage_name - 2), linkage_name + 2,
		     middle + 5) < 0)
		return NULL;
	return name;
}

char *demangle(const char *linkage_name)
{
	if (strnlen(linkage_name, MANGLED_MAX_BYTES) == MANGLED_MAX_BYTES)
		return NULL;
	if (strncmp(linkage_name, "__", 2) == 0)
		return demangle_fortran(linkage_name);
	/* All mangled names start like this; saves the work for C. */
	if (strncmp(linkage_name, "_Z", 2) != 0 && strncmp(linkage_name, "_R", 2) != 0)
		return NULL;
	/* AUTO tries Rust first, which recognizes legacy names by their hash; without VERBOSE the
	 * hash is dropped and std::string is not expanded. */
	return cplus_demangle(linkage_name, DMGL_PARAMS | DMGL_ANSI | DMGL_AUTO);
}
