/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -shared -fno-builtin */
/* An allocator as people write them: malloc, free, calloc, realloc, and nothing else of the family. A header before each
 * block would tell anybody who asks another allocator for the block's size a wrong number. Nothing is used again. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { CHUNK = 1 << 20, HEADER_WORDS = 2 };
static char *next_byte, *end_byte;

void *malloc(size_t n)
{
	size_t whole = (n + HEADER_WORDS * sizeof(size_t) + 15) & ~(size_t)15;

	if (next_byte == NULL || whole > (size_t)(end_byte - next_byte)) {
		size_t bytes = whole > CHUNK ? whole : CHUNK;
		void *chunk = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0);

		if (chunk == MAP_FAILED)
			return NULL;
		next_byte = (char *)chunk;
		end_byte = next_byte + bytes;
	}
	size_t *header = (size_t *)(void *)next_byte;

	next_byte += whole;
	header[0] = n;
	header[1] = (size_t)0x5a5a5a5a5a5a5a51; /* read as glibc's chunk size this is nonsense */
	return header + HEADER_WORDS;
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

	if (block != NULL && fresh != NULL) {
		size_t old = ((size_t *)block)[-HEADER_WORDS];
		memcpy(fresh, block, old < n ? old : n);
	}
	return fresh;
}
