/* SPDX-License-Identifier: Apache-2.0 */
/* See move.h. Owns: the work space, mapped for as long as it is needed. The old places are only read. */
#include "recorder/move.h"

#include <sys/mman.h>

#include "recorder/account.h"
#include "recorder/slot.h"
#include "recorder/sys.h"

enum { NODES, SITES, RECORDS, POOL, SAMPLED };
const enum live_region moved_regions[MOVED_REGIONS] = {
	[NODES] = LIVE_NODES, [SITES] = LIVE_SITES,	[RECORDS] = LIVE_RECORDS,
	[POOL] = LIVE_POOL,   [SAMPLED] = LIVE_SAMPLED,
};

#define UNITS(type) (sizeof(type) / LIVE_POOL_UNIT)
/* What [other] may need that it has not got yet. */
#define UNITS_OF_OTHER                                                                             \
	(UNITS(struct live_sizes_many) + UNITS(struct live_lifetimes) +                            \
	 UNITS(struct live_reallocs) + UNITS(struct live_samples))

static uint64_t used(enum live_region region)
{
	return memory.head->used[region];
}

/* ---- numbers ---- */

static char *give(struct move_kept *kept, uint64_t numbers, char *at)
{
	kept->words = numbers / 64 + 1;
	kept->bits = (uint64_t *)(void *)at;
	kept->before = (uint32_t *)(void *)(kept->bits + kept->words);
	return (char *)(kept->before + (kept->words + 1) / 2 * 2);
}

bool move_begin(struct move *move)
{
	uint64_t numbers = used(LIVE_NODES) + used(LIVE_SITES) + used(LIVE_RECORDS);
	uint64_t bytes = used(LIVE_SITES) * sizeof *move->sum + numbers / 64 * 16 + LIVE_PAGE;
	long at = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (sys_failed(at))
		return false;
	char *next = (char *)at;

	move->work = (void *)at;
	move->work_bytes = bytes;
	move->sum = (struct move_sum *)(void *)next;
	next = give(&move->nodes, used(LIVE_NODES), (char *)(move->sum + used(LIVE_SITES)));
	next = give(&move->sites, used(LIVE_SITES), next);
	give(&move->records, used(LIVE_RECORDS), next);
	return true;
}

void move_end(struct move *move)
{
	sys_munmap(move->work, move->work_bytes);
}

