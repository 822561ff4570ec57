/* SPDX-License-Identifier: Apache-2.0 */
/* See fold.h. A few passes over the nodes.
 *
 * Invariant: fold[i] <= i, and fold[fold[i]] == fold[i]. */
#include "model/fold.h"

#include <stdlib.h>
#include <string.h>

#include "format/live/live_codes.h"
#include "format/recording/rows.h"
#include "util/cleanup.h"
#include "util/files.h"

enum part { PART_OTHER, PART_INTERPRETER, PART_PYTHON, PART_RECORDER };

/* "python3", "python3.12", "libpython3.12.so.1.0"; not "python3-config". */
static bool is_interpreter(const char *path)
{
	const char *name = path_base(path);

	if (strncmp(name, "libpython", 9) == 0)
		return true;
	if (strncmp(name, "python", 6) != 0)
		return false;
	name += 6;
	return name[strspn(name, "0123456789.td")] == '\0';
}

/* Its functions are on the stack where a wrapped allocator calls malloc. */
static bool is_recorder(const char *path)
{
	return strncmp(path_base(path), "libheapgauge", 12) == 0;
}

/* A module is a source file if that is what its functions are said to be in. */
static void find_sources(const struct process_rows *rows, enum part *parts)
{
	for (size_t i = 0; i < rows->name_count; i++) {
		const struct name_row *n = &rows->names[i];
		uint32_t module = live_frame_module(rows->frames[n->frame]);

		if (module == 0 || parts[module] == PART_PYTHON || n->file == 0 ||
		    strcmp(rows->texts + n->file, rows->modules[module].path) != 0)
			continue;
		parts[module] = PART_PYTHON;
	}
}

static void classify_modules(const struct process_rows *rows, enum part *parts)
{
	find_sources(rows, parts);
	for (size_t i = 1; i < rows->module_count; i++) {
		if (parts[i] != PART_OTHER)
			continue;
		if (is_interpreter(rows->modules[i].path))
			parts[i] = PART_INTERPRETER;
		else if (is_recorder(rows->modules[i].path))
			parts[i] = PART_RECORDER;
	}
}

/* False: no node can be left out. */
static bool classify_nodes(const struct profile_process *p, const enum part *parts, uint8_t *ret)
{
	const struct process_rows *rows = p->rows;
	bool some = false;

	for (uint32_t i = 1; i < rows->node_count; i++) {
		struct profile_frame frame =
			profile_frame_at(p, (frame_id){ rows->nodes[i].frame });

		ret[i] = frame.mark == MARK_NONE ? (uint8_t)parts[frame.module.v] : PART_OTHER;
		some |= ret[i] == PART_PYTHON || ret[i] == PART_RECORDER;
	}
	return some;
}

/* Which nodes have a Python function further in, and are no place of an allocation themselves. */
static void find_ways_in(const struct process_rows *rows, const uint8_t *part_of, bool *ret)
{
	for (size_t i = rows->node_count; i-- > 1;)
		ret[rows->nodes[i].parent] |= ret[i] || part_of[i] == PART_PYTHON;
	for (size_t i = 0; i < rows->site_count; i++)
		ret[rows->sites[i].node] = false;
}

int fold_build(struct profile_process *p, struct arena *arena)
{
	const struct process_rows *rows = p->rows;
	AUTO_FREE enum part *parts = calloc(rows->module_count + 1, sizeof *parts);
	AUTO_FREE uint8_t *part_of = calloc(rows->node_count + 1, sizeof *part_of);
	AUTO_FREE bool *inside = calloc(rows->node_count + 1, sizeof *inside);
	AUTO_FREE bool *way_in = calloc(rows->node_count + 1, sizeof *way_in);

	if (!parts || !part_of || !inside || !way_in)
		return -1;
	classify_modules(rows, parts);
	if (!classify_nodes(p, parts, part_of))
		return 0;
	uint32_t *fold = ARENA_ARRAY(arena, uint32_t, rows->node_count);

	if (!fold)
		return -1;
	find_ways_in(rows, part_of, way_in);
	fold[0] = 0;
	for (uint32_t i = 1; i < rows->node_count; i++) {
		uint32_t parent = rows->nodes[i].parent;

		inside[i] = inside[parent] || part_of[i] == PART_PYTHON;
		bool hidden = part_of[i] == PART_RECORDER ||
			      (part_of[i] == PART_INTERPRETER && (inside[parent] || way_in[i]));

		fold[i] = hidden ? fold[parent] : i;
	}
	p->fold = fold;
	return 0;
}
