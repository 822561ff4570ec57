/* SPDX-License-Identifier: Apache-2.0 */
/* What <heapgauge/heapgauge.h> calls. The program finds these functions by asking libc's confstr for a name that nobody
 * else knows: an ordinary call of an ordinary function, which reaches us whatever linker made the program, takes no lock
 * and, where we are not, does nothing. All other names are forwarded.
 *
 * Any thread, any moment; functions without the quick way go through hook_enter as the other hooks do. */
#include <errno.h>
#include <unistd.h>

#include "recorder/hook.h"
#include "recorder/marks.h"
#include "recorder/pools.h"
#include "recorder/tags.h"

/* The quick way: a tag that this slot has entered here before, of a function on the thread's own stack. */
static struct hg_scope enter(struct hg_tag *tag, const void *frame)
{
	struct thread_state *self = &thread_state;
	uintptr_t at = (uintptr_t)frame;

	__asm__("" : "+r"(self)); /* or the compiler asks for the address again at each use */
	if (UNLIKELY(self->token != *fork_token))
		return tags_enter_slow(tag, NULL, at);
	const struct slot *slot = self->slot;
	uint64_t key = tags_key(self->tag, __atomic_load_n(&tag->id, __ATOMIC_RELAXED));
	const struct tag_near *near = tags_near(slot, key);

	if (UNLIKELY(near->key != key || at - slot->stack_low >= slot->stack_bytes ||
		     slot->scope == &slot->scopes[SCOPES_KEPT] || tags_is_stale(slot->scope, at)))
		return tags_enter_slow(tag, NULL, at);
	struct hg_scope here = tags_here(self);

	tags_keep_scope(self, at, (const uintptr_t *)frame + 1);
	tags_begin(self, near);
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
};

EXPORT size_t confstr(int name, char *buffer, size_t bytes)
{
	const struct hg_recorder_ *answer = &recorder;

	if (name == HG_QUESTION_ && buffer != NULL && bytes == sizeof answer) {
		__builtin_memcpy(buffer, &answer, sizeof answer);
		return sizeof answer;
	}
	return next_found()->confstr(name, buffer, bytes);
}
