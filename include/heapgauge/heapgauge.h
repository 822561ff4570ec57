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

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A name for a scope; `id` is the recorder's. Static, zero but for its name. */
struct hg_tag {
	const char *name;
	uint32_t id;
};

/* What hg_leave goes back to. */
struct hg_scope {
	uint32_t before, kept;
};

/* What the recorder offers; a later one has more at its end. For the functions below. */
struct hg_recorder_ {
	uint32_t version, bytes;
	struct hg_scope (*enter)(struct hg_tag *tag, const void *frame);
	struct hg_scope (*enter_name)(const char *name, const void *frame);
	void (*leave)(struct hg_scope scope);
	void (*mark)(int kind, const char *name);
};

enum { HG_QUESTION_ = 0x48474131, HG_MARK_ = 0, HG_SNAPSHOT_ = 1 };

#if defined(__GNUC__) && defined(__linux__) && !defined(HG_DISABLED)
#define HG_INLINE_ static inline __attribute__((always_inline, unused))
#define HG_FRAME_() __builtin_frame_address(0)

extern size_t hg_confstr_(int name, char *buffer, size_t bytes) __asm__("confstr");
extern int *hg_errno_(void) __asm__("__errno_location");

/* One in each file: its address; 1 = not asked yet, 0 = there is no recorder. */
static uintptr_t hg_found_ __attribute__((unused)) = 1;

static __attribute__((noinline, cold, unused)) const struct hg_recorder_ *hg_find_(void)
{
	const struct hg_recorder_ *found = NULL;
	int before = *hg_errno_();

	if (hg_confstr_(HG_QUESTION_, (char *)&found, sizeof found) != sizeof found)
		found = NULL;
	*hg_errno_() = before;
	__atomic_store_n(&hg_found_, (uintptr_t)found, __ATOMIC_RELAXED);
	return found;
}

HG_INLINE_ const struct hg_recorder_ *hg_recorder_get_(void)
{
	uintptr_t found = __atomic_load_n(&hg_found_, __ATOMIC_RELAXED);

	if (__builtin_expect(found > 1, 1))
		return (const struct hg_recorder_ *)found;
	return found == 1 ? hg_find_() : NULL;
}

/* Whether the recorder is new enough for a function. */
#define HG_HAS_(recorder, function)                                                                \
	((recorder) != NULL &&                                                                     \
	 (recorder)->bytes > (uint32_t)offsetof(struct hg_recorder_, function))
#else
#define HG_INLINE_ static inline
#define HG_FRAME_() NULL
#define HG_HAS_(recorder, function) ((recorder) != NULL)
HG_INLINE_ const struct hg_recorder_ *hg_recorder_get_(void)
{
	return NULL;
}
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

static inline void hg_left_(const struct hg_scope *scope)
{
	hg_leave(*scope);
}

#define HG_JOIN__(a, b) a##b
#define HG_JOIN_(a, b) HG_JOIN__(a, b)

#if defined(__GNUC__) && defined(__linux__) && !defined(HG_DISABLED)
#define HG_UNTIL_END_ __attribute__((cleanup(hg_left_), unused))
#define HG_SCOPE__(name, n)                                                                        \
	static struct hg_tag HG_JOIN_(hg_tag_, n) = { name, 0 };                                   \
	const struct hg_scope HG_JOIN_(hg_scope_, n) HG_UNTIL_END_ =                               \
		hg_enter_at_(&HG_JOIN_(hg_tag_, n), HG_FRAME_())
#define HG_SCOPE_NAME__(name, n)                                                                   \
	const struct hg_scope HG_JOIN_(hg_scope_, n) HG_UNTIL_END_ =                               \
		hg_enter_name_at_(name, HG_FRAME_())

/* To the end of the block, however it is left: by return, break, goto, exception, or longjmp. HG_SCOPE takes a literal,
 * HG_SCOPE_NAME any text. */
#define HG_SCOPE(name) HG_SCOPE__(name, __COUNTER__)
#define HG_SCOPE_NAME(name) HG_SCOPE_NAME__(name, __COUNTER__)
#else
#define HG_SCOPE(name) ((void)0)
#define HG_SCOPE_NAME(name) ((void)(name))
#endif

/* ---- moments: `heapgauge report --at snap:NAME`, and the view snapshots ---- */

/* A name on the time line. */
HG_INLINE_ void hg_mark(const char *name)
{
	const struct hg_recorder_ *recorder = hg_recorder_get_();

	if (HG_HAS_(recorder, mark))
		recorder->mark(HG_MARK_, name);
}

/* What every stack holds now; as often as wanted. The program does not wait. */
HG_INLINE_ void hg_snapshot(const char *name)
{
	const struct hg_recorder_ *recorder = hg_recorder_get_();

	if (HG_HAS_(recorder, mark))
		recorder->mark(HG_SNAPSHOT_, name);
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
