/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of tags, and the slow paths of scopes.
 *
 * Owns: LIVE_TAGS (under tags_lock), LIVE_VISITS, and the slots' caches. Recently entered tags are found in the slot's
 * `near`, others in the shared table; only a tag that no thread has entered there before takes the lock. Everything is
 * allocated with the first scope: a program without scopes pays nothing.
 *
 * A scope entered inside itself (recursion) is the same tag. Invariant: a tag's parent has a lower number. */
#include "recorder/api/tags.h"

#include <sys/mman.h>

#include "base/hash.h"
#include "recorder/hooks/hook.h"
#include "recorder/api/labels.h"
#include "recorder/lock.h"
#include "recorder/sys.h"

enum { MAKERS = 256 }; /* threads that may create a tag at the same time */

static PROCESS_STATE struct table tags;
static PROCESS_STATE struct lock tags_lock;

void tags_reset(void)
{
	tags = (struct table){ 0 };
	tags_lock = (struct lock){ 0 };
}

void tags_recover(struct slot *slot)
{
	lock_recover(&tags_lock, slot->id);
}

/* ---- the tree ---- */

static uint32_t text_bytes(const char *text)
{
	uint32_t bytes = 0;

	while (bytes < LIVE_TAG_TEXT_MAX && text[bytes] != 0)
		bytes++;
	return bytes;
}

static uint64_t text_hash(const char *text, uint32_t bytes)
{
	uint64_t hash = bytes;

	for (uint32_t i = 0; i < bytes; i++)
		hash = hash_mix(hash ^ (uint8_t)text[i]);
	return hash;
}

static uint64_t child_hash(uint32_t parent, uint32_t name)
{
	return hash_mix((uint64_t)parent << 32 | name);
}

static bool text_is(uint32_t id, const char *text)
{
	const struct live_tag *tag = memory_tag(id);
	const char *own = memory.region[LIVE_STRINGS] + tag->text_at;

	for (uint32_t i = 0; i < tag->text_bytes; i++) {
		if (text[i] == 0 || text[i] != own[i])
			return false;
	}
	return tag->text_bytes == LIVE_TAG_TEXT_MAX || text[tag->text_bytes] == 0;
}

static bool own_tags_make(struct slot *slot)
{
	struct slot_tags *own;

	if (slot->tags != &tags_none)
		return true;
	own = memory_scratch(sizeof *own);
	if (own == NULL)
		return false;
	own->visits = table_new(TABLE_FIRST);
	if (own->visits.entry == NULL)
		return false;
	for (int i = 0; i < TAG_CACHE_ENTRIES; i++)
		own->cached[i].key = TAGS_NOTHING;
	slot->tags = own;
	return true;
}

/* Reserves memory for one more tag, before the lock is taken, and for those that other threads may be about to create. */
static bool make_room(struct slot *slot)
{
	uint32_t mask = __atomic_load_n(&tags.mask, __ATOMIC_RELAXED);
	struct table larger =
		mask == 0 ? table_new(MAKERS * 4) : table_larger(&tags, MAKERS, memory_scratch);

	if (!memory_open(LIVE_TAGS, (memory_used(LIVE_TAGS) + MAKERS) * sizeof(struct live_tag)))
		return false;
	if (larger.entry == NULL)
		return mask != 0;
	if (!lock_acquire(&tags_lock, slot->id))
		return false;
	if (tags.mask == mask && mask == 0)
		table_replace(&tags, larger);
	else if (tags.mask == mask) /* no other thread has grown it */
		table_move(&tags, larger);
	lock_release(&tags_lock);
	return true;
}

/* Under the lock; 0 = no memory. */
static uint32_t add(const struct live_tag *tag, uint64_t hash)
{
	uint64_t used = MAX(memory_used(LIVE_TAGS), (uint64_t)1); /* 0 is the root */

	if ((used + 1) * sizeof *tag > memory_opened(LIVE_TAGS) || table_is_full(&tags))
		return 0;
	*memory_tag((uint32_t)used) = *tag;
	if (tag->parent == 0)
		memory_tag((uint32_t)used)->name = (uint32_t)used;
	__atomic_store_n(&memory.head->used[LIVE_TAGS], used + 1, __ATOMIC_RELEASE);
	table_put(&tags, table_tag(hash), (uint32_t)used);
	return (uint32_t)used;
}

