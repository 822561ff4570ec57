/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows about tags, in the model's own words. Ids were checked by build.c and by the decoder: a parent has a lower number
 * than its child, so that every walk to the root ends.
 */
#include "model/tags.h"

#include <string.h>

#include "base/compiler.h"
#include "format/rows.h"

enum { PATH_BYTES = 1024 };

const char *profile_tag_kind_name(enum profile_tag_kind kind)
{
	static const char *const names[PROFILE_TAG_KINDS] = {
		[PROFILE_TAG_SCOPE] = "scope", [PROFILE_TAG_POOL] = "pool"
	};

	return names[kind];
}

size_t profile_tag_count(const struct profile_process *p)
{
	return p->rows->tag_count;
}

struct profile_tag profile_tag(const struct profile_process *p, tag_id tag)
{
	ASSERT(tag.v > 0 && tag.v < p->rows->tag_count);
	const struct tag_row *row = &p->rows->tags[tag.v];

	return (struct profile_tag){ { row->parent },
				     (enum profile_tag_kind)row->kind,
				     row->text ? row->text : "",
				     row->pools,
				     row->most_bytes };
}

const char *profile_tag_pool(const struct profile_process *p, tag_id tag)
{
	struct profile_tag t = { 0 };

	if (tag.v != 0)
		t = profile_tag(p, tag);
	return t.kind == PROFILE_TAG_POOL ? t.name : "";
}

const char *profile_tag_path(const struct profile_process *p, tag_id tag, struct arena *arena)
{
	char path[PATH_BYTES + 1];
	size_t at = PATH_BYTES;

	path[at] = '\0';
	if (tag.v != 0 && profile_tag(p, tag).kind == PROFILE_TAG_POOL)
		tag = profile_tag(p, tag).parent;
	while (tag.v != 0) {
		struct profile_tag t = profile_tag(p, tag);
		size_t length = strlen(t.name), slash = at < PATH_BYTES;

		if (length + slash > at)
			return arena_printf(arena, ".../%s", path + at);
		if (slash)
			path[--at] = '/';
		at -= length;
		memcpy(path + at, t.name, length);
		tag = t.parent;
	}
	return arena_strdup(arena, path + at);
}

size_t profile_visits_count(const struct profile_process *p)
{
	return p->rows->visits_count;
}

struct profile_visits profile_visits(const struct profile_process *p, size_t index)
{
	ASSERT(index < p->rows->visits_count);
	const struct visits_row *row = &p->rows->visits[index];

	return (struct profile_visits){ { row->tag }, row->slot, row->count };
}
