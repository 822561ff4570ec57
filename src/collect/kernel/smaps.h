/* SPDX-License-Identifier: Apache-2.0 */
/* What the pages of a process are for, from /proc/PID/smaps. */
#ifndef COLLECT_KERNEL_SMAPS_H
#define COLLECT_KERNEL_SMAPS_H

#include <stdbool.h>

#include "format/recording/rows.h"
#include "util/vector.h"

enum mapping_kind {
	MAPPING_HEAP, /* the kernel's, and the arenas of glibc that can be recognised by their shape */
	MAPPING_ANONYMOUS, /* other private anonymous memory */
	MAPPING_STATIC, /* anonymous as well, behind the data of a module: variables that begin as zero */
	MAPPING_STACK,
	MAPPING_FILES,
	MAPPING_SHARED,
	MAPPING_OWN, /* the recorder's */
	MAPPING_KINDS,
};

struct mapping {
	uint64_t start, end;
	enum mapping_kind kind;
	uint64_t rss_bytes, swap_bytes;
};
struct smaps {
	VECTOR(struct mapping) list; /* by address */
};

/* `text` is changed. False: out of memory. */
bool smaps_parse(char *text, struct smaps *ret);
void smaps_release(struct smaps *smaps);

/* Sums the resident bytes of each class into the row's classes, rss_bytes and swap_bytes; the rest of the row is left. */
void smaps_sum(const struct smaps *smaps, struct memory_row *row);

#endif
