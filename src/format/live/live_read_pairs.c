/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums the joint distributions of all slots. The list is untrusted memory and may be a circle: no more objects are read than the pool
 * can hold. Any thread.
 */
#include <stdlib.h>

#include "base/checked.h"
#include "format/live/live_read_parts.h"

enum { CLASSES = LIVE_PAIR_CLASSES * LIVE_PAIR_CLASSES };

static void add(const struct live_pairs *pairs, struct pair_row *sums)
{
	uint32_t kind = LIVE_LOAD(pairs->kind);

	if (kind >= LIVE_PAIRS_KINDS)
		return;
	for (uint32_t i = 0; i < CLASSES; i++) {
		struct pair_row *sum = &sums[kind * CLASSES + i];

		sum->kind = kind;
		sum->first = i / LIVE_PAIR_CLASSES;
		sum->second = i % LIVE_PAIR_CLASSES;
		sum->count = saturating_add(sum->count,
					    LIVE_LOAD(pairs->count[sum->first][sum->second]));
	}
}

int live_read_pairs(const struct live_view *view, struct process_rows *rows)
{
	uint64_t reference = LIVE_LOAD_LAST(view->header->pairs);
	size_t used = live_view_used(view, LIVE_POOL), count = 0;
	size_t most = used * LIVE_POOL_UNIT / sizeof(struct live_pairs);
	struct pair_row *sums;

	if (reference == 0 || reference > UINT32_MAX)
		return 0;
	sums = calloc((size_t)LIVE_PAIRS_KINDS * CLASSES, sizeof *sums);
	if (!sums)
		return -1;
	for (; reference != 0 && most > 0; most--) {
		const struct live_pairs *pairs =
			live_view_pool(view, used, (uint32_t)reference, sizeof *pairs);

		if (!pairs)
			break;
		add(pairs, sums);
		reference = LIVE_LOAD(pairs->next);
	}
	for (size_t i = 0; i < (size_t)LIVE_PAIRS_KINDS * CLASSES; i++)
		if (sums[i].count)
			sums[count++] = sums[i];
	rows->pairs = sums;
	rows->pair_count = count;
	return 0;
}
