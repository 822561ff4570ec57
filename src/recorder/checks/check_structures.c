/* SPDX-License-Identifier: Apache-2.0 */
/* The invariants of the profile's regions. Only in the checking build, at the end of a hook.
 *
 * Other threads keep running. So for data that they change, only what every reader of the profile may rely on is checked:
 * regions are append-only, an entry is complete when `used` covers it, and it refers to older ones. The calling thread's own
 * data (its slot, its site counters) is compared exactly; with one slot, everything is. */
#include "recorder/checks/check.h"

#include "recorder/counters/account.h"
#include "recorder/counters/blocks.h"
#include "recorder/hooks/hook.h"
#include "recorder/unwind/rules.h"
#include "recorder/slot.h"
#include "recorder/sampling/sampler.h"
#include "recorder/unwind/walk.h"
#include "recorder/unwind/stack_cache.h"

static bool is_alone(void)
{
	return memory_used(LIVE_SLOTS) == 1;
}

/* ---- memory ---- */

/* [0, opened) of a region is ours and contains all used entries. */
static void check_memory(void)
{
	const struct live_header *head = memory.head;
	uint64_t sum = sizeof *head + LIVE_PAGE;

	for (int i = 0; i < LIVE_REGIONS; i++) {
		enum live_region region = (enum live_region)i;
		/* `used` of a ring wraps around. */
		uint64_t bytes =
			region == LIVE_SAVED ? 0 : memory_used(region) * live_entry_bytes(region);
		uint64_t opened = __atomic_load_n(&head->opened[i], __ATOMIC_ACQUIRE);

		RECORDER_CHECK(memory.region[i] == (const char *)head + head->region[i].at);
		RECORDER_CHECK(bytes <= opened);
		RECORDER_CHECK(opened <= memory.kept_bytes[i]);
		RECORDER_CHECK(memory.kept_bytes[i] <= memory.reserved_bytes[i]);
		RECORDER_CHECK(opened % LIVE_PAGE == 0);
		sum += opened;
	}
	RECORDER_CHECK(sum == head->opened_bytes || !is_alone());
}

/* ---- stacks ---- */

static uint64_t check_nodes(void)
{
	uint64_t nodes = memory_used(LIVE_NODES), frames = memory_used(LIVE_FRAMES);

	for (uint32_t i = 1; i < nodes; i++) {
		const struct live_node *node = memory_node(i);

		RECORDER_CHECK(node->parent < i); /* so every chain ends at the root */
		RECORDER_CHECK(node->frame != 0 && node->frame < frames);
		RECORDER_CHECK(node->frame > LIVE_FRAME_STACK_OFF || i <= LIVE_FRAME_STACK_OFF ||
			       node->frame == LIVE_FRAME_OTHER);
	}
	return nodes;
}

static uint64_t check_sites(void)
{
	uint64_t sites = memory_used(LIVE_SITES), nodes = memory_used(LIVE_NODES);
	uint64_t tags = MAX(memory_used(LIVE_TAGS), UINT64_C(1));

	for (uint32_t i = 1; i < sites; i++) {
		const struct live_site *site = memory_site(i);

		RECORDER_CHECK(site->key & 1);
		RECORDER_CHECK(site->node < nodes);
		RECORDER_CHECK(site->tag < (live_tag_is_site(site->kind) ? sites : tags));
		RECORDER_CHECK(site->kind < LIVE_KINDS);
		RECORDER_CHECK(site->entry < LIVE_ENTRIES);
		RECORDER_CHECK(site->interval == 0 || site->interval >= SAMPLE_INTERVAL_MIN ||
			       site->kind == LIVE_KIND_TIMED);
	}
	return sites;
}

static uint64_t check_frames(void)
{
	uint64_t frames = memory_used(LIVE_FRAMES),
		 modules = MAX(memory_used(LIVE_MODULES), UINT64_C(1));

	for (uint32_t i = 1; i < frames; i++)
		RECORDER_CHECK(live_frame_module(*memory_frame(i)) < modules);
	return frames;
}

