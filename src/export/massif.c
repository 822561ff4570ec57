/* SPDX-License-Identifier: Apache-2.0 */
/*
 * massif's output: the heap over time, and the tree of callers at the peak. With several processes,
 * the one with the highest peak is shown, because massif has only one. '#' starts a comment in the
 * format, and C++ lambdas have it in their names.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "export/stacks.h"
#include "model/history.h"

#define COMMENT "#"

enum { SNAPSHOTS = 100 };

/* A position on a stack, moving from the innermost frame outwards. */
struct walker {
	const struct entry *entry;
	node_id node;
	struct location_chain chain;	 /* locations of the node */
	size_t at;			 /* index of the next location in the chain */
	const struct location *location; /* NULL: end of the stack */
};

/* Stacks that continue with the same line. */
struct child {
	struct walker *first;
	size_t count;
	int64_t bytes;
};

struct massif {
	const struct export_input *in;
	FILE *out;
	struct child root;
	double percent, least; /* children below this are folded */
	size_t number;
	bool failed;
};

/* The largest process with a selected site; the first process if there is none. */
static const struct profile_process *largest(const struct export_input *in)
{
	const struct profile_process *best = NULL;

	for (size_t i = 0; i < in->selection->count; i++) {
		const struct profile_process *p = in->selection->entries[i].process;

		if (!best || p->peak_bytes > best->peak_bytes)
			best = p;
	}
	return best || in->profile->process_count == 0 ? best : &in->profile->processes[0];
}

static void put_snapshot(struct massif *m, uint64_t at_ns, uint64_t bytes)
{
	fprintf(m->out,
		"#-----------\nsnapshot=%zu\n#-----------\ntime=%" PRIu64 "\nmem_heap_B=%" PRIu64
		"\nmem_heap_extra_B=0\nmem_stacks_B=0\n",
		m->number++, at_ns / 1000000, bytes);
}

static void step(struct massif *m, struct walker *w)
{
	const struct profile_process *p = w->entry->process;

	w->location = NULL;
	if (w->at == w->chain.count && w->node.v) {
		w->chain = locations_of(m->in->locations, p, w->node);
		w->at = 0;
		m->failed |= !w->chain.at;
		w->node = profile_parent(p, w->node);
	}
	if (w->at < w->chain.count)
		w->location = w->chain.at[w->at++];
}

struct children {
	VECTOR(struct child) shown; /* largest first */
	size_t hidden;
	int64_t hidden_bytes;
};

static uint64_t line_of(const struct walker *w)
{
	return w->location ? (uint64_t)location_key(w->location, AXIS_LINE) + 1 : 0;
}

static int compare_walkers(const void *left, const void *right)
{
	const struct walker *a = left, *b = right;
	uint64_t x = line_of(a), y = line_of(b);

	if (x != y)
		return x < y ? -1 : 1;
	return a->entry < b->entry ? -1 : a->entry > b->entry;
}

static int compare_children(const void *left, const void *right)
{
	const struct child *a = left, *b = right;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return a->first < b->first ? -1 : 1;
}

static void add_child(struct massif *m, struct children *all, const struct child *child)
{
	if ((double)child->bytes >= m->least) {
		m->failed |= !vector_push(&all->shown, *child);
	} else {
		all->hidden++;
		all->hidden_bytes += child->bytes;
	}
}

/* Advances all stacks one frame outwards; stacks that end are in no child. */
static struct children go_out(struct massif *m, struct walker *walkers, size_t count)
{
	struct children all = { 0 };
	size_t at = 0;

	for (size_t i = 0; i < count; i++)
		step(m, &walkers[i]);
	if (count)
		qsort(walkers, count, sizeof *walkers, compare_walkers);
	while (at < count && !walkers[at].location)
		at++;
	while (at < count) {
		struct child child = { .first = &walkers[at] };

		for (; at < count && line_of(&walkers[at]) == line_of(child.first); at++) {
			child.bytes += walkers[at].entry->m.live_bytes;
			child.count++;
		}
		add_child(m, &all, &child);
	}
	if (all.shown.count)
		qsort(all.shown.at, all.shown.count, sizeof *all.shown.at, compare_children);
	return all;
}

