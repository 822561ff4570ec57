/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a process hold that may hide memory from the recorder: a report has to be able to say so. */
#ifndef COLLECT_BINARIES_LINKED_IN_H
#define COLLECT_BINARIES_LINKED_IN_H

#include "collect/binaries/elf_facts.h"
#include "format/recording/rows.h"
#include "util/vector.h"

/* Files that were read: each once, since a run may start the same program a thousand times. */
struct linked_in {
	VECTOR(struct linked_in_file {
		char *path;
		struct elf_facts facts;
	})
	files;
};
void linked_in_release(struct linked_in *linked_in);

/* Names the allocator in the executable, if its calls do not pass the recorder, and fills in what the loaded files hold; those that
 * hold nothing are left out. Without memory for a word, the process is recorded without it. */
void linked_in_find(struct linked_in *linked_in, struct process_rows *rows);

#endif
