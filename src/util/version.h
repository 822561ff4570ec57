/* SPDX-License-Identifier: Apache-2.0 */
/* Versions of the kernel and the C library, as they name themselves: "6.18.44-x", "2.36". */
#ifndef UTIL_VERSION_H
#define UTIL_VERSION_H

#include <stdbool.h>
#include <stdlib.h>

static inline bool version_is_from(const char *version, unsigned long major, unsigned long minor)
{
	char *end;
	unsigned long first = strtoul(version, &end, 10);
	unsigned long second = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;

	return first > major || (first == major && second >= minor);
}

#endif
