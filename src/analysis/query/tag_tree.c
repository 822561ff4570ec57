/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges the tags of all processes into one tree.
 *
 * Each process numbers its own tags; `node_of` maps those numbers to nodes of the tree, which are identified by parent,
 * kind and name. A tag becomes a node when the selection needs it: for a site, or for visits by the selected processes and
 * threads. Nothing recurses, since a file may contain any depth: a tag's number is greater than its parent's, in the file
 * and in the tree, so one pass up or down is enough.
 */
#include "analysis/query/tag_tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "model/estimates.h"
#include "util/cleanup.h"
#include "util/intern.h"

struct growing {
	VECTOR(struct tag_node) nodes;
	struct intern known; /* parent, kind and name -> node + 1 */
};

/* The child of a node, created on first use; UINT32_MAX if out of memory. */
static uint32_t child_of(struct growing *g, uint32_t parent, struct profile_tag tag)
{
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	const char *key = arena_printf(&scratch, "%u %u %s", parent, (unsigned)tag.kind, tag.name);
	struct intern_entry *entry =
		key ? intern_entry(&g->known, span_of(key, strlen(key))) : NULL;
	uint32_t node = (uint32_t)g->nodes.count;

	if (!entry)
		return UINT32_MAX;
	if (entry->value)
		return (uint32_t)(uintptr_t)entry->value - 1;
	struct tag_node made = { .parent = parent,
				 .next_sibling = g->nodes.at[parent].first_child,
				 .depth = g->nodes.at[parent].depth + 1,
				 .kind = tag.kind,
				 .name = tag.name };

	if (!vector_push(&g->nodes, made))
		return UINT32_MAX;
	g->nodes.at[parent].first_child = node;
	entry->value = (void *)((uintptr_t)node + 1);
	return node;
}

void tag_numbers_add(struct tag_numbers *sum, const struct tag_numbers *part)
{
	measures_add(&sum->m, &part->m);
	sum->freed_bytes = saturating_add(sum->freed_bytes, part->freed_bytes);
	sum->peak_bytes = saturating_add(sum->peak_bytes, part->peak_bytes);
	sum->leaked_bytes = saturating_add(sum->leaked_bytes, part->leaked_bytes);
	sum->freed_variance += part->freed_variance;
	sum->peak_variance += part->peak_variance;
	sum->leaked_variance += part->leaked_variance;
}

/* Flags the visits that match the query. False if out of memory. */
static bool want_visited(const struct selection *s, const struct query *query,
			 const struct profile_process *p, bool *visited)
{
	const bool *slots = selection_slots(s, p);
	size_t slot_count = slots ? profile_slot_count(p) : SIZE_MAX;

	for (size_t i = 0; i < profile_visits_count(p); i++) {
		AUTO(arena_release) struct arena scratch = ARENA_INIT;
		struct profile_visits visits = profile_visits(p, i);
		const char *path = profile_tag_path(p, visits.tag, &scratch);
		const char *labels[PROFILE_LABELS_MAX];
		size_t count = profile_tag_label_list(p, visits.tag, labels);

		if (!path)
			return false;
		visited[i] = (!slots || (visits.slot < slot_count && slots[visits.slot])) &&
			     filters_site_fits(&query->filters, RULE_TAG, &path, 1) &&
			     filters_site_fits(&query->filters, RULE_LABEL, labels, count);
	}
	return true;
}

/* Creates nodes for the wanted tags and their ancestors and fills node_of. False if out of memory. */
static bool plant(struct growing *g, const struct profile_process *p, bool *wanted,
		  uint32_t *node_of)
{
	size_t count = profile_tag_count(p);

	for (size_t i = count; i > 1; i--)
		wanted[profile_tag(p, (tag_id){ (uint32_t)i - 1 }).parent.v] |= wanted[i - 1];
	for (size_t i = 1; i < count; i++) {
		struct profile_tag tag = profile_tag(p, (tag_id){ (uint32_t)i });

		if (!wanted[i])
			continue;
		node_of[i] = child_of(g, node_of[tag.parent.v], tag);
		if (node_of[i] == UINT32_MAX)
			return false;
	}
	return true;
}

