/* SPDX-License-Identifier: Apache-2.0 */
/* Classifies the pages of a process, from /proc/PID/smaps. */
#ifndef COLLECT_KERNEL_SMAPS_H
#define COLLECT_KERNEL_SMAPS_H

#include <stdbool.h>

#include "collect/kernel/pagemap.h"
#include "format/recording/rows.h"
#include "util/vector.h"

enum mapping_kind {
	MAPPING_HEAP, /* [heap], and the arenas of glibc that can be recognized by their shape */
	MAPPING_ANONYMOUS, /* other private anonymous memory */
	MAPPING_STATIC, /* also anonymous, after the data of a module: zero-initialized variables */
	MAPPING_STACK,
	MAPPING_FILES,
	MAPPING_SHARED,
	MAPPING_OWN, /* of the recorder */
	MAPPING_KINDS,
};

struct mapping {
	uint64_t start, end;
	enum mapping_kind kind;
	uint64_t rss_bytes, swap_bytes;
	bool may_have_guards; /* private anonymous memory without huge pages, as all that is mapped with MAP_STACK */
	/* Of a file: */
	const char *name; /* inside the parsed text; "" or in brackets: none */
	uint64_t offset, inode;
	bool is_code;
};
struct smaps {
	VECTOR(struct mapping) list; /* by address */
	/* Private memory of hugetlbfs, which the kernel counts neither as resident nor as swapped. */
	uint64_t hugetlb_bytes;
};

/* Modifies `text`, and refers to it. False: out of memory. */
bool smaps_parse(char *text, struct smaps *ret);

/* Makes stacks of what lies above each guard region: of a mapping that may have any, one or more. What lies below the first one keeps its
 * kind. runs: of those mappings, by address; they may span several. False: out of memory, and nothing is changed. */
bool smaps_split_at_guards(struct smaps *smaps, const page_runs *runs);
void smaps_release(struct smaps *smaps);

/* Sums the resident bytes of each class into the row's classes, rss_bytes and swap_bytes; the other fields are unchanged. */
void smaps_sum(const struct smaps *smaps, struct memory_row *row);

#endif
