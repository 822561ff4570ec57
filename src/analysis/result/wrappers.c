/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wrappers by their shape, in rounds. In a round each stack counts for one function, its innermost one that is not known as a
 * wrapper; then the functions with the shape of a wrapper become known. The next round moves their stacks outward by one function.
 */
#include "analysis/result/wrappers.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/result/runtime_frames.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "util/cleanup.h"
#include "util/numbering.h"
#include "util/vector.h"

enum { CALLERS = 8, SIZES = 4, LINES = 2, LINES_SHARE = 90, LINES_KEPT = 8, ROUNDS_MAX = 4 };
enum { STACKS_MAX = 1 << 16 }; /* evenly spread over all */

/* Where a stack has its innermost function that may be none. */
struct stack_position {
	const struct profile_site *site;
	node_id node;
	struct location_chain chain; /* of the node; `at` is NULL before the first step */
	uint32_t at;		     /* of the next one outward, in the chain */
	uint32_t function;
};

struct shape {
	size_t callers, named_callers; /* named: wrappers by their names or files */
	uint64_t sizes[SIZES];
	size_t size_count;
	uint64_t bytes;
	struct {
		uint32_t line;
		uint64_t bytes;
	} lines[LINES_KEPT];
	size_t line_count;
	bool may_be; /* of a language and a module that have wrappers */
	bool is_new; /* a stack was added in this round */
};

struct call {
	uint32_t function, caller; /* its location */
};

struct search {
	struct locations *locations;
	const struct profile_process *process;
	VECTOR(struct shape) shapes; /* by function */
	struct numbering calls;	     /* struct call */
	struct wrapper_flags *found;
};

static void search_release(struct search *s)
{
	vector_release(&s->shapes);
	numbering_release(&s->calls);
}

static bool is_known(const struct search *s, const struct location *location)
{
	return location->runtime_frame || location->wrapper ||
	       (location->generic < s->found->count && s->found->at[location->generic]);
}

/* The next location outward. False: there is none, or out of memory. */
static bool step_out(const struct search *s, struct stack_position *p, const struct location **ret)
{
	while (p->at >= p->chain.count) {
		if (p->chain.at)
			p->node = profile_parent(s->process, p->node);
		p->chain = locations_of(s->locations, s->process, p->node);
		p->at = 0;
		if (!p->chain.at)
			return false;
	}
	*ret = p->chain.at[p->at++];
	return true;
}

static bool reserve_shapes(struct search *s, size_t count)
{
	if (count <= s->shapes.count)
		return true;
	if (!vector_reserve(&s->shapes, count - s->shapes.count))
		return false;
	memset(&s->shapes.at[s->shapes.count], 0, (count - s->shapes.count) * sizeof *s->shapes.at);
	s->shapes.count = count;
	return true;
}

static void add_size(struct shape *shape, uint64_t size)
{
	for (size_t i = 0; i < shape->size_count; i++)
		if (shape->sizes[i] == size)
			return;
	if (shape->size_count < SIZES)
		shape->sizes[shape->size_count++] = size;
}

static void add_line(struct shape *shape, uint32_t line, uint64_t bytes)
{
	size_t at = 0;

	while (at < shape->line_count && shape->lines[at].line != line)
		at++;
	if (at == LINES_KEPT)
		return; /* so many that it is no wrapper */
	if (at == shape->line_count)
		shape->lines[shape->line_count++].line = line;
	shape->lines[at].bytes = saturating_add(shape->lines[at].bytes, bytes);
}

static bool may_be_wrapper(const struct location *f)
{
	bool is_python = f->frame.language && strcmp(f->frame.language, "python") == 0;

	return !is_python && !is_in_runtime(&f->frame);
}

static bool add_call(struct search *s, const struct location *f, const struct location *caller,
		     const struct profile_site *site)
{
	size_t known = s->calls.count;
	const struct call call = { f->generic, caller->frame.id };
	size_t number = number_of(&s->calls, call);

	if (number == SIZE_MAX || !reserve_shapes(s, (size_t)f->generic + 1))
		return false;
	struct shape *shape = &s->shapes.at[f->generic];

	if (number == known) {
		shape->callers++;
		shape->named_callers += caller->wrapper && caller->frame.module == f->frame.module;
	}
	add_size(shape, site->numbers.bytes / site->numbers.calls);
	add_line(shape, f->frame.line, site->numbers.bytes);
	shape->bytes = saturating_add(shape->bytes, site->numbers.bytes);
	shape->may_be = may_be_wrapper(f);
	shape->is_new = true;
	return true;
}

