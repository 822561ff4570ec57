/* SPDX-License-Identifier: Apache-2.0 */
/* Parses demangled C++ and Rust names: qualified function names, template arguments, and types as people write them. */
#ifndef ANALYSIS_RESULT_TYPE_NAMES_H
#define ANALYSIS_RESULT_TYPE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/span.h"
#include "util/buffer.h"

/*
 * The qualified name of a function, without return type and parameters: "std::vector<int>::push_back"
 * from "void std::vector<int>::push_back(int&&)". A Rust method of a type, or of a trait for a type,
 * begins with the type: "<alloc::vec::Vec<T> as Clone>::clone". The span points into `full`.
 */
struct span name_qualified(const char *full);

/* The type at the start of such a Rust name; the whole name if there is none. */
struct span name_subject(struct span name);

/* Copies a qualified name without its template arguments, so that all instances of a template are one: "ns::vec::push" from
 * "ns::vec<int>::push". Truncates it to fit and terminates it. */
void name_without_arguments(struct span name, char *ret, size_t bytes);

/* Splits the argument list that follows a name, "<a, b<c>>...", into at most `max` arguments. Returns their number. */
size_t name_arguments(struct span list, struct span *ret, size_t max);

/*
 * Appends a type without its redundant parts: inline namespaces, default arguments, the paths of
 * Rust's own types. "std::__cxx11::basic_string<char, ...>" becomes "std::string".
 */
void type_append(struct buffer *out, struct span type);

/* Returns the length of the prefix `beginning` in the name, matching whole words and skipping inline namespaces; 0 if
 * it is no prefix. */
size_t name_begins(struct span name, const char *beginning);

#endif
