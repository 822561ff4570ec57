/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECORDER_OWN_SYMBOL_H
#define RECORDER_OWN_SYMBOL_H

#include <link.h>

/* A defined symbol of the object itself; NULL: none. No lock, no allocation. */
void *own_symbol(const struct link_map *map, const char *name);
#endif
