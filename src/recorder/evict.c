/* SPDX-License-Identifier: Apache-2.0 */
/* When room is made, which stacks go, and the change from the old place to the new one; move.c writes the new one.
 *
 * Owns: when it was done last. The gate is closed meanwhile: some milliseconds for a profile of 16 MiB, in which other threads
 * wait if they come to a sample. */
#include "recorder/evict.h"

#include <sys/mman.h>

#include "recorder/gate.h"
#include "recorder/maps.h"
#include "recorder/marks.h"
#include "recorder/memo.h"
#include "recorder/move.h"
#include "recorder/pools.h"
#include "recorder/sites.h"
#include "recorder/sys.h"

enum {
	DUE_DEN = 2,   /* of the budget: it may take a while until everybody is out of the gate */
	SPARE_DEN = 4, /* of the budget: that part is for what stays, beside what was */
	LITTLE_DEN = 8,
	REST_MS = 1000,
	KEPT_DEAD_DEN = 4, /* of all stacks, the part that may stay though nothing lives */
	SIZE_CLASSES = 64,
};

static uint64_t due_bytes;
static uint32_t rest_until_ms;
static struct live_span whole[LIVE_REGIONS]; /* both places of a region; bytes 0 = not known yet */

static uint64_t budget(void)
{
	return __atomic_load_n(&memory.control->budget_bytes, __ATOMIC_RELAXED);
}

/* Where all of the profile is ours, and nobody outside keeps account of its numbers. */
static bool is_possible(void)
{
	return sample_filters && memory.head->own.kept != LIVE_KEPT_COLLECTOR &&
	       clock_ms() >= __atomic_load_n(&memory.control->hold_until_ms, __ATOMIC_ACQUIRE) &&
	       !memory_is_shrunk && sys_may(SYS_MEMORY) && sys_may(SYS_PROBE);
}

void evict_start(void)
{
	due_bytes = budget() / DUE_DEN;
	rest_until_ms = 0;
	for (int i = 0; i < LIVE_REGIONS; i++)
		whole[i] = (struct live_span){ 0, 0 };
	memory_kept_back = is_possible() ? budget() / SPARE_DEN : 0;
}

bool evict_is_due(void)
{
	uint64_t opened = __atomic_load_n(&memory.head->opened_bytes, __ATOMIC_RELAXED);

	return UNLIKELY(opened > due_bytes) && clock_ms() >= rest_until_ms && is_possible();
}

/* If little came of it, later: half way to what may be had, and not at once. */
static void set_due(uint64_t before)
{
	uint64_t opened = __atomic_load_n(&memory.head->opened_bytes, __ATOMIC_RELAXED);
	uint64_t most = budget() - budget() / SPARE_DEN;
	uint64_t half_way = opened < most ? opened + (most - opened) / 2 : most - 1;

	due_bytes = MAX(budget() / DUE_DEN, half_way);
	if (opened > before - before / LITTLE_DEN)
		rest_until_ms = clock_ms() + REST_MS;
}

/* ---- which stacks stay ---- */

static struct move move;

static void keep_site_of(uint32_t *record)
{
	move_keep(&move.sites, memory_record(*record)->site);
}

/* As it was saved, or as it is, if it has not changed since or the total still rises. */
static int64_t held_at_peak(const struct live_record *record)
{
	uint32_t state = memory.head->peak.state;

	return !(state & 1) && record->epoch == state >> 1
		       ? record->peak_bytes
		       : (int64_t)(record->bytes - record->freed_bytes);
}

