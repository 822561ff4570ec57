/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COLLECT_IMPORT_IMPORT_PPROF_H
#define COLLECT_IMPORT_IMPORT_PPROF_H

#include "collect/import/imported_rows.h"

/* pprof's profile.proto, decompressed; r is initialized and empty. -1 with the error set. */
int import_pprof(struct imported_rows *r, struct span bytes, struct recording *ret,
		 struct error *error);

#endif
