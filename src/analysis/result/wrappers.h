/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognizes allocation wrappers by their shape: functions that allocate for whoever calls them.
 *
 * A function that allocates directly, or by calling wrappers, is one if at least eight places call it, they ask for at least four
 * different mean sizes, and nine tenths of the bytes are from at most two of its lines. A constructor, which many call too, always
 * asks for one size. It is one, too, if all its callers are wrappers by their names: then it is a part of their allocator. Functions
 * that were inlined, and all instances of a template, are one function.
 */
#ifndef ANALYSIS_RESULT_WRAPPERS_H
#define ANALYSIS_RESULT_WRAPPERS_H

#include "analysis/result/locations.h"

/* By location.generic. */
struct wrapper_flags {
	bool *at;
	size_t count;
};

/* Finds the wrappers of a process, beyond those that locations know by name; the caller frees `at`. False if out of memory. */
bool wrappers_find(struct locations *locations, const struct profile_process *process,
		   struct wrapper_flags *ret);

#endif
