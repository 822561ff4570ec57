/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frame of a process -> chain of places, made when first asked for.
 *
 * A place is never made twice for the same frame, and what its frame is called gets its numbers from
 * four small tables. Names come interned from model/names.h, so equal names are equal pointers and a
 * key is three of them.
 */
#include "analysis/result/places.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/result/runtime_frames.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/intern.h"
#include "util/vector.h"

/* What makes two places equal on an axis. */
struct place_group {
	const char *function, *file, *module;
	uint32_t line;
};

/* Groups in the order they were met, and an open hash of them. */
struct group_table {
	VECTOR(struct place_group) groups;
	VECTOR(const struct place *) examples;
	uint32_t *slots; /* number + 1; 0: free */
	size_t slot_count;
};

struct process_places {
	const struct profile_process *process;
	struct place_chain *chains; /* by frame id; at NULL: not asked yet */
};

struct places {
	struct arena arena;
	struct names *names;
	VECTOR(struct process_places) processes;
	size_t last; /* the process asked for last: mostly the same again */
	struct place_chain marks[MARK_DAMAGED + 1];
	struct group_table tables[AXIS_COUNT]; /* of the axes of frames */
	size_t count;
	bool by_base;
	struct intern bases;
};

struct places *places_new(struct names *names)
{
	struct places *places = calloc(1, sizeof *places);

	if (places)
		places->names = names;
	return places;
}

void places_free(struct places *places)
{
	if (!places)
		return;
	for (size_t i = 0; i < AXIS_COUNT; i++) {
		vector_release(&places->tables[i].groups);
		vector_release(&places->tables[i].examples);
		free(places->tables[i].slots);
	}
	vector_release(&places->processes);
	intern_release(&places->bases);
	arena_release(&places->arena);
	free(places);
}

struct names *places_names(struct places *places)
{
	return places->names;
}

void places_match_by_base(struct places *places)
{
	places->by_base = true;
}

/* "libfoo" of "/usr/lib/libfoo.so.1.2": a new version is the same library. */
static const char *module_key(struct places *places, const char *module)
{
	const char *base = path_base(module), *version = strstr(base, ".so");

	if (!places->by_base)
		return module;
	return intern_span(&places->bases,
			   span_of(base, version ? (size_t)(version - base) : strlen(base)));
}

static const char *file_key(struct places *places, const char *file)
{
	return places->by_base && file ? intern_text(&places->bases, path_base(file)) : file;
}

static size_t group_hash(const struct place_group *g)
{
	const uint64_t words[] = { (uintptr_t)g->function, (uintptr_t)g->file, (uintptr_t)g->module,
				   g->line };

	return (size_t)hash_bytes(words, sizeof words, 0);
}

static bool group_equal(const struct place_group *a, const struct place_group *b)
{
	return a->function == b->function && a->file == b->file && a->module == b->module &&
	       a->line == b->line;
}

static bool groups_grow(struct group_table *t)
{
	size_t wanted = t->slot_count ? t->slot_count * 2 : 256;
	uint32_t *slots = calloc(wanted, sizeof *slots);

	if (!slots)
		return false;
	for (size_t i = 0; i < t->groups.count; i++) {
		size_t at = group_hash(&t->groups.at[i]) & (wanted - 1);

		while (slots[at])
			at = (at + 1) & (wanted - 1);
		slots[at] = (uint32_t)i + 1;
	}
	free(t->slots);
	t->slots = slots;
	t->slot_count = wanted;
	return true;
}

static bool group_number(struct group_table *t, struct place_group group,
			 const struct place *example, uint32_t *ret)
{
	if (t->groups.count * 2 >= t->slot_count && !groups_grow(t))
		return false;
	size_t at = group_hash(&group) & (t->slot_count - 1);

	for (; t->slots[at]; at = (at + 1) & (t->slot_count - 1))
		if (group_equal(&t->groups.at[t->slots[at] - 1], &group)) {
			*ret = t->slots[at] - 1;
			return true;
		}
	if (!vector_push(&t->groups, group))
		return false;
	if (!vector_push(&t->examples, example)) {
		t->groups.count--;
		return false;
	}
	t->slots[at] = (uint32_t)t->groups.count;
	*ret = (uint32_t)t->groups.count - 1;
	return true;
}

