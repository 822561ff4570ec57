/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts the rows about threads to types of the model, and determines which of their numbers are
 * known.
 *
 * build.c checked slots and kinds.
 */
#include "model/threads.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "format/recording/rows.h"
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

	bool counts_all = t->all_calls != 0;

	return (struct profile_thread){ .tid = t->tid,
					.slot = t->slot,
					.started_ns = t->started_ns,
					.calls = counts_all ? t->all_calls : t->calls,
					.bytes = counts_all ? t->all_bytes : t->bytes,
					.frees = t->frees,
					.freed_bytes = t->freed_bytes,
					.stack_reserved_bytes = t->stack_reserved_bytes,
					.stack_used_bytes = t->stack_used_bytes,
					.stack_most_bytes = t->stack_most_bytes,
					.name = t->name,
					.counts_all = counts_all };
}

size_t profile_slot_count(const struct profile_process *p)
{
	size_t count = 0;

	for (size_t i = 0; i < p->rows->thread_count; i++)
		count = MAX(count, (size_t)p->rows->threads[i].slot + 1);
	for (size_t i = 0; i < p->rows->site_counters_count; i++)
		count = MAX(count, (size_t)p->rows->site_counters[i].slot + 1);
	return count;
}

size_t profile_remote_frees_count(const struct profile_process *p)
{
	return p->rows->remote_frees_count;
}

struct profile_remote_frees profile_remote_frees(const struct profile_process *p, size_t index)
{
	ASSERT(index < p->rows->remote_frees_count);
	const struct remote_frees_row *f = &p->rows->remote_frees[index];

	return (struct profile_remote_frees){ f->freer, f->owner, (enum profile_kind)f->kind,
					      f->blocks, f->bytes };
}

size_t profile_counters_count(const struct profile_process *p, site_id site)
{
	return p->counters_of[site.v + 1] - p->counters_of[site.v];
}

_Static_assert((int)PROFILE_HEAP == (int)LIVE_KIND_HEAP &&
		       (int)PROFILE_MMAP == (int)LIVE_KIND_MMAP &&
		       (int)PROFILE_POOL == (int)LIVE_KIND_POOL,
	       "one order");

static enum profile_kind kind_of(const struct profile_process *p, site_id site)
{
	return (enum profile_kind)p->rows->sites[site.v].kind;
}

struct profile_counters profile_counters(const struct profile_process *p, site_id site,
					 size_t index)
{
	const struct site_counters_row *c =
		&p->rows->site_counters[p->counters_order[p->counters_of[site.v] + index]];
	enum profile_kind kind = kind_of(p, site);
	bool closed = !(p->remote_free_kinds[c->slot] >> kind & 1);

	return (struct profile_counters){ .slot = c->slot,
					  .frees_made = c->frees,
					  .freed_made_bytes = c->freed_bytes,
					  .numbers = site_numbers_of_counters(p, site, kind, c,
									      closed) };
}

bool profile_slots_closed(const struct profile_process *p, enum profile_kind kind,
			  const bool *slots)
{
	size_t count = profile_slot_count(p);

	for (size_t i = 0; i < p->rows->remote_frees_count; i++) {
		const struct remote_frees_row *f = &p->rows->remote_frees[i];

		if (f->kind != (uint32_t)kind || (!f->blocks && !f->bytes))
			continue;
		/* Blocks of an unknown owner may belong to these slots. */
		if (f->owner >= count || f->freer >= count || slots[f->freer] != slots[f->owner])
			return false;
	}
	return true;
}

struct site_numbers *profile_slot_sums(const struct profile_process *p, struct arena *arena)
{
	struct site_numbers *sums = ARENA_ARRAY(arena, struct site_numbers, profile_slot_count(p));

	for (size_t i = 0; sums && i < p->site_count; i++) {
		const struct profile_site *site = &p->sites[i];

		for (size_t j = 0;
		     site->kind == PROFILE_HEAP && j < profile_counters_count(p, site->id); j++) {
			struct profile_counters counters = profile_counters(p, site->id, j);
			struct site_numbers *sum = &sums[counters.slot];

			counters.numbers.frees = counters.frees_made;
			counters.numbers.freed_bytes = counters.freed_made_bytes;
			estimates_add(sum, &counters.numbers);
		}
	}
	return sums;
}

/* Finds the slots with remote frees, as owner or freer, by kind. */
static int find_remote_free_kinds(struct profile_process *p, struct arena *arena)
{
	const struct process_rows *rows = p->rows;
	size_t count = profile_slot_count(p);
	uint8_t *remote_free_kinds = ARENA_ARRAY(arena, uint8_t, count + 1);
	uint8_t of_unknown = 0;

	if (!remote_free_kinds)
		return -1;
	for (size_t i = 0; i < rows->remote_frees_count; i++) {
		const struct remote_frees_row *f = &rows->remote_frees[i];
		uint8_t bit = f->blocks || f->bytes ? (uint8_t)(1u << f->kind) : 0;

		if (f->freer < count)
			remote_free_kinds[f->freer] |= bit;
		if (f->owner < count)
			remote_free_kinds[f->owner] |= bit;
		else
			of_unknown |= bit;
	}
	for (size_t i = 0; i < count; i++)
		remote_free_kinds[i] |= of_unknown;
	p->remote_free_kinds = remote_free_kinds;
	return 0;
}

/* Counts live blocks by the site counters of their allocation. The result is known if it is complete: equal to the live numbers of the
 * site. While the process runs, both change and are not compared. */
int threads_build(struct profile_process *p, struct arena *arena)
{
	const struct process_rows *rows = p->rows;
	struct counters_live *live =
		ARENA_ARRAY(arena, struct counters_live, rows->site_counters_count + 1);

	if (!live || find_remote_free_kinds(p, arena) < 0)
		return -1;
	for (size_t i = 0; i < rows->age_count; i++) {
		struct counters_live *counters = &live[rows->ages[i].counters];

		counters->blocks = saturating_add(counters->blocks, rows->ages[i].blocks);
		counters->bytes = saturating_add(counters->bytes, rows->ages[i].bytes);
	}
	for (size_t i = 0; i < p->site_count; i++) {
		const struct profile_site *site = &p->sites[i];
		uint64_t blocks = 0, bytes = 0;
		bool moves = p->end == PROFILE_RUNNING && rows->age_count > 0;

		for (uint32_t j = p->counters_of[site->id.v]; j < p->counters_of[site->id.v + 1];
		     j++) {
			blocks = saturating_add(blocks, live[p->counters_order[j]].blocks);
			bytes = saturating_add(bytes, live[p->counters_order[j]].bytes);
		}
		for (uint32_t j = p->counters_of[site->id.v]; j < p->counters_of[site->id.v + 1];
		     j++)
			live[p->counters_order[j]].known =
				site->kind == PROFILE_HEAP &&
				(moves || (blocks == site->numbers.live_blocks &&
					   bytes == site->numbers.live_bytes));
	}
	p->counters_live = live;
	return 0;
}