/* What is allocated there and not freed, what held some of the peak, and what somebody still refers to. */
static void keep_living(void)
{
	const struct live_sampled *sampled = (const void *)memory.region[LIVE_SAMPLED];

	for (uint32_t i = 1; i < memory.head->used[LIVE_RECORDS]; i++) {
		const struct live_record *record = memory_record(i);
		struct move_sum *sum = &move.sum[record->site];

		sum->blocks += record->calls - record->frees;
		sum->bytes += record->bytes - record->freed_bytes;
		sum->total_bytes += record->bytes;
		sum->peak_bytes += (uint64_t)held_at_peak(record);
	}
	for (uint64_t i = 0; i < memory.head->used[LIVE_SAMPLED]; i++) {
		if (sampled[i].address != 0)
			move_keep(&move.sites, memory_record(sampled[i].record)->site);
	}
	maps_visit_records(keep_site_of);
	pools_visit_records(keep_site_of);
	for (uint32_t i = 0; i < memory.head->used[LIVE_SITES]; i++) {
		const struct move_sum *sum = &move.sum[i];

		if (i < LIVE_SITE_FIRST || sum->blocks != 0 || sum->bytes != 0 ||
		    sum->peak_bytes != 0)
			move_keep(&move.sites, i);
	}
}

static unsigned class_of(uint64_t bytes)
{
	return bytes != 0 ? 63u - (unsigned)__builtin_clzll(bytes) : 0;
}

/* Of the others those of the largest totals, by powers of two: what a program does most is what it is asked about. */
static uint64_t keep_large(void)
{
	uint32_t sites = (uint32_t)memory.head->used[LIVE_SITES];
	uint64_t count[SIZE_CLASSES] = { 0 }, kept = 0, gone = 0;
	int least = SIZE_CLASSES;

	for (uint32_t i = LIVE_SITE_FIRST; i < sites; i++)
		count[class_of(move.sum[i].total_bytes)] += !move_has(&move.sites, i);
	while (least > 0 && kept + count[least - 1] <= sites / KEPT_DEAD_DEN)
		kept += count[--least];
	for (uint32_t i = LIVE_SITE_FIRST; i < sites; i++) {
		if (move_has(&move.sites, i))
			continue;
		if ((int)class_of(move.sum[i].total_bytes) >= least)
			move_keep(&move.sites, i);
		else
			gone += move.sum[i].total_bytes != 0;
	}
	return gone;
}

static void keep_nodes_and_records(void)
{
	for (uint32_t i = 0; i <= LIVE_FRAME_OTHER; i++)
		move_keep(&move.nodes, i);
	for (uint32_t i = 1; i < memory.head->used[LIVE_SITES]; i++) {
		uint32_t node = memory_site(i)->node;

		for (; move_has(&move.sites, i) && !move_has(&move.nodes, node);
		     node = memory_node(node)->parent)
			move_keep(&move.nodes, node);
	}
	move_keep(&move.records, 0);
	for (uint32_t i = 1; i < memory.head->used[LIVE_RECORDS]; i++) {
		if (move_has(&move.sites, memory_record(i)->site))
			move_keep(&move.records, i);
	}
}

/* ---- the change ---- */

/* The half of a region that is not in use. */
static struct live_span other_half(enum live_region region)
{
	const struct live_span *now = &memory.head->region[region];

	if (whole[region].bytes == 0)
		whole[region] = *now;
	const struct live_span *all = &whole[region];
	uint64_t half = all->bytes / 2 & ~(uint64_t)(LIVE_PAGE - 1);

	return now->at == all->at ? (struct live_span){ all->at + half, all->bytes - half }
				  : (struct live_span){ all->at, half };
}

/* How much of it came back. */
static uint64_t give_back(struct live_span span, uint64_t bytes)
{
	return sys_failed(sys_madvise((char *)memory.head + span.at, bytes, MADV_REMOVE)) ? 0
											  : bytes;
}

/* In the beginning a region is not halved yet. */
static bool fits(const struct move_place *place, enum live_region region)
{
	const struct live_span *now = &memory.head->region[region];

	return place->opened <= place->span.bytes &&
	       (now->at > place->span.at ||
		now->at + memory.head->opened[region] <= place->span.at);
}