/* Returns the tag of a name below the root; 0 = none. Without the lock it may miss an existing tag. */
static uint32_t find_name(enum live_tag_kind kind, const char *text, uint64_t hash)
{
	uint32_t tag = table_tag(hash), place = tag, id;
	struct table view = table_view(&tags);

	do
		id = view.entry != NULL ? table_next(&view, tag, &place) : 0;
	while (id != 0 &&
	       (memory_tag(id)->parent != 0 || memory_tag(id)->kind != kind || !text_is(id, text)));
	return id;
}

/* The same for a name below another tag. */
static uint32_t find_child(uint32_t parent, uint32_t name, uint64_t hash)
{
	uint32_t tag = table_tag(hash), place = tag, id;
	struct table view = table_view(&tags);

	do
		id = view.entry != NULL ? table_next(&view, tag, &place) : 0;
	while (id != 0 && (memory_tag(id)->parent != parent || memory_tag(id)->name != name));
	return id;
}

uint32_t tags_known_name(struct slot *slot, enum live_tag_kind kind, const char *text)
{
	uint64_t hash = text_hash(text, text_bytes(text));
	uint64_t place = hash >> 58;
	uint32_t id = own_tags_make(slot) ? slot->tags->hashed[place] : 0;

	if (id != 0 && memory_tag(id)->kind == kind && text_is(id, text))
		return id;
	id = find_name(kind, text, hash);
	if (id != 0 && slot->tags != &tags_none)
		slot->tags->hashed[place] = id;
	return id;
}
_Static_assert(TAGS_NAMES == 1 << 6, "what tags_known_name shifts by");

/* If two threads create the same name at once, one stored text is wasted, because it is stored before the lock is taken. */
uint32_t tags_name(struct slot *slot, enum live_tag_kind kind, const char *text)
{
	uint32_t id = tags_known_name(slot, kind, text), bytes = text_bytes(text);
	uint64_t hash = text_hash(text, bytes);

	if (id != 0)
		return id;
	uint64_t at = make_room(slot) ? memory_append(LIVE_STRINGS, bytes, 1) : UINT64_MAX;

	if (at == UINT64_MAX)
		return 0;
	__builtin_memcpy(memory.region[LIVE_STRINGS] + at, text, bytes);
	if (!lock_acquire(&tags_lock, slot->id))
		return 0;
	id = find_name(kind, text, hash);
	if (id == 0)
		id = add(&(struct live_tag){ .text_at = (uint32_t)at,
					     .text_bytes = bytes,
					     .depth = 1,
					     .kind = kind },
			 hash);
	lock_release(&tags_lock);
	return id;
}

static bool can_be_found(uint32_t tag)
{
	uint32_t parent = memory_tag(tag)->parent, name = memory_tag(tag)->name;

	return parent == 0 || find_child(parent, name, child_hash(parent, name)) == tag;
}

/* Checks that every tag is found where it was inserted. Under the lock. */
static void check_tags(void)
{
	static struct check_pace pace;
	uint64_t used = memory_used(LIVE_TAGS);

	if (used == 0 || !check_is_due(&pace))
		return;
	RECORDER_CHECK(table_check(&tags));
	RECORDER_CHECK(tags.used + 1 == used);
	for (uint32_t i = 1; i < used; i++)
		RECORDER_CHECK(can_be_found(i));
	check_done(&pace, used + tags.mask);
}

/* Finds or creates the tag of a name below another; 0 = no memory, or too deep. */
static uint32_t child_of(struct slot *slot, uint32_t parent, uint32_t name)
{
	const struct live_tag *above = memory_tag(parent), *named = memory_tag(name);
	uint64_t hash = child_hash(parent, name);

	if (parent == 0)
		return name;
	if (above->name == name)
		return parent;
	uint32_t id = find_child(parent, name, hash);

	if (id != 0)
		return id;
	if (above->depth >= LIVE_TAG_DEPTH_MAX || !make_room(slot) ||
	    !lock_acquire(&tags_lock, slot->id))
		return 0;
	id = find_child(parent, name, hash);
	if (id == 0)
		id = add(&(struct live_tag){ .parent = parent,
					     .name = name,
					     .text_at = named->text_at,
					     .text_bytes = named->text_bytes,
					     .depth = above->depth + 1,
					     .kind = named->kind },
			 hash);
	if (CHECKED)
		check_tags();
	lock_release(&tags_lock);
	return id;
}

