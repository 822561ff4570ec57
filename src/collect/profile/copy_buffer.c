/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Caches one mapping.
 * Invariant: it is all zero, since every copy records the runs that may not be zero.
 */
#include "collect/profile/copy_buffer.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "format/live/live_header.h"
#include "util/cleanup.h"

/* Larger amounts are returned to the kernel instead of being zeroed. */
enum { ZEROED_MAX = 8 << 20 };

static struct {
	pthread_mutex_t lock;
	char *room;
	uint64_t bytes;
} kept = { .lock = PTHREAD_MUTEX_INITIALIZER };

void copy_runs_note(struct copy_runs *runs, uint64_t at, uint64_t bytes)
{
	struct copy_run *last = runs->count > 0 ? &runs->run[runs->count - 1] : NULL;

	/* Counters are copied twice, and need not be zeroed twice. */
	for (unsigned i = 0; i < runs->count; i++)
		if (runs->run[i].at <= at && at + bytes <= runs->run[i].at + runs->run[i].bytes)
			return;
	runs->bytes += bytes;
	if (last && last->at + last->bytes == at)
		last->bytes += bytes;
	else if (runs->count < ARRAY_SIZE(runs->run))
		runs->run[runs->count++] = (struct copy_run){ at, bytes };
	else
		runs->is_incomplete = true;
}

char *copy_buffer_new(uint64_t bytes)
{
	char *room = NULL;

	pthread_mutex_lock(&kept.lock);
	if (kept.room && kept.bytes == bytes)
		room = TAKE(kept.room);
	pthread_mutex_unlock(&kept.lock);
	if (room)
		return room;
	room = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return room == MAP_FAILED ? NULL : room;
}

/* False: it contains too much data for that. */
static bool zero(char *room, uint64_t bytes, struct copy_runs *runs)
{
	if (runs->is_incomplete || runs->bytes > ZEROED_MAX)
		return false;
	/* The front of the header is also modified after it was copied. */
	memset(room, 0, MIN(bytes, LIVE_FRONT_BYTES));
	for (unsigned i = 0; i < runs->count; i++)
		memset(room + runs->run[i].at, 0, runs->run[i].bytes);
	*runs = (struct copy_runs){ 0 };
	return true;
}

int copy_buffer_empty(char *room, uint64_t bytes, struct copy_runs *runs)
{
	if (zero(room, bytes, runs))
		return 0;
	if (madvise(room, bytes, MADV_DONTNEED) < 0)
		return -1;
	*runs = (struct copy_runs){ 0 };
	return 0;
}

void copy_buffer_free(char *room, uint64_t bytes, struct copy_runs *runs)
{
	if (zero(room, bytes, runs)) {
		/* Keeps the newer one of two sizes: the next copy more likely has that size. */
		pthread_mutex_lock(&kept.lock);
		char *old = kept.room;
		uint64_t old_bytes = kept.bytes;

		kept.room = room;
		kept.bytes = bytes;
		room = old;
		bytes = old_bytes;
		pthread_mutex_unlock(&kept.lock);
	}
	*runs = (struct copy_runs){ 0 };
	if (room)
		munmap(room, bytes);
}
