/* SPDX-License-Identifier: Apache-2.0 */
/* Reading demangled C++ and Rust names: the function's own name, template arguments, and types as a person writes them. */
#ifndef ANALYSIS_RESULT_TYPE_NAMES_H
#define ANALYSIS_RESULT_TYPE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/span.h"
#include "util/buffer.h"

/*
 * The qualified name of a function, without return type and parameters: "std::vector<int>::push_back"
 * of "void std::vector<int>::push_back(int&&)". In a Rust method of a type, or of a trait for one, the
 * type stands in front: "<alloc::vec::Vec<T> as Clone>::clone". A part of the text.
 */
struct span name_qualified(const char *full);

/* The type in front of such a Rust name; the whole name if it is none. */
struct span name_subject(struct span name);

/* Splits the list behind a name, "<a, b<c>>...", into at most `max` arguments. Returns their number. */
size_t name_arguments(struct span list, struct span *ret, size_t max);

/*
 * Appends a type without what goes without saying: inline namespaces, default arguments, the paths of
 * Rust's own types. "std::__cxx11::basic_string<char, ...>" becomes "std::string".
 */
void type_append(struct buffer *out, struct span type);

/* How much of the name `beginning` is, if it is its beginning, whole words only and inline namespaces aside; 0: no. */
size_t name_begins(struct span name, const char *beginning);

#endif