/* ---- a slot's cache ---- */

/* Returns the slot's visit counter of a tag; without memory, one that nobody reads. */
static uint64_t *visits_of(struct slot *slot, uint32_t tag)
{
	struct slot_tags *own = slot->tags;
	uint64_t hash = hash_mix(tag), made;
	uint32_t mark = table_tag(hash), place = mark, id;
	struct table larger;

	do
		id = table_next(&own->visits, mark, &place);
	while (id != 0 && memory_visits(id)->tag != tag);
	if (id != 0)
		return &memory_visits(id)->count;
	larger = table_larger(&own->visits, 1, memory_scratch);
	if (larger.entry != NULL)
		table_move(&own->visits, larger);
	do
		made = table_is_full(&own->visits)
			       ? UINT64_MAX
			       : memory_append(LIVE_VISITS, 1, sizeof(struct live_visits));
	while (made == 0);
	if (made > UINT32_MAX)
		return &own->uncounted;
	memory_visits((uint32_t)made)->thread = slot->thread;
	__atomic_store_n(&memory_visits((uint32_t)made)->tag, tag, __ATOMIC_RELEASE);
	table_put(&own->visits, mark, (uint32_t)made);
	return &memory_visits((uint32_t)made)->count;
}

/* Looks up (parent, name) and caches it in `near`; NULL: no memory. */
static struct tag_cache_entry *cache_tag(struct slot *slot, uint32_t parent, uint32_t name)
{
	uint64_t key = tags_key(parent, name);
	struct tag_cache_entry *cached = tags_cached(slot, key);

	if (cached->key == key)
		return cached;
	uint32_t tag = child_of(slot, parent, name);

	if (tag == 0)
		return NULL;
	cached->key = TAGS_NOTHING; /* a signal handler may read it */
	cached->tag = tag;
	cached->visits = visits_of(slot, tag);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	cached->key = key;
	return cached;
}

uint32_t tags_below(struct slot *slot, uint32_t parent, uint32_t name)
{
	const struct tag_cache_entry *cached =
		own_tags_make(slot) ? cache_tag(slot, parent, name) : NULL;

	return cached != NULL ? cached->tag : 0;
}

static uint32_t computed_name(struct slot *slot, const char *text)
{
	uint64_t place = ((uintptr_t)text * UINT64_C(0x9e3779b97f4a7c15)) >> 58;
	uint32_t name = slot->tags->names[place].name;

	if (slot->tags->names[place].text == text && text_is(name, text))
		return name;
	name = tags_name(slot, LIVE_TAG_SCOPE, text);
	if (name != 0) {
		slot->tags->names[place].text = text;
		slot->tags->names[place].name = name;
	}
	return name;
}
_Static_assert(TAGS_NAMES == 1 << 6, "what computed_name shifts by");

/* Returns the name's number, or 0. A number that is not in this process' tags
 * is looked up again: there was no memory to copy the parent's tags. */
static uint32_t name_to_enter(struct slot *slot, struct hg_tag *tag, const char *name)
{
	if (name != NULL)
		return computed_name(slot, name);
	uint32_t id = __atomic_load_n(&tag->id, __ATOMIC_RELAXED);

	if (id == 0 || id >= memory_used(LIVE_TAGS)) {
		id = tag->name != NULL ? tags_name(slot, LIVE_TAG_SCOPE, tag->name) : 0;
		__atomic_store_n(&tag->id, id, __ATOMIC_RELAXED);
	}
	return id;
}

