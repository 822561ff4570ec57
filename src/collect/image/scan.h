/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the memory of a process that is stopped, of a copy or from a core file, in pieces, without its pages that do not exist: reading them would allocate them. */
#ifndef COLLECT_IMAGE_SCAN_H
#define COLLECT_IMAGE_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "collect/kernel/memory_source.h"

struct scanner {
	const struct memory_source *source;
	uint64_t *buffer;
	uint64_t read_bytes, unreadable_bytes;
};
/* False: out of memory. Release it in either case. */
bool scanner_init(struct scanner *scanner, const struct memory_source *source);
void scanner_release(struct scanner *scanner);

/* Reads that many bytes at an address that may be any. False: they cannot be read. */
bool scan_bytes(const struct scanner *scanner, uint64_t address, void *to, size_t bytes);

/* Gets the aligned words at `address`. False: stop. */
typedef bool scan_words(void *context, uint64_t address, const uint64_t *words, size_t count);
/* Calls it for the existing pages in [start, end), ascending. False: it did. */
bool scan_range(struct scanner *scanner, uint64_t start, uint64_t end, scan_words *words,
		void *context);

#endif