/* Moves the stack outward to its first function that is not known, and counts it there. -1: out of memory; 0: there is none. */
static int move_out(struct search *s, struct stack_position *p)
{
	const struct location *f, *caller;

	do {
		if (!step_out(s, p, &f) || f->frame.function[0] == '[')
			return 0;
	} while (is_known(s, f));
	p->function = f->generic;
	struct stack_position outer = *p;

	/* A function that is partly inlined into itself is not its caller. */
	do {
		if (!step_out(s, &outer, &caller) || caller->frame.function[0] == '[')
			return 0;
	} while (caller->generic == f->generic);
	return add_call(s, f, caller, p->site) ? 1 : -1;
}

static int compare_bytes(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return *a < *b ? 1 : *a > *b ? -1 : 0;
}

static bool has_few_lines(const struct shape *shape)
{
	uint64_t bytes[LINES_KEPT] = { 0 }, most = 0;

	for (size_t i = 0; i < shape->line_count; i++)
		bytes[i] = shape->lines[i].bytes;
	qsort(bytes, LINES_KEPT, sizeof *bytes, compare_bytes);
	for (size_t i = 0; i < LINES; i++)
		most = saturating_add(most, bytes[i]);
	return most >= shape->bytes / 100 * LINES_SHARE;
}

static bool has_shape(const struct shape *shape)
{
	if (!shape->may_be)
		return false;
	return shape->named_callers == shape->callers ||
	       (shape->callers >= CALLERS && shape->size_count == SIZES && has_few_lines(shape));
}

/* Returns whether any function is found, or -1 if out of memory. */
static int judge(struct search *s)
{
	struct wrapper_flags *found = s->found;
	bool some = false;

	if (found->count < s->shapes.count) {
		bool *more = realloc(found->at, s->shapes.count * sizeof *more);

		if (!more)
			return -1;
		memset(more + found->count, 0, (s->shapes.count - found->count) * sizeof *more);
		*found = (struct wrapper_flags){ more, s->shapes.count };
	}
	for (size_t i = 0; i < s->shapes.count; i++) {
		if (s->shapes.at[i].is_new && !found->at[i])
			some |= found->at[i] = has_shape(&s->shapes.at[i]);
		s->shapes.at[i].is_new = false;
	}
	return some;
}

/* Moves the stacks of functions that are known by now; drops those that have no further function. -1: out of memory. */
static int move_all(struct search *s, struct stack_position *stacks, size_t *count)
{
	size_t kept = 0;

	for (size_t i = 0; i < *count; i++) {
		bool moves = !stacks[i].chain.at || s->found->at[stacks[i].function];
		int moved = moves ? move_out(s, &stacks[i]) : 1;

		if (moved < 0)
			return -1;
		if (moved > 0)
			stacks[kept++] = stacks[i];
	}
	*count = kept;
	return 0;
}

bool wrappers_find(struct locations *locations, const struct profile_process *p,
		   struct wrapper_flags *ret)
{
	size_t stride = 1 + p->site_count / STACKS_MAX;
	AUTO_FREE struct stack_position *stacks =
		calloc(p->site_count / stride + 1, sizeof *stacks);
	AUTO(search_release) struct search s = { .locations = locations, .process = p };
	size_t count = 0;

	*ret = (struct wrapper_flags){ 0 };
	s.found = ret;
	if (!stacks)
		return false;
	for (size_t i = 0; i < p->site_count; i += stride)
		if (p->sites[i].kind == PROFILE_HEAP && p->sites[i].numbers.calls > 0)
			stacks[count++] = (struct stack_position){ .site = &p->sites[i],
								   .node = p->sites[i].node };
	for (int round = 0; round < ROUNDS_MAX; round++) {
		int found = move_all(&s, stacks, &count) < 0 ? -1 : judge(&s);

		if (found <= 0)
			return found == 0;
	}
	return true;
}
