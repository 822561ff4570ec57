/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps a frame of a process to its chain of locations, on first use.
 *
 * Each frame gets its locations at most once, and four small tables number their names. model/names.h
 * interns names, so equal names are equal pointers and a key is three of them.
 */
#include "analysis/result/locations.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/result/runtime_frames.h"
#include "base/compiler.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/intern.h"
#include "util/numbering.h"
#include "util/vector.h"

/* The key that makes two locations equal on an axis. */
struct location_group {
	const char *function, *file, *module;
	uint64_t line;
};

struct group_table {
	struct numbering groups;
	VECTOR(const struct location *) examples; /* by number */
};

struct process_locations {
	const struct profile_process *process;
	struct location_chain *chains; /* by frame id; `at` is NULL before the first use */
};

struct locations {
	struct arena arena;
	struct names *names;
	VECTOR(struct process_locations) processes;
	size_t last; /* the process of the last lookup, which is usually the next one too */
	struct location_chain marks[MARK_DAMAGED + 1];
	struct group_table tables[AXIS_COUNT]; /* for the axes of frames */
	size_t count;
	bool by_base;
	struct intern bases;
};

struct locations *locations_new(struct names *names)
{
	struct locations *locations = calloc(1, sizeof *locations);

	if (locations)
		locations->names = names;
	return locations;
}

void locations_free(struct locations *locations)
{
	if (!locations)
		return;
	for (size_t i = 0; i < AXIS_COUNT; i++) {
		numbering_release(&locations->tables[i].groups);
		vector_release(&locations->tables[i].examples);
	}
	vector_release(&locations->processes);
	intern_release(&locations->bases);
	arena_release(&locations->arena);
	free(locations);
}

struct names *locations_names(struct locations *locations)
{
	return locations->names;
}

void locations_match_by_base(struct locations *locations)
{
	locations->by_base = true;
}

/* "libfoo" from "/usr/lib/libfoo.so.1.2": a new version is the same library. */
static const char *module_key(struct locations *locations, const char *module)
{
	const char *base = path_base(module), *version = strstr(base, ".so");

	if (!locations->by_base)
		return module;
	return intern_span(&locations->bases,
			   span_of(base, version ? (size_t)(version - base) : strlen(base)));
}

static const char *file_key(struct locations *locations, const char *file)
{
	return locations->by_base && file ? intern_text(&locations->bases, path_base(file)) : file;
}

static bool group_number(struct group_table *t, struct location_group group,
			 const struct location *example, uint32_t *ret)
{
	size_t known = t->groups.count;
	size_t number = vector_reserve(&t->examples, 1) ? number_of(&t->groups, group) : SIZE_MAX;

	if (number == SIZE_MAX)
		return false;
	if (number == known)
		t->examples.at[t->examples.count++] = example;
	*ret = (uint32_t)number;
	return true;
}

static bool number_location(struct locations *locations, struct location *p)
{
	const struct result_frame *f = &p->frame;
	struct group_table *tables = locations->tables;
	const char *module = module_key(locations, f->module), *file = file_key(locations, f->file);
	/* Static functions with the same name in two files are two functions, but a comparison ignores renamed files. */
	const struct location_group function = { f->function, locations->by_base ? NULL : file,
						 module, 0 };
	const struct location_group line =
		file ? (struct location_group){ NULL, file, NULL, f->line }
		     : (struct location_group){ f->function, NULL, module, 0 };
	const struct location_group in_file =
		file ? (struct location_group){ NULL, file, NULL, 0 }
		     : (struct location_group){ NULL, NULL, module, 0 };

	p->runtime_frame = p->frame.runtime_frame = is_runtime_frame(f);
	p->nameless = is_nameless(f);
	return module && (file || !f->file) &&
	       group_number(&tables[AXIS_FUNCTION], function, p, &p->function) &&
	       group_number(&tables[AXIS_LINE], line, p, &p->line) &&
	       group_number(&tables[AXIS_FILE], in_file, p, &p->file) &&
	       group_number(&tables[AXIS_MODULE], (struct location_group){ NULL, NULL, module, 0 },
			    p, &p->module);
}

