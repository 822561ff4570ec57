/* SPDX-License-Identifier: Apache-2.0 */
/* The implementation behind <heapgauge/heapgauge.h>. The program finds these functions by calling libc's confstr with a
 * name that only we know: an ordinary call, which reaches us whatever linker built the program, takes no lock and is a
 * no-op without the recorder. All other names are forwarded.
 *
 * Any thread, any time; functions without a fast path enter through hook_enter like the other hooks. */
#include <errno.h>
#include <unistd.h>

#include "recorder/hooks/hook.h"
#include "recorder/counters/marks.h"
#include "recorder/api/pools.h"
#include "recorder/api/stats.h"
#include "recorder/api/tags.h"
#include "recorder/sampling/mode.h"

/* enter for an hg_enter/hg_leave pair, whose frame is unknown: uses the frame of the enclosing scope. */
static NOINLINE struct hg_scope enter_unframed(struct hg_tag *tag)
{
	struct thread_state *self = &thread_state;
	const struct slot *slot = self->slot;
	uint64_t key = tags_key(self->tag, __atomic_load_n(&tag->id, __ATOMIC_RELAXED));
	const struct tag_cache_entry *cached = tags_cached(slot, key);

	if (UNLIKELY(cached->key != key || slot->scope == &slot->scopes[SCOPES_KEPT] ||
		     tags_is_stale(slot->scope, 0)))
		return tags_enter_slow(tag, NULL, 0);
	struct hg_scope here = tags_here(self);

	tags_keep_scope(self, slot->scope->at, slot->scope->word_at);
	tags_begin(self, cached);
	return here;
}

/* Fast path: a tag that this slot has entered here before, in a function on the thread's own stack. */
static struct hg_scope enter(struct hg_tag *tag, const void *frame)
{
	struct thread_state *self = &thread_state;
	uintptr_t at = (uintptr_t)frame;

	__asm__("" : "+r"(self)); /* compute the TLS address only once */
	if (UNLIKELY(self->token != *fork_token))
		return tags_enter_slow(tag, NULL, at);
	const struct slot *slot = self->slot;
	uint64_t key = tags_key(self->tag, __atomic_load_n(&tag->id, __ATOMIC_RELAXED));
	const struct tag_cache_entry *cached = tags_cached(slot, key);

	if (UNLIKELY(cached->key != key || at - slot->stack_low >= slot->stack_bytes ||
		     slot->scope == &slot->scopes[SCOPES_KEPT] || tags_is_stale(slot->scope, at)))
		return at == 0 ? enter_unframed(tag) : tags_enter_slow(tag, NULL, at);
	struct hg_scope here = tags_here(self);

	tags_keep_scope(self, at, (const uintptr_t *)frame + 1);
	tags_begin(self, cached);
	return here;
}

static struct hg_scope enter_name(const char *name, const void *frame)
{
	return tags_enter_slow(NULL, name, (uintptr_t)frame);
}

static void leave(struct hg_scope scope)
{
	struct thread_state *self = &thread_state;

	__asm__("" : "+r"(self));
	tags_leave(self, scope);
}

static void mark(int kind, const char *name)
{
	const uintptr_t *frame = HOOK_FRAME();
	struct slot *slot = hook_enter(frame);

	if (slot == NULL)
		return;
	hook_record(frame);
	marks_add(slot, kind == HG_SNAPSHOT_ ? LIVE_MARK_SNAPSHOT : LIVE_MARK_POINT, name);
	hook_leave();
}

static void label(const char *key, const char *value)
{
	tags_label(key, value, 0, false);
}

static struct hg_scope label_enter(const char *key, const char *value, const void *frame)
{
	return tags_label(key, value, (uintptr_t)frame, true);
}

/* For functions that only need a started recorder. */
static bool begin(const uintptr_t *frame)
{
	return hook_enter(frame) != NULL;
}

static void turn(int mode)
{
	if (!begin(HOOK_FRAME()))
		return;
	mode_set((uint32_t)mode);
	hook_leave();
}

static void go(int on, int where)
{
	if (!begin(HOOK_FRAME()))
		return;
	if (on)
		mode_resume(where == HG_THREAD);
	else
		mode_stop(where == HG_THREAD);
	hook_leave();
}

static void stacks(size_t least, size_t most)
{
	if (!begin(HOOK_FRAME()))
		return;
	mode_limit_stacks(least, most);
	hook_leave();
}

/* The struct of an older program may be shorter, that of a newer one longer. */
static int read_stats(struct hg_stats *ret, size_t bytes)
{
	const uintptr_t *frame = HOOK_FRAME();
	struct slot *slot = hook_enter(frame);

	if (slot == NULL)
		return 0;
	hook_record(frame);
	struct hg_stats stats = stats_read(slot);

	__builtin_memcpy(ret, &stats, MIN(bytes, sizeof stats));
	hook_leave();
	return 1;
}

static int read_tag(const char *path, struct hg_tag_stats *ret)
{
	const uintptr_t *frame = HOOK_FRAME();
	struct slot *slot = hook_enter(frame);

	if (slot == NULL)
		return 0;
	hook_record(frame);
	int found = stats_of_tag(path, ret);

	hook_leave();
	return found;
}

static size_t read_tags(struct hg_tag_stats *ret, size_t count)
{
	const uintptr_t *frame = HOOK_FRAME();
	struct slot *slot = hook_enter(frame);

	if (slot == NULL)
		return 0;
	hook_record(frame);
	size_t found = stats_of_tags(ret, count);

	hook_leave();
	return found;
}

static size_t read_sites(struct hg_site_stats *ret, size_t count, int order)
{
	const uintptr_t *frame = HOOK_FRAME();
	struct slot *slot = hook_enter(frame);

	if (slot == NULL)
		return 0;
	hook_record(frame);
	size_t found = stats_of_sites(slot, ret, count, (enum hg_order)order);

	hook_leave();
	return found;
}

/* Programs linked with libheapgauge.a reference this symbol, whatever else they call. */
EXPORT const char heapgauge_linked[] = "heapgauge";

static const struct hg_recorder_ recorder = {
	.version = 1,
	.bytes = sizeof recorder,
	.enter = enter,
	.enter_name = enter_name,
	.leave = leave,
	.mark = mark,
	.pool_new = pool_new,
	.pool_alloc = pool_alloc,
	.pool_resize = pool_resize,
	.pool_free = pool_free,
	.pool_clear = pool_clear,
	.context_get = tags_context,
	.context_set = tags_set_context,
	.label = label,
	.label_enter = label_enter,
	.turn = turn,
	.go = go,
	.stacks = stacks,
	.stats = read_stats,
	.tag_stats = read_tag,
	.tags = read_tags,
	.sites = read_sites,
};

EXPORT size_t confstr(int name, char *buffer, size_t bytes)
{
	const struct hg_recorder_ *answer = &recorder;

	if (name == HG_QUESTION_ && !next_found()->is_recorder && buffer != NULL &&
	    bytes == sizeof answer) {
		__builtin_memcpy(buffer, &answer, sizeof answer);
		return sizeof answer;
	}
	return next_found()->confstr(name, buffer, bytes);
}
