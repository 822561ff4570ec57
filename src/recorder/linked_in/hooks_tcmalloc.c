/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks that the tcmalloc of gperftools calls: MallocHook's, after an allocation and before a free. They record what the hooks of
 * the malloc family record (hooks_malloc.c). No lock is held, and its own allocations do not come here.
 *
 * A realloc arrives as an allocation and a free, or the other way round if the block stays. Where in realloc it was called from tells
 * them apart. It is learned at start-up from calls of each kind, which also show that the hooks are the ones that we know; otherwise
 * nothing is installed, and reports say what was not recorded. A call from anywhere else counts as an allocation or a free.
 *
 * Owns: what it learned, written once, before the hooks are called. */
#include "recorder/linked_in/called.h"

typedef void new_hook(const void *block, size_t size);
typedef void delete_hook(const void *block);

/* MallocHook calls us; how many words above our frame its own caller's return address is, one of tcmalloc's functions. */
static size_t new_depth, delete_depth;
/* The return addresses in realloc before the free of a block that was moved, and of one that stays; 0: it cannot be told. */
static uintptr_t moved_from, stays_from;

static size_t (*its_usable)(const void *block);
static void *(*its_realloc)(void *block, size_t size);

static ALWAYS_INLINE const uintptr_t *caller_at(const uintptr_t *frame, size_t depth)
{
	return (const uintptr_t *)arch_cfa_of(frame) + depth;
}

static ALWAYS_INLINE uint64_t usable_of(const void *block)
{
	return its_usable != NULL ? its_usable(block) : 0;
}

static void on_new(const void *block, size_t size)
{
	const uintptr_t *frame = HOOK_FRAME();

	if (block == NULL || countdown_passes(size))
		return;
	struct slot *slot = hook_enter_free(frame);

	if (UNLIKELY(slot == NULL))
		return;
	uint64_t fragmentation = called_over(usable_of(block), size);

	hook_record(frame);
	called_hide_frames(slot, (uintptr_t)caller_at(frame, new_depth));
	struct live_site_counters *counters = record_new(slot, (void *)(uintptr_t)block, size,
							 fragmentation, frame, LIVE_ENTRY_UNKNOWN);

	slot->inner_end = 0;
	if (mode_is_exact()) {
		if (slot->resized.block == block && counters != NULL) /* it stays where it was */
			account_realloc(slot, counters, slot->resized.size_bytes, size, false, 1);
		slot->resized = (struct slot_resized){ counters, NULL, size };
	}
	hook_leave();
}

/* The allocation before it, in the same realloc, is what the block became, or will be. */
static ALWAYS_INLINE void note_resize(struct slot *slot, const void *block,
				      const struct block *entry, uintptr_t from)
{
	struct slot_resized last = slot->resized;

	slot->resized = (struct slot_resized){ NULL, NULL, 0 };
	if (entry->counters == 0 || from == 0 || !mode_is_exact())
		return;
	if (from == moved_from && last.counters != NULL)
		account_realloc(slot, last.counters, entry->size_bytes, last.size_bytes, true, 1);
	else if (from == stays_from)
		slot->resized = (struct slot_resized){ NULL, block, entry->size_bytes };
}

static void on_delete(const void *const_block)
{
	const uintptr_t *frame = HOOK_FRAME();
	void *block = (void *)(uintptr_t)const_block;
	struct slot *slot = called_enter_free(block, frame);

	if (UNLIKELY(slot == NULL))
		return;
	uint64_t usable = usable_of(block);

	hook_record(frame);
	struct block entry = blocks_take(&slot->block_cache, (uintptr_t)block);

	note_resize(slot, block, &entry, *caller_at(frame, delete_depth));
	called_end(slot, block, &entry, usable, false);
	hook_leave();
}

/* ---- installation ---- */

enum { DEPTH_MAX = 64, EVENTS = 6, STALE_WORDS = 100 };

static struct event {
	const void *block;
	size_t size; /* of an allocation; 0: it was a free */
	size_t depth;
	uintptr_t from;
} events[EVENTS];
static size_t event_count;

