/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folding: a stack belongs to its innermost ancestor whose whole subtree is worth at least a threshold. The threshold is the
 * smallest found for which few enough stacks remain. Worth is the share of live bytes plus the share of new bytes, so that
 * neither hides the other.
 */
#include "agent/reading/heap_profile.h"

#include <stdio.h>
#include <stdlib.h>

#include "analysis/query/selection.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "base/cursor.h"
#include "base/varint.h"
#include "export/pprof.h"
#include "util/cleanup.h"
#include "util/gzip.h"
#include "util/text/units.h"

enum { THRESHOLDS_MAX = 12, ENCODINGS_MAX = 8 };

/* ---- differences ---- */

struct counted {
	uint64_t calls, bytes;
};

/* By site id. An id beyond the profile's sites is of a damaged or foreign baseline: ignored. */
static struct counted *decode_baseline(struct span encoded, size_t sites)
{
	struct counted *counted = calloc(sites + 1, sizeof *counted);
	struct cursor at = cursor_over(encoded);

	while (counted && cursor_left(&at) > 0) {
		uint64_t site = cursor_varint(&at), calls = cursor_varint(&at),
			 bytes = cursor_varint(&at);

		if (!at.failed && site < sites)
			counted[site] = (struct counted){ calls, bytes };
	}
	return counted;
}

static size_t site_limit(const struct profile_process *process)
{
	return process->site_count ? process->sites[process->site_count - 1].id.v + 1 : 0;
}

static void append_baseline(struct buffer *out, const struct entry *entry)
{
	const uint64_t numbers[] = { entry->site->id.v, (uint64_t)entry->m.calls,
				     (uint64_t)entry->m.total_bytes };
	uint8_t row[ARRAY_SIZE(numbers) * VARINT_MAX_BYTES];
	size_t used = 0;

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		used += varint_put(row + used, sizeof row - used, numbers[i]);
	buffer_append(out, row, used);
}

/* A counter that went back is of another program with the same identity: everything counts as new. */
static void subtract(struct measures *m, const struct counted *before)
{
	if (before->calls > (uint64_t)m->calls || before->bytes > (uint64_t)m->total_bytes)
		return;
	m->calls -= (int64_t)before->calls;
	m->total_bytes -= (int64_t)before->bytes;
}

/* Without a baseline it is unknown which of its allocations are new: none are shown. */
static int take_deltas(struct selection *selection, const struct profile_process *process,
		       const struct heap_baseline *baseline, struct buffer *ret,
		       struct error *error)
{
	size_t sites = site_limit(process);
	AUTO_FREE struct counted *counted = decode_baseline(baseline->encoded, sites);

	if (!counted)
		return error_set(error, "out of memory");
	for (size_t i = 0; i < selection->count; i++) {
		struct entry *entry = &selection->entries[i];

		append_baseline(ret, entry);
		if (baseline->known)
			subtract(&entry->m, &counted[entry->site->id.v]);
		else if (!baseline->starts_at_zero)
			entry->m.calls = entry->m.total_bytes = 0;
	}
	return ret->failed ? error_set(error, "out of memory") : 0;
}

static bool is_empty(const struct measures *m)
{
	return m->live_bytes == 0 && m->live_blocks == 0 && m->calls == 0 && m->total_bytes == 0;
}

static void drop_empty(struct selection *selection)
{
	size_t kept = 0;

	for (size_t i = 0; i < selection->count; i++)
		if (!is_empty(&selection->entries[i].m))
			selection->entries[kept++] = selection->entries[i];
	selection->count = kept;
}

/* ---- folding ---- */

struct folding {
	const struct profile_process *process;
	double *worth;		   /* by node: of its subtree */
	const struct entry *whole; /* the entries before folding */
	size_t count;
	struct entry *folded; /* as many as `whole`, the first `folded_count` used */
	size_t folded_count;
	struct profile_site *sites; /* those of `folded` */
	uint64_t stacks, bytes;
};

