/* SPDX-License-Identifier: Apache-2.0 */
/* See fold.h. One pass over the nodes of a process that has Python functions.
 *
 * Invariant: fold[i] <= i, and fold[fold[i]] == fold[i]. */
#include "model/fold.h"

#include <stdlib.h>
#include <string.h>

#include "format/live/live_codes.h"
#include "format/recording/rows.h"
#include "util/cleanup.h"
#include "util/files.h"

enum part { PART_OTHER, PART_INTERPRETER, PART_PYTHON };

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

/* A module is a source file if that is what its functions are said to be in. False: there is none. */
static bool find_sources(const struct process_rows *rows, enum part *parts)
{
	bool some = false;

	for (size_t i = 0; i < rows->name_count; i++) {
		const struct name_row *n = &rows->names[i];
		uint32_t module = live_frame_module(rows->frames[n->frame]);

		if (module == 0 || parts[module] == PART_PYTHON || n->file == 0 ||
		    strcmp(rows->texts + n->file, rows->modules[module].path) != 0)
			continue;
		parts[module] = PART_PYTHON;
		some = true;
	}
	return some;
}

int fold_build(struct profile_process *p, struct arena *arena)
{
	const struct process_rows *rows = p->rows;
	AUTO_FREE enum part *parts = calloc(rows->module_count + 1, sizeof *parts);
	AUTO_FREE bool *inside = calloc(rows->node_count + 1, sizeof *inside);

	if (!parts || !inside)
		return -1;
	if (!find_sources(rows, parts) || rows->node_count == 0)
		return 0;
	uint32_t *fold = ARENA_ARRAY(arena, uint32_t, rows->node_count);

	if (!fold)
		return -1;
	for (size_t i = 1; i < rows->module_count; i++)
		if (parts[i] == PART_OTHER && is_interpreter(rows->modules[i].path))
			parts[i] = PART_INTERPRETER;
	for (uint32_t i = 1; i < rows->node_count; i++) {
		uint32_t parent = rows->nodes[i].parent;
		struct profile_frame frame =
			profile_frame_at(p, (frame_id){ rows->nodes[i].frame });
		enum part part = frame.mark == MARK_NONE ? parts[frame.module.v] : PART_OTHER;

		inside[i] = inside[parent] || part == PART_PYTHON;
		fold[i] = inside[parent] && part == PART_INTERPRETER ? fold[parent] : i;
	}
	p->fold = fold;
	return 0;
}
