/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zombies that copies of a process left in it. If heapgauge is killed, the kernel kills the copy, and its status remains: the process
 * does not wait for children of this kind. Another parent would see a child that it does not know.
 */
#ifndef COLLECT_TRACE_LEFTOVERS_H
#define COLLECT_TRACE_LEFTOVERS_H

#include <stdbool.h>
#include <sys/types.h>

#include "util/vector.h"

/* Adds the zombies that are now children of the process. False if out of memory. */
typedef VECTOR(pid_t) leftover_list;
bool leftovers_find(pid_t parent, leftover_list *list);

/* Returns true if the zombie is a copy, and the process has not collected it. */
bool leftover_is_copy(pid_t pid, pid_t parent);

#endif
