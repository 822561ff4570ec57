/* SPDX-License-Identifier: Apache-2.0 */
/* The stack trie and the table of sites.
 *
 * Owns: LIVE_NODES, LIVE_SITES and two hash tables of ids in scratch memory, all changed under sites_lock; memory for them is
 * opened before the lock is taken. Most existing sites are found without the lock. Outgrown tables are never freed; together
 * they are smaller than the current one. Invariant: exactly one chain of frames leads from the root to a node; a key
 * identifies one site.
 *
 * While there is one slot, its own table has all sites; the table of sites is filled when a second slot registers. */
#include "recorder/counters/sites.h"

#include "base/hash.h"
#include "recorder/lock.h"
#include "recorder/unwind/rules.h"

static PROCESS_STATE struct table nodes, sites;
static PROCESS_STATE uint32_t sites_entered; /* sites that are in the table; under the lock */
static PROCESS_STATE struct lock sites_lock;

enum { FEW = 64 }; /* entries that are added while the lock is held */

static uint64_t node_hash(uint32_t parent, uint32_t frame)
{
	return hash_mix((uint64_t)parent << 32 | frame);
}

/* Returns the existing child of a node for a frame; 0 = none. Under the lock. */
static uint32_t node_find(uint32_t parent, uint32_t frame)
{
	const struct live_node *next = memory_node(parent + 1);
	uint32_t tag = table_tag(node_hash(parent, frame)), place = tag, id;

	if (parent + 1 < memory_used(LIVE_NODES) && next->parent == parent && next->frame == frame)
		return parent + 1;
	do
		id = table_next(&nodes, tag, &place);
	while (id != 0 && (memory_node(id)->parent != parent || memory_node(id)->frame != frame));
	return id;
}

/* 0 = none; without the lock it may miss an existing site. */
static uint32_t site_find(const struct table *table, uint64_t key)
{
	uint32_t tag = table_tag(key), place = tag, id;

	do
		id = table_next(table, tag, &place);
	while (id != 0 && memory_site(id)->key != key);
	return id;
}

/* Checks that a chain of frames leads to one node, and a key to one site. Under the lock. */
static void check_tables(void)
{
	uint64_t used = memory_used(LIVE_NODES);

	RECORDER_CHECK(sites_entered <= memory_used(LIVE_SITES));
	RECORDER_CHECK(sites.used == sites_entered - LIVE_SITE_OTHER_HEAP);
	RECORDER_CHECK(table_check(&nodes));
	RECORDER_CHECK(table_check(&sites));
	for (uint32_t i = LIVE_FRAME_STACK_OFF + 1; i < used; i++)
		RECORDER_CHECK(node_find(memory_node(i)->parent, memory_node(i)->frame) == i);
	for (uint32_t i = LIVE_SITE_OTHER_HEAP; i < sites_entered; i++)
		RECORDER_CHECK(site_find(&sites, memory_site(i)->key) == i);
}

static void check_sites(void)
{
	static struct check_pace pace;

	if (!check_is_due(&pace))
		return;
	check_tables();
	check_done(&pace, memory_used(LIVE_NODES) + sites_entered + nodes.mask + sites.mask);
}

/* Enters all nodes from `first` on, but those that node_child finds right after their parents. Returns the first that was not there. */
static uint64_t put_nodes(struct table *table, uint64_t first)
{
	uint64_t used = memory_used(LIVE_NODES);

	for (uint64_t i = MAX(first, (uint64_t)LIVE_FRAME_STACK_OFF + 1); i < used; i++) {
		const struct live_node *node = memory_node((uint32_t)i);

		if (node->parent + 1 != i)
			table_put(table, table_tag(node_hash(node->parent, node->frame)),
				  (uint32_t)i);
	}
	return used;
}

/* The same for the sites that are in their table. */
static uint64_t put_sites(struct table *table, uint64_t first)
{
	uint64_t entered = __atomic_load_n(&sites_entered, __ATOMIC_ACQUIRE);

	for (uint64_t i = MAX(first, (uint64_t)LIVE_SITE_OTHER_HEAP); i < entered; i++)
		table_put(table, table_tag(memory_site((uint32_t)i)->key), (uint32_t)i);
	return entered;
}

