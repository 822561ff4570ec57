/* SPDX-License-Identifier: Apache-2.0 */
/* The files whose code a running process has mapped, and which of them call libc's malloc bypassing the recorder. */
#ifndef COLLECT_BINARIES_LOADED_FILES_H
#define COLLECT_BINARIES_LOADED_FILES_H

#include <stdbool.h>
#include <sys/types.h>

#include "collect/binaries/elf_slots.h"
#include "format/recording/rows.h"
#include "util/vector.h"

/* Each file once; never removed. */
struct loaded {
	VECTOR(struct loaded_file {
		char *path;
		uint64_t found;		/* UNRECORDED_deepbind, UNRECORDED_namespace */
		struct elf_slots slots; /* of malloc etc., relative to the start of the file */
		unsigned places;	/* private: mappings scanned this time */
	})
	files;
	size_t last;	   /* private: index of the last file found */
	uint64_t own_libc; /* start of the program's own libc; 0: unknown */
};
void loaded_release(struct loaded *loaded);
/* False if out of memory. */
bool loaded_copy(struct loaded *to, const struct loaded *from);

/* Moves the list to the rows. */
void loaded_give(struct loaded *loaded, struct process_rows *rows);

/* Whether so much memory is in no recorded block that a scan is worthwhile: anonymous memory may be the program's own mappings,
 * but an allocator's mappings look the same. */
bool loaded_is_due(const struct memory_row *row);

/* Scans a running process without stopping it: slots that are not bound yet are seen at the next scan. */
void loaded_scan(struct loaded *loaded, pid_t pid);

#endif
