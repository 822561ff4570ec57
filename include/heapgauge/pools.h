/* SPDX-License-Identifier: Apache-2.0 */
/* Part of <heapgauge/heapgauge.h>: allocators of the program's own. */
#ifndef HEAPGAUGE_POOLS_H
#define HEAPGAUGE_POOLS_H

#include <heapgauge/recorder.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- pools: allocators of the program's own; `heapgauge report --view pools`, --by pool, --pool NAME ---- */

/* A pool; 0 is none, and all that is said of none is nothing. */
typedef uint64_t hg_pool;

/* A new pool; those of one name are shown together. The name is copied. */
HG_INLINE_ hg_pool hg_pool_new(const char *name)
{
	const struct hg_recorder_ *recorder = hg_recorder_get_();

	return HG_HAS_(recorder, pool_clear) ? recorder->pool_new(name) : 0;
}

/* The pool has given out a block: it belongs to this stack, this thread and its scopes. */
HG_INLINE_ void hg_pool_alloc(hg_pool pool, const void *address, size_t bytes)
{
	if (pool != 0)
		hg_recorder_get_()->pool_alloc(pool, address, bytes);
}

/* A block that was at `old` is now at `address`, perhaps the same, with that many bytes. */
HG_INLINE_ void hg_pool_resize(hg_pool pool, const void *old, const void *address, size_t bytes)
{
	if (pool != 0)
		hg_recorder_get_()->pool_resize(pool, old, address, bytes);
}

/* A block is about to go back: say so before another thread can get it. */
HG_INLINE_ void hg_pool_free(hg_pool pool, const void *address)
{
	if (pool != 0)
		hg_recorder_get_()->pool_free(pool, address);
}

/* All blocks of the pool go at once: an arena that begins anew, or one that is over with it. */
HG_INLINE_ void hg_pool_reset(hg_pool pool)
{
	if (pool != 0)
		hg_recorder_get_()->pool_clear(pool, 0);
}

HG_INLINE_ void hg_pool_end(hg_pool pool)
{
	if (pool != 0)
		hg_recorder_get_()->pool_clear(pool, 1);
}

#ifdef __cplusplus
}
#endif

#endif