/* Grows the table for `more` further ids. The larger table is filled before the lock is taken: nodes and sites are only ever added, and
 * never change. */
typedef uint64_t put_fn(struct table *table, uint64_t first);
static void grow(struct slot *slot, struct table *table, put_fn *put, uint64_t more,
		 table_scratch *scratch)
{
	uint32_t mask = __atomic_load_n(&table->mask, __ATOMIC_RELAXED);
	struct table larger = table_larger(table, more, scratch);
	uint64_t before = 0, done = 0;

	if (larger.entry == NULL)
		return;
	do {
		before = done;
		done = put(&larger, done);
	} while (done - before > FEW);
	if (!lock_acquire(&sites_lock, slot->id))
		return;
	if (table->mask == mask) { /* no other thread has grown it */
		put(&larger, done);
		if (CHECKED)
			check_tables();
		table_replace(table, larger);
	}
	lock_release(&sites_lock);
}

/* Returns the child of `parent` for a frame. 0: no memory. Under the lock.
 *
 * A new stack usually adds a chain of consecutive nodes: a node right after its parent is found there and is not in the
 * table. */
static uint32_t node_child(uint32_t parent, uint32_t frame)
{
	uint64_t used = memory_used(LIVE_NODES);
	const struct live_node *next = memory_node(parent + 1);
	bool follows = parent + 1 == used;

	if (!follows && next->parent == parent && next->frame == frame)
		return parent + 1;
	uint32_t tag = table_tag(node_hash(parent, frame)), place = tag, id;

	while (!follows && (id = table_next(&nodes, tag, &place)) != 0) {
		const struct live_node *node = memory_node(id);

		if (node->parent == parent && node->frame == frame)
			return id;
	}
	if ((used + 1) * sizeof(struct live_node) > memory_opened(LIVE_NODES) ||
	    table_is_full(&nodes))
		return 0;
	*memory_node((uint32_t)used) = (struct live_node){ parent, frame };
	__atomic_store_n(&memory.head->used[LIVE_NODES], used + 1, __ATOMIC_RELEASE);
	if (!follows)
		table_put(&nodes, tag, (uint32_t)used);
	return (uint32_t)used;
}

/* Returns the node of the whole walk; caches the nodes of all frames in the walk. 0: no memory. Under the lock. */
static uint32_t node_of_walk(struct walk *walk)
{
	uint32_t x = walk->count;
	uint32_t node;

	while (x > 0 && walk->info[x - 1].node == 0)
		x--;
	node = x > 0 ? walk->info[x - 1].node : walk->mark; /* sentinels are the first nodes */
	for (; x < walk->count; x++) {
		node = node_child(node, rule_frame(walk->info[x].rule));
		if (node == 0)
			return 0;
		walk->info[x].node = node;
	}
	return node;
}

/* Inserts a few of the sites that were created while there was one slot. False: some are left. Under the lock. */
static bool enter_sites(void)
{
	uint64_t used = memory_used(LIVE_SITES), most = MIN(used, sites_entered + (uint64_t)FEW);

	for (; sites_entered < most && !table_is_full(&sites);
	     __atomic_store_n(&sites_entered, sites_entered + 1, __ATOMIC_RELEASE))
		table_put(&sites, table_tag(memory_site(sites_entered)->key), sites_entered);
	return sites_entered == used;
}

/* Finds a site that another slot has created, without the lock: threads share most of their stacks. */
static uint32_t site_find_fast(uint64_t key)
{
	struct table view = table_view(&sites);

	return site_find(&view, key);
}