static double share(int64_t part, int64_t whole)
{
	return whole > 0 && part > 0 ? (double)part / (double)whole : 0;
}

static void weigh(struct folding *f, const struct selection *selection)
{
	struct measures sum = { 0 };

	for (size_t i = 0; i < selection->count; i++)
		measures_add(&sum, &selection->entries[i].m);
	for (size_t i = 0; i < selection->count; i++) {
		const struct entry *e = &selection->entries[i];

		f->worth[e->site->node.v] += share(e->m.live_bytes, sum.live_bytes) +
					     share(e->m.total_bytes, sum.total_bytes);
	}
	/* The id of a caller is always less than its callee's. */
	for (size_t n = f->process->node_count; n-- > 1;)
		f->worth[profile_parent(f->process, (node_id){ (uint32_t)n }).v] += f->worth[n];
}

static node_id fold_node(const struct folding *f, node_id node, double threshold)
{
	while (node.v && f->worth[node.v] < threshold) {
		node_id parent = profile_parent(f->process, node);

		if (!parent.v)
			break; /* the outermost frame names the thread's function */
		node = parent;
	}
	return node;
}

static int compare_folded(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;

	if (a->site->node.v != b->site->node.v)
		return a->site->node.v < b->site->node.v ? -1 : 1;
	if (a->site->tag.v != b->site->tag.v)
		return a->site->tag.v < b->site->tag.v ? -1 : 1;
	return (a->site->id.v > b->site->id.v) - (a->site->id.v < b->site->id.v);
}

static void fold_by(struct folding *f, double threshold)
{
	size_t kept = 0;

	f->stacks = f->bytes = 0;
	for (size_t i = 0; i < f->count; i++) {
		const struct entry *e = &f->whole[i];
		node_id node = fold_node(f, e->site->node, threshold);

		f->sites[i] = *e->site;
		f->sites[i].node = node;
		f->folded[i] = *e;
		f->folded[i].site = &f->sites[i];
		if (node.v != e->site->node.v) {
			f->stacks++;
			f->bytes += (uint64_t)(e->m.live_bytes + e->m.total_bytes);
		}
	}
	qsort(f->folded, f->count, sizeof *f->folded, compare_folded);
	for (size_t i = 0; i < f->count; i++) {
		struct entry *last = kept ? &f->folded[kept - 1] : NULL;

		if (last && last->site->node.v == f->folded[i].site->node.v &&
		    last->site->tag.v == f->folded[i].site->tag.v)
			measures_add(&last->m, &f->folded[i].m);
		else
			f->folded[kept++] = f->folded[i];
	}
	f->folded_count = kept;
}

/* The worth of everything is at most 2, at which only outermost frames remain. */
static void fold_to(struct folding *f, size_t max_samples)
{
	double low = 0, high = 2.1;

	for (int i = 0; i < THRESHOLDS_MAX; i++) {
		double middle = low > 0 ? (low + high) / 2 : high / 1000;

		fold_by(f, middle);
		if (f->folded_count > max_samples)
			low = middle;
		else
			high = middle;
	}
	fold_by(f, high);
	if (f->folded_count > max_samples) /* more threads or tags than samples: the rest is one */
		for (size_t i = max_samples; i < f->folded_count; i++) {
			measures_add(&f->folded[max_samples - 1].m, &f->folded[i].m);
			f->stacks++;
		}
	f->folded_count = MIN(f->folded_count, max_samples);
}

/* ---- encoding ---- */

static int prepare_folding(struct folding *f, const struct selection *selection,
			   struct error *error)
{
	f->worth = calloc(f->process->node_count + 1, sizeof *f->worth);
	f->folded = calloc(f->count + 1, sizeof *f->folded);
	f->sites = calloc(f->count + 1, sizeof *f->sites);
	if (!f->worth || !f->folded || !f->sites)
		return error_set(error, "out of memory");
	weigh(f, selection);
	return 0;
}

