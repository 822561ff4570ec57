/* SPDX-License-Identifier: Apache-2.0 */
/* What still referred to the blocks of a process, in a recording made by `heapgauge image` or `record --image`. */
#ifndef MODEL_IMAGE_REACH_H
#define MODEL_IMAGE_REACH_H

#include "format/reach.h"
#include "model/profile.h"

/* Of a site, or of the whole process. */
struct profile_reach {
	uint64_t blocks[REACH_CLASSES], bytes[REACH_CLASSES];
	uint64_t interior_blocks; /* that only pointers into the middle of blocks lead to */
	uint64_t retained_bytes;  /* that would be freed with them; 0 for the process */
};
/* How the image was made. */
struct profile_image {
	uint64_t stopped_ns, in_flight, unreadable_bytes, references;
	enum reach_taken taken; /* REACH_STOPPED if this version does not know it */
};

bool profile_has_reach(const struct profile_process *process);
/* Whether any process of the profile has it. */
bool profile_any_reach(const struct profile *profile);
/* All zero if it has none. */
struct profile_reach profile_site_reach(const struct profile_process *process, site_id site);
struct profile_reach profile_process_reach(const struct profile_process *process);
struct profile_image profile_image(const struct profile_process *process);

uint64_t reach_unreachable_bytes(const struct profile_reach *reach);
uint64_t reach_unreachable_blocks(const struct profile_reach *reach);
/* "global", "ring" */
const char *reach_class_name(enum reach_class class);

#endif
