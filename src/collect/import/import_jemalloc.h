/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_IMPORT_IMPORT_JEMALLOC_H
#define COLLECT_IMPORT_IMPORT_JEMALLOC_H

#include "collect/import/import.h"
#include "collect/import/imported_rows.h"

#define JEMALLOC_MAGIC "heap_v2/"

/* The text that jemalloc writes; r is initialized and empty. -1 with the error set. */
int import_jemalloc(struct imported_rows *r, struct span text, const struct import_names *names,
		    struct recording *ret, struct error *error);

#endif
