/* SPDX-License-Identifier: Apache-2.0 */
/* Tags: names that the program gave to its activities, nested. Tag 0 is the root: no tag. */
#ifndef MODEL_TAGS_H
#define MODEL_TAGS_H

#include "model/profile.h"

enum profile_tag_kind { PROFILE_TAG_SCOPE, PROFILE_TAG_POOL, PROFILE_TAG_LABEL, PROFILE_TAG_KINDS };
const char *profile_tag_kind_name(enum profile_tag_kind kind); /* "scope", "pool", "label" */

struct profile_tag {
	tag_id parent; /* less than its own id */
	enum profile_tag_kind kind;
	const char *name;
	/* POOL, below the root: the number of pools with that name, and their maximum live bytes */
	uint64_t pools, most_bytes;
};

/* 0 if the program set no tags; else ids are 1 .. count - 1. */
size_t profile_tag_count(const struct profile_process *process);
struct profile_tag profile_tag(const struct profile_process *process, tag_id tag);

/* The pool at the end of the tag; "" for none. Lives as long as the profile. */
const char *profile_tag_pool(const struct profile_process *process, tag_id tag);

/* "server/parser", outermost first, without the pool; "" for none. A very long path is cut to its inner part. In the arena; NULL
 * if out of memory. */
const char *profile_tag_path(const struct profile_process *process, tag_id tag,
			     struct arena *arena);

/* The labels in force, sorted: "phase=load", "tenant=acme"; the innermost for each key. Returns their number. */
enum { PROFILE_LABELS_MAX = 16 };
size_t profile_tag_label_list(const struct profile_process *process, tag_id tag,
			      const char *labels[PROFILE_LABELS_MAX]);
/* The same as a single string: "phase=load tenant=acme"; "" for none. In the arena; NULL if out of memory. */
const char *profile_tag_labels(const struct profile_process *process, tag_id tag,
			       struct arena *arena);

/* How often threads of a slot entered a tag; one row per pair. */
struct profile_visits {
	tag_id tag;
	uint32_t slot;
	uint64_t count;
};
size_t profile_visits_count(const struct profile_process *process);
struct profile_visits profile_visits(const struct profile_process *process, size_t index);

#endif
