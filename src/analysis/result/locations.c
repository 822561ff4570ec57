/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps a frame of a process to its chain of locations, on first use.
 *
 * Each frame gets its locations at most once, and four small tables number their names. model/frames/names.h
 * interns names, so equal names are equal pointers and a key is three of them.
 */
#include "analysis/result/locations.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/result/entry.h"
#include "analysis/result/runtime_frames.h"
#include "analysis/result/type_names.h"
#include "analysis/result/wrappers.h"
#include "base/compiler.h"
#include "model/frames/own_code.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/intern.h"
#include "util/numbering.h"
#include "util/vector.h"

enum { GENERIC_MAX_BYTES = 512 };

/* The key that makes two locations equal on an axis. */
struct location_group {
	const char *function, *file, *module;
	uint64_t line;
};

struct group_table {
	struct numbering groups;
	VECTOR(const struct location *) examples; /* by number */
};

struct frame_locations {
	struct location *list;
	struct location_chain chain; /* of the list; `at` is NULL before the first use */
};

struct process_locations {
	const struct profile_process *process;
	struct frame_locations *frames; /* by id */
	struct program_entry entry;	/* unknown before it is searched, as are the wrappers */
	struct wrapper_flags wrappers;	/* by shape */
};

struct locations {
	struct arena arena;
	struct names *names;
	VECTOR(struct process_locations) processes;
	size_t last; /* the process of the last lookup, which is usually the next one too */
	struct frame_locations marks[MARK_DAMAGED + 1];
	struct group_table tables[AXIS_COUNT]; /* for the axes of frames */
	struct numbering generics;
	size_t count;
	bool by_base, only_name;
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
	for (size_t i = 0; i < locations->processes.count; i++)
		free(locations->processes.at[i].wrappers.at);
	vector_release(&locations->processes);
	numbering_release(&locations->generics);
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

void locations_only_name(struct locations *locations)
{
	locations->only_name = true;
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

	return module && (file || !f->file) &&
	       group_number(&tables[AXIS_FUNCTION], function, p, &p->function) &&
	       group_number(&tables[AXIS_LINE], line, p, &p->line) &&
	       group_number(&tables[AXIS_FILE], in_file, p, &p->file) &&
	       group_number(&tables[AXIS_MODULE], (struct location_group){ NULL, NULL, module, 0 },
			    p, &p->module);
}

void location_classify(struct location *location)
{
	const struct result_frame *f = &location->frame;

	location->runtime_frame = is_runtime_frame(f);
	location->wrapper_name = is_wrapper_name(f);
	location->allocator_source = !location->runtime_frame && is_allocator_source(f);
	location->nameless = is_nameless(f);
	location->name = location->nameless ? span_of(f->function, strlen(f->function))
					    : name_qualified(f->function);
}

/* Functions that differ only in their template arguments have one number. */
static bool number_generic(struct locations *locations, struct location *p)
{
	const struct result_frame *f = &p->frame;
	char name[GENERIC_MAX_BYTES];

	name_without_arguments(p->nameless ? p->name : name_qualified(f->full), name, sizeof name);
	const struct location_group group = { intern_text(&locations->bases, name), f->file,
					      f->module, 0 };
	size_t number = group.function ? number_of(&locations->generics, group) : SIZE_MAX;

	p->generic = (uint32_t)number;
	return number != SIZE_MAX;
}

/* Sets what depends on what is known of the process. */
static void set_flags(struct location *p, const struct process_locations *known)
{
	const struct wrapper_flags *by_shape = &known->wrappers;
	const char *main_file = known->entry.main_file;
	/* A program of one file is no allocator. */
	bool in_main_file = main_file && p->frame.file && strcmp(p->frame.file, main_file) == 0;

	p->wrapper = p->wrapper_name || (p->allocator_source && !in_main_file) ||
		     (p->generic < by_shape->count && by_shape->at[p->generic]);
	p->frame.runtime_frame = p->runtime_frame || p->wrapper;
	p->home = entry_has(&known->entry, p);
	p->own |= p->home;
	p->frame.own = p->own;
}

/* Thousands of processes have the same functions: copies what is known from the first one. */
static bool classify(struct locations *locations, struct location *p)
{
	const struct location *first = locations_example(locations, AXIS_FUNCTION, p->function);

	if (first == p || first->frame.full != p->frame.full) {
		location_classify(p);
		return number_generic(locations, p);
	}
	p->wrapper_name = first->wrapper_name;
	p->allocator_source = first->allocator_source;
	p->runtime_frame = first->runtime_frame;
	p->nameless = first->nameless;
	p->name = first->name;
	p->generic = first->generic;
	return true;
}

static bool is_own(const struct profile_process *process, const struct named_frame *f)
{
	const struct own_frame frame = { .function = f->full ? f->full : f->function,
					 .file = f->file,
					 .module = f->module,
					 .language = f->language,
					 .exe = process->exe };

	return process->own && own_rule_covers(process->own, &frame);
}

static struct frame_locations make_chain(struct locations *locations,
					 const struct process_locations *known,
					 struct profile_frame frame)
{
	const struct profile_process *process = known->process;
	const struct frame_locations nothing = { 0 };
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
		pointers[i] = &list[i];
		if (!number_location(locations, &list[i]))
			return nothing;
		if (locations->only_name)
			continue;
		list[i].own = is_own(process, f);
		if (!classify(locations, &list[i]))
			return nothing;
		set_flags(&list[i], known);
	}
	return (struct frame_locations){ list, { pointers, named.count } };
}