static bool number_place(struct places *places, struct place *p)
{
	const struct result_frame *f = &p->frame;
	struct group_table *tables = places->tables;
	const char *module = module_key(places, f->module), *file = file_key(places, f->file);
	/* Two static functions of one name are two functions; but a renamed file is the same program. */
	const struct place_group function = { f->function, places->by_base ? NULL : file, module,
					      0 };
	const struct place_group line = file ? (struct place_group){ NULL, file, NULL, f->line }
					     : (struct place_group){ f->function, NULL, module, 0 };
	const struct place_group in_file = file ? (struct place_group){ NULL, file, NULL, 0 }
						: (struct place_group){ NULL, NULL, module, 0 };

	p->runtime_frame = p->frame.runtime_frame = is_runtime_frame(f);
	p->nameless = is_nameless(f);
	return module && (file || !f->file) &&
	       group_number(&tables[AXIS_FUNCTION], function, p, &p->function) &&
	       group_number(&tables[AXIS_LINE], line, p, &p->line) &&
	       group_number(&tables[AXIS_FILE], in_file, p, &p->file) &&
	       group_number(&tables[AXIS_MODULE], (struct place_group){ NULL, NULL, module, 0 }, p,
			    &p->module);
}

static struct place_chain make_chain(struct places *places, const struct profile_process *process,
				     struct profile_frame frame)
{
	const struct place_chain nothing = { NULL, 0 };
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	struct named_stack named;

	if (names_frame(places->names, process, frame, &scratch, &named) < 0)
		return nothing;
	struct place *list = ARENA_ARRAY(&places->arena, struct place, named.count);
	const struct place **pointers =
		ARENA_ARRAY(&places->arena, const struct place *, named.count);

	if (!list || !pointers)
		return nothing;
	for (size_t i = 0; i < named.count; i++) {
		const struct named_frame *f = &named.at[i];

		list[i].frame = (struct result_frame){
			.id = (uint32_t)places->count++,
			.function = f->function,
			.full = f->full ? f->full : f->function,
			.file = f->file,
			.line = f->line,
			.module = f->module,
			.offset = f->offset,
			.inlined = f->inlined,
			.address_exact = f->address_exact,
		};
		list[i].arguments = f->arguments;
		if (!number_place(places, &list[i]))
			return nothing;
		pointers[i] = &list[i];
	}
	return (struct place_chain){ pointers, named.count };
}

static struct process_places *places_process(struct places *places, const struct profile_process *p)
{
	if (places->last < places->processes.count &&
	    places->processes.at[places->last].process == p)
		return &places->processes.at[places->last];
	for (size_t i = 0; i < places->processes.count; i++)
		if (places->processes.at[i].process == p) {
			places->last = i;
			return &places->processes.at[i];
		}
	struct process_places added = {
		.process = p,
		.chains = ARENA_ARRAY(&places->arena, struct place_chain, p->frame_count),
	};

	if (!added.chains || !vector_push(&places->processes, added))
		return NULL;
	places->last = places->processes.count - 1;
	return &places->processes.at[places->last];
}

struct place_chain places_of(struct places *places, const struct profile_process *process,
			     node_id node)
{
	struct process_places *known = places_process(places, process);

	if (!known || node.v == 0)
		return (struct place_chain){ NULL, 0 };
	struct profile_frame frame = profile_node(process, node).frame;
	struct place_chain *kept =
		frame.mark == MARK_NONE ? &known->chains[frame.id.v] : &places->marks[frame.mark];

	if (!kept->at)
		*kept = make_chain(places, process, frame);
	return *kept;
}

int places_stack(struct places *places, const struct profile_process *process, node_id node,
		 struct arena *arena, struct place_chain *ret)
{
	size_t total = 0, at = 0;

	for (node_id n = node; n.v; n = profile_node(process, n).parent) {
		struct place_chain chain = places_of(places, process, n);

		if (!chain.at)
			return -1;
		total += chain.count;
	}
	const struct place **all = ARENA_ARRAY(arena, const struct place *, total);

	if (!all)
		return -1;
	for (node_id n = node; n.v; n = profile_node(process, n).parent) {
		struct place_chain chain = places_of(places, process, n);

		for (size_t i = 0; i < chain.count; i++)
			all[at++] = chain.at[i];
	}
	*ret = (struct place_chain){ all, total };
	return 0;
}

bool place_can_own(const struct place *place)
{
	return place->frame.function[0] != '[' && !place->runtime_frame;
}

const struct place *places_owner(struct place_chain stack)
{
	const struct place *unnamed = NULL;

	for (size_t i = 0; i < stack.count; i++) {
		const struct place *p = stack.at[i];

		if (!place_can_own(p))
			continue;
		if (!p->nameless)
			return p;
		if (!unnamed)
			unnamed = p;
	}
	if (unnamed)
		return unnamed;
	return stack.count ? stack.at[0] : NULL;
}

uint32_t place_key(const struct place *place, enum axis_id axis)
{
	switch (axis) {
	case AXIS_FUNCTION:
		return place->function;
	case AXIS_LINE:
		return place->line;
	case AXIS_FILE:
		return place->file;
	default:
		ASSERT(axis == AXIS_MODULE);
		return place->module;
	}
}

const struct place *places_example(const struct places *places, enum axis_id axis, uint32_t key)
{
	ASSERT(key < places->tables[axis].examples.count);
	return places->tables[axis].examples.at[key];
}
