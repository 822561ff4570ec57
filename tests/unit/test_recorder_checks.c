/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-checked format base */
/* R16: the checking build notices what it is for: each of its structures is corrupted in one place, in a child of its own, and the
 * child must trap with the line of the check that was meant. Without a corruption all of them pass.
 *
 * The recorder in the child is whole and has recorded something of every kind. Tables that are private to a file are found
 * in its scratch memory by what they must hold. */
#include <signal.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "hooked.h"
#include "recorder/hooks/free.h"
#include "recorder/lock.h"
#include "recorder/unwind/rules.h"
#include "recorder/sys.h"
#include "recorder/api/tags.h"
#include "unit.h"

enum { MAPPED = 8 * 4096, BLOCKS = 100, ROUNDS = 3000 };

static const struct hg_recorder_ *api;
static char *mapped; /* two ranges side by side */
static void *small, *large, *sample;
static uint64_t pool;
static char in_pool[64 * BLOCKS];

/* ---- something of every kind ---- */

static void scope(int number, size_t bytes)
{
	char name[32];

	snprintf(name, sizeof name, "scope %d", number);
	struct hg_scope here = api->enter_name(name, NULL);

	hooked_free(hooked_malloc(bytes));
	api->leave(here);
}

/* Each part of it in turn. */
static void use_pool(int number)
{
	api->pool_alloc(pool, &in_pool[number % 63 + 1], 1);
	api->pool_free(pool, &in_pool[number % 63 + 1]);
}

