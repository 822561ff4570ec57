/* SPDX-License-Identifier: Apache-2.0 */
/* The C++ operators. A block belongs to the program's call of new, with the size that was asked for there: libstdc++
 * turns 0 into 1 and rounds up for alignment before it calls malloc. So new is recorded here, and what it calls passes
 * through. Deletes reach free, where they are recorded: ours jump there and leave no trace on the stack. An allocator
 * that brings operators of its own (jemalloc 5.3, tcmalloc, mimalloc) may never reach malloc or free: which it is, is
 * learnt from the program's first calls.
 *
 * What is forwarded to: the next definition in the process, found at start-up. Where there is none (a C program whose
 * plugin brings C++), the caller's own definition if its object has one, else what libstdc++ would do: malloc and free,
 * and the definition in the caller's scope only when memory has run out. No lock of the loader is taken before that.
 *
 * An exception from the forwarded operator passes through our frame without landing there. Its guard has ended when the
 * malloc inside failed (hook_nested), or is found out by the next hook (hook.c). Owns: the table of next operators,
 * written at start-up. */
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
enum { OPERATORS = ARRAY_SIZE(names), FIRST_ALIGNED_NEW = 4 };

/* The next definition of each in the process; all NULL where there are none. */
static operator_fn *next_operator[OPERATORS];
/* Whether they reach malloc and free through our hooks: not known before the first new. */
static enum { NOT_KNOWN, REACH_MALLOC, KEEP_TO_THEMSELVES } operators;

void operators_start(void)
{
	for (int i = 0; i < OPERATORS; i++)
		next_operator[i] = (operator_fn *)next_symbol(RTLD_NEXT, names[i]);
}

bool operators_call(uintptr_t pc)
{
	enum { BODY = 512 }; /* an operator is small; a call further away is told by the walk */

	for (int i = 0; i < OPERATORS; i++) {
		if (next_operator[i] != NULL && pc - (uintptr_t)next_operator[i] < BODY)
			return true;
	}
	return false;
}

/* Without a definition that could be had without a lock. */
static void *plain_new(int number, uintptr_t a, uintptr_t b, uintptr_t c, const uintptr_t *frame)
{
	bool aligned = number >= FIRST_ALIGNED_NEW;
	void *block =
		aligned ? next.aligned_alloc(b, (a + b - 1) & ~(b - 1)) : next.malloc(a ? a : 1);

	if (LIKELY(block != NULL))
		return block;
	operator_fn *real = (operator_fn *)modules_symbol_near(frame[1], names[number]);

	hook_end(frame); /* it calls the handler, or throws: all that is recorded on its own */
	return real != NULL ? real(a, b, c) : NULL;
}

static ALWAYS_INLINE void *forward_new(int number, uintptr_t a, uintptr_t b, uintptr_t c,
				       const uintptr_t *frame)
{
	operator_fn *forward = next_operator[number];

	if (LIKELY(forward != NULL))
		return forward(a, b, c);
	forward = (operator_fn *)modules_own_symbol(frame[1], names[number]);
	if (forward == NULL)
		return plain_new(number, a, b, c, frame);
	hook_end(
		frame); /* the caller's own: if it calls malloc, that is recorded; so is its delete */
	return forward(a, b, c);
}

/* The guard was taken down by a hook inside: a later attempt of libstdc++'s has been recorded there, what a pool gave has
 * not. */
NOINLINE static void *new_ended_inside(void *block, uint64_t size, const uintptr_t *frame)
{
	struct slot *slot = block != NULL ? hook_enter(frame) : NULL;

	if (slot == NULL)
		return block;
	hook_record(frame);
	struct block known = blocks_take((uintptr_t)block), none;

	if (known.record != 0)
		blocks_put((uintptr_t)block, &known, &none);
	else
		record_block(slot, block, size, 0, frame);
	hook_leave();
	return block;
}

static ALWAYS_INLINE void *new_common(int number, uintptr_t size, uintptr_t b, uintptr_t c,
				      const uintptr_t *frame)
{
	struct slot *slot = hook_enter(frame);
	uintptr_t guard = (uintptr_t)frame | GUARD_FORWARDING |
			  (operators != KEEP_TO_THEMSELVES ? GUARD_NESTS : 0);

	if (UNLIKELY(slot == NULL))
		return forward_new(number, size, b, c, frame);
	thread_state.nested = false;
	hook_guard(guard);
	void *block = forward_new(number, size, b, c, frame);

	if (UNLIKELY(thread_state.guard != guard))
		return new_ended_inside(block, size, frame);
	if (UNLIKELY(operators == NOT_KNOWN))
		operators = thread_state.nested ? REACH_MALLOC : KEEP_TO_THEMSELVES;
	uint64_t slack = LIKELY(block != NULL) ? slack_of(block, size) : 0;

	hook_record(frame);
	if (LIKELY(block != NULL))
		record_block(slot, block, size, slack, frame);
	hook_leave();
	return block;
}

/* Of operators that keep to themselves, and where there are none but the caller's own or none at all. */
NOINLINE static void *delete_recorded(operator_fn *forward, uintptr_t block, uintptr_t b,
				      uintptr_t c, const uintptr_t *frame)
{
	struct slot *slot = block != 0 ? hook_enter(frame) : NULL;

	if (slot != NULL) {
		hook_record(frame);
		record_free(slot, (void *)block, frame);
		hook_guard((uintptr_t)frame | GUARD_FORWARDING);
	}
	if (forward != NULL)
		forward(block, b, c);
	else if (!early_holds((void *)block))
		next.free((void *)block);
	if (slot != NULL)
		hook_leave();
	return NULL;
}

NOINLINE static void *delete_by_caller(int number, uintptr_t block, uintptr_t b, uintptr_t c,
				       const uintptr_t *frame)
{
	operator_fn *own = (operator_fn *)modules_own_symbol(frame[1], names[number]);

	return own != NULL ? own(block, b, c) : delete_recorded(NULL, block, b, c, frame);
}

#define DEFINE_NEW(number, symbol)                                                                 \
	EXPORT void *operator_##number(uintptr_t a, uintptr_t b, uintptr_t c) __asm__(symbol);     \
	void *operator_##number(uintptr_t a, uintptr_t b, uintptr_t c)                             \
	{                                                                                          \
		return new_common(number, a, b, c, HOOK_FRAME());                                  \
	}
/* The jump in the ordinary case is a tail call: the operator's frame takes the place of ours. */
#define DEFINE_DELETE(number, symbol)                                                              \
	EXPORT void *operator_##number(uintptr_t a, uintptr_t b, uintptr_t c) __asm__(symbol);     \
	void *operator_##number(uintptr_t a, uintptr_t b, uintptr_t c)                             \
	{                                                                                          \
		const uintptr_t *frame = HOOK_FRAME();                                             \
		operator_fn *forward = next_operator[number];                                      \
                                                                                                   \
		if (UNLIKELY(forward == NULL))                                                     \
			return delete_by_caller(number, a, b, c, frame);                           \
		if (UNLIKELY(operators == KEEP_TO_THEMSELVES))                                     \
			return delete_recorded(forward, a, b, c, frame);                           \
		return forward(a, b, c);                                                           \
	}
NEW_OPERATORS(DEFINE_NEW)
DELETE_OPERATORS(DEFINE_DELETE)