/* Adds the entries of one process, which are contiguous. */
static bool add_process(struct growing *g, const struct selection *s, const struct query *query,
			const struct profile_process *p, const struct entry *entries, size_t count)
{
	AUTO_FREE uint32_t *node_of = calloc(profile_tag_count(p) + 1, sizeof *node_of);
	AUTO_FREE bool *wanted = calloc(profile_tag_count(p) + 1, sizeof *wanted);
	AUTO_FREE bool *visited = calloc(profile_visits_count(p) + 1, sizeof *visited);

	if (!node_of || !wanted || !visited)
		return false;
	if (s->processes[p - s->profile->processes] && !want_visited(s, query, p, visited))
		return false;
	for (size_t i = 0; i < count; i++)
		wanted[entries[i].site->tag.v] = true;
	for (size_t i = 0; i < profile_visits_count(p); i++)
		wanted[profile_visits(p, i).tag.v] |= visited[i];
	if (!plant(g, p, wanted, node_of))
		return false;
	for (size_t i = 0; i < count; i++) {
		struct site_numbers n = selection_numbers(s, &entries[i]);
		struct tag_numbers part = {
			.m = entries[i].m,
			.freed_bytes = n.freed_bytes,
			.peak_bytes = n.peak_bytes,
			.leaked_bytes = n.live_bytes,
			.freed_variance =
				(float)estimate_variance(&n, VARIANCE_FREED_BYTES, n.freed_bytes),
			.peak_variance = (float)n.peak_bytes_variance,
			.leaked_variance = (float)n.live_bytes_variance,
		};

		tag_numbers_add(&g->nodes.at[node_of[entries[i].site->tag.v]].self, &part);
	}
	for (size_t i = 0; i < profile_visits_count(p); i++) {
		struct profile_visits visits = profile_visits(p, i);
		uint64_t *sum = &g->nodes.at[node_of[visits.tag.v]].visits;

		if (visited[i])
			*sum = saturating_add(*sum, visits.count);
	}
	return true;
}

int tag_tree_build(struct tag_tree *tree, const struct selection *s, const struct query *query)
{
	struct growing g = { 0 };
	const struct tag_node root = { 0 };
	bool done = vector_push(&g.nodes, root);
	size_t at = 0;

	for (size_t i = 0; i < s->profile->process_count && done; i++) {
		const struct profile_process *p = &s->profile->processes[i];
		size_t end = at;

		while (end < s->count && s->entries[end].process == p)
			end++;
		done = add_process(&g, s, query, p, s->entries + at, end - at);
		at = end;
	}
	intern_release(&g.known);
	if (!done) {
		vector_release(&g.nodes);
		return -1;
	}
	for (size_t i = g.nodes.count; i > 0; i--) {
		struct tag_node *n = &g.nodes.at[i - 1];

		tag_numbers_add(&n->total, &n->self);
		if (i > 1)
			tag_numbers_add(&g.nodes.at[n->parent].total, &n->total);
	}
	*tree = (struct tag_tree){ g.nodes.at, g.nodes.count };
	return 0;
}

void tag_tree_release(struct tag_tree *tree)
{
	free(tree->nodes);
	*tree = (struct tag_tree){ 0 };
}

const char *tag_tree_path(const struct tag_tree *tree, uint32_t node, struct arena *arena)
{
	const char *path = "";

	for (unsigned left = 64; node && path; node = tree->nodes[node].parent, left--) {
		if (left == 0)
			return arena_printf(arena, ".../%s", path);
		path = arena_printf(arena, "%s%s%s", tree->nodes[node].name, *path ? "/" : "",
				    path);
	}
	return path;
}
