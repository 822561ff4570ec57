/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules, frames, stack nodes and sites. These are the largest tables of a program with many stacks, so each is stored as residuals to
 * a prediction from the previous tables:
 *   frame  its offset is close to that of the last frame of the same module
 *   node   its parent is the previous node (a new stack is a chain), its frame was recently called from the same frame
 *   site   its node is the next leaf of the trie
 * Row 0 of modules, nodes and sites is fixed and not stored. Pure functions; any thread.
 * Invariant after reading: frame.module < modules, node.parent < node, node.frame < frames, site.node < nodes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/varint.h"
#include "format/recording/chunks.h"

uint64_t residual_put(uint64_t value, uint64_t predicted)
{
	return zigzag_encode((int64_t)(value - predicted));
}

uint64_t residual_get(uint64_t residual, uint64_t predicted)
{
	return predicted + (uint64_t)zigzag_decode(residual);
}

/* doc: chunk_modules */
struct module_columns {
	uint64_t start, bytes, bias_gap, mapped_ns, unmapped_ns;
	uint32_t build_id_bytes;
};
static const struct field module_fields[] = {
	FIELD(struct module_columns, start),	   FIELD(struct module_columns, bytes),
	FIELD(struct module_columns, bias_gap),	   FIELD(struct module_columns, mapped_ns),
	FIELD(struct module_columns, unmapped_ns), FIELD(struct module_columns, build_id_bytes),
};

void chunk_modules_put(struct payload *out, const struct process_rows *rows)
{
	size_t count = rows->module_count > 0 ? rows->module_count - 1 : 0;
	struct module_columns *columns = columns_new(out, count, sizeof *columns);

	for (size_t i = 0; columns && i < count; i++) {
		const struct module_row *row = &rows->modules[i + 1];

		columns[i] = (struct module_columns){
			.start = row->start,
			.bytes = row->end - row->start,
			.bias_gap = residual_put(row->start, row->bias),
			.mapped_ns = row->mapped_ns,
			.unmapped_ns = row->unmapped_ns,
			.build_id_bytes = row->build_id_bytes,
		};
	}
	table_put(out, TABLE_SHAPE(struct module_columns, module_fields), columns, count);
	payload_cost(out, count + 1, sizeof *rows->modules);
	for (size_t i = 1; i <= count; i++) {
		bytes_put_text(&out->bytes, rows->modules[i].path);
		bytes_put(&out->bytes, rows->modules[i].build_id, rows->modules[i].build_id_bytes);
	}
	free(columns);
}

static void get_module(struct source *in, const struct module_columns *columns,
		       struct module_row *row)
{
	*row = (struct module_row){
		.path = source_text(in),
		.start = columns->start,
		.end = columns->start + columns->bytes,
		.bias = columns->start - (uint64_t)zigzag_decode(columns->bias_gap),
		.mapped_ns = columns->mapped_ns,
		.unmapped_ns = columns->unmapped_ns,
		.build_id_bytes = columns->build_id_bytes,
	};
	if (row->build_id_bytes > sizeof row->build_id || row->end < row->start)
		cursor_fail(&in->cursor);
	else
		cursor_copy(&in->cursor, row->build_id, row->build_id_bytes);
}

void chunk_modules_get(struct source *in, struct process_rows *rows)
{
	size_t count;
	struct module_columns *columns =
		table_get(in, TABLE_SHAPE(struct module_columns, module_fields), &count);

	rows->modules = source_alloc(in, count + 1, sizeof *rows->modules);
	if (rows->modules) {
		rows->module_count = count + 1;
		rows->modules[0].path = calloc(1, 1);
		if (!rows->modules[0].path)
			cursor_fail(&in->cursor);
	}
	for (size_t i = 0; rows->modules && i < count && !in->cursor.failed; i++)
		get_module(in, &columns[i], &rows->modules[i + 1]);
	free(columns);
}

/* doc: chunk_frames */
struct frame_columns {
	uint32_t module, exact;
	uint64_t offset;
};
static const struct field frame_fields[] = {
	FIELD(struct frame_columns, module),
	FIELD(struct frame_columns, exact),
	FIELD(struct frame_columns, offset),
};

static uint32_t last_module(const struct process_rows *rows)
{
	uint32_t last = 0;

	for (size_t i = 0; i < rows->frame_count; i++)
		last = MAX(last, live_frame_module(rows->frames[i]));
	return last;
}

void chunk_frames_put(struct payload *out, const struct process_rows *rows)
{
	size_t count = rows->frame_count;
	struct frame_columns *columns = columns_new(out, count, sizeof *columns);
	uint64_t *last = columns_new(out, last_module(rows), sizeof *last);

	for (size_t i = 0; i < count && !out->bytes.failed; i++) {
		uint64_t frame = rows->frames[i];
		uint32_t module = live_frame_module(frame);
		uint64_t offset = live_frame_offset(frame);

		columns[i].module = module;
		columns[i].exact = (uint32_t)live_frame_exact(frame);
		columns[i].offset = residual_put(offset, last[module]);
		last[module] = offset;
	}
	table_put(out, TABLE_SHAPE(struct frame_columns, frame_fields), columns, count);
	payload_cost(out, count, sizeof *rows->frames);
	free(last);
	free(columns);
}