/* Without the instruction, which not every processor has. */
static uint32_t ones(uint64_t word)
{
	word -= word >> 1 & UINT64_C(0x5555555555555555);
	word = (word & UINT64_C(0x3333333333333333)) + (word >> 2 & UINT64_C(0x3333333333333333));
	word = (word + (word >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
	return (uint32_t)(word * UINT64_C(0x0101010101010101) >> 56);
}

static void number(struct move_kept *kept)
{
	uint32_t count = 0;

	for (uint64_t i = 0; i < kept->words; i++) {
		kept->before[i] = count;
		count += ones(kept->bits[i]);
	}
	kept->count = count;
}

uint32_t move_number(const struct move_kept *kept, uint32_t number)
{
	uint64_t below = (UINT64_C(1) << number % 64) - 1;

	return kept->before[number / 64] + ones(kept->bits[number / 64] & below);
}

/* ---- how much ---- */

static uint64_t units_of_sizes(uint32_t ref)
{
	if (ref == 0)
		return 0;
	return ref & LIVE_SIZES_MANY ? UNITS(struct live_sizes_many) : UNITS(struct live_sizes_few);
}

static uint64_t units_of(const struct live_record *record)
{
	return units_of_sizes(record->sizes) +
	       (record->lifetimes ? UNITS(struct live_lifetimes) : 0) +
	       (record->reallocs ? UNITS(struct live_reallocs) : 0) +
	       (record->samples ? UNITS(struct live_samples) : 0);
}

void move_count(struct move *move)
{
	number(&move->nodes);
	number(&move->sites);
	number(&move->records);
	move->pool_units = 1 + used(LIVE_SLOTS) * LIVE_KINDS * UNITS_OF_OTHER;
	for (uint32_t i = 1; i < used(LIVE_RECORDS); i++) {
		if (move_has(&move->records, i))
			move->pool_units += units_of(memory_record(i));
	}
	for (uint32_t i = 1; i < used(LIVE_TAGS); i++)
		move->pool_units += memory_tag(i)->pool != 0 ? UNITS(struct live_pool) : 0;
}

uint64_t move_bytes(const struct move *move, enum live_region region)
{
	switch (region) {
	case LIVE_NODES:
		return move->nodes.count * sizeof(struct live_node);
	case LIVE_SITES:
		return move->sites.count * sizeof(struct live_site);
	case LIVE_RECORDS:
		return move->records.count * sizeof(struct live_record);
	case LIVE_POOL:
		return move->pool_units * LIVE_POOL_UNIT;
	default:
		return used(LIVE_SAMPLED) * sizeof(struct live_sampled);
	}
}

/* ---- what stays ---- */

static uint32_t take_units(struct move *move, uint64_t units)
{
	uint64_t unit = move->place[POOL].used;

	move->place[POOL].used += units;
	return (uint32_t)unit;
}

static void *unit_at(const struct move *move, uint32_t unit)
{
	return move->place[POOL].at + (uint64_t)unit * LIVE_POOL_UNIT;
}

static uint32_t copy_units(struct move *move, uint32_t ref, uint64_t units)
{
	if (ref == 0)
		return 0;
	uint32_t unit = take_units(move, units);

	__builtin_memcpy(unit_at(move, unit), memory_pool(ref), units * LIVE_POOL_UNIT);
	return unit;
}

static struct live_record *new_record(const struct move *move, uint32_t old)
{
	return (struct live_record *)(void *)move->place[RECORDS].at +
	       move_number(&move->records, old);
}

static void move_record(struct move *move, uint32_t id)
{
	const struct live_record *old = memory_record(id);
	struct live_record *record = new_record(move, id);
	uint32_t many = old->sizes & LIVE_SIZES_MANY;

	*record = *old;
	record->site = move_number(&move->sites, old->site);
	record->sizes =
		copy_units(move, old->sizes & ~LIVE_SIZES_MANY, units_of_sizes(old->sizes)) | many;
	record->lifetimes = copy_units(move, old->lifetimes, UNITS(struct live_lifetimes));
	record->reallocs = copy_units(move, old->reallocs, UNITS(struct live_reallocs));
	record->samples = copy_units(move, old->samples, UNITS(struct live_samples));
}

static void move_trie(struct move *move)
{
	struct live_node *node = (struct live_node *)(void *)move->place[NODES].at;
	struct live_site *site = (struct live_site *)(void *)move->place[SITES].at;

	for (uint32_t i = 0; i < used(LIVE_NODES); i++) {
		if (!move_has(&move->nodes, i))
			continue;
		*node = *memory_node(i);
		node->parent = move_number(&move->nodes, node->parent);
		node++;
	}
	for (uint32_t i = 0; i < used(LIVE_SITES); i++) {
		if (!move_has(&move->sites, i))
			continue;
		*site = *memory_site(i);
		site->node = move_number(&move->nodes, site->node);
		site++;
	}
	move->place[NODES].used = move->nodes.count;
	move->place[SITES].used = move->sites.count;
}

/* At the same places: the index leads there. */
static void move_sampled(struct move *move)
{
	const struct live_sampled *from = (const void *)memory.region[LIVE_SAMPLED];
	struct live_sampled *to = (struct live_sampled *)(void *)move->place[SAMPLED].at;

	for (uint64_t i = 0; i < used(LIVE_SAMPLED); i++) {
		to[i] = from[i];
		if (from[i].address != 0)
			to[i].record = move_number(&move->records, from[i].record);
	}
	move->place[SAMPLED].used = used(LIVE_SAMPLED);
}

/* ---- what goes: into [other] of its slot ---- */

/* The counter of a size in [other], whose sizes are in half octaves from now on. */
static uint64_t *bucket_of(struct move *move, struct live_record *other, uint64_t size)
{
	if (!(other->sizes & LIVE_SIZES_MANY)) {
		const struct live_sizes_few *few =
			other->sizes ? unit_at(move, other->sizes) : NULL;
		uint32_t unit = take_units(move, UNITS(struct live_sizes_many));
		struct live_sizes_many *many = unit_at(move, unit);
		uint64_t first = other->calls;

		for (uint64_t i = 0; few != NULL && i < few->used; i++) {
			many->count[live_size_bucket(few->entry[i].size)] += few->entry[i].count;
			first -= few->entry[i].count;
		}
		many->count[live_size_bucket(other->first_size)] += first;
		other->sizes = unit | LIVE_SIZES_MANY;
		other->first_size = UINT64_MAX;
	}
	struct live_sizes_many *many = unit_at(move, other->sizes & ~LIVE_SIZES_MANY);

	return &many->count[live_size_bucket(size)];
}

static void add_sizes(struct move *move, struct live_record *other, const struct live_record *gone)
{
	uint64_t first = gone->calls;

	if (gone->sizes & LIVE_SIZES_MANY) {
		const struct live_sizes_many *many = memory_pool(gone->sizes & ~LIVE_SIZES_MANY);
		uint64_t *to = bucket_of(move, other, 0);

		for (int i = 0; i < LIVE_SIZE_BUCKETS; i++)
			to[i] += many->count[i];
		return;
	}
	if (gone->sizes != 0) {
		const struct live_sizes_few *few = memory_pool(gone->sizes);

		for (uint64_t i = 0; i < few->used; i++) {
			*bucket_of(move, other, few->entry[i].size) += few->entry[i].count;
			first -= few->entry[i].count;
		}
	}
	*bucket_of(move, other, gone->first_size) += first;
}

/* Adds counters to those that *ref leads to, made if need be. */
static void add_units(struct move *move, uint32_t *ref, uint32_t gone, uint64_t units)
{
	if (gone == 0)
		return;
	if (*ref == 0)
		*ref = take_units(move, units);
	const uint64_t *from = memory_pool(gone);
	uint64_t *to = unit_at(move, *ref);

	for (uint64_t i = 0; i < units * LIVE_POOL_UNIT / sizeof *to; i++)
		to[i] += from[i];
}

/* What it held at the peak: as it was saved, or else as it is. */
static void add_peak(struct live_record *other, const struct live_record *gone)
{
	uint32_t state = memory.head->peak.state;
	bool saved = gone->epoch == state >> 1;

	if (state & 1)
		return; /* rising: the peak is what is live now */
	account_save(other, state);
	other->peak_bytes += saved ? gone->peak_bytes : (int64_t)(gone->bytes - gone->freed_bytes);
	other->peak_blocks += saved ? gone->peak_blocks : (int32_t)(gone->calls - gone->frees);
}

static void add_to_other(struct move *move, const struct live_record *gone)
{
	enum live_kind kind = (enum live_kind)memory_site(gone->site)->kind;
	const struct slot *slot = slot_at(gone->slot);
	struct live_record *other = new_record(move, slot->record_of_other[kind]);

	add_sizes(move, other, gone);
	add_peak(other, gone);
	add_units(move, &other->lifetimes, gone->lifetimes, UNITS(struct live_lifetimes));
	add_units(move, &other->reallocs, gone->reallocs, UNITS(struct live_reallocs));
	add_units(move, &other->samples, gone->samples, UNITS(struct live_samples));
	other->calls += gone->calls;
	other->bytes += gone->bytes;
	other->frees += gone->frees;
	other->freed_bytes += gone->freed_bytes;
	other->temporary += gone->temporary;
	other->slack += gone->slack;
	other->freed_slack += gone->freed_slack;
}

void move_all(struct move *move)
{
	move->place[POOL].used = 1;
	move_trie(move);
	for (uint32_t i = 0; i < used(LIVE_RECORDS); i++) {
		if (move_has(&move->records, i))
			move_record(move, i);
	}
	move->place[RECORDS].used = move->records.count;
	for (uint32_t i = 1; i < used(LIVE_RECORDS); i++) {
		if (!move_has(&move->records, i))
			add_to_other(move, memory_record(i));
	}
	for (uint32_t i = 1; i < used(LIVE_TAGS); i++)
		memory_tag(i)->pool =
			copy_units(move, memory_tag(i)->pool, UNITS(struct live_pool));
	move_sampled(move);
}
