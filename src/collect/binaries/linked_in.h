/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what in the files of a process may hide memory from the recorder, so that reports can explain it. */
#ifndef COLLECT_BINARIES_LINKED_IN_H
#define COLLECT_BINARIES_LINKED_IN_H

#include "collect/binaries/elf_facts.h"
#include "format/recording/rows.h"
#include "util/vector.h"

/* Cached facts of files: a run may start the same program a thousand times. */
struct linked_in {
	VECTOR(struct linked_in_file {
		char *path;
		struct elf_facts facts;
	})
	files;
};
void linked_in_release(struct linked_in *linked_in);

/* Names the allocator in the executable, if its calls bypass the recorder, and fills in the findings of the loaded files; files
 * without any are dropped. If out of memory for a text, the process is recorded without it. */
void linked_in_find(struct linked_in *linked_in, struct process_rows *rows);

#endif
