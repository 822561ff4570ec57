/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that say something about their own memory while `heapgauge record` watches.
 *
 * Header only, C99 and C++. Without the recorder every call is the test of one variable. Nothing has to be linked: libc is
 * asked once for each file a question that only the recorder answers (confstr with a name that nobody else knows), so it
 * does not matter which linker made the program, or whether it is position-independent. Compilers other than gcc and
 * clang, and HG_DISABLED, make every call nothing at all.
 *
 * Calls may be made from any thread, at any time, also from signal handlers. None of them allocates, blocks, changes
 * errno or fails. docs/howto/api.md tells what they are good for. */
#ifndef HEAPGAUGE_H
#define HEAPGAUGE_H

#include <heapgauge/control.h>
#include <heapgauge/pools.h>
#include <heapgauge/recorder.h>
#include <heapgauge/stats.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether the recorder is there. */
HG_INLINE_ int hg_is_recorded(void)
{
	return hg_recorder_get_() != NULL;
}

/* ---- scopes: what this thread allocates from here on belongs to the tag, below those that are entered already ---- */

HG_INLINE_ struct hg_scope hg_enter_at_(struct hg_tag *tag, const void *frame)
{
	const struct hg_recorder_ *recorder = hg_recorder_get_();
	struct hg_scope none = { 0, 0 };

	return recorder != NULL ? recorder->enter(tag, frame) : none;
}

HG_INLINE_ struct hg_scope hg_enter_name_at_(const char *name, const void *frame)
{
	const struct hg_recorder_ *recorder = hg_recorder_get_();
	struct hg_scope none = { 0, 0 };

	return recorder != NULL ? recorder->enter_name(name, frame) : none;
}

/* Pairs of calls, where a scope is no block of the program. A computed name is copied the first time. */
HG_INLINE_ struct hg_scope hg_enter(struct hg_tag *tag)
{
	return hg_enter_at_(tag, NULL);
}

HG_INLINE_ struct hg_scope hg_enter_name(const char *name)
{
	return hg_enter_name_at_(name, NULL);
}

HG_INLINE_ void hg_leave(struct hg_scope scope)
{
	const struct hg_recorder_ *recorder = hg_recorder_get_();

	if (recorder != NULL)
		recorder->leave(scope);
}

static inline void hg_scope_end_(const struct hg_scope *scope)
{
	hg_leave(*scope);
}

#define HG_JOIN__(a, b) a##b
#define HG_JOIN_(a, b) HG_JOIN__(a, b)

#if defined(__GNUC__) && defined(__linux__) && !defined(HG_DISABLED)
#define HG_UNTIL_END_ __attribute__((cleanup(hg_scope_end_), unused))
#define HG_SCOPE__(name, n)                                                                        \
	static struct hg_tag HG_JOIN_(hg_tag_, n) = { name, 0 };                                   \
	const struct hg_scope HG_JOIN_(hg_scope_, n) HG_UNTIL_END_ =                               \
		hg_enter_at_(&HG_JOIN_(hg_tag_, n), HG_FRAME_())
#define HG_SCOPE_NAME__(name, n)                                                                   \
	const struct hg_scope HG_JOIN_(hg_scope_, n) HG_UNTIL_END_ =                               \
		hg_enter_name_at_(name, HG_FRAME_())

#define HG_LABEL__(key, value, n)                                                                  \
	const struct hg_scope HG_JOIN_(hg_scope_, n) HG_UNTIL_END_ =                               \
		hg_label_at_(key, value, HG_FRAME_())

/* To the end of the block, however it is left: by return, break, goto, exception, or longjmp. HG_SCOPE takes a literal,
 * HG_SCOPE_NAME any text. */
#define HG_SCOPE(name) HG_SCOPE__(name, __COUNTER__)
#define HG_SCOPE_NAME(name) HG_SCOPE_NAME__(name, __COUNTER__)
/* The same for a label; see below. */
#define HG_LABEL(key, value) HG_LABEL__(key, value, __COUNTER__)
#else
#define HG_SCOPE(name) ((void)0)
#define HG_SCOPE_NAME(name) ((void)(name))
#define HG_LABEL(key, value) ((void)(key), (void)(value))
#endif

/* ---- contexts: what a thread is in, to be carried along a queue, to a coroutine, into a pool of threads ---- */

typedef struct {
	uint32_t v;
} hg_context;

HG_INLINE_ hg_context hg_context_get(void)
{
	const struct hg_recorder_ *recorder = hg_recorder_get_();
	hg_context context = { 0 };

	if (HG_HAS_(recorder, context_get))
		context.v = recorder->context_get();
	return context;
}

/* The thread is in that context from now on; a scope that it leaves later goes back to what was before that scope. */
HG_INLINE_ void hg_context_set(hg_context context)
{
	const struct hg_recorder_ *recorder = hg_recorder_get_();

	if (HG_HAS_(recorder, context_set))
		recorder->context_set(context.v);
}

/* ---- labels: a request, a tenant, a phase. A key has one value at a time. Of 64 keys 1024 values each are told apart; what
 * comes later is counted as "other" ---- */

/* Until another value is set, or the scope ends in which this was called; NULL takes it away. */
HG_INLINE_ void hg_label(const char *key, const char *value)
{
	const struct hg_recorder_ *recorder = hg_recorder_get_();

	if (HG_HAS_(recorder, label))
		recorder->label(key, value);
}

HG_INLINE_ struct hg_scope hg_label_at_(const char *key, const char *value, const void *frame)
{
	const struct hg_recorder_ *recorder = hg_recorder_get_();
	struct hg_scope none = { 0, 0 };

	return HG_HAS_(recorder, label_enter) ? recorder->label_enter(key, value, frame) : none;
}

/* A pair with hg_leave, where HG_LABEL is not available. */
HG_INLINE_ struct hg_scope hg_enter_label(const char *key, const char *value)
{
	return hg_label_at_(key, value, NULL);
}

#ifdef __cplusplus
} /* extern "C" */

namespace heapgauge
{

/* As an object; HG_SCOPE with a literal is a little quicker. */
class scope
{
      public:
	explicit scope(const char *name) : scope_(hg_enter_name(name))
	{
	}
	explicit scope(hg_tag &tag) : scope_(hg_enter(&tag))
	{
	}
	~scope()
	{
		hg_leave(scope_);
	}
	scope(const scope &) = delete;
	scope &operator=(const scope &) = delete;

      private:
	hg_scope scope_;
};

} // namespace heapgauge
#endif

#endif
