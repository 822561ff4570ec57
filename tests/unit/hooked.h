/* SPDX-License-Identifier: Apache-2.0 */
/* The whole recorder inside a test, by the names that src/recorder/CMakeLists.txt gives to its hooks: what is allocated through
 * these is recorded, the test's own calls of malloc are not. */
#ifndef UNIT_HOOKED_H
#define UNIT_HOOKED_H

#include <stddef.h>
#include <sys/types.h>

#include "heapgauge/recorder.h"

void *hooked_malloc(size_t size);
void *hooked_calloc(size_t count, size_t size);
void *hooked_realloc(void *block, size_t size);
void hooked_free(void *block);
void *hooked_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
int hooked_munmap(void *address, size_t bytes);
void *hooked_mremap(void *address, size_t old_bytes, size_t new_bytes, int flags, ...);
size_t hooked_confstr(int name, char *buffer, size_t bytes);

/* What programs call by <heapgauge/heapgauge.h>. */
static inline const struct hg_recorder_ *hooked_api(void)
{
	const struct hg_recorder_ *found = NULL;

	hooked_confstr(HG_QUESTION_, (char *)&found, sizeof found);
	return found;
}
#endif