/* No return address of an earlier call must be found. */
NOINLINE static void clear_stack_below(void)
{
	uintptr_t stale[STALE_WORDS] = { 0 };

	__asm__ volatile("" : : "r"(stale) : "memory");
}

/* A saved register may hold the address of realloc, which we call. */
static bool is_return(uintptr_t word)
{
	return word - linked_in_entry < linked_in_entry_bytes && word != (uintptr_t)its_realloc;
}

static void take_event(const uintptr_t *frame, const void *block, size_t size)
{
	struct event event = { block, size, 0, 0 };

	while (event.depth < DEPTH_MAX && !is_return(*caller_at(frame, event.depth)))
		event.depth++;
	event.from = event.depth < DEPTH_MAX ? *caller_at(frame, event.depth) : 0;
	if (event_count < EVENTS)
		events[event_count] = event;
	event_count++;
}

static void probe_new(const void *block, size_t size)
{
	take_event(HOOK_FRAME(), block, size);
}

static void probe_delete(const void *block)
{
	take_event(HOOK_FRAME(), block, 0);
}

static bool is_event(size_t i, const void *block, size_t size, size_t depth)
{
	return events[i].block == block && events[i].size == size && events[i].depth == depth &&
	       events[i].from != 0;
}

/* A realloc of each kind: of no block, of one that moves, of one that stays, to nothing. */
static bool learn(void)
{
	enum { FIRST = 1237, LARGER = 50021, SMALLER = 49999 };

	its_realloc(its_realloc(NULL, FIRST), 0); /* it initializes itself, deep in the stack */
	event_count = 0;
	clear_stack_below();
	void *first = its_realloc(NULL, FIRST);

	clear_stack_below();
	void *moved = first != NULL ? its_realloc(first, LARGER) : NULL;

	clear_stack_below();
	void *stays = moved != NULL ? its_realloc(moved, SMALLER) : NULL;

	clear_stack_below();
	if (stays != NULL)
		its_realloc(stays, 0);
	new_depth = events[0].depth;
	delete_depth = events[2].depth;
	if (event_count != EVENTS || first == moved || stays != moved ||
	    !is_event(0, first, FIRST, new_depth) || !is_event(1, moved, LARGER, new_depth) ||
	    !is_event(2, first, 0, delete_depth) || !is_event(3, moved, 0, delete_depth) ||
	    !is_event(4, stays, SMALLER, new_depth) || !is_event(5, stays, 0, delete_depth))
		return false;
	uintptr_t move = events[2].from, stay = events[3].from, end = events[5].from;

	moved_from = move != stay && move != end ? move : 0;
	stays_from = stay != move && stay != end ? stay : 0;
	return true;
}

COLD bool tcmalloc_install(const struct live_hooks *at, char ret_name[static LINKED_IN_NAME])
{
	int (*add_new)(new_hook *) = (int (*)(new_hook *))linked_in_function(at->add_new);
	int (*remove_new)(new_hook *) = (int (*)(new_hook *))linked_in_function(at->remove_new);
	int (*add_delete)(delete_hook *) =
		(int (*)(delete_hook *))linked_in_function(at->add_delete);
	int (*remove_delete)(delete_hook *) =
		(int (*)(delete_hook *))linked_in_function(at->remove_delete);
	bool known = false;

	its_realloc = (void *(*)(void *, size_t))linked_in_function(at->realloc);
	its_usable = (size_t(*)(const void *))linked_in_function(at->usable);
	if (linked_in_entry_bytes == 0 || !add_new(probe_new))
		return false;
	if (add_delete(probe_delete)) {
		known = learn();
		remove_delete(probe_delete);
	}
	remove_new(probe_new);
	if (!known || !add_new(on_new))
		return false;
	if (!add_delete(on_delete)) {
		remove_new(on_new);
		return false;
	}
	__builtin_memcpy(ret_name, "tcmalloc", sizeof "tcmalloc");
	return true;
}
