/* SPDX-License-Identifier: Apache-2.0 */
/* CPython's three allocator domains, recorded as pools: python.raw, python.mem and python.object.
 *
 * CPython lets extension modules install their own allocator functions in front of the interpreter's. We do so at the first
 * allocation that a thread with the GIL makes in a Python function. The memory still comes from the same functions. Blocks
 * allocated earlier stay unknown.
 *
 * An allocator table has five words, which other threads may read while we write them. So we keep the word that is passed to all
 * functions (`context`): any mix of old and new words is a valid table. As `context` cannot identify our layer, each layer has its
 * own functions.
 *
 * Others exchange the tables too: tracemalloc installs its functions in front of ours, which are still called, or it was there
 * before and removes ours when it restores its saved table. So we check periodically whether a layer was called. If not, and none
 * is installed, we install one: always the same layer for the same functions. If layers nest, only the outermost counts
 * (wrapped.h).
 *
 * A layer is installed only in front of the interpreter's own functions, never its debug hooks. Other code may check whether it is
 * already in the table and, if a layer hides it, install itself in front: then the two would call each other for ever.
 *
 * Owns: which layer forwards to which functions. */
#include <errno.h>

#include "format/live/live_own.h"
#include "recorder/api/wrapped.h"
#include "recorder/arch/arch.h"
#include "recorder/hooks/hook.h"
#include "recorder/memory.h"
#include "recorder/python/interpreter.h"
#include "recorder/unwind/modules.h"

enum { OBJECTS = 2, DOMAINS = 3, LAYERS = 4, VISITS_BETWEEN = 64, VISITS_BETWEEN_MAX = 1 << 16 };

struct python_allocator { /* PyMemAllocatorEx */
	void *context;
	void *(*malloc)(void *context, size_t bytes);
	void *(*calloc)(void *context, size_t count, size_t bytes);
	void *(*realloc)(void *context, void *block, size_t bytes);
	void (*free)(void *context, void *block);
};

static struct wrapped_pool pools[DOMAINS] = {
	/* in the order of PyMemAllocatorDomain */
	{ .name = "python.raw", .has_words = true, .began_late = true },
	{ .name = "python.mem", .has_words = true, .began_late = true },
	{ .name = LIVE_PYTHON_OBJECTS, .has_words = true, .began_late = true },
};
static struct python_allocator behind[DOMAINS][LAYERS]; /* malloc NULL: the layer is unused */
static bool called;	      /* an object layer was called since the last check */
static bool refused[DOMAINS]; /* already counted, and no layer was installed since */
static uint32_t visits_left, visits_between = VISITS_BETWEEN; /* until the next check */
static bool visiting; /* subinterpreters may have a GIL each */
static bool missing;  /* some domain never had a layer; counted once there is an interpreter */

/* ---- called by the interpreter ---- */

/* wrapped_begin, which also notes the call. */
static ALWAYS_INLINE bool begin(int domain, const uintptr_t *frame)
{
	if (domain == OBJECTS && UNLIKELY(!__atomic_load_n(&called, __ATOMIC_RELAXED)))
		__atomic_store_n(&called, true, __ATOMIC_RELAXED);
	return wrapped_begin(frame);
}

static ALWAYS_INLINE void *domain_malloc(int domain, int layer, void *context, size_t bytes,
					 const uintptr_t *frame)
{
	bool outermost = begin(domain, frame);
	void *block = behind[domain][layer].malloc(context, bytes);

	wrapped_end(outermost);
	return outermost ? wrapped_took(&pools[domain], block, bytes, frame) : block;
}

static ALWAYS_INLINE void *domain_calloc(int domain, int layer, void *context, size_t count,
					 size_t bytes, const uintptr_t *frame)
{
	bool outermost = begin(domain, frame);
	void *block = behind[domain][layer].calloc(context, count, bytes);

	wrapped_end(outermost);
	return outermost ? wrapped_took(&pools[domain], block, count * bytes, frame) : block;
}

