/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts the rows about tags to types of the model. build.c and the decoder checked the ids: a parent has a lower number
 * than its child, so every walk to the root terminates.
 */
#include "model/tags.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "format/recording/rows.h"

enum { PATH_BYTES = 1024 };

const char *profile_tag_kind_name(enum profile_tag_kind kind)
{
	static const char *const names[PROFILE_TAG_KINDS] = {
		[PROFILE_TAG_SCOPE] = "scope",
		[PROFILE_TAG_POOL] = "pool",
		[PROFILE_TAG_LABEL] = "label",
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

static int compare_texts(const void *left, const void *right)
{
	return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static bool has_key_of(const char *const *labels, size_t count, const char *label)
{
	size_t key = strcspn(label, "=");

	for (size_t i = 0; i < count; i++)
		if (strncmp(labels[i], label, key) == 0 && labels[i][key] == label[key])
			return true;
	return false;
}

size_t profile_tag_label_list(const struct profile_process *p, tag_id tag,
			      const char *labels[PROFILE_LABELS_MAX])
{
	size_t count = 0, kept = 0;

	for (; tag.v != 0 && count < PROFILE_LABELS_MAX; tag = profile_tag(p, tag).parent) {
		struct profile_tag t = profile_tag(p, tag);

		if (t.kind == PROFILE_TAG_LABEL && !has_key_of(labels, count, t.name))
			labels[count++] = t.name;
	}
	for (size_t i = 0; i < count; i++) {
		const char *value = strchr(labels[i], '=');

		if (value && value[1]) /* else the label was removed */
			labels[kept++] = labels[i];
	}
	if (kept > 1)
		qsort(labels, kept, sizeof *labels, compare_texts);
	return kept;
}

const char *profile_tag_labels(const struct profile_process *p, tag_id tag, struct arena *arena)
{
	const char *labels[PROFILE_LABELS_MAX], *text = "";
	size_t count = profile_tag_label_list(p, tag, labels);

	for (size_t i = 0; i < count && text; i++)
		text = arena_printf(arena, "%s%s%s", text, i ? " " : "", labels[i]);
	return text;
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
