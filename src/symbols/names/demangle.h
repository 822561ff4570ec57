/* SPDX-License-Identifier: Apache-2.0 */
/* Demangles linkage names. */
#ifndef SYMBOLS_NAMES_DEMANGLE_H
#define SYMBOLS_NAMES_DEMANGLE_H

/*
 * C++ (Itanium), Rust legacy (without its hash) and Rust v0. Owned by the caller (free). NULL if
 * the name is not mangled, as in C, or implausibly long.
 */
char *demangle(const char *linkage_name);

#endif
