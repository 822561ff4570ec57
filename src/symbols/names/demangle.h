/* SPDX-License-Identifier: Apache-2.0 */
/* Names as the linker has them -> names as a person wrote them. */
#ifndef SYMBOLS_NAMES_DEMANGLE_H
#define SYMBOLS_NAMES_DEMANGLE_H

/*
 * C++ (Itanium), Rust legacy (without its hash) and Rust v0. The caller's (free). NULL if the name
 * is not mangled, as all of C is not, or if it is too long to be anything but an attack.
 */
char *demangle(const char *linkage_name);

#endif
