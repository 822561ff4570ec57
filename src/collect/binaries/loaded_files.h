/* SPDX-License-Identifier: Apache-2.0 */
/* The files whose code a running process has mapped, and which of them call libc's malloc past the recorder. */
#ifndef COLLECT_BINARIES_LOADED_FILES_H
#define COLLECT_BINARIES_LOADED_FILES_H

#include <stdbool.h>
#include <sys/types.h>

#include "collect/binaries/elf_slots.h"
#include "format/recording/rows.h"
#include "util/vector.h"

/* Each file once; never forgotten. */
struct loaded {
	VECTOR(struct loaded_file {
		char *path;
		uint64_t found;		/* UNSEEN_deepbind, UNSEEN_namespace */
		struct elf_slots slots; /* of malloc and the like, from the beginning of the file */
		unsigned places;	/* inner: where it is mapped and was scanned, this time */
	})
	files;
	size_t last;	   /* inner: of the file that was asked for last */
	uint64_t own_libc; /* where that begins which the program itself has; 0: not known */
};
void loaded_release(struct loaded *loaded);
/* False if out of memory. */
bool loaded_copy(struct loaded *to, const struct loaded *from);

/* Moves the list over to the rows. */
void loaded_give(struct loaded *loaded, struct process_rows *rows);

/* Whether so much is in no recorded block that a scan is worth it: what is anonymous may be the program's own mappings, but an
 * allocator's mappings are like them. */
bool loaded_is_due(const struct memory_row *row);

/* Scans a process that runs. It is not stopped: what it has not bound yet is seen the next time. */
void loaded_scan(struct loaded *loaded, pid_t pid);

#endif
