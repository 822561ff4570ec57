/* SPDX-License-Identifier: Apache-2.0 */
/* The stack trie and the table of sites.
 *
 * Owns: LIVE_NODES, LIVE_SITES and two hash tables of ids in scratch memory, all changed under sites_lock; memory for
 * them is opened before the lock is taken. An outgrown table is left behind: together less than the living one.
 * Invariant: a node is reached from the root by exactly one chain of frames; a key leads to one site. */
#include "recorder/sites.h"

#include "base/hash.h"
#include "recorder/lock.h"
#include "recorder/rules.h"

enum { TABLE_BITS_FIRST = 10 };

/* Open addressing over ids; 0 = empty. The entries they name hold the keys. */
struct id_table {
	uint32_t *id;
	uint32_t mask, used;
};
static struct id_table nodes, sites;
static struct lock sites_lock;

static uint64_t node_hash(uint32_t parent, uint32_t frame)
{
	return hash_mix((uint64_t)parent << 32 | frame);
}

static uint64_t hash_of_node(uint32_t id)
{
	return node_hash(memory_node(id)->parent, memory_node(id)->frame);
}

/* A key's lowest bit is always set. */
static uint64_t key_hash(uint64_t key)
{
	return key >> 8;
}

static uint64_t hash_of_site(uint32_t id)
{
	return key_hash(memory_site(id)->key);
}

static bool table_start(struct id_table *table)
{
	*table = (struct id_table){ .id = memory_scratch(sizeof(uint32_t) << TABLE_BITS_FIRST),
				    .mask = (1u << TABLE_BITS_FIRST) - 1 };
	return table->id != NULL;
}

static void table_put(struct id_table *table, uint64_t hash, uint32_t id)
{
	uint32_t i = (uint32_t)hash & table->mask;

	while (table->id[i] != 0)
		i = (i + 1) & table->mask;
	table->id[i] = id;
	table->used++;
}

/* Doubles a table in which `more` further ids would not leave half of it free. */
static void table_grow(struct slot *slot, struct id_table *table, uint32_t more,
		       uint64_t (*hash_of)(uint32_t id))
{
	uint32_t mask = __atomic_load_n(&table->mask, __ATOMIC_RELAXED);

	if (table->used + more <= mask / 2)
		return;
	uint64_t size = (uint64_t)mask + 1;

	while (size / 2 < (uint64_t)table->used + more)
		size *= 2;
	uint32_t *id = memory_scratch(size * sizeof *id);

	if (id == NULL || !lock_take(&sites_lock, slot->id))
		return;
	if (table->mask == mask) {
		struct id_table old = *table;

		*table = (struct id_table){ .id = id, .mask = (uint32_t)size - 1 };
		for (uint64_t i = 0; i <= old.mask; i++) {
			if (old.id[i] != 0)
				table_put(table, hash_of(old.id[i]), old.id[i]);
		}
	}
	lock_give(&sites_lock);
}

/* The child of `parent` for a frame. 0: no memory. Under the lock.
 *
 * A new stack mostly brings a chain of new nodes, one behind the other: a node that follows its parent is found there
 * and is not in the table. */
static uint32_t node_child(uint32_t parent, uint32_t frame)
{
	uint64_t used = memory.head->used[LIVE_NODES];
	const struct live_node *next = memory_node(parent + 1);
	bool follows = parent + 1 == used;

	if (!follows && next->parent == parent && next->frame == frame)
		return parent + 1;
	uint64_t hash = node_hash(parent, frame);

	for (uint32_t i = (uint32_t)hash & nodes.mask; !follows && nodes.id[i] != 0;
	     i = (i + 1) & nodes.mask) {
		const struct live_node *node = memory_node(nodes.id[i]);

		if (node->parent == parent && node->frame == frame)
			return nodes.id[i];
	}
	if ((used + 1) * sizeof(struct live_node) > memory.head->opened[LIVE_NODES] ||
	    nodes.used >= nodes.mask / 8 * 7)
		return 0;
	*memory_node((uint32_t)used) = (struct live_node){ parent, frame };
	__atomic_store_n(&memory.head->used[LIVE_NODES], used + 1, __ATOMIC_RELEASE);
	if (!follows)
		table_put(&nodes, hash, (uint32_t)used);
	return (uint32_t)used;
}

/* The node of the whole walk; known ones from the root on are kept in the walk. 0: no memory. Under the lock. */
static uint32_t node_of_walk(struct walk *walk)
{
	uint32_t x = walk->count;
	uint32_t node;

	while (x > 0 && walk->info[x - 1].node == 0)
		x--;
	node = x > 0 ? walk->info[x - 1].node : walk->mark; /* marks are the first nodes */
	for (; x < walk->count; x++) {
		node = node_child(node, rule_frame(walk->info[x].rule));
		if (node == 0)
			return 0;
		walk->info[x].node = node;
	}
	return node;
}

