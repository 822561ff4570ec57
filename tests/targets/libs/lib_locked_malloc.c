/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -shared -fno-builtin */
/* An allocator with one lock that it also holds while it makes its arena, in a constructor, by mmap and munmap, and in a
 * function of its own that no recorder knows: whoever asks it for a block from inside those calls waits for ever. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { ARENA = 1 << 24, PAGE = 4096 };
static atomic_flag lock = ATOMIC_FLAG_INIT;
static char *next_byte, *end_byte;

void *locked_take_whole_pages(size_t pages);
void locked_give_whole_pages(void *at, size_t pages);

static void acquire_lock(void)
{
	while (atomic_flag_test_and_set(&lock))
		;
}

static void release_lock(void)
{
	atomic_flag_clear(&lock);
}

/* Aligned by mapping too much and giving back the rest, as jemalloc does. */
static void make_arena(void)
{
	char *at =
		mmap(NULL, 2 * ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return;
	munmap(at + ARENA, ARENA);
	next_byte = at;
	end_byte = at + ARENA;
}

__attribute__((constructor)) static void begin(void)
{
	acquire_lock();
	if (next_byte == NULL)
		make_arena();
	release_lock();
}

static char *cut(size_t bytes)
{
	char *at = NULL;

	acquire_lock();
	if (next_byte == NULL)
		make_arena();
	if (bytes <= (size_t)(end_byte - next_byte)) {
		at = next_byte;
		next_byte += bytes;
	}
	release_lock();
	return at;
}

void *malloc(size_t n)
{
	char *at = n > ARENA ? NULL : cut((n + 16 + 15) & ~(size_t)15);

	if (at == NULL)
		return NULL;
	memcpy(at, &n, sizeof n);
	return at + 16;
}

void free(void *block)
{
	(void)block;
}

void *calloc(size_t count, size_t size)
{
	return malloc(count * size); /* fresh pages are zero, and no block is used twice */
}

void *realloc(void *block, size_t n)
{
	void *fresh = malloc(n);
	size_t old;

	if (block != NULL && fresh != NULL) {
		memcpy(&old, (char *)block - 16, sizeof old);
		memcpy(fresh, block, old < n ? old : n);
	}
	return fresh;
}

/* As mallocx or mi_malloc: not of the family. */
void *locked_take_whole_pages(size_t pages)
{
	acquire_lock();
	void *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);
	release_lock();
	return at != MAP_FAILED ? at : NULL;
}

void locked_give_whole_pages(void *at, size_t pages)
{
	acquire_lock();
	munmap(at, pages * PAGE);
	release_lock();
}
