/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks that jemalloc 5.2.0 to 5.3.1 calls: after an allocation, before a free, after a resize in place. They record what the
 * hooks of the malloc family record (hooks_malloc.c), after the fact. jemalloc holds no lock when it calls them and does not call
 * them for its own allocations.
 *
 * A realloc that moves the block arrives as an allocation and a free, both with the arguments of the realloc. The first records all
 * of it: the old block is still allocated, so no other thread can have its address.
 *
 * The interface is experimental: its numbers differ between versions. A realloc and a free at start-up show what they mean here, and
 * whether the interface is the one we know; otherwise nothing is installed, and reports say what was not recorded.
 *
 * Owns: what it knows of jemalloc's functions, written once, before jemalloc calls the hooks. */
#include "recorder/linked_in/called.h"

/* jemalloc's numbers for the functions whose arguments differ. Others take the size first. */
enum {
	MALLOC = 0,
	POSIX_MEMALIGN = 1,
	ALIGNED_ALLOC = 2,
	CALLOC = 3,
	MEMALIGN = 4,
	REALLOC_OLDEST = 7
};
static int first_realloc; /* realloc and rallocx: the last ones */

enum { DALLOC_REALLOC = 3, EXPAND_XALLOCX = 2 };

typedef void alloc_hook(void *extra, int type, void *block, uintptr_t result, uintptr_t *arguments);
typedef void dalloc_hook(void *extra, int type, void *block, uintptr_t *arguments);
typedef void expand_hook(void *extra, int type, void *block, size_t old_usable, size_t new_usable,
			 uintptr_t result, uintptr_t *arguments);
struct hooks {
	alloc_hook *alloc;
	dalloc_hook *dalloc;
	expand_hook *expand;
	void *extra;
};

typedef int mallctl_fn(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes);
static mallctl_fn *its_mallctl;
static size_t (*its_usable)(const void *block, int flags); /* NULL: the program does not have it */

/* jemalloc's size classes: 8, multiples of 16 up to 128, then four for each doubling. Larger alignments may need more. */
static uint64_t size_class(uint64_t size)
{
	if (size <= 8)
		return 8;
	unsigned bits = 64 - (unsigned)__builtin_clzll(size - 1);
	uint64_t step = bits > 7 ? UINT64_C(1) << (bits - 3) : 16;

	return (size + step - 1) & -step;
}

/* The size that jemalloc reserved for a block of that size. */
static ALWAYS_INLINE uint64_t usable_of(const void *block, uint64_t size)
{
	return its_usable != NULL ? its_usable(block, 0) : size_class(size);
}

static ALWAYS_INLINE uint64_t size_of(int type, const uintptr_t *arguments)
{
	if (type >= first_realloc)
		return arguments[1];
	switch (type) {
	case POSIX_MEMALIGN:
		return arguments[2];
	case ALIGNED_ALLOC:
	case MEMALIGN:
		return arguments[1];
	case CALLOC:
		return arguments[0] * arguments[1];
	default:
		return arguments[0];
	}
}

/* What this thread has allocated and freed. It changes inside of a hook only if a signal handler allocates or frees: jemalloc does not call
 * us then. */
COLD static void find_thread_bytes(struct slot *slot)
{
	static const char *const names[] = { "thread.allocatedp", "thread.deallocatedp" };
	static const uint64_t unknown;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t bytes = sizeof slot->its_bytes[i];

		if (its_mallctl(names[i], &slot->its_bytes[i], &bytes, NULL, 0) != 0)
			slot->its_bytes[i] = &unknown;
	}
}

static ALWAYS_INLINE uint64_t thread_bytes(struct slot *slot)
{
	if (UNLIKELY(slot->its_bytes[0] == NULL))
		find_thread_bytes(slot);
	return __atomic_load_n(slot->its_bytes[0], __ATOMIC_RELAXED) +
	       __atomic_load_n(slot->its_bytes[1], __ATOMIC_RELAXED);
}