static uint64_t check_codes(void)
{
	uint64_t codes = memory_used(LIVE_CODES), texts = memory_used(LIVE_STRINGS);

	for (uint32_t i = 1; i < codes; i++) {
		const struct live_code *code = memory_code(i);

		RECORDER_CHECK(code->module != 0 && code->module < memory_used(LIVE_MODULES) &&
			       memory_module(code->module)->kind == LIVE_MODULE_PYTHON);
		RECORDER_CHECK((uint64_t)code->name_at + code->name_bytes <= texts);
		RECORDER_CHECK((uint64_t)code->lines_at + code->lines_bytes <= texts);
	}
	return codes;
}

/* The stored walk: the stack is a chain of nodes from the root, and the words it depends on are sorted. */
void check_walk(const struct walk *walk)
{
	uint64_t hash = walk->mark;

	RECORDER_CHECK(walk->count <= walk->limit);
	RECORDER_CHECK(walk->mark <= LIVE_FRAME_STACK_OFF);
	for (uint32_t i = 0; i < walk->count; i++) {
		const struct walk_info *info = &walk->info[i];

		hash = walk_hash(hash, rule_frame(info->rule));
		RECORDER_CHECK(info->hash == hash);
		/* A reusable walk is on one stack, where callers are above. */
		RECORDER_CHECK(i == 0 || walk->stamp == 0 ||
			       walk->frame[i].at < walk->frame[i - 1].at);
		if (info->node == 0)
			continue;
		RECORDER_CHECK(memory_node(info->node)->frame == rule_frame(info->rule));
		RECORDER_CHECK(memory_node(info->node)->parent ==
			       (i > 0 ? walk->info[i - 1].node : walk->mark));
	}
	for (uint32_t i = 0; i < walk->checks; i++) {
		RECORDER_CHECK(walk->check[i].index < (int32_t)walk->count);
		RECORDER_CHECK(i == 0 || walk->check[i - 1].index <= walk->check[i].index);
	}
}

/* The slot's stack cache: entries are contiguous, and place[] refers only to entries. */
static uint64_t check_stack_cache(const struct slot *slot)
{
	const struct stack_cache *stack_cache = slot->stack_cache;
	uint32_t at = sizeof(struct stack_cache_entry);

	if (stack_cache == NULL)
		return 0;
	RECORDER_CHECK(stack_cache->used <= stack_cache->bytes);
	while (at < stack_cache->used) {
		const struct stack_cache_entry *entry = stack_cache_entry(stack_cache, at);

		RECORDER_CHECK(entry->key != 0);
		RECORDER_CHECK(entry->bytes > sizeof *entry && entry->bytes % 16 == 0);
		if (entry->counters != 0) /* else it may have interpreter frames */
			check_counters(slot, entry->counters);
		at += entry->bytes;
	}
	RECORDER_CHECK(at == stack_cache->used);
	for (int i = 0; i < STACK_CACHE_SETS; i++)
		RECORDER_CHECK(stack_cache->place[i] < stack_cache->used &&
			       stack_cache->place[i] % 16 == 0);
	for (int i = 0; i < STACK_CACHE_ROWS; i++)
		RECORDER_CHECK(stack_cache->row[i].last < stack_cache->used &&
			       stack_cache->row[i].discriminators <= STACK_CACHE_DISCRIMINATORS);
	return STACK_CACHE_SETS;
}

/* ---- tags and threads ---- */

static uint64_t check_tags(void)
{
	uint64_t tags = memory_used(LIVE_TAGS), texts = memory_used(LIVE_STRINGS);

	for (uint32_t i = 1; i < tags; i++) {
		const struct live_tag *tag = memory_tag(i), *parent = memory_tag(tag->parent);
		const struct live_tag *name = memory_tag(tag->name);

		RECORDER_CHECK(tag->parent < i);
		RECORDER_CHECK(tag->depth == parent->depth + 1);
		RECORDER_CHECK(tag->depth <= LIVE_TAG_DEPTH_MAX);
		RECORDER_CHECK(tag->name <= i && (tag->name == i) == (tag->parent == 0));
		RECORDER_CHECK(name->parent == 0 && name->name == tag->name);
		RECORDER_CHECK(tag->kind == name->kind && tag->kind < LIVE_TAG_KINDS);
		RECORDER_CHECK((uint64_t)tag->text_at + tag->text_bytes <= texts);
		RECORDER_CHECK(tag->text_at == name->text_at &&
			       tag->text_bytes == name->text_bytes);
	}
	return tags;
}