static void release_folding(struct folding *f)
{
	free(f->worth);
	free(f->folded);
	free(f->sites);
}

static int encode_folded(struct folding *f, struct selection *selection,
			 const struct heap_profile_options *options, struct export_input input,
			 struct heap_profile *ret, struct error *error)
{
	struct export_interval interval = options->interval;
	size_t samples = MAX(MIN(options->max_samples, f->count), (size_t)1);
	AUTO(buffer_release) struct buffer plain = BUFFER_INIT;
	char comment[160];

	for (int i = 0; i < ENCODINGS_MAX && samples > 0; i++) {
		/* Most profiles are small: they need none of it. */
		if (samples < f->count && !f->worth && prepare_folding(f, selection, error) < 0)
			return -1;
		if (samples < f->count)
			fold_to(f, samples);
		selection->entries =
			samples < f->count ? f->folded : (struct entry *)(uintptr_t)f->whole;
		selection->count = samples < f->count ? f->folded_count : f->count;
		if (f->stacks)
			snprintf(comment, sizeof comment,
				 "%s small stacks are folded into their callers",
				 units_count(f->stacks).text);
		interval.comment = f->stacks ? comment : NULL;
		input.interval = &interval;
		buffer_clear(&plain);
		if (pprof_encode(&input, &plain, error) < 0)
			return -1;
		if (plain.size <= options->max_bytes)
			break;
		/* Fewer by what is too much, and a little more: stacks share their frames. */
		samples = (size_t)((double)MIN(samples, selection->count) *
				   (double)options->max_bytes / (double)plain.size * 0.8);
	}
	ret->samples = selection->count;
	ret->folded_stacks = f->stacks;
	ret->folded_bytes = f->bytes;
	if (plain.size > options->max_bytes)
		return error_set(error, "its names alone exceed %s",
				 units_bytes(options->max_bytes).text);
	return gzip_append(&ret->pprof, buffer_span(&plain), GZIP_QUICK)
		       ? 0
		       : error_set(error, "out of memory");
}

static int encode_selection(const struct profile *profile, struct selection *selection,
			    const struct heap_profile_options *options, struct export_input input,
			    struct heap_profile *ret, struct error *error)
{
	struct entry *whole = selection->entries;
	AUTO(release_folding)
	struct folding f = { .process = &profile->processes[0],
			     .whole = whole,
			     .count = selection->count };
	int status = encode_folded(&f, selection, options, input, ret, error);

	selection->entries = whole;
	return status;
}

int heap_profile_make(const struct profile *profile, const struct heap_profile_options *options,
		      struct heap_profile *ret, struct error *error)
{
	static const struct query query = { .limit = SIZE_MAX };
	struct names *names = names_new(&options->names);
	struct locations *locations = names ? locations_new(names) : NULL;
	struct selection selection;
	int status = -1;

	*ret = (struct heap_profile){ 0 };
	if (locations)
		locations_only_name(locations);
	if (!locations || profile->process_count != 1) {
		error_set(error, locations ? "not the profile of one process" : "out of memory");
	} else if (selection_make(&selection, profile, locations, &query,
				  (struct view_defaults){
					  .cost = options->first,
					  .at = MOMENT_END,
					  .kinds = KINDS_HEAP,
					  .no_errors = options->interval.only_usual_types },
				  error) == 0) {
		const struct export_input input = { .profile = profile,
						    .locations = locations,
						    .query = &query,
						    .selection = &selection };

		status = options->deltas ? take_deltas(&selection, &profile->processes[0],
						       &options->baseline, &ret->baseline, error)
					 : 0;
		drop_empty(&selection);
		if (status == 0)
			status = encode_selection(profile, &selection, options, input, ret, error);
		selection_release(&selection);
	}
	locations_free(locations);
	names_free(names);
	return status;
}

void heap_profile_release(struct heap_profile *profile)
{
	buffer_release(&profile->pprof);
	buffer_release(&profile->baseline);
}
