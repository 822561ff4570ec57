/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -shared */
/* The frees of C23, for a libc that has none: as there, free is not called by its name. */
#include <stddef.h>

void __libc_free(void *block);
void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);

void free_sized(void *block, size_t size)
{
	(void)size;
	__libc_free(block);
}

void free_aligned_sized(void *block, size_t alignment, size_t size)
{
	(void)alignment;
	(void)size;
	__libc_free(block);
}