static uint64_t check_visits(void)
{
	uint64_t visits = memory_used(LIVE_VISITS), tags = memory_used(LIVE_TAGS),
		 threads = memory_used(LIVE_THREADS);

	for (uint32_t i = 1; i < visits; i++) {
		uint32_t tag = __atomic_load_n(&memory_visits(i)->tag, __ATOMIC_ACQUIRE);

		RECORDER_CHECK(tag == 0 || (tag < tags && memory_visits(i)->thread < threads));
	}
	return visits;
}

static uint64_t check_slots(const struct slot *own)
{
	uint64_t slots = memory_used(LIVE_SLOTS), threads = memory_used(LIVE_THREADS);
	uint32_t tid = own->live->tid, thread = own->live->thread;

	RECORDER_CHECK(own->id < slots);
	RECORDER_CHECK(own->live == memory_slot(own->id));
	RECORDER_CHECK(tid != 0);
	if (thread < threads && memory_thread(thread)->tid == tid) /* else it is not in the log */
		RECORDER_CHECK(memory_thread(thread)->slot == own->id);
	return slots;
}

/* ---- site counters ---- */

/* Sums of the slot's site counters of one kind, and sums weighted by their ids. */
struct sums {
	uint64_t calls, bytes, frees, freed_bytes, fragmentation, freed_fragmentation, temporary;
	uint64_t live_by_counters, blocks_by_counters;
};

static void add_counters(struct sums *sums, uint32_t id, const struct live_site_counters *counters)
{
	sums->calls += counters->calls;
	sums->bytes += counters->bytes;
	sums->frees += counters->frees;
	sums->freed_bytes += counters->freed_bytes;
	sums->fragmentation += counters->fragmentation;
	sums->freed_fragmentation += counters->freed_fragmentation;
	sums->temporary += counters->temporary;
	sums->live_by_counters += id * (counters->bytes - counters->freed_bytes);
	sums->blocks_by_counters += id * (counters->calls - counters->frees);
}

static void check_details(const struct live_site_counters *counters)
{
	uint64_t units = memory_used(LIVE_POOL);

	RECORDER_CHECK((counters->sizes & ~LIVE_SIZES_MANY) < units);
	RECORDER_CHECK(counters->lifetimes < units);
	RECORDER_CHECK(counters->reallocs < units);
	RECORDER_CHECK(counters->samples < units);
	RECORDER_CHECK(counters->epoch <= memory.head->peak.state >> 1);
	RECORDER_CHECK((counters->samples != 0) <= (memory_site(counters->site)->interval != 0));
}

static bool is_of_other(const struct slot *slot, uint32_t id)
{
	for (int kind = 0; kind < LIVE_KINDS; kind++) {
		if (slot->counters_of_other[kind] == id)
			return true;
	}
	return false;
}

/* The slot's site counters: those of its thread are found by key, and together
 * with those of previous threads they add up to the slot's totals. */
static uint64_t check_site_counters(const struct slot *slot, struct sums *heap, struct sums *maps)
{
	uint64_t count = memory_used(LIVE_SITE_COUNTERS);

	for (uint32_t i = 1; i < count; i++) {
		const struct live_site_counters *counters = memory_counters(i);

		if (__atomic_load_n(&counters->site, __ATOMIC_ACQUIRE) == 0 ||
		    memory_thread(counters->thread)->slot != slot->id)
			continue; /* another slot's, or incomplete */
		if (counters->thread == slot->thread) {
			check_counters(slot, i);
			RECORDER_CHECK(slot_find(slot, counters->key) == i || is_of_other(slot, i));
		}
		check_details(counters);
		if (memory_site(counters->site)->kind == LIVE_KIND_HEAP)
			add_counters(heap, i, counters);
		else if (memory_site(counters->site)->kind == LIVE_KIND_MMAP)
			add_counters(maps, i, counters);
	}
	return count;
}

