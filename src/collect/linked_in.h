/* SPDX-License-Identifier: Apache-2.0 */
/* Allocators that are linked into executables: calls of these do not pass the recorder, and a report has to say so. */
#ifndef COLLECT_LINKED_IN_H
#define COLLECT_LINKED_IN_H

#include "util/vector.h"

/* Executables that were looked at: each once, since a run may start the same one a thousand times. */
struct linked_in {
	VECTOR(struct linked_in_file {
		char *exe;
		const char *name;
	})
	files;
};
void linked_in_release(struct linked_in *linked_in);

/* The allocator in the executable, "an allocator" if its name is not known, NULL: none. A literal. `malloc_of` is who
 * defines malloc by the recorder's word. Either may be NULL. */
const char *linked_in_find(struct linked_in *linked_in, const char *exe, const char *malloc_of);

#endif
