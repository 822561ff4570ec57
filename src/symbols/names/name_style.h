/* SPDX-License-Identifier: Apache-2.0 */
/* Styles of function names. */
#ifndef SYMBOLS_NAMES_NAME_STYLE_H
#define SYMBOLS_NAMES_NAME_STYLE_H

enum name_style {
	NAMES_FULL,  /* demangled: std::vector<int, std::allocator<int> >::push_back(int const&) */
	NAMES_SHORT, /* without arguments: std::vector<...>::push_back */
	NAMES_RAW,   /* linkage name: _ZNSt6vectorIiSaIiEE9push_backERKi */
};

/*
 * The short form of a demangled C++ or Rust name: template arguments are folded; parameters, return
 * type, clone suffixes ("[clone .cold]", ".isra.0") and ABI tags dropped. Owned by the caller (free).
 * NULL if out of memory.
 */
char *name_shorten(const char *full);

#endif