static ALWAYS_INLINE void *domain_realloc(int domain, int layer, void *context, void *block,
					  size_t bytes, const uintptr_t *frame)
{
	bool outermost = begin(domain, frame), had_block = block != NULL;
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
	bool outermost = begin(domain, frame);

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

/* ---- installing layers ---- */

static bool same(const struct python_allocator *a, const struct python_allocator *b)
{
	return a->malloc == b->malloc && a->calloc == b->calloc && a->realloc == b->realloc &&
	       a->free == b->free;
}

static bool is_in_interpreter(const void *code)
{
	return code != NULL && modules_same(code, (const void *)python_here->get_allocator);
}

/* PyMem_SetupDebugHooks starts its contexts with the domain's letter; an unreadable context may be one. */
static bool is_debug_hook(int domain, const void *context)
{
	char first = 0;

	return context != NULL &&
	       (!memory_read_safely((uintptr_t)context, &first, 1) || first == "rmo"[domain]);
}

/* Returns the layer to install in front of these functions; LAYERS: none. */
static int layer_before(int domain, const struct python_allocator *now)
{
	int layer = 0;

	if (!is_in_interpreter((const void *)now->malloc) || is_debug_hook(domain, now->context))
		return LAYERS;
	while (layer < LAYERS && behind[domain][layer].malloc != NULL &&
	       !same(&behind[domain][layer], now))
		layer++;
	return layer;
}

/* Installs a layer in front of the current functions, unless one is there; true if it did. */
static bool put_before(int domain)
{
	struct python_allocator now = { 0 };

	python_here->get_allocator(domain, &now);
	for (int i = 0; i < LAYERS; i++) {
		if (now.malloc == ours[domain][i].malloc)
			return false;
	}
	int layer = layer_before(domain, &now);

	if (layer == LAYERS) {
		if (!refused[domain] && !missing)
			health_add(HEALTH_python_domains);
		refused[domain] = true;
		return false;
	}
	if (behind[domain][0].malloc != NULL) /* a layer was removed: later blocks are unknown */
		health_add(HEALTH_python_domains);
	refused[domain] = false;
	behind[domain][layer] = now;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	struct python_allocator table = ours[domain][layer];

	table.context = now.context;
	python_here->set_allocator(domain, &table);
	return true;
}

/* True if every domain has had a layer at some time. */
static bool all_have_layers(void)
{
	for (int domain = 0; domain < DOMAINS; domain++) {
		if (behind[domain][0].malloc == NULL)
			return false;
	}
	return true;
}

/* True if a layer was installed. */
static bool visit(void)
{
	bool put = false;
	int error = errno; /* both functions take an interpreter lock, which may wait */

	for (int domain = 0; domain < DOMAINS; domain++)
		put |= put_before(domain);
	if (missing && all_have_layers()) {
		missing = false;
		__atomic_fetch_sub(&memory.head->health[HEALTH_python_domains], 1,
				   __ATOMIC_RELAXED);
	}
	errno = error;
	return put;
}

/* Code that removes layers removes those of all domains, and objects are allocated constantly: while the object layer is called,
 * nothing needs checking. A new arena is a good time to check. */
static COLD void python_domains_visit(uintptr_t mapper)
{
	if (python_here->get_allocator == NULL || python_here->set_allocator == NULL)
		return;
	if (visits_left > 0 && !is_in_interpreter((const void *)mapper)) {
		visits_left--;
		return;
	}
	bool fine = __atomic_exchange_n(&called, false, __ATOMIC_RELAXED) && !missing;

	if (!fine && __atomic_exchange_n(&visiting, true, __ATOMIC_ACQUIRE))
		return;
	/* Back off while nothing changes. */
	if (fine || visit())
		visits_between = VISITS_BETWEEN;
	else
		visits_between = MIN(2 * visits_between, (uint32_t)VISITS_BETWEEN_MAX);
	visits_left = visits_between;
	if (!fine)
		__atomic_store_n(&visiting, false, __ATOMIC_RELEASE);
}

void python_domains_start(void)
{
	visiting = false; /* a forked child has no other thread */
	for (int domain = 0; domain < DOMAINS; domain++)
		pools[domain].handle = 0; /* the parent's: there may be no memory for its tags */
	missing = !all_have_layers();
	if (missing && python_is_here())
		health_add(HEALTH_python_domains);
	python_visit = python_domains_visit;
}
