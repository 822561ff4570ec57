/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Typed ids. Each is an index into one table, and mixing them up is the classic profiler bug, so
 * each is a separate type that the compiler distinguishes. A struct of one uint32_t costs as much
 * as the integer.
 *
 * Entry 0 of every table is reserved and means "none": zeroed memory contains no id.
 */
#ifndef BASE_IDS_H
#define BASE_IDS_H

#include <stdbool.h>
#include <stdint.h>

#define DEFINE_ID(name)                                                                            \
	typedef struct {                                                                           \
		uint32_t v;                                                                        \
	} name;                                                                                    \
	_Static_assert(sizeof(name) == 4, #name);                                                  \
	static inline bool name##_equal(name a, name b)                                            \
	{                                                                                          \
		return a.v == b.v;                                                                 \
	}                                                                                          \
	static inline bool name##_is_none(name a)                                                  \
	{                                                                                          \
		return a.v == 0;                                                                   \
	}                                                                                          \
	_Static_assert(1, "takes the semicolon")

DEFINE_ID(module_id); /* a mapped file: one load of one object */
DEFINE_ID(frame_id);  /* a return address within a module */
DEFINE_ID(node_id);   /* a stack: a frame and the node of its caller */
DEFINE_ID(site_id);   /* a stack and a tag */
DEFINE_ID(slot_id);   /* totals and tables, owned by one thread at a time */
DEFINE_ID(thread_id); /* a thread; never reused within a process */
DEFINE_ID(tag_id);    /* a name that the program gave to its allocations */
DEFINE_ID(string_id); /* an interned string */

#endif
