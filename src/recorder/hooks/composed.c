/* SPDX-License-Identifier: Apache-2.0 */
/* musl's calloc calls malloc, and its posix_memalign, memalign and valloc call aligned_alloc, each by its public name, so that an
 * allocator that defines only some of the family works. Through our hooks, such a call would be seen twice: the countdown of sampling
 * would count its bytes twice, and a hook inside a hook is slow. These functions do the same with the next malloc and aligned_alloc.
 *
 * Owns nothing. Any thread; inside a hook, or instead of it. */
#include "recorder/hooks/composed.h"

#include <errno.h>

#include "recorder/arch/arch.h"
#include "recorder/libc/libc.h"
#include "recorder/unwind/modules.h"

/* Clears a page only if it is not zero, which leaves untouched pages of a new mapping untouched: as musl does if malloc is not its
 * own. Two words at a time: this must not become a call of memset. */
static void clear_page(uint64_t *page)
{
	enum { WORDS = ARCH_PAGE / sizeof *page };
	uint64_t any = 0;

	for (int i = 0; i < WORDS && any == 0; i += 2)
		any = page[i] | page[i + 1];
	if (any != 0)
		__builtin_memset(page, 0, ARCH_PAGE);
}

static void *composed_calloc(size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	char *block = next.malloc(bytes);

	if (block == NULL)
		return NULL;
	char *end = block + bytes;
	char *pages = (char *)(((uintptr_t)block + ARCH_PAGE - 1) & ~(uintptr_t)(ARCH_PAGE - 1));
	char *rest = (char *)((uintptr_t)end & ~(uintptr_t)(ARCH_PAGE - 1));

	if (pages >= rest) {
		__builtin_memset(block, 0, bytes);
		return block;
	}
	__builtin_memset(block, 0, (size_t)(pages - block));
	for (; pages < rest; pages += ARCH_PAGE)
		clear_page((uint64_t *)(void *)pages);
	__builtin_memset(rest, 0, (size_t)(end - rest));
	return block;
}

static int composed_posix_memalign(void **ret, size_t alignment, size_t size)
{
	if (alignment < sizeof(void *))
		return EINVAL;
	void *block = next.aligned_alloc(alignment, size);

	if (block == NULL)
		return errno;
	*ret = block;
	return 0;
}

static void *composed_memalign(size_t alignment, size_t size)
{
	return next.aligned_alloc(alignment, size);
}

static void *composed_valloc(size_t size)
{
	return next.aligned_alloc(ARCH_PAGE, size);
}

/* musl has none: only a weak reference gets here. */
static void *composed_pvalloc(size_t size)
{
	return next.aligned_alloc(ARCH_PAGE, (size + ARCH_PAGE - 1) & ~(size_t)(ARCH_PAGE - 1));
}

void composed_replace(struct next *found, const void *libc)
{
	if (!libc_is_musl())
		return;
	if (modules_same((void *)found->calloc, libc))
		found->calloc = composed_calloc;
	if (modules_same((void *)found->posix_memalign, libc))
		found->posix_memalign = composed_posix_memalign;
	if (modules_same((void *)found->memalign, libc))
		found->memalign = composed_memalign;
	if (modules_same((void *)found->valloc, libc))
		found->valloc = composed_valloc;
	if (found->pvalloc == NULL)
		found->pvalloc = composed_pvalloc;
}
