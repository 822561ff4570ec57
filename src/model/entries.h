/* SPDX-License-Identifier: Apache-2.0 */
/* What the program called for the blocks of a site. */
#ifndef MODEL_ENTRIES_H
#define MODEL_ENTRIES_H

#include "model/profile.h"

/* "malloc", "calloc", "realloc", "memalign", "new", "new[]" or "mmap"; "": not known. Equal names are equal pointers. */
const char *profile_entry_name(const struct profile_site *site);

#endif
