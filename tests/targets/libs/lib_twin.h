/* SPDX-License-Identifier: Apache-2.0 */
/* Body of lib_twin_a and lib_twin_b: same layout, so that the loader puts one where the other was, and the same functions
 * at the same places, but with frames of another size. A walk by stale rules goes astray between them. */
#ifndef LIB_TWIN_H
#define LIB_TWIN_H
#include "target.h"

#define TWIN(name, room)                                                                           \
	void *name##_outer(void *(*take)(size_t), size_t n);                                       \
	void *name##_inner(void *(*take)(size_t), size_t n);                                       \
	NOINLINE void *name##_inner(void *(*take)(size_t), size_t n)                               \
	{                                                                                          \
		volatile char frame[room];                                                         \
		frame[0] = frame[room - 1] = 1;                                                    \
		void *p = take(n);                                                                 \
		KEEP(p);                                                                           \
		frame[1] = frame[0];                                                               \
		return p;                                                                          \
	}                                                                                          \
	NOINLINE void *name##_outer(void *(*take)(size_t), size_t n)                               \
	{                                                                                          \
		volatile char frame[room * 2];                                                     \
		frame[0] = frame[room - 1] = 1;                                                    \
		void *p = name##_inner(take, n);                                                   \
		KEEP(p);                                                                           \
		frame[1] = frame[0];                                                               \
		return p;                                                                          \
	}
#endif
