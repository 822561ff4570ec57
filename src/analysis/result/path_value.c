/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths in words: "cache+0x10 (app) > insert (cache.c:8) +0x8 x 3 > ... 40 blocks ... > grow (cache.c:20) [ns::Entry] +0x0". Offsets are those
 * of pointers, in what is named before them. Pure; any thread.
 */
#include "analysis/result/path_value.h"

#include <string.h>

#include "analysis/result/type_names.h"
#include "model/image/paths.h"
#include "util/cleanup.h"
#include "util/text/units.h"

const char *type_label(struct arena *arena, const struct profile_process *process, uint32_t type)
{
	AUTO(buffer_release) struct buffer text = BUFFER_INIT;
	const char *full = profile_type_name(process, type, arena);

	if (!full)
		return NULL;
	type_append(&text, span_of(full, strlen(full)));
	const char *shown = buffer_string(&text);

	return shown ? arena_strdup(arena, shown) : NULL;
}

static bool make_step(struct result *result, struct locations *locations,
		      const struct profile_process *p, size_t index, struct result_step *ret)
{
	struct profile_path_step step = profile_path_step(p, index);

	*ret = (struct result_step){ .blocks = step.blocks,
				     .offset = step.has_offset ? step.offset : UINT64_MAX };
	if (step.site) {
		ret->site = step.site->id.v;
		ret->name = stack_label(result, locations, p, step.site->node);
	}
	if (step.type != PROFILE_NO_TYPE)
		ret->type = type_label(&result->arena, p, step.type);
	return (ret->name || !step.site) && (ret->type || step.type == PROFILE_NO_TYPE);
}

static void append_step(struct buffer *out, const struct result_step *step)
{
	if (!step->name) {
		buffer_printf(out, " > ... %s blocks ...", units_count(step->blocks).text);
		return;
	}
	buffer_printf(out, " > %s", step->name);
	if (step->type)
		buffer_printf(out, " [%s]", step->type);
	if (step->offset != UINT64_MAX)
		buffer_printf(out, " +0x%llx", (unsigned long long)step->offset);
	if (step->blocks > 1)
		buffer_printf(out, " x %s", units_count(step->blocks).text);
}

bool path_value(struct result *result, struct locations *locations, const struct profile_process *p,
		site_id site, struct result_value *ret_root, struct result_value *ret_path)
{
	struct profile_path path = profile_site_path(p, site);
	AUTO(buffer_release) struct buffer text = BUFFER_INIT;

	*ret_root = *ret_path = value_unknown();
	if (!path.root)
		return true;
	struct result_step *steps = ARENA_ARRAY(&result->arena, struct result_step, path.count + 1);
	const char *root = profile_root_name(p, &path, false, &result->arena);
	const char *with_offset = profile_root_name(p, &path, true, &result->arena);

	if (!steps || !root || !with_offset)
		return false;
	steps[0] = (struct result_step){ .name = root,
					 .offset = path.has_offset ? path.offset : UINT64_MAX };
	buffer_text(&text, with_offset);
	for (size_t i = 0; i < path.count; i++) {
		if (!make_step(result, locations, p, path.first + i, &steps[i + 1]))
			return false;
		append_step(&text, &steps[i + 1]);
	}
	const char *words = buffer_string(&text);
	const char *kept = words ? arena_strdup(&result->arena, words) : NULL;

	*ret_root = value_text(path.is_named ? root : NULL);
	*ret_path = (struct result_value){ .unit = UNIT_PATH,
					   .path = { steps, path.count + 1, kept, NULL } };
	return kept;
}

bool site_type_value(struct result *result, const struct profile_process *p, site_id site,
		     struct result_value *ret)
{
	struct profile_type_cursor at = { 0 };
	struct profile_site_type type, most = { 0 };
	bool has_one = false;

	*ret = value_unknown();
	while (profile_site_type_next(p, site, &at, &type)) {
		if (!has_one || type.bytes > most.bytes)
			most = type;
		has_one = true;
	}
	if (has_one)
		*ret = value_text(type_label(&result->arena, p, most.type));
	return !has_one || ret->text;
}
