/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs of a site and a stack that frees its blocks, from the sites of LIVE_KIND_FREED: they have the stack, and in place of a
 * tag the site that allocated. Computed on demand: only one view needs them. Sites that are one above the rows (other intervals,
 * folded frames) are one here too, so pairs are summed again.
 *
 * Owns nothing; any thread may call it.
 */
#include "model/freed.h"

#include <stdlib.h>

#include "base/checked.h"
#include "format/recording/rows.h"
#include "model/frames/fold.h"
#include "model/same_sites.h"

static int compare(const void *left, const void *right)
{
	const struct profile_freed *a = left, *b = right;

	if (a->site.v != b->site.v)
		return a->site.v < b->site.v ? -1 : 1;
	return a->node.v < b->node.v ? -1 : a->node.v > b->node.v;
}

static struct profile_freed pair_of(const struct profile_process *p, size_t id)
{
	const struct site_row *row = &p->rows->sites[id];
	struct profile_freed pair = { .node = { fold_node(p, row->node) } };

	/* A damaged file may lead to a site that is none. */
	if (row->tag && !live_tag_is_site(p->rows->sites[row->tag].kind))
		pair.site.v = same_site(p, row->tag);
	for (uint32_t i = p->counters_of[id]; i < p->counters_of[id + 1]; i++) {
		const struct site_counters_row *counters =
			&p->rows->site_counters[p->counters_order[i]];

		pair.blocks = saturating_add(pair.blocks, counters->frees);
		pair.bytes = saturating_add(pair.bytes, counters->freed_bytes);
	}
	return pair;
}

ptrdiff_t profile_freed(const struct profile_process *p, struct arena *arena,
			struct profile_freed **ret)
{
	size_t count = 0, kept = 0;

	for (size_t i = 1; i < p->rows->site_count; i++)
		count += p->rows->sites[i].kind == LIVE_KIND_FREED;
	struct profile_freed *pairs = ARENA_ARRAY(arena, struct profile_freed, count);

	if (!pairs)
		return -1;
	count = 0;
	for (size_t i = 1; i < p->rows->site_count; i++) {
		if (p->rows->sites[i].kind != LIVE_KIND_FREED)
			continue;
		pairs[count] = pair_of(p, i);
		count += pairs[count].blocks > 0;
	}
	qsort(pairs, count, sizeof *pairs, compare);
	for (size_t i = 0; i < count; i++) {
		if (kept && compare(&pairs[kept - 1], &pairs[i]) == 0) {
			struct profile_freed *same = &pairs[kept - 1];

			same->blocks = saturating_add(same->blocks, pairs[i].blocks);
			same->bytes = saturating_add(same->bytes, pairs[i].bytes);
		} else {
			pairs[kept++] = pairs[i];
		}
	}
	*ret = pairs;
	return (ptrdiff_t)kept;
}
