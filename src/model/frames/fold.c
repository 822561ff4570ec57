/* SPDX-License-Identifier: Apache-2.0 */
/* See fold.h. Each rule is one pass over the nodes that the previous one left.
 *
 * Invariant: fold[i] <= i, fold[fold[i]] == fold[i], and an omitted node has the fold of its parent. */
#include "model/frames/fold.h"

#include <stdlib.h>
#include <string.h>

#include "format/live/live_codes.h"
#include "model/frames/own_code.h"
#include "util/cleanup.h"
#include "util/files.h"

/* What a node belongs to. Modules are native unless known otherwise; a sentinel frame has no module. */
enum part {
	PART_NATIVE = 1,
	PART_INTERPRETER = 2,
	PART_PYTHON = 4,
	PART_IMPORT = 8, /* Python's own functions that import modules */
	PART_RECORDER = 16,
	PART_MARK = 32,
};
#define ALL_PYTHON (PART_PYTHON | PART_IMPORT)

struct folding {
	const struct process_rows *rows;
	uint8_t *part_of; /* by node: enum part */
	bool *inside, *way_in;
	uint32_t *fold;
};

/* The recorder is on the stack where a wrapped allocator calls malloc. */
static bool is_recorder(const char *path)
{
	return strncmp(path_base(path), "libheapgauge", 12) == 0;
}

static bool is_import(const char *path)
{
	static const char package[] = "/importlib/__init__.py";
	size_t length = strlen(path);

	if (strcmp(path, "<frozen importlib._bootstrap>") == 0 ||
	    strcmp(path, "<frozen importlib._bootstrap_external>") == 0)
		return true;
	return length >= sizeof package - 1 &&
	       strcmp(path + length - (sizeof package - 1), package) == 0;
}

bool fold_is_python(const struct process_rows *rows, const struct name_row *n)
{
	uint32_t module = live_frame_module(rows->frames[n->frame]);

	return module != 0 && module < rows->module_count && n->file != 0 &&
	       strcmp(rows->texts + n->file, rows->modules[module].path) == 0;
}

/* A module is a Python source file if its functions are said to be in a file of that path. */
static void find_sources(const struct process_rows *rows, uint8_t *parts)
{
	for (size_t i = 0; i < rows->name_count; i++) {
		const struct name_row *n = &rows->names[i];
		uint32_t module = live_frame_module(rows->frames[n->frame]);

		if (module < rows->module_count && parts[module] == PART_NATIVE &&
		    fold_is_python(rows, n))
			parts[module] =
				is_import(rows->modules[module].path) ? PART_IMPORT : PART_PYTHON;
	}
}

static void classify_modules(const struct process_rows *rows, uint8_t *parts)
{
	memset(parts, PART_NATIVE, rows->module_count + 1);
	find_sources(rows, parts);
	for (size_t i = 1; i < rows->module_count; i++) {
		if (parts[i] != PART_NATIVE)
			continue;
		if (is_python_interpreter(rows->modules[i].path))
			parts[i] = PART_INTERPRETER;
		else if (is_recorder(rows->modules[i].path))
			parts[i] = PART_RECORDER;
	}
}

/* Frames first: there are far fewer of them than nodes. Sets *ret_parts to those that occur. */
static int classify_nodes(const struct profile_process *p, const uint8_t *parts, uint8_t *ret,
			  unsigned *ret_parts)
{
	const struct process_rows *rows = p->rows;
	AUTO_FREE uint8_t *frames = calloc(rows->frame_count + 1, sizeof *frames);
	unsigned all = 0;

	if (!frames)
		return -1;
	for (uint32_t i = 0; i < rows->frame_count; i++) {
		struct profile_frame frame = profile_frame_at(p, (frame_id){ i });

		frames[i] = frame.mark == MARK_NONE ? parts[frame.module.v] : PART_MARK;
	}
	for (uint32_t i = 1; i < rows->node_count; i++) {
		uint32_t frame = rows->nodes[i].frame;

		ret[i] = frame < rows->frame_count ? frames[frame] : PART_MARK;
		all |= ret[i];
	}
	*ret_parts = all;
	return 0;
}

/* Finds the remaining nodes that lead to one of these parts further in and are not an allocation site themselves. */
static void find_ways_in(struct folding *f, unsigned to)
{
	const struct process_rows *rows = f->rows;

	memset(f->way_in, 0, rows->node_count);
	for (size_t i = rows->node_count; i-- > 1;)
		if (f->fold[i] == i)
			f->way_in[f->fold[rows->nodes[i].parent]] |=
				f->way_in[i] || (f->part_of[i] & to);
	for (size_t i = 0; i < rows->site_count; i++)
		f->way_in[f->fold[rows->sites[i].node]] = false;
}

/* Omits the nodes of `hidden` parts that are inside of a `shown` one or lead to one. */
static void leave_out(struct folding *f, unsigned hidden, unsigned shown)
{
	const struct process_rows *rows = f->rows;

	find_ways_in(f, shown);
	for (uint32_t i = 1; i < rows->node_count; i++) {
		uint32_t parent = rows->nodes[i].parent;

		bool goes = (f->part_of[i] & hidden) && (f->inside[parent] || f->way_in[i]);

		if (f->fold[i] != i || goes)
			f->fold[i] = f->fold[parent];
		/* A node that an earlier pass omitted does not count as shown. */
		f->inside[i] = f->inside[parent] || (f->fold[i] == i && (f->part_of[i] & shown));
	}
}

static void leave_out_recorder(struct folding *f)
{
	f->fold[0] = 0;
	for (uint32_t i = 1; i < f->rows->node_count; i++)
		f->fold[i] = f->part_of[i] == PART_RECORDER ? f->fold[f->rows->nodes[i].parent] : i;
}

int fold_build(struct profile_process *p, struct fold_options options, struct arena *arena)
{
	const struct process_rows *rows = p->rows;
	AUTO_FREE uint8_t *parts = calloc(rows->module_count + 1, sizeof *parts);
	AUTO_FREE uint8_t *part_of = calloc(rows->node_count + 1, sizeof *part_of);
	AUTO_FREE bool *inside = calloc(rows->node_count + 1, sizeof *inside);
	AUTO_FREE bool *way_in = calloc(rows->node_count + 1, sizeof *way_in);
	struct folding f = { rows, part_of, inside, way_in, NULL };
	unsigned all = 0;

	if (!parts || !part_of || !inside || !way_in)
		return -1;
	classify_modules(rows, parts);
	if (classify_nodes(p, parts, part_of, &all) < 0)
		return -1;
	if (!(all & (ALL_PYTHON | PART_RECORDER)))
		return 0; /* no node can be omitted */
	f.fold = ARENA_ARRAY(arena, uint32_t, rows->node_count);
	if (!f.fold)
		return -1;
	leave_out_recorder(&f);
	p->fold = f.fold;
	if (!(all & ALL_PYTHON))
		return 0; /* the other rules omit nodes around those */
	if (options.frames != FRAMES_ALL)
		leave_out(&f, PART_INTERPRETER, ALL_PYTHON);
	if (options.imports)
		leave_out(&f, PART_IMPORT, PART_PYTHON);
	if (options.frames == FRAMES_PYTHON)
		leave_out(&f, PART_NATIVE | PART_INTERPRETER, ALL_PYTHON);
	return 0;
}
