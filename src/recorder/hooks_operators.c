/* SPDX-License-Identifier: Apache-2.0 */
/* The C++ operators. A block belongs to the program's call of new, with the size that was asked for there: libstdc++
 * turns 0 into 1 and rounds up for alignment before it calls malloc. So new is recorded here, and what it calls passes
 * through. Deletes reach free, where they are recorded: ours jump there and leave no trace on the stack. An allocator
 * that brings operators of its own (jemalloc 5.3, tcmalloc, mimalloc) may never reach malloc or free: which it is, is
 * tried out once, under the guard.
 *
 * An exception from the forwarded operator passes through our frame without landing there. Its guard has ended when the
 * malloc inside failed (hook_nested), or is found out by the next hook (hook.c). Owns: the table of next operators, each
 * entry written once. */
#include <dlfcn.h>

#include "recorder/hook.h"
#include "recorder/operators.h"

/* Every operator takes at most three register arguments; passing one more than it has does no harm. */
typedef void *operator_fn(uintptr_t a, uintptr_t b, uintptr_t c);

/* X(number, symbol) */
#define NEW_OPERATORS(X)                                                                           \
	X(0, "_Znwm")                                                                              \
	X(1, "_Znam")                                                                              \
	X(2, "_ZnwmRKSt9nothrow_t")                                                                \
	X(3, "_ZnamRKSt9nothrow_t")                                                                \
	X(4, "_ZnwmSt11align_val_t")                                                               \
	X(5, "_ZnamSt11align_val_t")                                                               \
	X(6, "_ZnwmSt11align_val_tRKSt9nothrow_t")                                                 \
	X(7, "_ZnamSt11align_val_tRKSt9nothrow_t")
#define DELETE_OPERATORS(X)                                                                        \
	X(8, "_ZdlPv")                                                                             \
	X(9, "_ZdaPv")                                                                             \
	X(10, "_ZdlPvm")                                                                           \
	X(11, "_ZdaPvm")                                                                           \
	X(12, "_ZdlPvRKSt9nothrow_t")                                                              \
	X(13, "_ZdaPvRKSt9nothrow_t")                                                              \
	X(14, "_ZdlPvSt11align_val_t")                                                             \
	X(15, "_ZdaPvSt11align_val_t")                                                             \
	X(16, "_ZdlPvmSt11align_val_t")                                                            \
	X(17, "_ZdaPvmSt11align_val_t")                                                            \
	X(18, "_ZdlPvSt11align_val_tRKSt9nothrow_t")                                               \
	X(19, "_ZdaPvSt11align_val_tRKSt9nothrow_t")

static const char *const names[] = {
#define NAME(number, symbol) symbol,
	NEW_OPERATORS(NAME) DELETE_OPERATORS(NAME)
#undef NAME
};
enum { OPERATORS = ARRAY_SIZE(names), PLAIN_NEW = 0, PLAIN_DELETE = 8 };

/* Of the process: the next definition of each, and whether they reach malloc and free. */
static operator_fn *next_operator[OPERATORS];
static bool reaches_malloc = true, reaches_free = true;

/* Without a definition anywhere (a C program whose C++ plugin brings none): malloc and free do. */
static void *fallback_new(uintptr_t size, uintptr_t b, uintptr_t c)
{
	(void)b, (void)c;
	return next.malloc(size ? size : 1);
}
static void *fallback_delete(uintptr_t block, uintptr_t b, uintptr_t c)
{
	(void)b, (void)c;
	next.free((void *)block);
	return NULL;
}

/* Looking up may allocate: under the guard, so that it is not the program's. caller: 0 at start-up. */
COLD static operator_fn *find(int number, uintptr_t caller, const uintptr_t *frame)
{
	struct slot *slot = frame != NULL ? hook_enter(frame) : NULL;

	if (slot != NULL)
		hook_guard((uintptr_t)frame | GUARD_FORWARDING | GUARD_NESTS);
	operator_fn *found = (operator_fn *)next_symbol(RTLD_NEXT, names[number]);

	if (found == NULL && caller != 0)
		found = (operator_fn *)modules_symbol_near(caller, names[number]);
	if (found == NULL && caller != 0)
		found = number < PLAIN_DELETE ? fallback_new : fallback_delete;
	if (found != NULL)
		__atomic_store_n(&next_operator[number], found, __ATOMIC_RELEASE);
	if (slot != NULL)
		hook_leave();
	return found;
}

