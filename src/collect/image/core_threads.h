/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a core file, as if they had been stopped. */
#ifndef COLLECT_IMAGE_CORE_THREADS_H
#define COLLECT_IMAGE_CORE_THREADS_H

#include "collect/trace/stop.h"
#include "collect/kernel/core_file.h"

/* False: out of memory, or there are none. Release its vectors in either case. */
bool threads_of_core(const struct core_file *core, struct stopped *ret);

#endif