static void record_something(void)
{
	api = hooked_api();
	small = hooked_malloc(100);
	large = hooked_malloc(10000);
	mapped = mmap(NULL, 2 * MAPPED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 2; i++)
		hooked_mmap(mapped + i * MAPPED, MAPPED, PROT_READ,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	for (int i = 0; i < 10; i++)
		scope(i, 200);
	pool = api->pool_new("pool");
	for (int i = 0; i < BLOCKS; i++)
		api->pool_alloc(pool, &in_pool[i * 64], 64);
	for (int i = 0; i < 10 * BLOCKS; i++) /* what was outgrown is emptied meanwhile */
		use_pool(i);
	api->turn(HG_SAMPLE);
	hooked_free(hooked_malloc(100)); /* the thread learns of it */
	void *freed = hooked_malloc(2 << 20);

	sample = hooked_malloc(2 << 20);
	hooked_free(freed);
	api->turn(HG_EXACT);
	hooked_free(hooked_malloc(100));
}

static NOINLINE void deep(int depth)
{
	if (depth > 0)
		deep(depth - 1);
	else
		hooked_free(hooked_malloc(70));
	__asm__ volatile("");
}

static void guarded(void)
{
	hook_guard((uintptr_t)HOOK_FRAME());
}

/* Every path that checks a whole structure now and then, until it has. */
static void go_on(void)
{
	check_leaving();
	check_structures(thread_state.slot);
	guarded();
	for (uintptr_t i = 0; i < ROUNDS; i++)
		rules_make(thread_state.slot, (uintptr_t)record_something + i, false);
	hook_leave();
	for (int i = 0; i < ROUNDS; i++) {
		scope(1000 + i, 50);
		deep(i % 50);
		hooked_munmap(
			hooked_mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
			4096);
		use_pool(i);
	}
	api->turn(HG_SAMPLE);
	hooked_free(hooked_malloc(100));
	for (size_t i = 0; i < ROUNDS; i++) /* each is a new peak */
		hooked_free(hooked_malloc((2 << 20) + (i << 8)));
	check_structures(thread_state.slot);
}

/* ---- where things are ---- */

/* Where the next entry of the stack cache goes. */
static struct stack_cache_entry *next_entry(void)
{
	const struct stack_cache *stack_cache = thread_state.slot->stack_cache;

	return stack_cache_entry(stack_cache, stack_cache->used);
}

static struct live_site_counters *counters_of(uint32_t kind)
{
	for (uint32_t i = 1; i < memory.head->used[LIVE_SITE_COUNTERS]; i++) {
		if (memory_counters(i)->calls > 0 &&
		    memory_counters(i)->thread == thread_state.slot->thread &&
		    memory_site(memory_counters(i)->site)->kind == kind)
			return memory_counters(i);
	}
	abort();
}

/* The last of a region. */
static uint32_t last(enum live_region region)
{
	return (uint32_t)memory.head->used[region] - 1;
}

/* Words of a table in scratch memory, behind one another. The last: what was outgrown lies before. */
static uint64_t *scratch_find(const uint64_t *wanted, size_t bytes)
{
	uint64_t *word = (void *)memory.region[LIVE_SCRATCH];

	for (uint64_t i = (memory.head->used[LIVE_SCRATCH] - bytes) / sizeof *word; i-- > 0;) {
		if (memcmp(&word[i], wanted, bytes) == 0)
			return &word[i];
	}
	abort();
}

static uint64_t *scratch_word(uint32_t low, uint32_t high)
{
	return scratch_find(&(uint64_t){ (uint64_t)high << 32 | low }, sizeof(uint64_t));
}

static uint64_t *scratch_pair(uint64_t first, uint64_t second)
{
	return scratch_find((uint64_t[]){ first, second }, 2 * sizeof(uint64_t));
}

static struct live_area *area_of(const void *block)
{
	return (struct live_area *)(void *)memory.region[LIVE_AREAS] +
	       (memory.head->top[(uintptr_t)block >> LIVE_AREA_SHIFT] - 1);
}

static uint32_t *small_leaf(void)
{
	return &area_of(small)->small[(uintptr_t)small >> LIVE_SMALL_SHIFT & 4095];
}

static uint64_t *small_word(void)
{
	struct slot *slot = thread_state.slot;

	return blocks_small_word(&slot->block_cache, (uintptr_t)small);
}

/* Of the first unit of leaves, which has none. */
static uint32_t *made_up_eras(void)
{
	memory_open(LIVE_LEAF_ERAS, sizeof(uint32_t));
	memory.head->used[LIVE_LEAF_ERAS] = 1;
	return (void *)memory.region[LIVE_LEAF_ERAS];
}

static struct live_large *large_entry(void)
{
	uint32_t leaf = area_of(large)->large[(uintptr_t)large >> LIVE_LARGE_SHIFT & 31];
	struct live_large *entry =
		(void *)(memory.region[LIVE_LEAVES] + (uint64_t)(leaf - 1) * LIVE_LEAF_UNIT);

	return &entry[((uintptr_t)large & ((1u << LIVE_LARGE_SHIFT) - 1)) >>
		      LIVE_LARGE_GRANULE_SHIFT];
}

static struct live_sampled *sampled_at(uintptr_t address)
{
	struct live_sampled *entry = (void *)memory.region[LIVE_SAMPLED];

	for (uint32_t i = 0; i < memory.head->used[LIVE_SAMPLED]; i++) {
		if (entry[i].address == address)
			return &entry[i];
	}
	abort();
}

/* The sample that lives, and an entry that is free. */
static struct live_sampled *sampled(void)
{
	return sampled_at((uintptr_t)sample);
}

static struct live_sampled *free_sampled(void)
{
	return sampled_at(0);
}

static uint32_t sampled_id(const struct live_sampled *entry)
{
	return (uint32_t)(entry - (struct live_sampled *)(void *)memory.region[LIVE_SAMPLED]) + 1;
}

static uint64_t *sampled_entry(void)
{
	uint64_t hash = (uint32_t)((uintptr_t)sample >> 4) * UINT64_C(0x9e3779b97f4a7c15);

	return scratch_word(table_tag(hash), sampled_id(sampled()));
}

/* A node that is in the table, for others follow their parents. */
static uint32_t listed_node(void)
{
	for (uint32_t i = last(LIVE_NODES); i > LIVE_FRAME_STACK_OFF; i--) {
		if (memory_node(i)->parent != i - 1)
			return i;
	}
	abort();
}

static uint64_t *node_entry(void)
{
	const struct live_node *node = memory_node(listed_node());

	return scratch_word(table_tag(hash_mix((uint64_t)node->parent << 32 | node->frame)),
			    listed_node());
}

static uint64_t *slot_entry(void)
{
	const struct live_site_counters *counters = counters_of(LIVE_KIND_HEAP);

	return scratch_word(table_tag(counters->key), (uint32_t)(counters - memory_counters(0)));
}

/* The first of the ranges. */
static uint64_t *range(void)
{
	return scratch_pair((uintptr_t)mapped, (uintptr_t)mapped + MAPPED);
}

/* A block of the pool, and another one that is in the same part of it. */
static uint64_t *pooled(void)
{
	return scratch_pair((uintptr_t)in_pool, 64);
}

static uintptr_t twin(void)
{
	const char *block = in_pool + 64;

	while (hash_mix((uintptr_t)block) >> 62 != hash_mix((uintptr_t)in_pool) >> 62)
		block += 64;
	return (uintptr_t)block;
}

/* ---- corruptions ---- */

static struct lock lock, other;

#define CORRUPTIONS(X)                                                                             \
	/* memory */                                                                               \
	X(0, memory.head->opened[LIVE_MARKS] = memory.kept_bytes[LIVE_MARKS] + 4096,               \
	  "opened <= memory.kept_bytes[i]")                                                        \
	X(0, memory.head->used[LIVE_VISITS] = memory.head->opened[LIVE_VISITS], "bytes <= opened") \
	X(0, memory.head->opened_bytes -= 4096, "sum == head->opened_bytes")                       \
	X(0, memory.region[LIVE_TAGS] += 64, "memory.region[i] ==")                                \
	X(0, memory.kept_bytes[LIVE_TAGS] = memory.reserved_bytes[LIVE_TAGS] + 1,                  \
	  "memory.kept_bytes[i] <= memory.reserved_bytes[i]")                                      \
	/* stacks */                                                                               \
	X(0, memory_node(last(LIVE_NODES))->parent = last(LIVE_NODES), "node->parent < i")         \
	X(0, memory_node(last(LIVE_NODES))->frame = last(LIVE_FRAMES) + 1, "node->frame < frames") \
	X(0, *memory_frame(last(LIVE_FRAMES)) |= UINT64_C(0x7fff) << 47, "live_frame_module")      \
	X(0, *memory_node(last(LIVE_NODES)) = *memory_node(last(LIVE_NODES) - 1), "node_find(")    \
	X(0, *node_entry() ^= UINT64_C(3) << 32, "node_find(")                                     \
	X(0, *node_entry() = 0, "table_check(&nodes)")                                             \
	X(0, memory_site(last(LIVE_SITES))->node = last(LIVE_NODES) + 1, "site->node < nodes")     \
	X(0, memory_site(last(LIVE_SITES))->key ^= 1, "site->key & 1")                             \
	X(0, memory_site(last(LIVE_SITES))->tag = last(LIVE_TAGS) + 1, "site->tag < (")            \
	X(0, memory_site(last(LIVE_SITES))->kind = LIVE_KINDS, "site->kind < LIVE_KINDS")          \
	X(0, memory_site(last(LIVE_SITES))->entry = LIVE_ENTRIES, "site->entry < LIVE_ENTRIES")    \
	X(0, memory_site(last(LIVE_SITES))->interval = 1, "site->interval == 0")                   \
	X(1, *scratch_word(table_tag(memory_site(7)->key), 7) ^= UINT64_C(3) << 32, "site_find(")  \
	X(1, *scratch_word(table_tag(memory_site(7)->key), 7) ^= 64, "table_check(&sites)")        \
	/* records and slots */                                                                    \
	X(0, counters_of(LIVE_KIND_HEAP)->site = last(LIVE_SITES) + 1, "counters->site <")         \
	X(0, counters_of(LIVE_KIND_HEAP)->key ^= 2,                                                \
	  "counters->key == memory_site(counters->site)->key")                                     \
	X(0, counters_of(LIVE_KIND_HEAP)->calls++, "heap->calls == live->calls")                   \
	X(0, counters_of(LIVE_KIND_HEAP)->freed_bytes -= 8,                                        \
	  "heap->freed_bytes == live->freed_bytes")                                                \
	X(0, counters_of(LIVE_KIND_MMAP)->bytes += 4096, "maps->bytes == live->map_bytes")         \
	X(0, counters_of(LIVE_KIND_HEAP)->sizes = last(LIVE_POOL) + 1, "LIVE_SIZES_MANY")          \
	X(0, counters_of(LIVE_KIND_HEAP)->epoch = 1 << 20, "counters->epoch <=")                   \
	X(0, counters_of(LIVE_KIND_HEAP)->samples = 1, "counters->samples != 0")                   \
	X(0, thread_state.slot->live->temporary++, "heap->temporary == live->temporary")           \
	X(0, *slot_entry() ^= UINT64_C(1) << 32, "slot_find(slot, counters->key) == i")            \
	X(0, thread_state.slot->live++, "own->live == memory_slot(own->id)")                       \
	X(0, thread_state.slot->owner = NULL, "slot->owner == ")                                   \
	X(0, memory_thread(thread_state.slot->live->thread)->slot = 1, "->slot == own->id")        \
	X(0, memory_visits(last(LIVE_VISITS))->tag = last(LIVE_TAGS) + 1, "tag < tags")            \
	/* the block map */                                                                        \
	X(0, *small_word() = live_small_pack(last(LIVE_SITE_COUNTERS) + 1, 100, 0, 0),             \
	  "block->counters <")                                                                     \
	X(0, *small_word() = live_small_pack(0, 100, 0, 0), "block->counters != 0")                \
	X(0, *small_word() += 8, "found.live_by_counters == heap->live_by_counters")               \
	X(0, *small_word() = 0, "found.live_by_counters == heap->live_by_counters")                \
	X(0, small_word()[1] = small_word()[0],                                                    \
	  "found.live_by_counters == heap->live_by_counters")                                      \
	X(0, *small_leaf() = last(LIVE_LEAVES) + 2, "used(LIVE_LEAVES)")                           \
	X(0, large_entry()->address += 4096, "LIVE_LARGE_GRANULE_SHIFT == i")                      \
	X(0, large_entry()->size_bytes = 100, "block.size_bytes >= LIVE_SMALL_LIMIT")              \
	X(0, large_entry()->birth_ms = UINT64_C(1) << 63, "live_era(block->birth_ms)")             \
	X(0, *made_up_eras() = last(LIVE_ERAS) + 2, "unit[i] <= memory_used(LIVE_ERAS)")           \
	X(0, memory.head->top[1] = last(LIVE_AREAS) + 2, "number <= memory_used(LIVE_AREAS)")      \
	/* the peak */                                                                             \
	X(0, thread_state.slot->ceiling += 8, "slot->ceiling == peak->peak_bytes")                 \
	X(0, thread_state.slot->floor = 0, "slot->floor == ")                                      \
	X(0, (memory.head->peak.peak_bytes = thread_state.slot->ceiling = 8),                      \
	  "live <= peak->peak_bytes")                                                              \
	X(1, memory.head->peak.total_bytes += 8, "published == total")                             \
	X(1, thread_state.slot->published += 8, "published == total")                              \
	/* samples */                                                                              \
	X(0, sampled()->address = 0, "heap->live_by_counters")                                     \
	X(1, *sampled_entry() |= UINT64_MAX << 32, "find(current, address, &at) != 0")             \
	X(0, free_sampled()->size_bytes = sampled_id(free_sampled()),                              \
	  "entry_of(id)->address == 0")                                                            \
	X(1, sampled()->address += 16, "find(current, address, &at) != 0")                         \
	X(0, sampled()->weight = 0, "entry[i].weight != 0")                                        \
	X(0, sampled()->counters = counters_of(LIVE_KIND_POOL) - memory_counters(0),               \
	  "kind == LIVE_KIND_HEAP")                                                                \
	/* tags */                                                                                 \
	X(0, memory_tag(last(LIVE_TAGS))->parent = last(LIVE_TAGS), "tag->parent < i")             \
	X(0, memory_tag(last(LIVE_TAGS))->depth++, "tag->depth == parent->depth + 1")              \
	X(0, memory_tag(2)->name = 1, "tag->name == i")                                            \
	X(0, memory_tag(2)->kind = LIVE_TAG_KINDS, "tag->kind < LIVE_TAG_KINDS")                   \
	X(0, memory_tag(2)->text_at = last(LIVE_STRINGS), "text_bytes <= texts")                   \
	/* mappings */                                                                             \
	X(0, range()[1] += 4096, "table[i - 1].end <= range->start")                               \
	X(0, range()[1] = range()[0], "range->start < range->end")                                 \
	X(0, range()[0] += 4096, "sum == memory.head->map_live_bytes")                             \
	X(0, range()[0] += 1, "range->start % ARCH_PAGE == 0")                                     \
	X(0, ((uint32_t *)range())[6] = UINT32_MAX, "range->counters != 0")                        \
	/* pools */                                                                                \
	X(0, pooled()[0] = twin(), "place_of(table, block->address)")                              \
	X(0, pooled()[0] = 0, "table")                                                             \
	X(0, pooled()[2] = 0, "block->counters != 0")                                              \
	/* rules and walks */                                                                      \
	X(0, rule_table->used++, "filled == rule_table->used")                                     \
	X(0, thread_state.slot->walk->info[0].hash++, "info->hash == hash")                        \
	X(0, (next_entry()->key = 0, thread_state.slot->stack_cache->used += 16),                  \
	  "entry->key != 0")                                                                       \
	X(0, thread_state.slot->stack_cache->place[5] = 1 << 30,                                   \
	  "stack_cache->place[i] < stack_cache->used")                                             \
	/* locks */                                                                                \
	X(0, lock_acquire(&lock, 0), "thread_state.guard != 0")                                    \
	X(0, (guarded(), lock_acquire(&lock, 0), lock_acquire(&other, 0)), "self.held == NULL")    \
	X(0, (guarded(), lock_acquire(&lock, 0), sys_getpid()), "self.held == NULL")               \
	X(0, (guarded(), lock_acquire(&lock, 0), hook_leave()), "self.held == NULL")               \
	X(0, (guarded(), lock_acquire(&lock, 0), lock_release(&other)), "self.held == lock")

struct corruption {
	bool shared; /* by two slots */
	const char *what, *check;
};
#define ROW(shared, statement, check) { shared, #statement, check },
static const struct corruption corruptions[] = { CORRUPTIONS(ROW) };

static void corrupt(size_t which)
{
#define DO(shared, statement, check)                                                               \
	if (which-- == 0) {                                                                        \
		(void)(statement);                                                                 \
		return;                                                                            \
	}
	CORRUPTIONS(DO)
}

/* ---- children ---- */

static void *allocate(void *unused)
{
	hooked_free(hooked_malloc(300));
	return unused;
}

__attribute__((noreturn)) static void run_child(int errors, bool shared, size_t which)
{
	pthread_t thread;

	dup2(errors, 2);
	signal(SIGILL, SIG_DFL); /* cmocka has its own */
	signal(SIGSEGV, SIG_DFL);
	alarm(100);
	for (int i = 0; i < 40;
	     i++) /* the first slot is this thread's, and has a stack cache then */
		hooked_free(hooked_malloc(10));
	if (shared) {
		pthread_create(&thread, NULL, allocate, NULL);
		pthread_join(thread, NULL);
	}
	record_something();
	corrupt(which);
	go_on();
	_exit(0);
}

/* Its status; ret_said: what it wrote to descriptor 2. */
static int child(bool shared, size_t which, char *ret_said, size_t room)
{
	int ends[2], status;
	ssize_t bytes, total = 0;

	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		run_child(ends[1], shared, which);
	close(ends[1]);
	while ((bytes = read(ends[0], ret_said + total, room - 1 - (size_t)total)) > 0)
		total += bytes;
	ret_said[total] = 0;
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void what_is_whole_passes(void **state)
{
	char said[1000];

	(void)state;
	for (int shared = 0; shared < 2; shared++) {
		int status = child(shared, SIZE_MAX, said, sizeof said);

		if (status != 0)
			fail_msg("status %d: %s", status, said);
	}
}

static void every_corruption_is_caught(void **state)
{
	unsigned missed = 0;
	char said[1000];

	(void)state;
	assert_true(ARRAY_SIZE(corruptions) >= 30);
	for (size_t i = 0; i < ARRAY_SIZE(corruptions); i++) {
		const struct corruption *one = &corruptions[i];
		int status = child(one->shared, i, said, sizeof said);

		/* By which signal a trap ends a process depends on the architecture. */
		if (WIFSIGNALED(status) &&
		    (WTERMSIG(status) == SIGILL || WTERMSIG(status) == SIGTRAP) &&
		    strncmp(said, "heapgauge: check failed: src/recorder/", 38) == 0 &&
		    strstr(said, one->check) != NULL)
			continue;
		print_error("%s: status %#x, \"%s\"\n", one->what, (unsigned)status, said);
		missed++;
	}
	assert_int_equal(missed, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_whole_passes),
		cmocka_unit_test(every_corruption_is_caught),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
