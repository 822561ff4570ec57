/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiler attributes and builtins. The one header that every file may include.
 *
 * base/ is also compiled into the recorder, which runs inside other programs: nothing here may need
 * libc beyond memcpy, memset, memmove and memcmp, which the compiler emits on its own.
 */
#ifndef BASE_COMPILER_H
#define BASE_COMPILER_H

#include <stddef.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
#define COLD __attribute__((cold, noinline))
/* For the declaration of a variable: defined in this object, so it is accessed without the GOT. */
#define HIDDEN __attribute__((visibility("hidden")))
#define UNUSED __attribute__((unused))
#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))

/* Number of elements; does not compile for a pointer. */
#define ARRAY_SIZE(a)                                                                              \
	(sizeof(a) / sizeof((a)[0]) +                                                              \
	 0 * sizeof(struct {                                                                       \
		 _Static_assert(!__builtin_types_compatible_p(__typeof__(a), __typeof__(&(a)[0])), \
				"ARRAY_SIZE of a pointer");                                        \
		 int unused;                                                                       \
	 }))

#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Each argument is evaluated once. */
#define MIN(a, b)                                                                                  \
	__extension__({                                                                            \
		__typeof__(a) min_a_ = (a);                                                        \
		__typeof__(b) min_b_ = (b);                                                        \
		min_a_ < min_b_ ? min_a_ : min_b_;                                                 \
	})
#define MAX(a, b)                                                                                  \
	__extension__({                                                                            \
		__typeof__(a) max_a_ = (a);                                                        \
		__typeof__(b) max_b_ = (b);                                                        \
		max_a_ > max_b_ ? max_a_ : max_b_;                                                 \
	})

/*
 * Checks the code's own assumptions, never input. Traps instead of calling abort(): the same code
 * runs in the recorder, which may not call libc. Off in release builds, where the condition is
 * still compiled but never evaluated.
 */
#ifdef NDEBUG
#define ASSERT(condition) ((void)sizeof(!(condition)))
#else
#define ASSERT(condition) (LIKELY(condition) ? (void)0 : __builtin_trap())
#endif

#endif
