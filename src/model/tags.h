/* SPDX-License-Identifier: Apache-2.0 */
/* What the program called the things that it does: tags, each below another. Tag 0 is the root: no tag. */
#ifndef MODEL_TAGS_H
#define MODEL_TAGS_H

#include "model/profile.h"

enum profile_tag_kind { PROFILE_TAG_SCOPE, PROFILE_TAG_POOL, PROFILE_TAG_LABEL, PROFILE_TAG_KINDS };
const char *profile_tag_kind_name(enum profile_tag_kind kind); /* "scope", "pool", "label" */

struct profile_tag {
	tag_id parent; /* less than its own */
	enum profile_tag_kind kind;
	const char *name;
	/* POOL, below the root: how many pools had the name, and the most that was live in them at one time */
	uint64_t pools, most_bytes;
};

/* 0 if the program never named anything; else ids are 1 .. count - 1. */
size_t profile_tag_count(const struct profile_process *process);
struct profile_tag profile_tag(const struct profile_process *process, tag_id tag);

/* The pool that the tag ends in; "" for none. Lives with the profile. */
const char *profile_tag_pool(const struct profile_process *process, tag_id tag);

/* "server/parser", outermost first, without the pool; "" for none. Of a very long one the inner part. In the arena; NULL if out of
 * memory. */
const char *profile_tag_path(const struct profile_process *process, tag_id tag,
			     struct arena *arena);

/* The labels in force, sorted: "phase=load", "tenant=acme"; of each key the innermost. Returns how many. */
enum { PROFILE_LABELS_MAX = 16 };
size_t profile_tag_label_list(const struct profile_process *process, tag_id tag,
			      const char *labels[PROFILE_LABELS_MAX]);
/* The same as one text: "phase=load tenant=acme"; "" for none. In the arena; NULL if out of memory. */
const char *profile_tag_labels(const struct profile_process *process, tag_id tag,
			       struct arena *arena);

/* How often threads of a slot entered a tag; one row for each such pair. */
struct profile_visits {
	tag_id tag;
	uint32_t slot;
	uint64_t count;
};
size_t profile_visits_count(const struct profile_process *process);
struct profile_visits profile_visits(const struct profile_process *process, size_t index);

#endif