static void check_totals(const struct slot *slot, const struct sums *heap, const struct sums *maps)
{
	const struct live_slot *live = slot->live;

	RECORDER_CHECK(heap->calls == live->calls);
	RECORDER_CHECK(heap->bytes == live->bytes);
	RECORDER_CHECK(heap->frees == live->frees);
	RECORDER_CHECK(heap->freed_bytes == live->freed_bytes);
	RECORDER_CHECK(heap->fragmentation == live->fragmentation);
	RECORDER_CHECK(heap->freed_fragmentation == live->freed_fragmentation);
	RECORDER_CHECK(heap->temporary == live->temporary);
	RECORDER_CHECK(maps->calls == live->map_calls);
	RECORDER_CHECK(maps->bytes == live->map_bytes);
	RECORDER_CHECK(maps->frees == live->unmap_calls);
	RECORDER_CHECK(maps->freed_bytes == live->unmap_bytes);
}

/* ---- the block map, with one slot ---- */

struct found {
	uint64_t entries; /* examined */
	uint64_t live_by_counters, blocks_by_counters;
	uint64_t samples;
};

static void add_block(struct found *found, uint32_t counters, uint64_t size, uint64_t weight)
{
	found->live_by_counters += counters * size * weight;
	found->blocks_by_counters += counters * weight;
}

static void check_words(struct found *found, uint64_t unit, uint64_t bytes, bool tiny)
{
	const uint64_t *word = (const uint64_t *)(const void *)(memory.region[LIVE_LEAVES] + unit);

	RECORDER_CHECK(unit + bytes <= memory_used(LIVE_LEAVES) * LIVE_LEAF_UNIT);
	found->entries += bytes / sizeof *word / 8; /* most are empty, which is quick */
	for (uint64_t i = 0; i < bytes / sizeof *word; i++) {
		if (word[i] == 0)
			continue;
		const struct block block = blocks_unpack(&word[i]);

		check_block(&block);
		RECORDER_CHECK((block.size_bytes < blocks_tiny_limit) == tiny);
		RECORDER_CHECK(!tiny || live_small_place(word[i]) == i % 4);
		add_block(found, block.counters, block.size_bytes, 1);
	}
}

static void check_large_leaf(struct found *found, uint64_t unit, uintptr_t start)
{
	enum { ENTRIES = 1 << (LIVE_LARGE_SHIFT - LIVE_LARGE_GRANULE_SHIFT) };
	const struct live_large *entry =
		(const struct live_large *)(const void *)(memory.region[LIVE_LEAVES] + unit);

	RECORDER_CHECK(unit + ENTRIES * sizeof *entry <= memory_used(LIVE_LEAVES) * LIVE_LEAF_UNIT);
	found->entries += ENTRIES / 8;
	for (uint64_t i = 0; i < ENTRIES; i++) {
		const struct block block = { entry[i].counters, 1, entry[i].birth_ms,
					     entry[i].size_bytes };

		if (entry[i].address == 0)
			continue;
		check_block(&block);
		RECORDER_CHECK(entry[i].address - start < UINT64_C(1) << LIVE_LARGE_SHIFT);
		RECORDER_CHECK((entry[i].address - start) >> LIVE_LARGE_GRANULE_SHIFT == i);
		RECORDER_CHECK(block.size_bytes >= LIVE_SMALL_LIMIT);
		add_block(found, block.counters, block.size_bytes, 1);
	}
}

static void check_tiny_table(struct found *found, uint32_t number)
{
	const uint32_t *page =
		(const uint32_t *)(const void *)(memory.region[LIVE_LEAVES] +
						 (uint64_t)(number - 1) * LIVE_LEAF_UNIT);

	RECORDER_CHECK(number <= memory_used(LIVE_LEAVES));
	for (uint64_t i = 0; i < LIVE_LEAF_UNIT / sizeof *page; i++) {
		if (page[i] != 0)
			check_words(found, (uint64_t)(page[i] - 1) * LIVE_PAGE, LIVE_PAGE, true);
	}
	found->entries += LIVE_LEAF_UNIT / sizeof *page / 8;
}

