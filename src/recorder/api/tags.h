/* SPDX-License-Identifier: Apache-2.0 */
/* Tags: the program's names for what it is doing. Entering a scope makes its tag, below the previous one, the thread's
 * current tag; the thread's allocations are attributed to it and to the stack.
 *
 * Entering and leaving take no lock and touch only the thread's own memory. The current tag is in the thread-local block,
 * so that a forked child has it too; the slot caches lookups. */
#ifndef RECORDER_API_TAGS_H
#define RECORDER_API_TAGS_H

#include "heapgauge/heapgauge.h"
#include "recorder/counters/account.h"
#include "recorder/hooks/hook.h"
#include "recorder/slot.h"
#include "recorder/unwind/readable_stack.h"

enum { TAG_CACHE_ENTRIES = 128, TAGS_NAMES = 64 };

/* A slot's cache of lookups. */
struct slot_tags {
	struct tag_cache_entry {
		uint64_t key;	  /* tags_key; TAGS_NOTHING: empty */
		uint64_t *visits; /* the slot's visit counter */
		uint32_t tag;
	} cached[TAG_CACHE_ENTRIES];
	struct {
		const char *text; /* address of a computed name; the text may have changed */
		uint32_t name;
	} names[TAGS_NAMES];
	uint32_t hashed[TAGS_NAMES]; /* names by hash */
	struct table visits;	     /* visit counters of the slot, by tag */
	uint64_t uncounted;	     /* visits that found no memory for a counter */
};
#define TAGS_NOTHING UINT64_MAX
/* Empty cache: slot.c. */
extern HIDDEN const struct slot_tags tags_none;

/* A forked child has its parent's tags, with the same numbers: tags_keep copies them before the parent's profile is
 * unmapped, tags_take_back restores them in the child's. `kept` is NULL if there are none. */
struct tags_kept;
struct tags_kept *tags_keep(void);
void tags_take_back(const struct tags_kept *kept);
void tags_drop(struct tags_kept *kept);
void tags_reset(void);
void tags_recover(struct slot *slot);

/* Returns the tag of a name below the root; 0 = no memory. Inside a hook. */
uint32_t tags_name(struct slot *slot, enum live_tag_kind kind, const char *text);
/* The same, but only if it exists. */
uint32_t tags_known_name(struct slot *slot, enum live_tag_kind kind, const char *text);
/* Returns the tag of a name below another, cached if possible; 0 = no memory, or too deep. */
uint32_t tags_below(struct slot *slot, uint32_t parent, uint32_t name);

/* Key of a name below a tag, and its entry in `near`. */
static ALWAYS_INLINE uint64_t tags_key(uint32_t parent, uint32_t name)
{
	return (uint64_t)parent << 32 | name;
}
static ALWAYS_INLINE struct tag_cache_entry *tags_cached(const struct slot *slot, uint64_t key)
{
	return &slot->tags->cached[key * UINT64_C(0x9e3779b97f4a7c15) >> 57];
}
_Static_assert(TAG_CACHE_ENTRIES == 1 << 7, "what tags_cached shifts by");

/* Slow path of entering a scope; `name` is NULL if the tag has it. at: 0 = unknown frame. */
struct hg_scope tags_enter_slow(struct hg_tag *tag, const char *name, uintptr_t at);

/* Ends the scopes that longjmp has left. `at`: the current frame. */
void tags_settle(struct slot *slot, uintptr_t at);

/* A word that is always 0. */
static const uintptr_t tags_no_word;

/* Call when the slot's thread gets its own counters. */
static inline void tags_forget_visits(struct slot *slot)
{
	if (slot->tags == &tags_none)
		return;
	for (int i = 0; i < TAG_CACHE_ENTRIES; i++)
		slot->tags->cached[i].key = TAGS_NOTHING;
	table_clear(&slot->tags->visits);
}

/* Call when a thread takes the slot. Scopes that it entered before, as a forked child may have, are not checked. */
static inline void tags_forget_scopes(struct slot *slot)
{
	for (int i = 0; i <= SCOPES_KEPT; i++)
		slot->scopes[i] = (struct scope_kept){ UINTPTR_MAX, &tags_no_word, 0, 0 };
	slot->scope = slot->scopes;
	slot->stack_low = slot->stack_bytes = 0;
}

/* True if longjmp may have left the innermost scope: tags_settle decides. */
static ALWAYS_INLINE bool tags_is_stale(const struct scope_kept *scope, uintptr_t at)
{
	return at > scope->at || *(const volatile uintptr_t *)scope->word_at != scope->word;
}

/* The state that hg_leave restores. */
static ALWAYS_INLINE struct hg_scope tags_here(const struct thread_state *self)
{
	const struct slot *slot = self->slot;

	return (struct hg_scope){ self->tag,
				  (uint32_t)((uintptr_t)slot->scope - (uintptr_t)slot->scopes) };
}

/* Ends a scope. */
static ALWAYS_INLINE void tags_leave(struct thread_state *self, struct hg_scope scope)
{
	struct slot *slot = self->slot;

	self->tag = scope.before;
	/* In a forked child without a profile, the slot is its parent's. */
	if (UNLIKELY(self->token != *fork_token || scope.kept > SCOPES_KEPT * sizeof *slot->scopes))
		return;
	slot->scope = &slot->scopes[scope.kept / sizeof *slot->scopes];
	if (scope.before == 0)
		slot->fast_cache = slot->fast_cache_untagged;
}

/* Makes the tag the thread's current one. */
static ALWAYS_INLINE void tags_begin(struct thread_state *self,
				     const struct tag_cache_entry *cached)
{
	self->tag = cached->tag;
	self->slot->fast_cache = NULL;
	arch_add(cached->visits, 1);
}

/* Pushes the new scope. Pre: there is room. */
static ALWAYS_INLINE void tags_keep_scope(struct thread_state *self, uintptr_t at,
					  const uintptr_t *word_at)
{
	struct scope_kept *kept = ++self->slot->scope;

	kept->at = at;
	kept->word_at = word_at;
	kept->word = *word_at;
	kept->before = self->tag;
}

/* hg_context_get and hg_context_set, hg_label. */
uint32_t tags_context(void);
void tags_set_context(uint32_t tag);
struct hg_scope tags_label(const char *key, const char *value, uintptr_t at, bool scoped);
#endif
