/* SPDX-License-Identifier: Apache-2.0 */
/* The three allocators of CPython, recorded as pools: python.raw, python.mem and python.object.
 *
 * An extension module is allowed to put functions of its own before those of the interpreter, and that is what happens here, at the
 * first allocation that a thread with the GIL makes in a Python function. The memory still comes from where it came before. Blocks
 * given out earlier stay unknown.
 *
 * A table of an allocator is five words that other threads may read while they are written. So the word that all of them are given
 * (`context`) stays what it was: any mix of old and new words is a right table. It cannot tell us apart, so that every layer
 * has functions of its own.
 *
 * The interpreter and others exchange tables too: tracemalloc puts its functions before ours and takes them away again, or had its own
 * there first and takes ours away with them. Hence a table is looked at again and again. Where ours are missing, a layer is put
 * before whatever is there: always the same layer before the same functions. Only the outermost of several counts (wrapped.h).
 *
 * Owns: which functions are before which. */
#include <errno.h>

#include "format/live/live_own.h"
#include "recorder/api/wrapped.h"
#include "recorder/arch/arch.h"
#include "recorder/hooks/hook.h"
#include "recorder/memory.h"
#include "recorder/python/interpreter.h"

enum { DOMAINS = 3, LAYERS = 4, VISITS_BETWEEN = 64 };

struct python_allocator { /* PyMemAllocatorEx */
	void *context;
	void *(*malloc)(void *context, size_t bytes);
	void *(*calloc)(void *context, size_t count, size_t bytes);
	void *(*realloc)(void *context, void *block, size_t bytes);
	void (*free)(void *context, void *block);
};

static struct wrapped_pool pools[DOMAINS] = {
	/* in the interpreter's order */
	{ .name = "python.raw", .began_late = true },
	{ .name = "python.mem", .began_late = true },
	{ .name = LIVE_PYTHON_OBJECTS, .began_late = true },
};
static struct python_allocator behind[DOMAINS][LAYERS]; /* malloc NULL: the layer is not used yet */
static uint32_t visits;
static bool visiting; /* interpreters of one process may have a GIL each */

/* ---- what the interpreter calls ---- */

static ALWAYS_INLINE void *domain_malloc(int domain, int layer, void *context, size_t bytes,
					 const uintptr_t *frame)
{
	bool outermost = wrapped_begin(frame);
	void *block = behind[domain][layer].malloc(context, bytes);

	wrapped_end(outermost);
	return outermost ? wrapped_took(&pools[domain], block, bytes, frame) : block;
}

static ALWAYS_INLINE void *domain_calloc(int domain, int layer, void *context, size_t count,
					 size_t bytes, const uintptr_t *frame)
{
	bool outermost = wrapped_begin(frame);
	void *block = behind[domain][layer].calloc(context, count, bytes);

	wrapped_end(outermost);
	return outermost ? wrapped_took(&pools[domain], block, count * bytes, frame) : block;
}

static ALWAYS_INLINE void *domain_realloc(int domain, int layer, void *context, void *block,
					  size_t bytes, const uintptr_t *frame)
{
	bool outermost = wrapped_begin(frame), had_block = block != NULL;
	struct pool_block old = { 0 };

	if (outermost)
		old = wrapped_gives(&pools[domain], block, frame);
	block = behind[domain][layer].realloc(context, block, bytes);
	wrapped_end(outermost);
	return outermost ? wrapped_moved(&pools[domain], old, had_block, block, bytes, frame)
			 : block;
}

static ALWAYS_INLINE void domain_free(int domain, int layer, void *context, void *block,
				      const uintptr_t *frame)
{
	bool outermost = wrapped_begin(frame);

	if (outermost)
		wrapped_gives(&pools[domain], block, frame);
	behind[domain][layer].free(context, block);
	wrapped_end(outermost);
}

#define FUNCTIONS(domain, layer)                                                                   \
	static void *malloc_##domain##_##layer(void *context, size_t bytes)                        \
	{                                                                                          \
		return domain_malloc(domain, layer, context, bytes, HOOK_FRAME());                 \
	}                                                                                          \
	static void *calloc_##domain##_##layer(void *context, size_t count, size_t bytes)          \
	{                                                                                          \
		return domain_calloc(domain, layer, context, count, bytes, HOOK_FRAME());          \
	}                                                                                          \
	static void *realloc_##domain##_##layer(void *context, void *block, size_t bytes)          \
	{                                                                                          \
		return domain_realloc(domain, layer, context, block, bytes, HOOK_FRAME());         \
	}                                                                                          \
	static void free_##domain##_##layer(void *context, void *block)                            \
	{                                                                                          \
		domain_free(domain, layer, context, block, HOOK_FRAME());                          \
	}
#define TABLE(domain, layer)                                                                       \
	{                                                                                          \
		NULL, malloc_##domain##_##layer, calloc_##domain##_##layer,                        \
			realloc_##domain##_##layer, free_##domain##_##layer                        \
	}
FUNCTIONS(0, 0)
FUNCTIONS(0, 1)
FUNCTIONS(0, 2)
FUNCTIONS(0, 3)
FUNCTIONS(1, 0)
FUNCTIONS(1, 1)
FUNCTIONS(1, 2)
FUNCTIONS(1, 3)
FUNCTIONS(2, 0)
FUNCTIONS(2, 1)
FUNCTIONS(2, 2)
FUNCTIONS(2, 3)
static const struct python_allocator ours[DOMAINS][LAYERS] = {
	{ TABLE(0, 0), TABLE(0, 1), TABLE(0, 2), TABLE(0, 3) },
	{ TABLE(1, 0), TABLE(1, 1), TABLE(1, 2), TABLE(1, 3) },
	{ TABLE(2, 0), TABLE(2, 1), TABLE(2, 2), TABLE(2, 3) },
};

/* ---- putting it there ---- */

static bool same(const struct python_allocator *a, const struct python_allocator *b)
{
	return a->malloc == b->malloc && a->calloc == b->calloc && a->realloc == b->realloc &&
	       a->free == b->free;
}

/* Puts a layer before what is there, unless it is one. */
static void put_before(int domain)
{
	struct python_allocator now = { 0 };
	int layer = 0;

	python_here->get_allocator(domain, &now);
	for (int i = 0; i < LAYERS; i++) {
		if (now.malloc == ours[domain][i].malloc)
			return;
	}
	while (layer < LAYERS && behind[domain][layer].malloc != NULL &&
	       !same(&behind[domain][layer], &now))
		layer++;
	if (layer == LAYERS || now.malloc == NULL) {
		python_visit = NULL;
		health_add(HEALTH_python_domains);
		return;
	}
	behind[domain][layer] = now;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	struct python_allocator table = ours[domain][layer];

	table.context = now.context;
	python_here->set_allocator(domain, &table);
}

COLD void python_domains_visit(void)
{
	if (visits++ % VISITS_BETWEEN != 0 || python_here->get_allocator == NULL ||
	    python_here->set_allocator == NULL ||
	    __atomic_exchange_n(&visiting, true, __ATOMIC_ACQUIRE))
		return;
	int error = errno; /* both take a lock of the interpreter, which may have to wait */

	for (int domain = 0; domain < DOMAINS; domain++)
		put_before(domain);
	errno = error;
	__atomic_store_n(&visiting, false, __ATOMIC_RELEASE);
}