static void update_flags(const struct process_locations *known)
{
	for (size_t i = 0; i < known->process->frame_count; i++)
		for (size_t j = 0; j < known->frames[i].chain.count; j++)
			set_flags(&known->frames[i].list[j], known);
}

/* What can be said of a frame only after a look at the whole process. */
static bool learn(struct locations *locations, struct process_locations *known)
{
	struct program_entry entry;

	if (!entry_find(locations, known->process, &entry))
		return false;
	known->entry = entry;
	update_flags(known);
	struct wrapper_flags wrappers;
	bool found = wrappers_find(locations, known->process, &wrappers);

	known->wrappers = wrappers;
	update_flags(known);
	return found;
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
		.frames = ARENA_ARRAY(&locations->arena, struct frame_locations, p->frame_count),
	};

	if (!added.frames || !vector_push(&locations->processes, added))
		return NULL;
	locations->last = locations->processes.count - 1;
	struct process_locations *known = &locations->processes.at[locations->last];

	/* Only its own frames are looked up meanwhile, so it does not move. */
	if (locations->only_name || learn(locations, known))
		return known;
	free(known->wrappers.at);
	locations->processes.count--;
	return NULL;
}

struct location_chain locations_of(struct locations *locations,
				   const struct profile_process *process, node_id node)
{
	struct process_locations *known = locations_process(locations, process);

	if (!known || node.v == 0)
		return (struct location_chain){ NULL, 0 };
	struct profile_frame frame = profile_innermost(process, node);
	struct frame_locations *kept = frame.mark == MARK_NONE ? &known->frames[frame.id.v]
							       : &locations->marks[frame.mark];

	if (!kept->chain.at)
		*kept = make_chain(locations, known, frame);
	return kept->chain;
}

int locations_stack(struct locations *locations, const struct profile_process *process,
		    node_id node, struct arena *arena, struct location_chain *ret)
{
	size_t total = 0, at = 0;

	for (node_id n = node; n.v; n = profile_parent(process, n)) {
		struct location_chain chain = locations_of(locations, process, n);

		if (!chain.at)
			return -1;
		total += chain.count;
	}
	const struct location **all = ARENA_ARRAY(arena, const struct location *, total);

	if (!all)
		return -1;
	for (node_id n = node; n.v; n = profile_parent(process, n)) {
		struct location_chain chain = locations_of(locations, process, n);

		for (size_t i = 0; i < chain.count; i++)
			all[at++] = chain.at[i];
	}
	*ret = (struct location_chain){ all, total };
	return 0;
}

/* A frame without a name is not skipped, except for one with a name in the same module. */
static const struct location *inner(const struct location *before, const struct location *now)
{
	bool has_better =
		now->nameless && before && !before->nameless && before->module == now->module;

	return has_better ? before : now;
}

void owner_visit(struct owner_search *search, const struct location *location)
{
	if (location->frame.function[0] == '[' || location->runtime_frame)
		return;
	search->any = inner(search->any, location);
	if (location->wrapper)
		return;
	search->informative = inner(search->informative, location);
	if (location->own && !location->nameless &&
	    (!location->home || !search->own || search->own->home))
		search->own = location;
}

const struct location *owner_informative(const struct owner_search *search)
{
	return search->informative ? search->informative : search->any;
}

const struct location *owner_found(const struct owner_search *search)
{
	return search->own ? search->own : owner_informative(search);
}

static struct owner_search search_stack(struct location_chain stack)
{
	struct owner_search search = { 0 };

	for (size_t i = stack.count; i > 0; i--)
		owner_visit(&search, stack.at[i - 1]);
	if (!search.any && stack.count)
		search.any = stack.at[0];
	return search;
}

const struct location *locations_owner(struct location_chain stack)
{
	const struct owner_search search = search_stack(stack);

	return owner_found(&search);
}

const struct location *locations_informative(struct location_chain stack)
{
	const struct owner_search search = search_stack(stack);

	return owner_informative(&search);
}

const struct location *locations_via(struct location_chain stack, const struct location *owner)
{
	size_t at = 0;

	while (at < stack.count && stack.at[at] != owner)
		at++;
	for (; at > 0 && at <= stack.count; at--) {
		const struct location *callee = stack.at[at - 1];

		/* Without a name, all that can be said is the module. */
		if (callee != owner && callee->frame.function[0] != '[' &&
		    (callee->wrapper || !callee->runtime_frame) &&
		    !(callee->nameless && callee->module == owner->module))
			return callee;
	}
	return NULL;
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