static struct location_chain make_chain(struct locations *locations,
					const struct profile_process *process,
					struct profile_frame frame)
{
	const struct location_chain nothing = { NULL, 0 };
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	struct named_stack named;

	if (names_frame(locations->names, process, frame, &scratch, &named) < 0)
		return nothing;
	struct location *list = ARENA_ARRAY(&locations->arena, struct location, named.count);
	const struct location **pointers =
		ARENA_ARRAY(&locations->arena, const struct location *, named.count);

	if (!list || !pointers)
		return nothing;
	for (size_t i = 0; i < named.count; i++) {
		const struct named_frame *f = &named.at[i];

		list[i].frame = (struct result_frame){
			.id = (uint32_t)locations->count++,
			.function = f->function,
			.full = f->full ? f->full : f->function,
			.file = f->file,
			.line = f->line,
			.module = f->module,
			.language = f->language,
			.offset = f->offset,
			.inlined = f->inlined,
			.address_exact = f->address_exact,
		};
		list[i].arguments = f->arguments;
		if (!number_location(locations, &list[i]))
			return nothing;
		pointers[i] = &list[i];
	}
	return (struct location_chain){ pointers, named.count };
}

static struct process_locations *locations_process(struct locations *locations,
						   const struct profile_process *p)
{
	if (locations->last < locations->processes.count &&
	    locations->processes.at[locations->last].process == p)
		return &locations->processes.at[locations->last];
	for (size_t i = 0; i < locations->processes.count; i++)
		if (locations->processes.at[i].process == p) {
			locations->last = i;
			return &locations->processes.at[i];
		}
	struct process_locations added = {
		.process = p,
		.chains = ARENA_ARRAY(&locations->arena, struct location_chain, p->frame_count),
	};

	if (!added.chains || !vector_push(&locations->processes, added))
		return NULL;
	locations->last = locations->processes.count - 1;
	return &locations->processes.at[locations->last];
}

struct location_chain locations_of(struct locations *locations,
				   const struct profile_process *process, node_id node)
{
	struct process_locations *known = locations_process(locations, process);

	if (!known || node.v == 0)
		return (struct location_chain){ NULL, 0 };
	struct profile_frame frame = profile_node(process, node).frame;
	struct location_chain *kept = frame.mark == MARK_NONE ? &known->chains[frame.id.v]
							      : &locations->marks[frame.mark];

	if (!kept->at)
		*kept = make_chain(locations, process, frame);
	return *kept;
}

int locations_stack(struct locations *locations, const struct profile_process *process,
		    node_id node, struct arena *arena, struct location_chain *ret)
{
	size_t total = 0, at = 0;

	for (node_id n = node; n.v; n = profile_node(process, n).parent) {
		struct location_chain chain = locations_of(locations, process, n);

		if (!chain.at)
			return -1;
		total += chain.count;
	}
	const struct location **all = ARENA_ARRAY(arena, const struct location *, total);

	if (!all)
		return -1;
	for (node_id n = node; n.v; n = profile_node(process, n).parent) {
		struct location_chain chain = locations_of(locations, process, n);

		for (size_t i = 0; i < chain.count; i++)
			all[at++] = chain.at[i];
	}
	*ret = (struct location_chain){ all, total };
	return 0;
}

bool location_can_own(const struct location *location)
{
	return location->frame.function[0] != '[' && !location->runtime_frame;
}

const struct location *locations_owner(struct location_chain stack)
{
	const struct location *unnamed = NULL;

	for (size_t i = 0; i < stack.count; i++) {
		const struct location *p = stack.at[i];

		if (!location_can_own(p))
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

uint32_t location_key(const struct location *location, enum axis_id axis)
{
	switch (axis) {
	case AXIS_FUNCTION:
		return location->function;
	case AXIS_LINE:
		return location->line;
	case AXIS_FILE:
		return location->file;
	default:
		ASSERT(axis == AXIS_MODULE);
		return location->module;
	}
}

const struct location *locations_example(const struct locations *locations, enum axis_id axis,
					 uint32_t key)
{
	ASSERT(key < locations->tables[axis].examples.count);
	return locations->tables[axis].examples.at[key];
}
