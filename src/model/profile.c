/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Derived data of a profile, computed on demand: stacks as lists of frames, and the names of its
 * kinds.
 *
 * build.c checked the rows: parents come before children, so a walk to the root terminates after at
 * most as many steps as there are nodes.
 */
#include "model/profile.h"

#include "model/frames/fold.h"

#include "base/compiler.h"
#include "format/recording/rows.h"

const char *profile_kind_name(enum profile_kind kind)
{
	static const char *const names[PROFILE_KINDS] = { "heap", "mmap", "pool" };

	ASSERT(kind < PROFILE_KINDS);
	return names[kind];
}

const char *profile_end_name(enum profile_end end)
{
	static const char *const names[] = { "running", "exit", "signal",
					     "killed",	"exec", "unknown" };

	ASSERT((size_t)end < ARRAY_SIZE(names));
	return names[end];
}

bool profile_end_leaks(enum profile_end end)
{
	return end != PROFILE_RUNNING && end != PROFILE_BECAME;
}

bool profile_end_has_code(enum profile_end end)
{
	return end == PROFILE_EXITED || end == PROFILE_SIGNALLED || end == PROFILE_KILLED;
}

static enum profile_mark mark_of(uint64_t offset)
{
	switch (offset) {
	case LIVE_FRAME_CUT:
		return MARK_CUT;
	case LIVE_FRAME_STOPPED:
		return MARK_STOPPED;
	case LIVE_FRAME_OTHER:
		return MARK_OTHER;
	case LIVE_FRAME_STACK_OFF:
		return MARK_STACK_OFF;
	default:
		return MARK_NONE; /* an address outside of any module */
	}
}

struct profile_frame profile_frame_at(const struct profile_process *p, frame_id id)
{
	uint32_t index = id.v;

	if (index >= p->rows->frame_count)
		return (struct profile_frame){ .mark = MARK_DAMAGED };
	uint64_t word = p->rows->frames[index];
	struct profile_frame frame = {
		.id = { index },
		.module = { live_frame_module(word) },
		.offset = live_frame_offset(word),
		.exact = live_frame_exact(word),
	};

	if (frame.module.v >= p->module_count)
		return (struct profile_frame){ .mark = MARK_DAMAGED };
	if (frame.module.v == 0)
		frame.mark = mark_of(frame.offset);
	return frame;
}

ptrdiff_t profile_stack(const struct profile_process *p, node_id node, struct arena *arena,
			struct profile_frame **ret)
{
	const struct node_row *nodes = p->rows->nodes;
	size_t count = 0, at = 0;

	for (uint32_t n = node.v; n != 0; n = fold_node(p, nodes[n].parent))
		count++;
	struct profile_frame *frames = ARENA_ARRAY(arena, struct profile_frame, count);

	if (!frames)
		return -1;
	for (uint32_t n = node.v; n != 0; n = fold_node(p, nodes[n].parent))
		frames[at++] = profile_frame_at(p, (frame_id){ nodes[n].frame });
	ASSERT(at == count);
	*ret = frames;
	return (ptrdiff_t)count;
}

struct profile_frame profile_innermost(const struct profile_process *p, node_id node)
{
	ASSERT(node.v == 0 || node.v < p->rows->node_count);
	return node.v ? profile_frame_at(p, (frame_id){ p->rows->nodes[node.v].frame })
		      : (struct profile_frame){ 0 };
}

node_id profile_parent(const struct profile_process *p, node_id node)
{
	ASSERT(node.v == 0 || node.v < p->rows->node_count);
	return (node_id){ node.v ? fold_node(p, p->rows->nodes[node.v].parent) : 0 };
}
