/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over site counters, for the program. The profile has everything already: totals in the slots, the rest in the site counters,
 * each with one writer, so that reading needs no lock and disturbs nobody. What other threads do meanwhile is counted or not.
 *
 * Owns: an array of sums per site, in scratch memory, under stats_lock; it grows with the sites and is never freed. */
#include "recorder/api/stats.h"

#include "recorder/sampling/mode.h"
#include "recorder/lock.h"

enum { MORE_SITES = 1024 };

static PROCESS_STATE struct lock stats_lock;
static PROCESS_STATE struct hg_numbers *sums; /* indexed by site */
static PROCESS_STATE uint64_t sums_room;

void stats_reset(void)
{
	stats_lock = (struct lock){ 0 };
	sums = NULL;
	sums_room = 0;
}

void stats_recover(struct slot *slot)
{
	lock_recover(&stats_lock, slot->id);
}

static uint64_t load(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* Computes the live values; call last. */
static void settle(struct hg_numbers *n)
{
	n->live_blocks = n->calls > n->frees ? n->calls - n->frees : 0;
	n->live_bytes = n->bytes > n->freed_bytes ? n->bytes - n->freed_bytes : 0;
}

/* ---- process totals ---- */

/* Allocations first, here and below: blocks that are freed meanwhile do not count as live. */
static void add_slot(struct hg_stats *ret, const struct live_slot *slot)
{
	ret->heap.calls += load(&slot->calls);
	ret->heap.bytes += load(&slot->bytes);
	ret->mapped.calls += load(&slot->map_calls);
	ret->mapped.bytes += load(&slot->map_bytes);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	ret->heap.frees += load(&slot->frees);
	ret->heap.freed_bytes += load(&slot->freed_bytes);
	ret->mapped.frees += load(&slot->unmap_calls);
	ret->mapped.freed_bytes += load(&slot->unmap_bytes);
}

struct hg_stats stats_read(struct slot *slot)
{
	struct hg_stats ret = { .mode = thread_state.stopped ? LIVE_MODE_DORMANT : mode_now(),
				.estimated = memory_used(LIVE_SAMPLED) > 0,
				.tags = MAX(memory_used(LIVE_TAGS), UINT64_C(1)),
				.sites = memory_used(LIVE_SITES),
				.recorder_bytes = load(&memory.head->opened_bytes) };
	const struct live_peak *peak = &memory.head->peak;

	(void)slot;
	for (uint64_t i = 0; i < memory_used(LIVE_SLOTS); i++)
		add_slot(&ret, memory_slot((uint32_t)i));
	settle(&ret.heap);
	settle(&ret.mapped);
	int64_t most = __atomic_load_n(&peak->peak_bytes, __ATOMIC_RELAXED);

	ret.peak_bytes = most > 0 ? (uint64_t)most : 0;
	ret.peak_bytes = MAX(ret.peak_bytes, ret.heap.live_bytes);
	ret.peak_bound_bytes = load(&peak->bound_bytes);
	return ret;
}

/* ---- by site counters ---- */

/* Returns site counters of heap blocks; NULL: of another kind, or not published yet. */
static const struct live_site_counters *heap_counters(uint64_t id, struct live_site *ret_site)
{
	const struct live_site_counters *counters = memory_counters((uint32_t)id);
	uint32_t site = __atomic_load_n(&counters->site, __ATOMIC_ACQUIRE);

	if (site == 0 || site >= memory_used(LIVE_SITES))
		return NULL;
	*ret_site = *memory_site(site);
	return ret_site->kind == LIVE_KIND_HEAP ? counters : NULL;
}

static void add_counters(struct hg_numbers *n, const struct live_site_counters *counters)
{
	n->calls += load(&counters->calls);
	n->bytes += load(&counters->bytes);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	n->frees += load(&counters->frees);
	n->freed_bytes += load(&counters->freed_bytes);
}

/* Calls add for all heap site counters. */
typedef void add_fn(void *to, const struct live_site_counters *counters,
		    const struct live_site *site);
static void add_all(add_fn *add, void *to)
{
	for (uint64_t i = 1; i < memory_used(LIVE_SITE_COUNTERS); i++) {
		struct live_site site;
		const struct live_site_counters *counters = heap_counters(i, &site);

		if (counters != NULL)
			add(to, counters, &site);
	}
}

/* ---- tags ---- */

struct tag_sums {
	struct hg_tag_stats *tag;
	uint32_t first, count; /* range of the tags */
};

static struct hg_tag_stats *tag_in(const struct tag_sums *s, uint32_t tag)
{
	return tag - s->first < s->count ? &s->tag[tag - s->first] : NULL;
}

static void add_to_tags(void *to, const struct live_site_counters *counters,
			const struct live_site *site)
{
	const struct tag_sums *s = to;
	struct hg_tag_stats *in = tag_in(s, site->tag);

	if (in != NULL)
		add_counters(&in->self, counters);
	for (uint32_t tag = site->tag;; tag = memory_tag(tag)->parent) {
		in = tag_in(s, tag);
		if (in != NULL)
			add_counters(&in->total, counters);
		if (tag == 0)
			break;
	}
}

static void name_tag(struct hg_tag_stats *ret, uint32_t id)
{
	const struct live_tag *tag = memory_tag(id);
	uint32_t bytes = MIN(tag->text_bytes, (uint32_t)HG_TAG_NAME - 1);

	ret->parent = tag->parent;
	ret->kind = tag->kind;
	__builtin_memcpy(ret->name, memory.region[LIVE_STRINGS] + tag->text_at, bytes);
}

/* *s has the zeroed tags. */
static void sum_tags(struct tag_sums *s)
{
	for (uint32_t i = 0; i < s->count; i++) {
		if (s->first + i > 0)
			name_tag(&s->tag[i], s->first + i);
	}
	for (uint64_t i = 1; i < memory_used(LIVE_VISITS); i++) {
		const struct live_visits *visits = memory_visits((uint32_t)i);
		uint32_t tag = __atomic_load_n(&visits->tag, __ATOMIC_ACQUIRE);
		struct hg_tag_stats *in = tag != 0 ? tag_in(s, tag) : NULL;

		if (in != NULL)
			in->visits += load(&visits->count);
	}
	add_all(add_to_tags, s);
	for (uint32_t i = 0; i < s->count; i++) {
		settle(&s->tag[i].self);
		settle(&s->tag[i].total);
	}
}

size_t stats_of_tags(struct hg_tag_stats *ret, size_t count)
{
	struct tag_sums s = {
		ret, 0, (uint32_t)MIN((uint64_t)count, MAX(memory_used(LIVE_TAGS), UINT64_C(1)))
	};

	__builtin_memset(ret, 0, s.count * sizeof *ret);
	sum_tags(&s);
	return s.count;
}

/* True if the path is the tag's: its name, preceded by its ancestors' names, separated by slashes. */
static bool path_is(uint32_t id, const char *path, size_t bytes)
{
	while (id != 0) {
		const struct live_tag *tag = memory_tag(id);

		if (bytes < tag->text_bytes ||
		    __builtin_memcmp(path + bytes - tag->text_bytes,
				     memory.region[LIVE_STRINGS] + tag->text_at,
				     tag->text_bytes) != 0)
			return false;
		bytes -= tag->text_bytes;
		id = tag->parent;
		if (id != 0 && (bytes == 0 || path[--bytes] != '/'))
			return false;
	}
	return bytes == 0;
}

bool stats_of_tag(const char *path, struct hg_tag_stats *ret)
{
	size_t bytes = path != NULL ? __builtin_strlen(path) : 0;

	for (uint64_t i = 1; i < memory_used(LIVE_TAGS); i++) {
		struct tag_sums s = { ret, (uint32_t)i, 1 };

		if (path_is((uint32_t)i, path, bytes)) {
			sum_tags(&s);
			return ret->visits > 0 || ret->total.calls > 0;
		}
	}
	return false;
}

/* ---- sites ---- */

struct site_sums {
	uint64_t count;
};

static void add_to_site(void *to, const struct live_site_counters *counters,
			const struct live_site *site)
{
	const struct site_sums *s = to;
	uint32_t id = site->unsampled != 0 ? site->unsampled : counters->site;

	if (id < s->count)
		add_counters(&sums[id], counters);
}

static uint64_t order_of(const struct hg_numbers *n, enum hg_order order)
{
	return order == HG_BY_CALLS ? n->calls : (order == HG_BY_BYTES ? n->bytes : n->live_bytes);
}

static void fill_site(struct hg_site_stats *ret, uint32_t id)
{
	uint32_t node = memory_site(id)->node;

	ret->tag = memory_site(id)->tag;
	ret->frames = 0;
	for (; node > LIVE_FRAME_STACK_OFF && ret->frames < HG_SITE_FRAMES;
	     node = memory_node(node)->parent) {
		uintptr_t address = memory_frame_address(memory_node(node)->frame);

		if (address != 0)
			ret->frame[ret->frames++] = (const void *)address;
	}
	for (uint32_t i = ret->frames; i < HG_SITE_FRAMES; i++)
		ret->frame[i] = NULL;
}

/* Inserts a site into the sorted results, if it is among the first `count`. `tag` holds the site's id until fill_site. Returns the
 * new number of results. */
static size_t insert(struct hg_site_stats *ret, size_t found, size_t count, uint32_t id,
		     enum hg_order order)
{
	uint64_t value = order_of(&sums[id], order);
	size_t at = MIN(found, count - 1);

	if (found == count && order_of(&ret[at].heap, order) >= value)
		return found;
	for (; at > 0 && order_of(&ret[at - 1].heap, order) < value; at--) {
		ret[at].tag = ret[at - 1].tag;
		ret[at].heap = ret[at - 1].heap;
	}
	ret[at].tag = id;
	ret[at].heap = sums[id];
	return MIN(found + 1, count);
}

static size_t choose(struct hg_site_stats *ret, size_t count, uint64_t sites, enum hg_order order)
{
	size_t found = 0;

	for (uint32_t i = 1; i < sites && count > 0; i++) {
		settle(&sums[i]);
		if (order_of(&sums[i], order) > 0)
			found = insert(ret, found, count, i, order);
	}
	for (size_t i = 0; i < found; i++)
		fill_site(&ret[i], ret[i].tag);
	return found;
}

/* Takes the lock with room for every site. Memory is allocated before, since no lock is held while opening memory; if another
 * thread was faster, it is wasted. */
static bool make_room(struct slot *slot)
{
	uint64_t wanted = memory_used(LIVE_SITES) + MORE_SITES;
	struct hg_numbers *more = NULL;

	if (__atomic_load_n(&sums_room, __ATOMIC_RELAXED) < memory_used(LIVE_SITES)) {
		wanted += wanted / 2;
		more = memory_scratch(wanted * sizeof *more);
	}
	if (!lock_acquire(&stats_lock, slot->id))
		return false;
	if (more != NULL && sums_room < wanted) {
		sums = more;
		__atomic_store_n(&sums_room, wanted, __ATOMIC_RELAXED);
	}
	return true;
}

size_t stats_of_sites(struct slot *slot, struct hg_site_stats *ret, size_t count,
		      enum hg_order order)
{
	size_t found = 0;

	if (make_room(slot)) {
		struct site_sums s = { MIN(memory_used(LIVE_SITES), sums_room) };

		for (uint64_t i = 0; i < s.count; i++)
			sums[i] = (struct hg_numbers){ 0 };
		add_all(add_to_site, &s);
		found = choose(ret, count, s.count, order);
		lock_release(&stats_lock);
	}
	return found;
}
