/* SPDX-License-Identifier: Apache-2.0 */
/* How <heapgauge/heapgauge.h> finds the recorder, and what they agree upon. Programs include that one. */
#ifndef HEAPGAUGE_RECORDER_H
#define HEAPGAUGE_RECORDER_H

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

struct hg_stats;
struct hg_tag_stats;
struct hg_site_stats;

/* What the recorder offers; a later one has more at its end. For the functions below. */
struct hg_recorder_ {
	uint32_t version, bytes;
	struct hg_scope (*enter)(struct hg_tag *tag, const void *frame);
	struct hg_scope (*enter_name)(const char *name, const void *frame);
	void (*leave)(struct hg_scope scope);
	void (*mark)(int kind, const char *name);
	uint64_t (*pool_new)(const char *name);
	void (*pool_alloc)(uint64_t pool, const void *address, size_t bytes);
	void (*pool_resize)(uint64_t pool, const void *old, const void *address, size_t bytes);
	void (*pool_free)(uint64_t pool, const void *address);
	void (*pool_clear)(uint64_t pool, int end);
	uint32_t (*context_get)(void);
	void (*context_set)(uint32_t context);
	void (*label)(const char *key, const char *value);
	struct hg_scope (*label_enter)(const char *key, const char *value, const void *frame);
	void (*turn)(int mode);
	void (*go)(int on, int where);
	void (*stacks)(size_t least, size_t most);
	int (*stats)(struct hg_stats *ret, size_t bytes);
	int (*tag_stats)(const char *path, struct hg_tag_stats *ret);
	size_t (*tags)(struct hg_tag_stats *ret, size_t count);
	size_t (*sites)(struct hg_site_stats *ret, size_t count, int order);
};

enum hg_where { HG_PROCESS, HG_THREAD };
enum hg_mode {
	HG_DORMANT = 0,	      /* nothing is recorded */
	HG_TAGS = 1,	      /* every block is counted by its tag, without a stack */
	HG_SAMPLE = 2,	      /* some blocks with their stacks; numbers are estimates */
	HG_EXACT = 3,	      /* every block with its stack */
	HG_DEFAULT_MODE = 255 /* as whoever records says */
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

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
