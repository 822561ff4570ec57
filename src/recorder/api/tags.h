/* SPDX-License-Identifier: Apache-2.0 */
/* Tags: what the program calls the thing that it does. Entering a scope makes its tag, below the one before, the thread's
 * own; what the thread allocates belongs to that and to the stack.
 *
 * Entering and leaving take no lock and touch the thread's own memory alone. The thread's tag is in its thread-local block,
 * so that a fork's child has it too; what was looked up before is kept by the slot. */
#ifndef RECORDER_API_TAGS_H
#define RECORDER_API_TAGS_H

#include "heapgauge/heapgauge.h"
#include "recorder/counters/account.h"
#include "recorder/hooks/hook.h"
#include "recorder/slot.h"
#include "recorder/unwind/readable_stack.h"

enum { TAGS_NEAR = 128, TAGS_NAMES = 64 };

/* What a slot has looked up. */
struct slot_tags {
	struct tag_near {
		uint64_t key;	  /* tags_key; TAGS_NOTHING: nothing here */
		uint64_t *visits; /* the slot's counter of them */
		uint32_t tag;
	} near[TAGS_NEAR];
	struct {
		const char *text; /* where a computed name lay; it may be another by now */
		uint32_t name;
	} names[TAGS_NAMES];
	uint32_t hashed[TAGS_NAMES]; /* names by their hash */
	struct table visits;	     /* of the slot, by tag */
	uint64_t uncounted;	     /* visits without memory for a counter */
};
#define TAGS_NOTHING UINT64_MAX
/* Nothing looked up yet: slot.c. */
extern HIDDEN const struct slot_tags tags_none;

/* A fork's child has the tags of its parent, by the same numbers: before the parent's profile is given back, and when the
 * child's own is ready. `kept` is NULL if there are none. */
struct tags_kept;
struct tags_kept *tags_keep(void);
void tags_take_back(const struct tags_kept *kept);
void tags_drop(struct tags_kept *kept);
void tags_reset(void);
void tags_recover(struct slot *slot);

/* The tag of a name below the root; 0 = no memory. Inside a hook. */
uint32_t tags_name(struct slot *slot, enum live_tag_kind kind, const char *text);
/* The same if there is one already. */
uint32_t tags_known_name(struct slot *slot, enum live_tag_kind kind, const char *text);
/* The tag of a name below another, from memory if it is remembered; 0 = no memory, or too deep. */
uint32_t tags_below(struct slot *slot, uint32_t parent, uint32_t name);

/* A name below a tag, and its place in `near`. */
static ALWAYS_INLINE uint64_t tags_key(uint32_t parent, uint32_t name)
{
	return (uint64_t)parent << 32 | name;
}
static ALWAYS_INLINE struct tag_near *tags_near(const struct slot *slot, uint64_t key)
{
	return &slot->tags->near[key * UINT64_C(0x9e3779b97f4a7c15) >> 57];
}
_Static_assert(TAGS_NEAR == 1 << 7, "what tags_near shifts by");

/* What a scope does that cannot be done quickly; `name` is NULL if the tag has it. at: 0 = the frame is not known. */
struct hg_scope tags_enter_slow(struct hg_tag *tag, const char *name, uintptr_t at);

/* Ends the scopes that were left by longjmp. `at`: where the stack is. */
void tags_settle(struct slot *slot, uintptr_t at);

/* A word that never changes: 0. */
static const uintptr_t tags_no_word;

/* The slot's thread has counters of its own from now on. */
static inline void tags_forget_visits(struct slot *slot)
{
	if (slot->tags == &tags_none)
		return;
	for (int i = 0; i < TAGS_NEAR; i++)
		slot->tags->near[i].key = TAGS_NOTHING;
	table_clear(&slot->tags->visits);
}

/* A thread takes the slot. Scopes that it entered before, which a fork's child may have, are not looked for. */
static inline void tags_forget_scopes(struct slot *slot)
{
	for (int i = 0; i <= SCOPES_KEPT; i++)
		slot->scopes[i] = (struct scope_kept){ UINTPTR_MAX, &tags_no_word, 0, 0 };
	slot->scope = slot->scopes;
	slot->stack_low = slot->stack_bytes = 0;
}

/* Whether the innermost scope was left so; else it may have been. */
static ALWAYS_INLINE bool tags_is_stale(const struct scope_kept *scope, uintptr_t at)
{
	return at > scope->at || *(const volatile uintptr_t *)scope->word_at != scope->word;
}

/* What hg_leave goes back to. */
static ALWAYS_INLINE struct hg_scope tags_here(const struct thread_state *self)
{
	const struct slot *slot = self->slot;

	return (struct hg_scope){ self->tag,
				  (uint32_t)((uintptr_t)slot->scope - (uintptr_t)slot->scopes) };
}

/* The scope ends where it began. */
static ALWAYS_INLINE void tags_leave(struct thread_state *self, struct hg_scope scope)
{
	struct slot *slot = self->slot;

	self->tag = scope.before;
	/* In a fork's child that has no profile yet the slot is its parent's. */
	if (UNLIKELY(self->token != *fork_token || scope.kept > SCOPES_KEPT * sizeof *slot->scopes))
		return;
	slot->scope = &slot->scopes[scope.kept / sizeof *slot->scopes];
	if (scope.before == 0)
		slot->quick = slot->quick_untagged;
}

/* The thread is in the tag from now on. */
static ALWAYS_INLINE void tags_begin(struct thread_state *self, const struct tag_near *near)
{
	self->tag = near->tag;
	self->slot->quick = NULL;
	arch_add(near->visits, 1);
}

/* Keeps the scope that begins. Pre: there is room. */
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