/* Under the guard of a hook: nothing of this is recorded. */
void operators_start(void)
{
	operator_fn *new = find(PLAIN_NEW, 0, NULL);
	operator_fn *delete = find(PLAIN_DELETE, 0, NULL);

	if (new == NULL || delete == NULL)
		return; /* not a C++ program; a plugin's operators are looked up when they are called */
	for (int i = 0; i < OPERATORS; i++)
		find(i, 0, NULL);
	thread_state.nested = false;
	void *block = new (1, 0, 0);

	reaches_malloc = thread_state.nested;
	thread_state.nested = false;
	delete ((uintptr_t)block, 0, 0);
	reaches_free = thread_state.nested;
}

static ALWAYS_INLINE operator_fn *next_of(int number, const uintptr_t *frame)
{
	operator_fn *found = __atomic_load_n(&next_operator[number], __ATOMIC_ACQUIRE);

	return LIKELY(found != NULL) ? found : find(number, frame[1], frame);
}

static ALWAYS_INLINE void *new_common(operator_fn *forward, uintptr_t size, uintptr_t b,
				      uintptr_t c, const uintptr_t *frame)
{
	struct slot *slot = hook_enter(frame);
	uintptr_t guard = (uintptr_t)frame | GUARD_FORWARDING | (reaches_malloc ? GUARD_NESTS : 0);

	if (UNLIKELY(slot == NULL))
		return forward(size, b, c);
	hook_guard(guard);
	void *block = forward(size, b, c);

	if (UNLIKELY(thread_state.guard != guard))
		return block; /* ended inside, where a later attempt of the same call was recorded if it gave a block */
	hook_record(frame);
	if (LIKELY(block != NULL))
		record_block(slot, block, size, frame);
	hook_leave();
	return block;
}

NOINLINE static void *delete_recorded(operator_fn *forward, uintptr_t block, uintptr_t b,
				      uintptr_t c, const uintptr_t *frame)
{
	struct slot *slot = block != 0 ? hook_enter(frame) : NULL;

	if (slot != NULL) {
		hook_record(frame);
		record_free(slot, (void *)block, frame);
		hook_guard((uintptr_t)frame | GUARD_FORWARDING);
	}
	forward(block, b, c);
	if (slot != NULL)
		hook_leave();
	return NULL;
}

#define DEFINE_NEW(number, symbol)                                                                 \
	EXPORT void *operator_##number(uintptr_t a, uintptr_t b, uintptr_t c) __asm__(symbol);     \
	void *operator_##number(uintptr_t a, uintptr_t b, uintptr_t c)                             \
	{                                                                                          \
		const uintptr_t *frame = HOOK_FRAME();                                             \
                                                                                                   \
		return new_common(next_of(number, frame), a, b, c, frame);                         \
	}
/* The jump in the ordinary case is a tail call: the operator's frame takes the place of ours. */
#define DEFINE_DELETE(number, symbol)                                                              \
	EXPORT void *operator_##number(uintptr_t a, uintptr_t b, uintptr_t c) __asm__(symbol);     \
	void *operator_##number(uintptr_t a, uintptr_t b, uintptr_t c)                             \
	{                                                                                          \
		const uintptr_t *frame = HOOK_FRAME();                                             \
		operator_fn *forward = next_of(number, frame);                                     \
                                                                                                   \
		if (UNLIKELY(!reaches_free))                                                       \
			return delete_recorded(forward, a, b, c, frame);                           \
		return forward(a, b, c);                                                           \
	}
NEW_OPERATORS(DEFINE_NEW)
DELETE_OPERATORS(DEFINE_DELETE)