void chunk_frames_get(struct source *in, struct process_rows *rows)
{
	struct frame_columns *columns =
		table_get(in, TABLE_SHAPE(struct frame_columns, frame_fields), &rows->frame_count);
	uint64_t *last = calloc(rows->module_count + 1, sizeof *last);

	rows->frames = source_alloc(in, rows->frame_count, sizeof *rows->frames);
	if (!last)
		cursor_fail(&in->cursor);
	for (size_t i = 0; last && i < rows->frame_count && !in->cursor.failed; i++) {
		uint32_t module = columns[i].module;
		uint64_t offset;

		if (module >= rows->module_count || columns[i].exact > 1) {
			cursor_fail(&in->cursor);
			break;
		}
		offset = residual_get(columns[i].offset, last[module]);
		if (module > UINT16_MAX || offset >> 47 != 0)
			cursor_fail(&in->cursor);
		rows->frames[i] = live_frame_pack(module, offset, (int)columns[i].exact);
		last[module] = offset;
	}
	free(last);
	free(columns);
}

/* doc: chunk_nodes
 * For each frame the frames lately seen below it, newest first, as frame + 1. The root counts as one frame more. */
enum { RECENT_FRAMES = 8, CODE_NEW_FRAME = RECENT_FRAMES, CODE_ANY_FRAME };
struct recent {
	uint32_t frame[RECENT_FRAMES];
};
struct node_columns {
	uint64_t parent_gap; /* previous node minus parent */
	uint64_t frame;	     /* position in `recent`, CODE_NEW_FRAME, or CODE_ANY_FRAME + frame */
};
#define NODE_SHAPE U64_SHAPE(struct node_columns, sizeof(struct node_columns))

/* Returns the frame's position in the list, RECENT_FRAMES if it is not there; moves it to the front. */
static unsigned recent_touch(struct recent *recent, uint32_t frame)
{
	unsigned place = 0;

	while (place < RECENT_FRAMES && recent->frame[place] != frame + 1)
		place++;
	for (unsigned i = place < RECENT_FRAMES ? place : RECENT_FRAMES - 1; i > 0; i--)
		recent->frame[i] = recent->frame[i - 1];
	recent->frame[0] = frame + 1;
	return place;
}

static struct recent *recent_below(struct recent *recent, const struct process_rows *rows,
				   uint32_t parent)
{
	return &recent[parent == 0 ? rows->frame_count : rows->nodes[parent].frame];
}

void chunk_nodes_put(struct payload *out, const struct process_rows *rows)
{
	size_t count = rows->node_count > 0 ? rows->node_count - 1 : 0;
	struct node_columns *columns = columns_new(out, count, sizeof *columns);
	struct recent *recent = columns_new(out, rows->frame_count, sizeof *recent);
	uint32_t next_new = 0;

	for (size_t i = 0; i < count && !out->bytes.failed; i++) {
		const struct node_row *row = &rows->nodes[i + 1];
		unsigned place;

		ASSERT(row->parent <= i && row->frame < rows->frame_count);
		place = recent_touch(recent_below(recent, rows, row->parent), row->frame);
		columns[i].parent_gap = i - row->parent;
		if (place < RECENT_FRAMES)
			columns[i].frame = place;
		else if (row->frame == next_new)
			columns[i].frame = CODE_NEW_FRAME;
		else
			columns[i].frame = (uint64_t)CODE_ANY_FRAME + row->frame;
		next_new = MAX(next_new, row->frame + 1);
	}
	table_put(out, NODE_SHAPE, columns, count);
	payload_cost(out, count + 1, sizeof *rows->nodes);
	payload_cost(out, rows->frame_count + 1, sizeof *recent);
	free(recent);
	free(columns);
}

static bool get_node(const struct node_columns *columns, size_t index, struct process_rows *rows,
		     struct recent *recent, uint32_t *next_new)
{
	struct node_row *row = &rows->nodes[index];
	uint64_t frame = columns->frame;

	if (columns->parent_gap >= index)
		return false;
	row->parent = (uint32_t)(index - 1 - columns->parent_gap);
	recent = recent_below(recent, rows, row->parent);
	if (frame < RECENT_FRAMES)
		frame = (uint64_t)recent->frame[frame] -
			1; /* an empty entry wraps and is rejected below */
	else if (frame == CODE_NEW_FRAME)
		frame = *next_new;
	else
		frame -= CODE_ANY_FRAME;
	if (frame >= rows->frame_count)
		return false;
	row->frame = (uint32_t)frame;
	(void)recent_touch(recent, row->frame);
	*next_new = MAX(*next_new, row->frame + 1);
	return true;
}