/* Returns the address of the word that identifies a scope's frame; a word on another stack may be unmapped with it. */
static const uintptr_t *word_of(struct slot *slot, uintptr_t at)
{
	const struct stack_range *range = stack_range_of(slot, at);

	if (!range->own)
		return &tags_no_word;
	slot->stack_low = range->low;
	slot->stack_bytes = range->high - range->low;
	return (const uintptr_t *)at + 1;
}

static void keep_scope(struct slot *slot, uintptr_t at)
{
	if (slot->scope < &slot->scopes[SCOPES_KEPT])
		tags_keep_scope(&thread_state, at != 0 ? at : slot->scope->at,
				at != 0 ? word_of(slot, at) : slot->scope->word_at);
}

NOINLINE struct hg_scope tags_enter_slow(struct hg_tag *tag, const char *name, uintptr_t at)
{
	struct thread_state *self = &thread_state;
	const uintptr_t *frame = HOOK_FRAME();
	struct slot *slot = hook_enter(frame);
	const struct tag_cache_entry *cached = NULL;
	struct hg_scope here;
	uint32_t id;

	if (slot == NULL) /* not recorded, or a signal handler inside a hook */
		return self->token == *fork_token ? tags_here(self)
						  : (struct hg_scope){ self->tag, 0 };
	hook_record(frame);
	if (tags_is_stale(slot->scope, at))
		tags_settle(slot, at);
	here = tags_here(self);
	if (own_tags_make(slot) && (id = name_to_enter(slot, tag, name)) != 0)
		cached = cache_tag(slot, self->tag, id);
	if (cached == NULL)
		health_add(HEALTH_lost_tags);
	if (cached != NULL) {
		keep_scope(slot, at);
		tags_begin(self, cached);
	}
	hook_leave();
	return here;
}

/* True only if it is certain. A frame below the current stack pointer may be on another stack. */
static bool has_ended(struct slot *slot, const struct scope_kept *scope, uintptr_t at)
{
	return *(const volatile uintptr_t *)scope->word_at != scope->word ||
	       (at > scope->at && stack_is_same(slot, scope->at, at));
}

NOINLINE void tags_settle(struct slot *slot, uintptr_t at)
{
	while (slot->scope > slot->scopes && has_ended(slot, slot->scope, at)) {
		thread_state.tag = slot->scope->before;
		slot->scope--;
	}
	if (thread_state.tag == 0)
		slot->fast_cache = slot->fast_cache_untagged;
}

/* ---- contexts and labels ---- */

static void give_tag(struct slot *slot, uint32_t tag)
{
	thread_state.tag = tag;
	slot->fast_cache = tag != 0 ? NULL : slot->fast_cache_untagged;
}

NOINLINE uint32_t tags_context(void)
{
	const struct thread_state *self = &thread_state;
	const uintptr_t *frame = HOOK_FRAME();
	struct slot *slot = NULL;

	if (self->tag != 0 && self->token == *fork_token &&
	    UNLIKELY(tags_is_stale(self->slot->scope, (uintptr_t)frame)))
		slot = hook_enter(frame);
	if (slot != NULL) {
		hook_record(frame);
		tags_settle(slot, (uintptr_t)frame);
		hook_leave();
	}
	return self->tag;
}

NOINLINE void tags_set_context(uint32_t tag)
{
	const uintptr_t *frame = HOOK_FRAME();
	struct slot *slot = hook_enter(frame);

	if (slot == NULL)
		return;
	tag = tag < memory_used(LIVE_TAGS) ? tag : 0;
	give_tag(slot, tag);
	/* If a scope turns out to have been left by longjmp, the tag set here stays. */
	for (struct scope_kept *scope = slot->scope; scope > slot->scopes; scope--)
		scope->before = tag;
	hook_leave();
}

