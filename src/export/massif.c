/* SPDX-License-Identifier: Apache-2.0 */
/*
 * massif's output: the heap over time, and the tree of callers at the peak. Of several processes the
 * one with the highest peak is shown, because massif has one. A # begins a comment there, and C++ has
 * it in the names of lambdas.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "analysis/call_tree.h"
#include "base/compiler.h"
#include "export/stacks.h"
#include "model/history.h"

#define COMMENT "#"

enum { SNAPSHOTS = 100 };

struct massif {
	FILE *out;
	const struct call_tree *tree;
	double percent, least; /* what is below is folded */
	size_t number;
	bool failed;
};

/* The process of which something was asked for; that of the recording if nothing is left. */
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

/* Leaves what the process held: the tree of all other stacks would be many times as large. */
static void keep_live(struct selection *s, const struct profile_process *process)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->count; i++)
		if (s->entries[i].process == process && s->entries[i].m.live_bytes > 0)
			s->entries[kept++] = s->entries[i];
	s->count = kept;
}

static void put_snapshot(struct massif *m, uint64_t at_ns, uint64_t bytes)
{
	fprintf(m->out,
		"#-----------\nsnapshot=%zu\n#-----------\ntime=%" PRIu64 "\nmem_heap_B=%" PRIu64
		"\nmem_heap_extra_B=0\nmem_stacks_B=0\n",
		m->number++, at_ns / 1000000, bytes);
}

struct child {
	uint32_t node;
	int64_t bytes;
};

struct children {
	VECTOR(struct child) shown; /* most first */
	size_t hidden;
	int64_t hidden_bytes;
};

static int compare_children(const void *left, const void *right)
{
	const struct child *a = left, *b = right;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return a->node < b->node ? -1 : 1;
}

static struct children children_of(struct massif *m, uint32_t node)
{
	struct children all = { 0 };

	for (uint32_t c = m->tree->nodes[node].first_child; c; c = m->tree->nodes[c].next_sibling) {
		const struct child child = { c, m->tree->nodes[c].total.live_bytes };

		if ((double)child.bytes >= m->least) {
			m->failed |= !vector_push(&all.shown, child);
		} else {
			all.hidden++;
			all.hidden_bytes += child.bytes;
		}
	}
	if (all.shown.count)
		qsort(all.shown.at, all.shown.count, sizeof *all.shown.at, compare_children);
	return all;
}

/* Depth is bounded by the recorder's limit of frames, and by the threshold. */
static void put_node(struct massif *m, uint32_t node, unsigned depth)
{
	const struct call_node *n = &m->tree->nodes[node];
	struct children all = children_of(m, node);

	fprintf(m->out, "%*sn%zu: %" PRId64 " ", (int)depth, "",
		all.shown.count + (all.hidden ? 1 : 0), n->total.live_bytes);
	if (n->place)
		write_valgrind_frame(m->out, n->place, COMMENT);
	else
		fputs("(heap allocation functions) malloc/new/new[], --alloc-fns, etc.", m->out);
	fputc('\n', m->out);
	for (size_t i = 0; i < all.shown.count && !m->failed; i++)
		put_node(m, all.shown.at[i].node, depth + 1);
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
	put_node(m, 0, 0);
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

int export_massif(const struct export_input *in, FILE *out, struct error *error)
{
	const struct profile_process *p = largest(in);
	struct query query = *in->query;
	struct selection peak;
	struct call_tree tree;

	if (!p)
		return error_set(error, "there is no process in the recording");
	query.has_cost = true;
	query.cost = COST_LIVE;
	query.at = (struct moment){ .kind = MOMENT_PEAK };
	query.minus = (struct moment){ 0 };
	query.kinds = KINDS_HEAP;
	if (selection_make(&peak, in->profile, in->places, &query, (struct ask){ 0 }, error) < 0)
		return -1;
	keep_live(&peak, p);
	int status = call_tree_build(
		&tree, &peak, in->places,
		(struct call_tree_options){ .by = AXIS_LINE, .callees_first = true });

	if (status == 0) {
		double percent = in->query->has_threshold ? in->query->threshold_percent : 1.0;
		struct massif m = { .out = out, .tree = &tree, .percent = percent };

		m.least = percent / 100 * (double)tree.nodes[0].total.live_bytes;
		fputs("desc: heapgauge export\ncmd: ", out);
		write_safe(out, p->command, COMMENT, '\'');
		fputs("\ntime_unit: ms\n", out);
		put_course(&m, p);
		status = m.failed ? -1 : 0;
		call_tree_release(&tree);
	}
	selection_release(&peak);
	return status < 0 ? no_memory(error) : 0;
}