/* Adds a site; sets its key and birth. */
static uint32_t site_add(uint64_t key, struct live_site site)
{
	uint64_t used = memory_used(LIVE_SITES);

	if ((used + 1) * sizeof(struct live_site) > memory_opened(LIVE_SITES))
		return 0;
	site.key = key;
	site.born_ms = clock_ms();
	*memory_site((uint32_t)used) = site;
	__atomic_store_n(&memory.head->used[LIVE_SITES], used + 1, __ATOMIC_RELEASE);
	return (uint32_t)used;
}

bool sites_start(void)
{
	uint64_t first_node =
		memory_append(LIVE_NODES, LIVE_FRAME_STACK_OFF + 1, sizeof(struct live_node));
	uint64_t first_site = memory_append(LIVE_SITES, LIVE_SITE_FIRST, sizeof(struct live_site));
	uint64_t first_counters =
		memory_append(LIVE_SITE_COUNTERS, 1, sizeof(struct live_site_counters));
	uint64_t first_unit = memory_append(LIVE_POOL, 1, LIVE_POOL_UNIT);

	if (first_node != 0 || first_site != 0 || first_counters != 0 || first_unit != 0)
		return false;
	nodes = table_new(TABLE_FIRST);
	sites = table_new(TABLE_FIRST);
	if (nodes.entry == NULL || sites.entry == NULL)
		return false;
	for (uint32_t mark = LIVE_FRAME_CUT; mark <= LIVE_FRAME_STACK_OFF; mark++)
		*memory_node(mark) = (struct live_node){ 0, mark }; /* not part of any walk */
	for (uint32_t kind = 0; kind < LIVE_KINDS; kind++) {
		uint64_t key = sites_key(~(uint64_t)kind, origin_of((enum live_kind)kind));

		*memory_site(LIVE_SITE_OTHER_HEAP + kind) = (struct live_site){
			.key = key, .node = LIVE_FRAME_OTHER, .kind = (uint16_t)kind
		};
	}
	sites_entered = LIVE_SITE_OTHER_HEAP;
	return true;
}

void sites_reset(void)
{
	nodes = sites = (struct table){ 0 };
	sites_lock = (struct lock){ 0 };
}

void sites_recover(struct slot *slot)
{
	lock_recover(&sites_lock, slot->id);
}

/* Of a new site: its stack is not complete. */
static void count_mark(uint32_t mark, bool unreadable)
{
	if (mark == LIVE_FRAME_CUT)
		health_add(HEALTH_stacks_cut);
	else if (mark == LIVE_FRAME_STOPPED)
		health_add(unreadable ? HEALTH_stacks_unreadable : HEALTH_stacks_stopped);
}

/* True if other slots may have created sites. A slot is registered before it creates its first. */
static bool is_shared(void)
{
	return memory_used(LIVE_SLOTS) > 1;
}

/* Finds a site that another slot has created; 0: none. *ret_failed: no memory to find out. Under the lock. */
static uint32_t site_of_others(uint64_t key, bool shared, bool *ret_failed)
{
	*ret_failed = shared && !enter_sites();
	return shared && !*ret_failed ? site_find(&sites, key) : 0;
}

/* Finds or creates the site of the stack in the walk. 0: no memory. Under the lock. */
static uint32_t site_of_walk(struct walk *walk, uint64_t key, struct origin origin, bool shared)
{
	bool failed;
	uint32_t site = site_of_others(key, shared, &failed), node;

	if (site != 0 || failed || (node = node_of_walk(walk)) == 0)
		return site;
	site = site_add(key, (struct live_site){
				     .node = node, .kind = origin.kind, .entry = origin.entry });
	if (site != 0)
		count_mark(walk->mark, walk->unreadable);
	return site;
}

/* Finds or creates a site that differs from another in its tag or interval. As above. */
static uint32_t site_like(struct live_site like, uint64_t key, bool shared)
{
	bool failed;
	uint32_t site = site_of_others(key, shared, &failed);

	return site != 0 || failed ? site : site_add(key, like);
}

/* Reserves memory for a site and its counters before the lock is taken. Without counters, the next call would create the site
 * again. Stays above the reserve, unless `use_reserve`; the tables of sites, which grow with the sites, may use it. */