void chunk_nodes_get(struct source *in, struct process_rows *rows)
{
	size_t count;
	struct node_columns *columns = table_get(in, NODE_SHAPE, &count);
	struct recent *recent = source_alloc(in, rows->frame_count + 1, sizeof *recent);
	uint32_t next_new = 0;

	rows->nodes = source_alloc(in, count + 1, sizeof *rows->nodes);
	for (size_t i = 0; i < count && !in->cursor.failed; i++) {
		if (!get_node(&columns[i], i + 1, rows, recent, &next_new))
			cursor_fail(&in->cursor);
	}
	free(recent);
	free(columns);
	rows->node_count = count + 1;
}

/* doc: chunk_sites */
struct site_columns {
	uint32_t inner; /* 1: the node is not a leaf of the trie, and `node` is its index */
	uint32_t tag, kind, entry;
	uint64_t node; /* else the residual to the leaf after the last one */
	uint64_t born_ns, interval;
};
static const struct field site_fields[] = {
	FIELD(struct site_columns, inner),   FIELD(struct site_columns, node),
	FIELD(struct site_columns, tag),     FIELD(struct site_columns, kind),
	FIELD(struct site_columns, born_ns), FIELD(struct site_columns, interval),
	FIELD(struct site_columns, entry),
};

#define NO_LEAF UINT32_MAX
/* The leaves of the trie in order, and the position of each node among them. Both have space for every node. */
struct leaves {
	uint32_t *node, *place;
	size_t count;
};

static bool leaves_init(struct leaves *leaves, const struct process_rows *rows)
{
	leaves->node = calloc(rows->node_count + 1, sizeof *leaves->node);
	leaves->place = calloc(rows->node_count + 1, sizeof *leaves->place);
	leaves->count = 0;
	if (!leaves->node || !leaves->place)
		return false;
	for (size_t i = 1; i < rows->node_count; i++)
		leaves->place[rows->nodes[i].parent] = NO_LEAF;
	for (size_t i = 0; i < rows->node_count; i++) {
		if (leaves->place[i] == NO_LEAF)
			continue;
		leaves->node[leaves->count] = (uint32_t)i;
		leaves->place[i] = (uint32_t)leaves->count++;
	}
	return true;
}

static void leaves_release(struct leaves *leaves)
{
	free(leaves->node);
	free(leaves->place);
}

void chunk_sites_put(struct payload *out, const struct process_rows *rows)
{
	size_t count = rows->site_count > 0 ? rows->site_count - 1 : 0;
	struct site_columns *columns = columns_new(out, count, sizeof *columns);
	struct leaves leaves;
	uint64_t next = 0;

	if (!leaves_init(&leaves, rows))
		out->bytes.failed = true;
	for (size_t i = 0; i < count && !out->bytes.failed; i++) {
		const struct site_row *row = &rows->sites[i + 1];
		uint32_t place;

		ASSERT(row->node < rows->node_count);
		place = leaves.place[row->node];
		columns[i] = (struct site_columns){
			.inner = place == NO_LEAF,
			.node = place == NO_LEAF ? row->node : residual_put(place, next),
			.tag = row->tag,
			.kind = row->kind,
			.entry = row->entry,
			.born_ns = row->born_ns,
			.interval = row->interval,
		};
		next = place == NO_LEAF ? next : (uint64_t)place + 1;
	}
	table_put(out, TABLE_SHAPE(struct site_columns, site_fields), columns, count);
	payload_cost(out, count + 1, sizeof *rows->sites);
	leaves_release(&leaves);
	free(columns);
}

static bool get_site(const struct site_columns *columns, const struct leaves *leaves,
		     uint64_t *next, size_t node_count, struct site_row *row)
{
	uint64_t node = columns->node;

	if (columns->inner > 1 || columns->kind >= LIVE_KINDS)
		return false;
	if (!columns->inner) {
		uint64_t place = residual_get(node, *next);

		if (place >= leaves->count)
			return false;
		node = leaves->node[place];
		*next = place + 1;
	}
	if (node >= node_count)
		return false;
	*row = (struct site_row){ .node = (uint32_t)node,
				  .tag = columns->tag,
				  .kind = columns->kind,
				  /* of a newer version: not known to this one */
				  .entry = columns->entry < LIVE_ENTRIES ? columns->entry
									 : LIVE_ENTRY_UNKNOWN,
				  .born_ns = columns->born_ns,
				  .interval = columns->interval };
	return true;
}

void chunk_sites_get(struct source *in, struct process_rows *rows)
{
	size_t count;
	struct site_columns *columns =
		table_get(in, TABLE_SHAPE(struct site_columns, site_fields), &count);
	struct leaves leaves;
	uint64_t next = 0;

	rows->sites = source_alloc(in, count + 1, sizeof *rows->sites);
	if (!leaves_init(&leaves, rows))
		cursor_fail(&in->cursor);
	for (size_t i = 0; i < count && !in->cursor.failed; i++) {
		if (!get_site(&columns[i], &leaves, &next, rows->node_count, &rows->sites[i + 1]))
			cursor_fail(&in->cursor);
	}
	leaves_release(&leaves);
	free(columns);
	rows->site_count = count + 1;
}