static void check_area(struct found *found, uint32_t number, uintptr_t start)
{
	const struct live_area *area =
		(const struct live_area *)(const void *)memory.region[LIVE_AREAS] + (number - 1);

	RECORDER_CHECK(number <= memory_used(LIVE_AREAS));
	for (uint32_t i = 0; i < ARRAY_SIZE(area->small); i++) {
		if (area->small[i] != 0)
			check_words(found, (uint64_t)(area->small[i] - 1) * LIVE_LEAF_UNIT,
				    LIVE_LEAF_UNIT, false);
	}
	for (uintptr_t i = 0; i < ARRAY_SIZE(area->large); i++) {
		if (area->large[i] != 0)
			check_large_leaf(found, (uint64_t)(area->large[i] - 1) * LIVE_LEAF_UNIT,
					 start + (i << LIVE_LARGE_SHIFT));
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(area->tiny); i++) {
		if (area->tiny[i] != 0)
			check_tiny_table(found, area->tiny[i]);
	}
	found->entries += ARRAY_SIZE(area->small) / 8;
}

/* Runs before births are checked. */
static void check_eras(struct found *found)
{
	const uint32_t *unit = (const uint32_t *)(const void *)memory.region[LIVE_LEAF_ERAS];
	uint64_t units = memory_used(LIVE_LEAF_ERAS);

	RECORDER_CHECK(units <= memory_used(LIVE_LEAVES));
	for (uint64_t i = 0; i < units; i++)
		RECORDER_CHECK(unit[i] <= memory_used(LIVE_ERAS));
	found->entries += units;
}

static void check_blocks(struct found *found)
{
	check_eras(found);
	for (uintptr_t i = 0; i < LIVE_TOP_ENTRIES; i++) {
		if (memory.head->top[i] != 0)
			check_area(found, memory.head->top[i], i << LIVE_AREA_SHIFT);
	}
	found->entries += LIVE_TOP_ENTRIES / 8;
}

static void check_samples(struct found *found)
{
	const struct live_sampled *entry = (const void *)memory.region[LIVE_SAMPLED];
	uint64_t entries = memory_used(LIVE_SAMPLED);

	for (uint64_t i = 0; i < entries; i++) {
		const struct block block = { entry[i].counters, 1, entry[i].birth_ms,
					     entry[i].size_bytes };

		if (entry[i].address == 0)
			continue;
		check_block(&block);
		RECORDER_CHECK(memory_counters(block.counters)->samples != 0);
		RECORDER_CHECK(entry[i].weight != 0);
		add_block(found, block.counters, block.size_bytes, entry[i].weight);
	}
	found->entries += entries;
}

/* False if something could not be recorded exactly: then the map may lack a block, or have one that is not counted. */
static bool is_complete(void)
{
	const uint64_t *health = memory.head->health;

	return health[HEALTH_untracked_blocks] == 0 && health[HEALTH_lock_timeouts] == 0 &&
	       health[HEALTH_lost_samples] == 0 && thread_state.deleted_entry.counters == 0;
}

/* Every live block is in the map or the sampled blocks, with the site counters that count it, and nothing else is. */
static uint64_t check_all_blocks(const struct sums *heap)
{
	struct found found = { 0 };

	check_blocks(&found);
	check_samples(&found);
	if (is_alone() &&
	    is_complete()) { /* still alone: another thread may have begun meanwhile */
		RECORDER_CHECK(found.live_by_counters == heap->live_by_counters);
		RECORDER_CHECK(found.blocks_by_counters == heap->blocks_by_counters);
	}
	return found.entries;
}

uint64_t check_structures(const struct slot *slot)
{
	struct sums heap = { 0 }, maps = { 0 };

	check_memory();
	uint64_t entries = check_nodes() + check_sites() + check_frames() + check_codes() +
			   check_tags() + check_visits() + check_slots(slot) +
			   check_stack_cache(slot) + check_site_counters(slot, &heap, &maps);

	check_totals(slot, &heap, &maps);
	return is_alone() ? entries + check_all_blocks(&heap) : entries;
}
