/* SPDX-License-Identifier: Apache-2.0 */
/* The size classes of allocators: how many bytes a block takes, by what was requested. */
#ifndef COLLECT_PROCESS_USABLE_SIZES_H
#define COLLECT_PROCESS_USABLE_SIZES_H

#include <stdint.h>

typedef uint64_t usable_size(uint64_t requested_bytes);

/* By the name in the live profile, "glibc" or the file that defines malloc. NULL: not known, as of tcmalloc, whose classes differ between
 * versions. Of glibc without the 8 bytes before the block. */
usable_size *usable_size_of(const char *allocator);

#endif