static bool make_room(struct slot *slot, bool shared, bool use_reserve)
{
	uint64_t used = memory_used(LIVE_SITES);

	(use_reserve ? memory_open : memory_open_above_reserve)(
		LIVE_SITES, (used + 64) * sizeof(struct live_site));
	if (shared)
		grow(slot, &sites, put_sites,
		     used - __atomic_load_n(&sites_entered, __ATOMIC_RELAXED) + 64, memory_scratch);
	return slot_reserve(slot, use_reserve);
}

/* Takes the lock with that memory reserved. *ret_shared: other slots may have created sites before. */
static bool acquire_with_capacity(struct slot *slot, bool *ret_shared, bool use_reserve)
{
	for (;;) {
		*ret_shared = is_shared();
		if (!make_room(slot, *ret_shared, use_reserve))
			return false;
		if (!lock_acquire(&sites_lock, slot->id)) {
			slot->walk->stamp =
				0; /* walk and look up the stack again at the next call */
			return false;
		}
		bool entered = !*ret_shared || enter_sites() || table_is_full(&sites);

		if (entered && is_shared() == *ret_shared)
			return true;
		lock_release(
			&sites_lock); /* sites are left, or a second slot has just registered */
	}
}

static uint32_t counters_of(struct slot *slot, uint64_t key, uint32_t site, uint16_t kind,
			    bool use_reserve)
{
	if (site != 0)
		return slot_counters(slot, key, site, (enum live_kind)kind, use_reserve);
	health_add(HEALTH_unsited_calls);
	return slot->counters_of_other[kind];
}

COLD uint32_t sites_counters_slow(struct slot *slot, uint64_t key, struct origin origin)
{
	struct walk *walk = slot->walk;
	uint32_t site = site_find_fast(key);
	bool shared;

	if (site != 0)
		return counters_of(slot, key, site, origin.kind, false);
	memory_open_above_reserve(LIVE_NODES, (memory_used(LIVE_NODES) + 2 * walk->limit) *
						      sizeof(struct live_node));
	grow(slot, &nodes, put_nodes, 64, memory_scratch_above_reserve);
	if (acquire_with_capacity(slot, &shared, false)) {
		site = site_of_walk(walk, key, origin, shared);
		if (CHECKED)
			check_sites();
		lock_release(&sites_lock);
	}
	return counters_of(slot, key, site, origin.kind, false);
}

/* A site without a stack is the fallback when memory runs out: it must exist. */
static COLD uint32_t counters_like(struct slot *slot, struct live_site like, uint64_t key)
{
	bool use_reserve = like.node <= LIVE_FRAME_STACK_OFF, shared;
	uint32_t site = site_find_fast(key);

	if (site == 0 && acquire_with_capacity(slot, &shared, use_reserve)) {
		site = site_like(like, key, shared);
		if (CHECKED)
			check_sites();
		lock_release(&sites_lock);
	}
	return counters_of(slot, key, site, like.kind, use_reserve);
}

uint32_t sites_counters_of_tag(struct slot *slot, uint32_t base, uint32_t tag)
{
	const struct live_site_counters *counters = memory_counters(base);
	uint64_t key = sites_key(counters->key + tag * UINT64_C(0xc2b2ae3d27d4eb4f),
				 origin_of(LIVE_KIND_HEAP));
	uint32_t found = slot_find(slot, key);

	if (LIKELY(found != 0))
		return found;
	struct live_site like = *memory_site(counters->site);
	uint32_t other = slot->counters_of_other[like.kind];

	like.tag = tag;
	found = counters_like(slot, like, key);
	return found == other && base != other ? sites_counters_of_tag(slot, other, tag) : found;
}

/* Returns the node of a chain; caches the nodes of its frames there. 0: no memory. Under the lock. */
static uint32_t node_of_chain(struct site_chain *chain)
{
	uint32_t node = chain->known > 0 ? chain->node[chain->known - 1] : chain->mark;

	while (chain->known < chain->count) {
		node = node_child(node, chain->frame[chain->known]);
		if (node == 0)
			return 0;
		chain->node[chain->known] = node;
		__atomic_signal_fence(__ATOMIC_SEQ_CST); /* the hook may be abandoned here */
		chain->known++;
	}
	return node;
}

