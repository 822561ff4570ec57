/* SPDX-License-Identifier: Apache-2.0 */
/* A thread's context is freed when the thread ends. */
#include "format/recording/pack.h"

#include <pthread.h>
#include <zstd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int key_status;

static void release(void *context)
{
	ZSTD_freeCCtx(context);
}

static void make_key(void)
{
	key_status = pthread_key_create(&key, release);
}

/* NULL: it could not be created. */
static ZSTD_CCtx *context_of_thread(void)
{
	ZSTD_CCtx *context;

	if (pthread_once(&once, make_key) != 0 || key_status != 0)
		return NULL;
	context = pthread_getspecific(key);
	if (context)
		return context;
	context = ZSTD_createCCtx();
	if (context && pthread_setspecific(key, context) != 0) {
		ZSTD_freeCCtx(context);
		context = NULL;
	}
	return context;
}

size_t pack_zstd(void *to, size_t room, const void *from, size_t bytes, int level)
{
	ZSTD_CCtx *context = context_of_thread();

	return context ? ZSTD_compressCCtx(context, to, room, from, bytes, level)
		       : ZSTD_compress(to, room, from, bytes, level);
}
