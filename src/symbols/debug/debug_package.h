/* SPDX-License-Identifier: Apache-2.0 */
/* Which Debian package brings the debug symbols of an installed file. */
#ifndef SYMBOLS_DEBUG_DEBUG_PACKAGE_H
#define SYMBOLS_DEBUG_DEBUG_PACKAGE_H

#define DEBUG_PACKAGE_LISTS "/var/lib/dpkg/info"

/* Returns "dpkg-dbgsym" for /usr/bin/dpkg-query; the caller frees it. `lists` is the folder with the lists of installed files.
 * NULL: the file came with no package, or out of memory. */
char *debug_package_of(const char *lists, const char *path);

#endif