NOINLINE struct hg_scope tags_label(const char *key, const char *value, uintptr_t at, bool scoped)
{
	struct thread_state *self = &thread_state;
	const uintptr_t *frame = HOOK_FRAME();
	struct slot *slot = key != NULL ? hook_enter(frame) : NULL;
	struct hg_scope here;

	if (slot == NULL)
		return self->token == *fork_token ? tags_here(self)
						  : (struct hg_scope){ self->tag, 0 };
	hook_record(frame);
	if (tags_is_stale(slot->scope, at))
		tags_settle(slot, at);
	here = tags_here(self);
	uint32_t tag = self->tag;

	if (!own_tags_make(slot) || !labels_with(slot, &tag, key, value)) {
		health_add(HEALTH_lost_tags);
	} else if (tag != self->tag) {
		if (scoped)
			keep_scope(slot, at);
		give_tag(slot, tag);
		if (value != NULL && *value)
			arch_add(visits_of(slot, tag), 1);
	}
	hook_leave();
	return here;
}

/* ---- fork ---- */

struct tags_kept {
	uint64_t bytes, count;
	/* followed by struct live_tag[count], then their texts */
};

static const struct live_tag *kept_tags(const struct tags_kept *kept)
{
	return (const struct live_tag *)(const void *)(kept + 1);
}

COLD struct tags_kept *tags_keep(void)
{
	uint64_t count = memory_used(LIVE_TAGS);
	uint64_t texts = memory_used(LIVE_STRINGS);
	uint64_t bytes = sizeof(struct tags_kept) + count * sizeof(struct live_tag) + texts;

	if (count == 0 || !memory_open_of_parent(LIVE_TAGS, count * sizeof(struct live_tag)) ||
	    !memory_open_of_parent(LIVE_STRINGS, texts))
		return NULL;
	long at = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (sys_failed(at))
		return NULL;
	struct tags_kept *kept = (struct tags_kept *)at;

	*kept = (struct tags_kept){ bytes, count };
	__builtin_memcpy(kept + 1, memory_tag(0), count * sizeof(struct live_tag));
	__builtin_memcpy((char *)(kept + 1) + count * sizeof(struct live_tag),
			 memory.region[LIVE_STRINGS], texts);
	return kept;
}

/* True for a tag that the parent was still creating at the copy: nobody uses it here. */
static bool is_unfinished(const struct tags_kept *kept, uint32_t i)
{
	const struct live_tag *tag = &kept_tags(kept)[i];
	uint64_t texts = kept->bytes - sizeof *kept - kept->count * sizeof *tag;

	return tag->name == 0 || tag->name > i || tag->parent >= i ||
	       (uint64_t)tag->text_at + tag->text_bytes > texts;
}

/* No lock: the child has one thread. */
static void take_all(const struct tags_kept *kept)
{
	const char *texts = (const char *)(kept_tags(kept) + kept->count);
	uint64_t size = MAKERS * 4;

	while (size / 4 * 3 <= kept->count + MAKERS)
		size *= 2;
	tags = table_new(size);
	if (tags.entry == NULL ||
	    memory_append(LIVE_TAGS, kept->count, sizeof(struct live_tag)) != 0)
		return;
	for (uint32_t i = 1; i < kept->count; i++) {
		if (is_unfinished(kept, i))
			continue;
		struct live_tag tag = kept_tags(kept)[i];
		const char *text = texts + tag.text_at;
		uint64_t hash = child_hash(tag.parent, tag.name);

		tag.pool = 0; /* refers to the parent's counters */
		if (tag.name == i) {
			uint64_t at = memory_append(LIVE_STRINGS, tag.text_bytes, 1);

			hash = text_hash(text, tag.text_bytes);
			tag.text_bytes = at != UINT64_MAX ? tag.text_bytes : 0;
			tag.text_at = at != UINT64_MAX ? (uint32_t)at : 0;
			__builtin_memcpy(memory.region[LIVE_STRINGS] + tag.text_at, text,
					 tag.text_bytes);
		} else {
			tag.text_at = memory_tag(tag.name)->text_at;
			tag.text_bytes = memory_tag(tag.name)->text_bytes;
		}
		*memory_tag(i) = tag;
		table_put(&tags, table_tag(hash), i);
	}
}

COLD void tags_take_back(const struct tags_kept *kept)
{
	if (kept != NULL)
		take_all(kept);
	if (thread_state.tag >= memory_used(LIVE_TAGS))
		thread_state.tag = 0;
}

COLD void tags_drop(struct tags_kept *kept)
{
	if (kept != NULL)
		sys_munmap(kept, kept->bytes);
}