/* before: thread_bytes at the beginning of the hook. */
static ALWAYS_INLINE void leave(struct slot *slot, uint64_t before)
{
	slot->inner_end = 0;
	if (UNLIKELY(thread_bytes(slot) != before))
		health_add(HEALTH_reentrant_calls);
	hook_leave();
}

/* An operator that jemalloc defines is a malloc to its hooks. */
static ALWAYS_INLINE enum live_entry entry_of(int type)
{
	const int mallocx = first_realloc - 1;

	if (type >= first_realloc)
		return LIVE_ENTRY_REALLOC;
	if (type == MALLOC || type == mallocx)
		return linked_in_entry_bytes != 0 ? LIVE_ENTRY_UNKNOWN : LIVE_ENTRY_MALLOC;
	/* valloc and, in the newest version, pvalloc are between memalign and mallocx. */
	return type == CALLOC ? LIVE_ENTRY_CALLOC : LIVE_ENTRY_ALIGNED;
}

/* Removes the block that a resize ends. usable: before the resize; 0: unknown. */
static struct realloc_old take_old(struct slot *slot, void *block, uint64_t usable)
{
	struct block entry = blocks_take(&slot->block_cache, (uintptr_t)block);

	if (entry.counters == 0 && !record_take_sample(block, &entry))
		return (struct realloc_old){ .size_bytes = usable };
	if (its_usable == NULL)
		usable = size_class(entry.size_bytes);
	return (struct realloc_old){ entry, called_over(usable, entry.size_bytes),
				     entry.size_bytes };
}

static void resized(struct slot *slot, void *old_block, uint64_t old_usable, void *block,
		    uint64_t size, const uintptr_t *arguments, const uintptr_t *frame)
{
	uint64_t before = thread_bytes(slot);
	uint64_t fragmentation = called_over(usable_of(block, size), size);
	struct realloc_old old = take_old(slot, old_block, old_usable);

	hook_record(frame);
	called_hide_frames(slot, (uintptr_t)arguments);
	record_realloc(slot, old_block, &old, block, size, fragmentation, frame,
		       LIVE_ENTRY_REALLOC);
	leave(slot, before);
}

static void on_alloc(UNUSED void *extra, int type, void *block, UNUSED uintptr_t result,
		     uintptr_t *arguments)
{
	const uintptr_t *frame = HOOK_FRAME();
	uint64_t size = size_of(type, arguments);
	void *old = type >= first_realloc ? (void *)arguments[0] : NULL;

	if (block == NULL || ((old == NULL || sample_is_absent(old)) && countdown_passes(size)))
		return;
	struct slot *slot = hook_enter_free(frame);

	if (UNLIKELY(slot == NULL))
		return;
	if (old != NULL) {
		resized(slot, old, its_usable != NULL ? its_usable(old, 0) : 0, block, size,
			arguments, frame);
		return;
	}
	uint64_t before = thread_bytes(slot);
	uint64_t fragmentation = called_over(usable_of(block, size), size);

	hook_record(frame);
	called_hide_frames(slot, (uintptr_t)arguments);
	record_new(slot, block, size, fragmentation, frame, entry_of(type));
	leave(slot, before);
}

static void on_expand(UNUSED void *extra, int type, void *block, size_t old_usable,
		      size_t new_usable, UNUSED uintptr_t result, uintptr_t *arguments)
{
	const uintptr_t *frame = HOOK_FRAME();
	uint64_t size = arguments[1];

	if (type == EXPAND_XALLOCX && new_usable < size) /* it failed */
		return;
	if (sample_is_absent(block) && countdown_passes(size))
		return;
	struct slot *slot = hook_enter_free(frame);

	if (LIKELY(slot != NULL))
		resized(slot, block, old_usable, block, size, arguments, frame);
}

