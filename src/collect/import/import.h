/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heap profiles of other tools as recordings: jemalloc's text (heap_v2), and pprof's profile.proto, gzipped or not, as Go, tcmalloc
 * and `heapgauge export --format pprof` write it. What such a file does not say stays unknown: process_row.imported.
 */
#ifndef COLLECT_IMPORT_IMPORT_H
#define COLLECT_IMPORT_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "format/recording/recording.h"
#include "util/error.h"

/* Whether a file that begins with these bytes, IMPORT_FIRST_BYTES unless it is shorter, looks like one of them. */
enum { IMPORT_FIRST_BYTES = 16 };
bool import_recognizes(struct span first);
/*
 * Whether the function at an address of an ELF file is one by which programs allocate: jemalloc's stacks begin inside the
 * allocator, and those of recordings at its caller.
 */
struct import_names {
	bool (*is_allocator)(void *context, const char *path, uint64_t address);
	void *context;
};
/* `names` may be NULL. Returns -1 with the error set. The caller releases *ret. */
int import_profile(struct span bytes, const struct import_names *names, struct recording *ret,
		   struct error *error);

#endif
