/* SPDX-License-Identifier: Apache-2.0 */
/* Before a program is recorded: the allocator inside it. */
#ifndef CLI_LINKED_IN_H
#define CLI_LINKED_IN_H

#include <stdbool.h>

#include "format/live/live_hooks.h"

/* Finds an allocator with hooks of its own in one of the programs on the command line: "env A=1 ./server" starts the second. Prints
 * that the first program's allocations cannot be recorded if it has an allocator without hooks, unless `quiet`. */
void linked_in_prepare(char *const *argv, bool quiet, struct live_hooks *ret);

/* Whether the program has an allocator that can be recorded by its hooks. */
bool linked_in_find_hooks(const char *path, struct live_hooks *ret);

#endif