static void on_dalloc(UNUSED void *extra, int type, void *block, UNUSED uintptr_t *arguments)
{
	const uintptr_t *frame = HOOK_FRAME();
	struct slot *slot = called_enter_free(block, frame);

	if (UNLIKELY(slot == NULL))
		return;
	uint64_t before = thread_bytes(slot);

	hook_record(frame);
	struct block entry = blocks_take(&slot->block_cache, (uintptr_t)block);

	called_end(slot, block, &entry, usable_of(block, entry.size_bytes), type >= DALLOC_REALLOC);
	leave(slot, before);
}

/* ---- installation ---- */

/* What a realloc(NULL, PROBE_BYTES) and the free of its block showed. Not on a stack: removing the hooks does not wait for threads
 * that are inside of them. */
enum { PROBE_BYTES = 1237 };
static struct probe {
	const void *block, *freed;
	int type;
} probe;

static void probe_alloc(void *extra, int type, void *block, UNUSED uintptr_t result,
			uintptr_t *arguments)
{
	struct probe *seen = extra;

	if (type < REALLOC_OLDEST || arguments[0] != 0 || arguments[1] != PROBE_BYTES)
		return;
	seen->block = block;
	seen->type = type;
}

static void probe_dalloc(void *extra, int type, void *block, uintptr_t *arguments)
{
	struct probe *seen = extra;

	if (type < DALLOC_REALLOC && block == seen->block && arguments[0] == (uintptr_t)block)
		seen->freed = block;
}

static bool install(mallctl_fn *mallctl, struct hooks hooks, void **ret_handle)
{
	size_t bytes = sizeof *ret_handle;

	return mallctl("experimental.hooks.install", ret_handle, &bytes, &hooks, sizeof hooks) == 0;
}

static void free_probe(const struct live_hooks *at, void *block)
{
	void (*free_or_dallocx)(void *, int) = (void (*)(void *, int))linked_in_function(at->free);
	void (*sdallocx)(void *, size_t, int) =
		(void (*)(void *, size_t, int))linked_in_function(at->sdallocx);

	if (free_or_dallocx != NULL)
		free_or_dallocx(block, 0);
	else
		sdallocx(block, PROBE_BYTES, 0);
}

/* Learns jemalloc's numbers; false: it has no hooks, or others than we know. */
static bool learn_numbers(mallctl_fn *mallctl, const struct live_hooks *at)
{
	void *(*its_realloc)(void *, size_t) =
		(void *(*)(void *, size_t))linked_in_function(at->realloc);
	void *handle = NULL;

	if (!install(mallctl, (struct hooks){ probe_alloc, probe_dalloc, NULL, &probe }, &handle))
		return false;
	void *block = its_realloc(NULL, PROBE_BYTES);

	if (block != NULL)
		free_probe(at, block);
	mallctl("experimental.hooks.remove", NULL, NULL, &handle, sizeof handle);
	first_realloc = probe.type;
	return block != NULL && probe.block == block && probe.freed == block &&
	       probe.type <= REALLOC_OLDEST + 1;
}

/* "jemalloc 5.3.0", of a version "5.3.0-0-g54eaed1d". */
static void name_it(mallctl_fn *mallctl, char ret[static LINKED_IN_NAME])
{
	const char *version = "?", *text = "jemalloc ";
	size_t bytes = sizeof version, length = 0;

	if (mallctl("version", &version, &bytes, NULL, 0) != 0)
		version = "?";
	while (*text)
		ret[length++] = *text++;
	while (length < LINKED_IN_NAME - 1 && *version && *version != '-')
		ret[length++] = *version++;
	ret[length] = 0;
}

COLD bool jemalloc_install(const struct live_hooks *at, char ret_name[static LINKED_IN_NAME])
{
	mallctl_fn *mallctl = (mallctl_fn *)linked_in_function(at->mallctl);
	void *handle = NULL;

	its_mallctl = mallctl;
	its_usable = (size_t(*)(const void *, int))linked_in_function(at->usable);
	if (!learn_numbers(mallctl, at) ||
	    !install(mallctl, (struct hooks){ on_alloc, on_dalloc, on_expand, NULL }, &handle))
		return false;
	name_it(mallctl, ret_name);
	return true;
}