COLD uint32_t sites_counters_of_chain(struct slot *slot, struct site_chain *chain, uint64_t key,
				      struct origin origin)
{
	struct live_site like = { .kind = origin.kind, .entry = origin.entry };
	uint32_t site = site_find_fast(key);
	bool shared, failed;

	if (site == 0) {
		uint64_t more = chain->count - chain->known + 64;

		memory_open_above_reserve(LIVE_NODES, (memory_used(LIVE_NODES) + more) *
							      sizeof(struct live_node));
		grow(slot, &nodes, put_nodes, more, memory_scratch_above_reserve);
		if (acquire_with_capacity(slot, &shared, false)) {
			site = site_of_others(key, shared, &failed);
			if (site == 0 && !failed && (like.node = node_of_chain(chain)) != 0) {
				site = site_add(key, like);
				if (site != 0)
					count_mark(chain->mark, slot->walk->unreadable);
			}
			if (CHECKED)
				check_sites();
			lock_release(&sites_lock);
		}
	}
	return counters_of(slot, key, site, origin.kind, false);
}

uint32_t sites_counters_without_stack(struct slot *slot, struct origin origin)
{
	uint64_t key = sites_key(UINT64_C(0x756e61736b6564), origin);
	uint32_t found = slot_find(slot, key);

	return LIKELY(found != 0) ? found
				  : counters_like(slot,
						  (struct live_site){ .node = LIVE_FRAME_STACK_OFF,
								      .kind = origin.kind,
								      .entry = origin.entry },
						  key);
}

/* 0: no memory. */
static uint32_t find_of_interval(struct slot *slot, uint32_t base, uint64_t interval)
{
	const struct live_site_counters *counters = memory_counters(base);
	uint64_t key = sites_key(counters->key + interval * UINT64_C(0xd6e8feb86659fd93),
				 origin_of(LIVE_KIND_HEAP));
	uint32_t found = slot_find(slot, key);

	if (UNLIKELY(found == 0)) {
		struct live_site like = *memory_site(counters->site);

		like.interval = interval;
		like.unsampled = counters->site;
		found = counters_like(slot, like, key);
	}
	return memory_site(memory_counters(found)->site)->interval == interval ? found : 0;
}

uint32_t sites_counters_of_interval(struct slot *slot, uint32_t base, uint64_t interval)
{
	uint32_t found = find_of_interval(slot, base, interval);

	if (LIKELY(found != 0))
		return found;
	const struct live_site *site = memory_site(memory_counters(base)->site);
	uint32_t other = slot->counters_of_other[site->kind];

	if (site->tag != 0)
		other = sites_counters_of_tag(slot, other, site->tag);
	return find_of_interval(slot, other, interval);
}

uint32_t sites_counters_of_timed(struct slot *slot, uint32_t site, enum live_entry entry,
				 uint64_t interval)
{
	const struct live_site like = { .node = LIVE_FRAME_STACK_OFF,
					.tag = site,
					.kind = LIVE_KIND_TIMED,
					.entry = (uint16_t)entry,
					.interval = interval };
	uint64_t key = sites_key(UINT64_C(0x74696d6564) + site * UINT64_C(0xc2b2ae3d27d4eb4f),
				 (struct origin){ like.kind, like.entry });
	uint32_t found = slot_find(slot, key);

	return LIKELY(found != 0) ? found : counters_like(slot, like, key);
}

uint32_t sites_counters_of_site(struct slot *slot, uint32_t site)
{
	uint64_t key = memory_site(site)->key;
	uint32_t counters = slot_find(slot, key);

	if (LIKELY(counters != 0))
		return counters;
	/* A free counted elsewhere would leave its block live for ever. */
	return slot_counters(slot, key, site, (enum live_kind)memory_site(site)->kind, true);
}
