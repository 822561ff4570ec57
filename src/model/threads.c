/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows about threads, in the model's own words.
 *
 * Slots were checked by build.c. A cell alone is shown with its sign; the unsigned numbers beside it
 * are for what only grows.
 */
#include "model/threads.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "format/rows.h"
#include "model/estimates.h"
#include "model/site_sums.h"

size_t profile_thread_count(const struct profile_process *p)
{
	return p->rows->thread_count;
}

struct profile_thread profile_thread(const struct profile_process *p, size_t index)
{
	ASSERT(index < p->rows->thread_count);
	const struct thread_row *t = &p->rows->threads[index];

	return (struct profile_thread){ t->tid,	  t->slot,  t->started_ns,  t->calls,
					t->bytes, t->frees, t->freed_bytes, t->name };
}

size_t profile_slot_count(const struct profile_process *p)
{
	size_t count = 0;

	for (size_t i = 0; i < p->rows->thread_count; i++)
		count = MAX(count, (size_t)p->rows->threads[i].slot + 1);
	for (size_t i = 0; i < p->rows->cell_count; i++)
		count = MAX(count, (size_t)p->rows->cells[i].slot + 1);
	return count;
}

size_t profile_foreign_count(const struct profile_process *p)
{
	return p->rows->foreign_count;
}

struct profile_foreign profile_foreign(const struct profile_process *p, size_t index)
{
	ASSERT(index < p->rows->foreign_count);
	const struct foreign_row *f = &p->rows->foreign[index];

	return (struct profile_foreign){ f->freer, f->owner, f->blocks, f->bytes };
}

size_t profile_cell_count(const struct profile_process *p, site_id site)
{
	return p->cells_of[site.v + 1] - p->cells_of[site.v];
}

struct profile_cell profile_cell(const struct profile_process *p, site_id site, size_t index)
{
	const struct cell_row *c = &p->rows->cells[p->cell_order[p->cells_of[site.v] + index]];
	struct profile_cell cell = {
		.slot = c->slot,
		.live_bytes = (int64_t)(c->bytes - c->freed_bytes),
		.live_blocks = (int64_t)(c->calls - c->frees),
		.peak_bytes = c->peak_bytes,
		.peak_blocks = c->peak_blocks,
	};
	struct site_numbers *n = &cell.numbers;

	site_numbers_add(n, c);
	n->max_exact = profile_cell_count(p, site) == 1;
	n->live_blocks = saturating_sub(c->calls, c->frees);
	n->live_bytes = saturating_sub(c->bytes, c->freed_bytes);
	n->live_slack_bytes = saturating_sub(c->slack, c->freed_slack);
	n->peak_bytes = c->peak_bytes > 0 ? (uint64_t)c->peak_bytes : 0;
	n->peak_blocks = c->peak_blocks > 0 ? (uint64_t)c->peak_blocks : 0;
	site_numbers_peak(n);
	return cell;
}

struct site_numbers *profile_slot_sums(const struct profile_process *p, struct arena *arena)
{
	struct site_numbers *sums = ARENA_ARRAY(arena, struct site_numbers, profile_slot_count(p));

	for (size_t i = 0; sums && i < p->site_count; i++) {
		const struct profile_site *site = &p->sites[i];

		for (size_t j = 0;
		     site->kind == PROFILE_HEAP && j < profile_cell_count(p, site->id); j++) {
			struct profile_cell cell = profile_cell(p, site->id, j);

			estimates_add(&sums[cell.slot], &cell.numbers);
		}
	}
	return sums;
}