static uint32_t site_find(uint64_t key)
{
	for (uint32_t i = (uint32_t)key_hash(key) & sites.mask; sites.id[i] != 0;
	     i = (i + 1) & sites.mask) {
		if (memory_site(sites.id[i])->key == key)
			return sites.id[i];
	}
	return 0;
}

static uint32_t site_add(uint64_t key, uint32_t node, enum live_kind kind)
{
	uint64_t used = memory.head->used[LIVE_SITES];

	if ((used + 1) * sizeof(struct live_site) > memory.head->opened[LIVE_SITES] ||
	    sites.used >= sites.mask / 8 * 7)
		return 0;
	*memory_site((uint32_t)used) =
		(struct live_site){ .key = key, .node = node, .kind = kind, .born_ms = clock_ms() };
	__atomic_store_n(&memory.head->used[LIVE_SITES], used + 1, __ATOMIC_RELEASE);
	table_put(&sites, key_hash(key), (uint32_t)used);
	return (uint32_t)used;
}

bool sites_start(void)
{
	uint64_t first_node =
		memory_append(LIVE_NODES, LIVE_FRAME_OTHER + 1, sizeof(struct live_node));
	uint64_t first_site = memory_append(LIVE_SITES, LIVE_SITE_FIRST, sizeof(struct live_site));
	uint64_t first_record = memory_append(LIVE_RECORDS, 1, sizeof(struct live_record));
	uint64_t first_unit = memory_append(LIVE_POOL, 1, LIVE_POOL_UNIT);

	if (first_node != 0 || first_site != 0 || first_record != 0 || first_unit != 0)
		return false;
	if (!table_start(&nodes) || !table_start(&sites))
		return false;
	for (uint32_t mark = LIVE_FRAME_CUT; mark <= LIVE_FRAME_OTHER; mark++)
		*memory_node(mark) = (struct live_node){ 0, mark }; /* asked for by nobody */
	for (uint32_t kind = 0; kind < LIVE_KINDS; kind++) {
		uint64_t key = sites_key(~(uint64_t)kind, (enum live_kind)kind);

		*memory_site(LIVE_SITE_OTHER_HEAP + kind) =
			(struct live_site){ .key = key, .node = LIVE_FRAME_OTHER, .kind = kind };
		table_put(&sites, key_hash(key), LIVE_SITE_OTHER_HEAP + kind);
	}
	return true;
}

void sites_reset(void)
{
	nodes = sites = (struct id_table){ 0 };
	sites_lock = (struct lock){ 0 };
}

void sites_recover(struct slot *slot)
{
	lock_recover(&sites_lock, slot->id);
}

static void count_mark(const struct walk *walk)
{
	if (walk->mark == LIVE_FRAME_CUT)
		health_add(HEALTH_stacks_cut);
	else if (walk->mark == LIVE_FRAME_STOPPED)
		health_add(walk->unreadable ? HEALTH_stacks_unreadable : HEALTH_stacks_stopped);
}

COLD uint32_t sites_record_slow(struct slot *slot, uint64_t key, enum live_kind kind)
{
	struct walk *walk = slot->walk;
	uint32_t site = 0;

	memory_open(LIVE_NODES,
		    (memory.head->used[LIVE_NODES] + 2 * walk->limit) * sizeof(struct live_node));
	memory_open(LIVE_SITES, (memory.head->used[LIVE_SITES] + 64) * sizeof(struct live_site));
	table_grow(slot, &nodes, 64, hash_of_node);
	table_grow(slot, &sites, 64, hash_of_site);
	if (lock_take(&sites_lock, slot->id)) {
		site = site_find(key);
		if (site == 0) {
			uint32_t node = node_of_walk(walk);

			site = node != 0 ? site_add(key, node, kind) : 0;
			if (site != 0)
				count_mark(walk);
		}
		lock_give(&sites_lock);
	}
	if (site == 0) {
		health_add(HEALTH_unsited_calls);
		return slot->record_of_other[kind];
	}
	return slot_record(slot, key, site, kind);
}

uint32_t sites_record_of_site(struct slot *slot, uint32_t site)
{
	uint64_t key = memory_site(site)->key;
	struct slot_entry *entry = slot_probe(slot, key);

	if (LIKELY(entry->key == key))
		return entry->record;
	return slot_record(slot, key, site, (enum live_kind)memory_site(site)->kind);
}