/*
 * Depth is bounded by the recorder's frame limit, and by the threshold. Nothing is built below the threshold: the
 * complete tree from the innermost frames outwards would have a node for each frame of each stack.
 */
static void put_node(struct massif *m, const struct child *node, unsigned depth)
{
	const struct location *location = depth ? node->first->location : NULL;
	struct children all = go_out(m, node->first, node->count);

	fprintf(m->out, "%*sn%zu: %" PRId64 " ", (int)depth, "",
		all.shown.count + (all.hidden ? 1 : 0), node->bytes);
	if (location)
		write_valgrind_frame(m->out, location, COMMENT);
	else
		fputs("(heap allocation functions) malloc/new/new[], --alloc-fns, etc.", m->out);
	fputc('\n', m->out);
	for (size_t i = 0; i < all.shown.count && !m->failed; i++)
		put_node(m, &all.shown.at[i], depth + 1);
	if (all.hidden)
		fprintf(m->out,
			"%*sn0: %" PRId64 " in %zu place%s below massif's threshold (%.2f%%)\n",
			(int)depth + 1, "", all.hidden_bytes, all.hidden,
			all.hidden == 1 ? "," : "s, all", m->percent);
	vector_release(&all.shown);
}

static void put_peak(struct massif *m, const struct profile_process *p)
{
	put_snapshot(m, p->peak_at_ns, p->peak_bytes);
	fputs("heap_tree=peak\n", m->out);
	put_node(m, &m->root, 0);
}

static void put_course(struct massif *m, const struct profile_process *p)
{
	size_t count = profile_sample_count(p), step = count / SNAPSHOTS + 1;
	bool peak_done = false;

	put_snapshot(m, 0, 0);
	fputs("heap_tree=empty\n", m->out);
	for (size_t i = 0; i < count; i += step) {
		struct profile_sample s = profile_sample(p, i);

		if (!peak_done && s.at_ns >= p->peak_at_ns) {
			put_peak(m, p);
			peak_done = true;
		}
		put_snapshot(m, s.at_ns, MIN(s.live_bytes, p->peak_bytes));
		fputs("heap_tree=empty\n", m->out);
	}
	if (!peak_done)
		put_peak(m, p);
	put_snapshot(m, p->duration_ns, p->live_bytes);
	fputs("heap_tree=empty\n", m->out);
}

/* The stacks with live memory of the process. */
static struct child gather(struct massif *m, const struct selection *peak,
			   const struct profile_process *process)
{
	struct child root = { .first = calloc(peak->count + 1, sizeof *root.first) };

	m->failed |= !root.first;
	for (size_t i = 0; root.first && i < peak->count; i++) {
		const struct entry *e = &peak->entries[i];

		if (e->process != process || e->m.live_bytes <= 0)
			continue;
		root.first[root.count++] = (struct walker){ .entry = e, .node = e->site->node };
		root.bytes += e->m.live_bytes;
	}
	return root;
}

int export_massif(const struct export_input *in, FILE *out, struct error *error)
{
	const struct profile_process *p = largest(in);
	struct query query = *in->query;
	struct selection peak;
	struct massif m = { .in = in, .out = out, .percent = 1.0 };

	if (!p)
		return error_set(error, "the recording contains no process");
	if (query.has_threshold)
		m.percent = query.threshold_percent;
	query.has_cost = true;
	query.cost = COST_LIVE;
	query.at = (struct moment){ .kind = MOMENT_PEAK };
	query.minus = (struct moment){ 0 };
	query.kinds = KINDS_HEAP;
	if (selection_make(&peak, in->profile, in->locations, &query, (struct view_defaults){ 0 },
			   error) < 0)
		return -1;
	m.root = gather(&m, &peak, p);
	m.least = m.percent / 100 * (double)m.root.bytes;
	fprintf(out, "desc: heapgauge export%s\ncmd: ", estimate_words(in).text);
	write_safe(out, p->command, COMMENT, '\'');
	fputs("\ntime_unit: ms\n", out);
	if (!m.failed)
		put_course(&m, p);
	free(m.root.first);
	selection_release(&peak);
	return m.failed ? no_memory(error) : 0;
}
