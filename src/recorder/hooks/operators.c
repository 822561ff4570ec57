/* SPDX-License-Identifier: Apache-2.0 */
/* The next C++ operators in the process.
 *
 * An operator without a next definition is unexported: if a plugin brings C++ into a C program, the plugin's references
 * resolve as they would without us, and its operators reach malloc. Only a weak reference of an object loaded at start-up
 * may still resolve to ours; it gets the program's malloc and free. Owns: the two tables, written at start-up. */
#include "recorder/hooks/operators.h"

#include "recorder/lookup.h"
#include "recorder/unwind/modules.h"
#include "recorder/hooks/next.h"
#include "recorder/hooks/unexport.h"

static const char *const names[] = {
#define NAME(number, symbol) symbol,
	NEW_OPERATORS(NAME) DELETE_OPERATORS(NAME)
#undef NAME
};
_Static_assert(ARRAY_SIZE(names) == OPERATORS, "names");

operator_fn *next_operator[OPERATORS];
bool operator_of_allocator[OPERATORS];

static void *plain_new(uintptr_t size, UNUSED uintptr_t b, UNUSED uintptr_t c)
{
	void *(*other)(size_t) = next_found()->other_malloc;

	return (other != NULL ? other : next.malloc)(size ? size : 1);
}

static void *plain_aligned_new(uintptr_t size, uintptr_t alignment, UNUSED uintptr_t c)
{
	void *(*other)(size_t, size_t) = (void *(*)(size_t, size_t))lookup_before("aligned_alloc");

	return (other != NULL ? other : next_found()->aligned_alloc)(
		alignment, (size + alignment - 1) & -alignment);
}

static void *plain_delete(uintptr_t block, UNUSED uintptr_t b, UNUSED uintptr_t c)
{
	void (*other)(void *) = (void (*)(void *))lookup_before("free");

	(other != NULL ? other : next_found()->free)((void *)block);
	return NULL;
}

COLD operator_fn *operators_instead(int number)
{
	next_found();
	if (next_operator[number] != NULL)
		return next_operator[number];
	if (number >= FIRST_DELETE)
		return plain_delete;
	return number >= FIRST_ALIGNED_NEW ? plain_aligned_new : plain_new;
}

void operators_look_up(void)
{
	struct lookup_search search = lookup_behind_us();
	operator_fn *found[OPERATORS] = { NULL };

	while (lookup_next_object(&search)) {
		for (int i = 0; i < OPERATORS; i++) {
			if (found[i] == NULL)
				found[i] = (operator_fn *)lookup_here(&search, names[i]);
		}
	}
	for (int i = 0; i < OPERATORS; i++) {
		next_operator[i] = found[i];
		operator_of_allocator[i] =
			next_operator[i] == NULL ||
			modules_same((void *)next_operator[i], (void *)next.malloc);
	}
}

void operators_unexport(void)
{
	for (int i = 0; i < OPERATORS; i++) {
		if (next_operator[i] == NULL)
			unexport(names[i]);
	}
}

/* Defined by the linker for a section of that name. */
extern const char __start_heapgauge_new[] __attribute__((visibility("hidden")));
extern const char __stop_heapgauge_new[] __attribute__((visibility("hidden")));

bool operators_call(uintptr_t pc)
{
	if (pc - (uintptr_t)__start_heapgauge_new <
	    (uintptr_t)(__stop_heapgauge_new - __start_heapgauge_new))
		return true;

	enum { BODY = 512 }; /* an operator is small; the stack walk handles a call further away */
	static uintptr_t last; /* usually the same call repeats; relaxed */

	if (LIKELY(pc == __atomic_load_n(&last, __ATOMIC_RELAXED)))
		return true;
	for (int i = 0; i < OPERATORS; i++) {
		if (next_operator[i] != NULL && pc - (uintptr_t)next_operator[i] < BODY) {
			__atomic_store_n(&last, pc, __ATOMIC_RELAXED);
			return true;
		}
	}
	return false;
}
