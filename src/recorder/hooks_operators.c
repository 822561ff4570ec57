/* SPDX-License-Identifier: Apache-2.0 */
/* The C++ operators. libstdc++'s reach malloc, where the call is recorded: ours then jump to them and leave no trace on
 * the stack. An allocator that brings operators of its own (jemalloc 5.3, tcmalloc, mimalloc) may never reach malloc:
 * its calls are recorded here. Which of the two it is, is tried out once per operator family, under the guard.
 *
 * An exception from the forwarded operator passes through our frame without landing there; the guard it leaves behind is
 * found out by the next hook (hook.c). Owns: the table of next operators, each entry written once. */
#include "recorder/hook.h"
#include "recorder/operators.h"

/* Every operator takes at most three register arguments; passing one more than it has does no harm. */
typedef void *operator_fn(uintptr_t a, uintptr_t b, uintptr_t c);

/* X(number, symbol) */
#define NEW_OPERATORS(X)                                                                            \
	X(0, "_Znwm")                                                                               \
	X(1, "_Znam")                                                                               \
	X(2, "_ZnwmRKSt9nothrow_t")                                                                 \
	X(3, "_ZnamRKSt9nothrow_t")                                                                 \
	X(4, "_ZnwmSt11align_val_t")                                                                \
	X(5, "_ZnamSt11align_val_t")                                                                \
	X(6, "_ZnwmSt11align_val_tRKSt9nothrow_t")                                                  \
	X(7, "_ZnamSt11align_val_tRKSt9nothrow_t")
#define DELETE_OPERATORS(X)                                                                         \
	X(8, "_ZdlPv")                                                                              \
	X(9, "_ZdaPv")                                                                              \
	X(10, "_ZdlPvm")                                                                            \
	X(11, "_ZdaPvm")                                                                            \
	X(12, "_ZdlPvRKSt9nothrow_t")                                                               \
	X(13, "_ZdaPvRKSt9nothrow_t")                                                               \
	X(14, "_ZdlPvSt11align_val_t")                                                              \
	X(15, "_ZdaPvSt11align_val_t")                                                              \
	X(16, "_ZdlPvmSt11align_val_t")                                                             \
	X(17, "_ZdaPvmSt11align_val_t")                                                             \
	X(18, "_ZdlPvSt11align_val_tRKSt9nothrow_t")                                                \
	X(19, "_ZdaPvSt11align_val_tRKSt9nothrow_t")

static const char *const names[] = {
#define NAME(number, symbol) symbol,
	NEW_OPERATORS(NAME) DELETE_OPERATORS(NAME)
#undef NAME
};
enum { OPERATORS = ARRAY_SIZE(names), PLAIN_NEW = 0, PLAIN_DELETE = 8 };

/* Of the process: the next definition of each, and whether they have to be recorded here. */
static operator_fn *next_operator[OPERATORS];
static bool record_here;

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

COLD static operator_fn *find(int number, uintptr_t caller)
{
	operator_fn *found = (operator_fn *)next_symbol(RTLD_NEXT, names[number]);

	if (found == NULL && caller != 0)
		found = (operator_fn *)modules_symbol_near(caller, names[number]);
	if (found == NULL && caller != 0)
		found = number < PLAIN_DELETE ? fallback_new : fallback_delete;
	if (found != NULL)
		__atomic_store_n(&next_operator[number], found, __ATOMIC_RELEASE);
	return found;
}

/* Under the guard of a hook: nothing of this is recorded. */
void operators_start(void)
{
	operator_fn *new = find(PLAIN_NEW, 0);
	operator_fn *delete = find(PLAIN_DELETE, 0);

	if (new == NULL || delete == NULL)
		return; /* not a C++ program; a plugin's operators are looked up when they are called */
	for (int i = 0; i < OPERATORS; i++)
		find(i, 0);
	thread_state.nested = false;
	void *block = new (1, 0, 0);

	record_here = !thread_state.nested;
	delete ((uintptr_t)block, 0, 0);
}

static ALWAYS_INLINE operator_fn *next_of(int number, const uintptr_t *frame)
{
	operator_fn *found = __atomic_load_n(&next_operator[number], __ATOMIC_ACQUIRE);

	return LIKELY(found != NULL) ? found : find(number, frame[1]);
}

NOINLINE static void *new_recorded(operator_fn *forward, uintptr_t size, uintptr_t b, uintptr_t c,
				   const uintptr_t *frame)
{
	struct slot *slot = hook_enter(frame);
	void *block = forward(size, b, c);

	if (slot != NULL) {
		hook_record(frame);
		if (block != NULL)
			record_block(slot, block, size, frame);
		hook_leave();
	}
	return block;
}

NOINLINE static void *delete_recorded(operator_fn *forward, uintptr_t block, uintptr_t b, uintptr_t c,
				      const uintptr_t *frame)
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

/* The jump in the ordinary case is a tail call: the operator's frame takes the place of ours. */
#define DEFINE(number, symbol, recorded)                                                            \
	EXPORT void *operator_##number(uintptr_t a, uintptr_t b, uintptr_t c) __asm__(symbol);       \
	void *operator_##number(uintptr_t a, uintptr_t b, uintptr_t c)                               \
	{                                                                                            \
		const uintptr_t *frame = HOOK_FRAME();                                               \
		operator_fn *forward = next_of(number, frame);                                       \
                                                                                                     \
		if (UNLIKELY(record_here))                                                           \
			return recorded(forward, a, b, c, frame);                                    \
		return forward(a, b, c);                                                             \
	}
#define DEFINE_NEW(number, symbol) DEFINE(number, symbol, new_recorded)
#define DEFINE_DELETE(number, symbol) DEFINE(number, symbol, delete_recorded)
NEW_OPERATORS(DEFINE_NEW)
DELETE_OPERATORS(DEFINE_DELETE)
