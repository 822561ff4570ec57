/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the profile, which knows frames as (module, offset), and the symbolizer, which knows files.
 *
 * A frame is never left out: what has no name is shown by its place, a mark by its words. Strings
 * that are made here ("libfoo.so+0x1c30") live in the arena of the result that asked.
 */
#include "model/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "symbols/symbolizer.h"
#include "util/files.h"
#include "util/vector.h"

/* The symbolizer's ids of one process' modules; v 0: not asked yet. */
struct module_ids {
	const struct profile_process *process;
	symbol_module_id *at;
};

struct names {
	struct symbolizer *symbolizer; /* NULL: no symbols wanted */
	VECTOR(struct module_ids) processes;
	size_t last; /* the process asked for last: mostly the same again */
};

struct names *names_new(bool use_symbols)
{
	struct names *names = calloc(1, sizeof *names);

	if (!names)
		return NULL;
	if (use_symbols) {
		names->symbolizer = symbolizer_new();
		if (!names->symbolizer) {
			free(names);
			return NULL;
		}
	}
	return names;
}

void names_free(struct names *names)
{
	if (!names)
		return;
	for (size_t i = 0; i < names->processes.count; i++)
		free(names->processes.at[i].at);
	vector_release(&names->processes);
	symbolizer_free(names->symbolizer);
	free(names);
}

static symbol_module_id *module_ids(struct names *names, const struct profile_process *p)
{
	if (names->last < names->processes.count && names->processes.at[names->last].process == p)
		return names->processes.at[names->last].at;
	for (size_t i = 0; i < names->processes.count; i++)
		if (names->processes.at[i].process == p) {
			names->last = i;
			return names->processes.at[i].at;
		}
	struct module_ids ids = { p, calloc(p->module_count, sizeof *ids.at) };

	if (!ids.at || !vector_push(&names->processes, ids)) {
		free(ids.at);
		return NULL;
	}
	names->last = names->processes.count - 1;
	return ids.at;
}

/* The module's id, 0 (which names nothing) if out of memory. */
static symbol_module_id module_of(struct names *names, const struct profile_process *p,
				  module_id module)
{
	symbol_module_id *ids = module_ids(names, p);
	const struct profile_module *m = &p->modules[module.v];

	if (!ids)
		return (symbol_module_id){ 0 };
	if (ids[module.v].v == 0)
		ids[module.v] = symbolizer_module(names->symbolizer, m->path, m->build_id);
	return ids[module.v];
}

typedef VECTOR(struct named_frame) frame_vector;

static const char *place_name(const struct profile_frame *frame, const char *path,
			      struct arena *arena)
{
	if (frame->module.v == 0)
		return arena_printf(arena, "0x%llx", (unsigned long long)frame->offset);
	return arena_printf(arena, "%s+0x%llx", path[0] ? path_base(path) : "[unknown module]",
			    (unsigned long long)frame->offset);
}

static bool push_frame(struct names *names, const struct profile_process *p,
		       const struct profile_frame *frame, struct arena *arena, frame_vector *out)
{
	struct named_frame base = { .module = "", .function = profile_mark_text(frame->mark) };

	if (frame->mark != MARK_NONE)
		return vector_push(out, base);
	const struct profile_module *m = &p->modules[frame->module.v];

	base.module = m->path;
	base.offset = frame->offset;
	base.address_exact = frame->exact;
	base.function = NULL;
	if (!names->symbolizer || frame->module.v == 0) {
		base.function = place_name(frame, m->path, arena);
		return base.function && vector_push(out, base);
	}
	symbol_module_id id = module_of(names, p, frame->module);
	struct symbol_list list =
		symbolizer_find(names->symbolizer, id, frame->offset, frame->exact);

	for (size_t i = 0; i < list.count; i++) {
		const struct symbol_frame *s = &list.at[i];
		struct named_frame f = base;

		f.function = s->function ? s->function : place_name(frame, m->path, arena);
		f.named = s->function != NULL;
		f.file = s->file;
		f.line = s->line;
		f.inlined = s->inlined;
		if (!f.function || !vector_push(out, f))
			return false;
	}
	return true;
}

int names_stack(struct names *names, const struct profile_process *p, node_id node,
		struct arena *arena, struct named_stack *ret)
{
	struct profile_frame *frames;
	ptrdiff_t count = profile_stack(p, node, arena, &frames);
	frame_vector out = { 0 };
	bool done = count >= 0;

	for (ptrdiff_t i = 0; done && i < count; i++)
		done = push_frame(names, p, &frames[i], arena, &out);
	const struct named_frame *kept =
		done ? arena_copy(arena, out.at, out.count * sizeof *out.at) : NULL;

	ret->count = out.count;
	ret->at = kept;
	vector_release(&out);
	return kept ? 0 : -1;
}

static const char *note_text(const struct symbol_module_state *m, struct arena *arena)
{
	const char *shows = m->unnamed == 1 ? "frame shows" : "frames show";
	const char *base = path_base(m->path);

	switch (m->source) {
	case SYMBOLS_MISSING:
		return arena_printf(arena, "%s as %s+0x...: %s cannot be read", shows, base,
				    m->path);
	case SYMBOLS_CHANGED:
		return arena_printf(arena, "%s as %s+0x...: the file changed since it was recorded",
				    shows, base);
	default:
		return arena_printf(arena, "%s as %s+0x...: no debug information", shows, base);
	}
}

int names_notes(const struct names *names, struct arena *arena, struct profile_notes *ret)
{
	size_t modules = names->symbolizer ? symbolizer_module_count(names->symbolizer) : 0;
	struct profile_note *notes = ARENA_ARRAY(arena, struct profile_note, modules);
	size_t count = 0;

	if (!notes)
		return -1;
	for (uint32_t i = 1; i <= modules; i++) {
		struct symbol_module_state m =
			symbolizer_module_state(names->symbolizer, (symbol_module_id){ i });

		if (!m.unnamed || !m.path[0])
			continue;
		notes[count] =
			(struct profile_note){ "unnamed_frames", note_text(&m, arena), m.unnamed };
		if (!notes[count++].text)
			return -1;
	}
	*ret = (struct profile_notes){ notes, count };
	return 0;
}