/* Opens the new places. False: no room; what was opened is given back. */
static bool open_places(void)
{
	uint64_t needed = 0;

	for (unsigned i = 0; i < MOVED_REGIONS; i++) {
		enum live_region region = moved_regions[i];
		struct move_place *place = &move.place[i];

		place->span = other_half(region);
		place->at = (char *)memory.head + place->span.at;
		place->opened =
			(move_bytes(&move, region) + LIVE_PAGE - 1) & ~(uint64_t)(LIVE_PAGE - 1);
		needed += place->opened;
		if (!fits(place, region))
			return false;
	}
	if (memory.head->opened_bytes + needed > budget())
		return false;
	memory_kept_back = 0;
	for (unsigned i = 0; i < MOVED_REGIONS; i++) {
		if (!memory_open_at(move.place[i].at, move.place[i].opened)) {
			for (unsigned j = 0; j <= i; j++)
				give_back(move.place[j].span, move.place[j].opened);
			return false;
		}
	}
	return true;
}

/* First what will be, then the mark that it counts, then what is; then what was goes back. */
static void change_head(void)
{
	struct live_header *head = memory.head;
	struct live_change before;

	__builtin_memcpy(head->change.region, head->region, sizeof head->region);
	__builtin_memcpy(head->change.used, head->used, sizeof head->used);
	__builtin_memcpy(head->change.opened, head->opened, sizeof head->opened);
	before = head->change;
	for (unsigned i = 0; i < MOVED_REGIONS; i++) {
		head->change.region[moved_regions[i]] = move.place[i].span;
		head->change.used[moved_regions[i]] = move.place[i].used;
		head->change.opened[moved_regions[i]] = move.place[i].opened;
	}
	__atomic_store_n(&head->generation, head->generation + 1, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	__builtin_memcpy(head->region, head->change.region, sizeof head->region);
	__builtin_memcpy(head->used, head->change.used, sizeof head->used);
	__builtin_memcpy(head->opened, head->change.opened, sizeof head->opened);
	__atomic_store_n(&head->generation, head->generation + 1, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (unsigned i = 0; i < MOVED_REGIONS; i++) {
		enum live_region region = moved_regions[i];

		memory.region[region] = move.place[i].at;
		__atomic_add_fetch(&head->opened_bytes,
				   move.place[i].opened -
					   give_back(before.region[region], before.opened[region]),
				   __ATOMIC_RELAXED);
	}
}

static void renumber(uint32_t *record)
{
	*record = move_number(&move.records, *record);
}

/* What the slots remember by number. */
static void tell_slots(void)
{
	for (uint32_t id = 0; id < memory.head->used[LIVE_SLOTS]; id++) {
		struct slot *slot = slot_at(id);

		if (slot == NULL)
			continue;
		for (unsigned kind = 0; kind < LIVE_KINDS; kind++)
			renumber(&slot->record_of_other[kind]);
		slot->walk->stamp = 0;
		memo_forget(slot);
		table_clear(&slot->records);
	}
	for (uint32_t i = 1; i < memory.head->used[LIVE_RECORDS]; i++) {
		const struct live_record *record = memory_record(i);

		if (record->site >= LIVE_SITE_FIRST)
			table_put(&slot_at(record->slot)->records, table_tag(record->key), i);
	}
}

static void make_room(void)
{
	if (!is_possible() || !move_begin(&move))
		return;
	keep_living();
	uint64_t gone = keep_large();

	keep_nodes_and_records();
	move_count(&move);
	if (gone > 0 && open_places()) {
		move_all(&move);
		change_head();
		tell_slots();
		sites_moved();
		maps_visit_records(renumber);
		pools_visit_records(renumber);
		marks_moved();
		__atomic_add_fetch(&memory.head->health[HEALTH_evicted_stacks], gone,
				   __ATOMIC_RELAXED);
	}
	move_end(&move);
	memory_kept_back = budget() / SPARE_DEN;
}

/* Signals wait meanwhile: a handler might not come back here. */
NOINLINE void evict(void)
{
	uint64_t before = sys_hold_signals();

	if (gate_close()) {
		uint64_t opened = memory.head->opened_bytes;

		make_room();
		set_due(opened);
		gate_open();
	} else {
		rest_until_ms = clock_ms() + 1; /* somebody is at it, or inside */
	}
	sys_let_signals(before);
}
