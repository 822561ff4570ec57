/* SPDX-License-Identifier: Apache-2.0 */
/* The mapped live profile and the opening of its regions.
 *
 * Owns: `memory`, and opened[], opened_bytes, used[] of the header. Invariant: [0, opened[r]) of region r is writable, and
 * populated if it is a file; opened[r] only grows. Two threads may open the same piece at the same time: mprotect and populate are
 * idempotent, and opened[] is raised by compare-and-swap, so no lock is held across a system call.
 *
 * sys_populate turns a full tmpfs into an error here, instead of SIGBUS on first access; for other memory it saves page faults. */
#include "recorder/memory.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <time.h>

#include "format/live/live_budget.h"
#include "recorder/hooks/hook.h"
#include "recorder/lock.h"
#include "recorder/process/settings.h"
#include "recorder/sys.h"

_Static_assert(LIVE_PAGE % ARCH_PAGE == 0 && LIVE_REGION_ALIGN % ARCH_PAGE_MAX == 0,
	       "regions are opened page by page");

enum {
	SLAB_MIN = 64 * 1024,
	FILE_SLAB_MIN = 16 * 1024,
	FILE_SLAB_PART = 4, /* fraction of what is already open */
	SLAB_MAX = 2 * 1024 * 1024,
	POPULATE_MIN = 1024 * 1024,
	RESERVE_DEN = 8,
};

PROCESS_STATE struct memory memory;
unsigned sys_forbidden;
uintptr_t sys_page_bytes = ARCH_PAGE_MAX;
const uint64_t fork_no_token = ~0ull;
PROCESS_STATE const volatile uint64_t *fork_token = &fork_no_token;

void memory_use(struct live_header *head, struct live_control *control)
{
	memory.head = head;
	memory.control = control;
	memory.total_bytes = head->total_bytes;
	for (int i = 0; i < LIVE_REGIONS; i++) {
		memory.region[i] = (char *)head + head->region[i].at;
		memory.reserved_bytes[i] = memory.kept_bytes[i] = head->region[i].bytes;
	}
}

/* Returns the first region at or after `at` that was shrunk; -1: none. */
static int given_back_from(const char *at)
{
	int first = -1;

	for (int i = 0; i < LIVE_REGIONS; i++) {
		if (memory.kept_bytes[i] < memory.reserved_bytes[i] && memory.region[i] >= at &&
		    (first < 0 || memory.region[i] < memory.region[first]))
			first = i;
	}
	return first;
}

void memory_release(void)
{
	char *at = (char *)memory.head, *end = at + memory.total_bytes;

	while (at < end) {
		int shrunk = given_back_from(at);
		char *stop = shrunk < 0 ? end : memory.region[shrunk] + memory.kept_bytes[shrunk];

		if (at < stop)
			sys_munmap(at, (size_t)(stop - at));
		at = shrunk < 0 ? end : memory.region[shrunk] + memory.reserved_bytes[shrunk];
	}
	sys_munmap((void *)(uintptr_t)memory.control, LIVE_PAGE);
	memory = (struct memory){ 0 };
}

void memory_open_ahead(void)
{
	static const struct {
		enum live_region region;
		uint64_t bytes;
	} ahead[] = {
		{ LIVE_LEAVES, 12 << 20 },  { LIVE_SITE_COUNTERS, 4 << 20 },
		{ LIVE_SCRATCH, 4 << 20 },  { LIVE_POOL, 2 << 20 },
		{ LIVE_NODES, 1 << 20 },    { LIVE_SITES, 1 << 20 },
		{ LIVE_FRAMES, 256 << 10 }, { LIVE_AREAS, 128 << 10 },
		{ LIVE_MODULES, 16 << 10 }, { LIVE_STRINGS, 32 << 10 },
		{ LIVE_TAGS, 32 << 10 },    { LIVE_VISITS, 32 << 10 },
		{ LIVE_SAMPLED, 64 << 10 }, { LIVE_LEAF_ERAS, 4 << 10 },
		{ LIVE_ERAS, 3 << 20 },	    { LIVE_CODES, 64 << 10 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(ahead); i++)
		memory_open(ahead[i].region, memory_opened(ahead[i].region) + ahead[i].bytes);
}

/* Waits until no thread uses what the word counts. False: it has not ended within 100 ms, as after a jump out of a signal handler. */
static bool wait_until_unused(const uint32_t *word)
{
	const struct timespec pause = { .tv_nsec = LOCK_WAIT_NS };

	for (int waits = 0; waits < LOCK_WAITS; waits++) {
		uint32_t users = __atomic_load_n(word, __ATOMIC_ACQUIRE);

		if (users == 0)
			return true;
		if (!sys_may(SYS_WAIT))
			break;
		sys_call6(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, users, (long)&pause, 0, 0);
	}
	return false;
}

/* Keep room for at least a few areas: each block far from the others needs one. */
static uint64_t kept_units(int region, uint64_t bytes)
{
	uint64_t unit = region == LIVE_LEAVES || region == LIVE_AREAS ? LIVE_LEAF_UNIT : sys_page();

	return (bytes + unit - 1) & ~(unit - 1);
}

/* The program may reuse the memory at once. So no thread may be opening some of it: lower the limit, wait for the threads that may not
 * have seen that, and keep what they have opened. The new size is stored first: a child forked in between may keep some of the piece,
 * but takes nothing from the program. */
static void give_back(int region, uint64_t kept)
{
	uint64_t *limit = &memory.head->region[region].bytes, had = memory.kept_bytes[region];

	if (kept >= had)
		return;
	__atomic_store_n(limit, kept, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	CHAOS_DELAY();
	if (wait_until_unused(&memory.opening[region]))
		kept = MIN(MAX(kept, kept_units(region, memory_opened(region))), had);
	else
		kept = had;
	__atomic_store_n(&memory.kept_bytes[region], kept, __ATOMIC_RELAXED);
	__atomic_store_n(limit, kept, __ATOMIC_RELAXED);
	if (kept < had)
		sys_munmap(memory.region[region] + kept, had - kept);
}

/* share: of the memory kept for later, in 64ths. */
void memory_shrink(uint64_t limit_bytes)
{
	static const uint8_t share[LIVE_REGIONS] = {
		[LIVE_LEAVES] = 30,   [LIVE_SITE_COUNTERS] = 8, [LIVE_SCRATCH] = 8,
		[LIVE_POOL] = 4,      [LIVE_NODES] = 4,		[LIVE_SITES] = 2,
		[LIVE_AREAS] = 2,     [LIVE_FRAMES] = 1,	[LIVE_SLOTS] = 1,
		[LIVE_THREADS] = 1,   [LIVE_MODULES] = 1,	[LIVE_STRINGS] = 1,
		[LIVE_TAGS] = 1,      [LIVE_VISITS] = 1,	[LIVE_SAMPLED] = 1,
		[LIVE_LEAF_ERAS] = 1, [LIVE_ERAS] = 7,		[LIVE_CODES] = 1,
	};

	while (__atomic_exchange_n(&memory.shrinking, 1, __ATOMIC_ACQUIRE) != 0) {
		if (!wait_until_unused(&memory.shrinking))
			return;
	}
	for (int i = 0; i < LIVE_REGIONS; i++) {
		uint64_t kept = memory_opened(i) + limit_bytes / MEMORY_LIMIT_PART / 64 * share[i];

		give_back(i, kept_units(i, kept));
	}
	__atomic_store_n(&memory.shrinking, 0, __ATOMIC_RELEASE);
}

/* Pieces grow with the region: a small program gets small pieces, a large one makes few calls. Those of a file are smaller, since
 * all of it is populated. The block map and the slots are opened exactly as needed. */
static uint64_t piece_end(enum live_region region, uint64_t opened, uint64_t bytes)
{
	uint64_t step = memory_is_file() ? MAX(opened / FILE_SLAB_PART, (uint64_t)FILE_SLAB_MIN)
					 : MAX(opened, (uint64_t)SLAB_MIN);
	uint64_t end = MAX(bytes, opened + MIN(step, (uint64_t)SLAB_MAX));

	if (region == LIVE_LEAVES || region == LIVE_AREAS || region == LIVE_SLOTS ||
	    region == LIVE_LEAF_ERAS || region == LIVE_ERAS)
		end = bytes;
	return MIN(memory_pages(end), memory.head->region[region].bytes);
}

/* Approximate live bytes of the program's heap: other threads are counting. */
static uint64_t live_bytes(void)
{
	uint64_t slots = memory_used(LIVE_SLOTS);
	int64_t live = 0;

	for (uint32_t i = 0; i < slots; i++)
		live += memory_live_of(memory_slot(i));
	return live > 0 ? (uint64_t)live : 0;
}

/* Memory that new stacks and details may not use: an eighth of the budget. With several threads, at least enough for a second set
 * of counters of every site, for threads that free other threads' blocks. */
static uint64_t reserve_bytes(uint64_t budget)
{
	enum { FREES_BYTES = sizeof(struct live_site_counters) + sizeof(struct live_samples) + 32 };
	uint64_t frees = memory_used(LIVE_SLOTS) > 1 ? memory_used(LIVE_SITES) * FREES_BYTES : 0;

	return MAX(budget / RESERVE_DEN, frees);
}

/* True if the budget allows more, with the reserve left over if `reserve`. A heap may grow faster than the collector can follow, so
 * its share of the heap is checked here too. Threads that open the same piece may all get here: only the one whose compare-and-swap
 * succeeds is charged. */
static bool has_room(uint64_t bytes, bool reserve)
{
	uint64_t budget = __atomic_load_n(&memory.control->budget_bytes, __ATOMIC_RELAXED);
	uint64_t wanted = __atomic_load_n(&memory.head->opened_bytes, __ATOMIC_RELAXED) + bytes +
			  (reserve ? reserve_bytes(budget) : 0);

	return wanted <= budget ||
	       (wanted <= __atomic_load_n(&memory.control->budget_limit_bytes, __ATOMIC_RELAXED) &&
		wanted <= live_bytes() / LIVE_BUDGET_OF_HEAP);
}

void memory_dump(void *at, uint64_t bytes)
{
	/* A failure only leaves the piece out of the core file, whose reader notices. */
	if (settings.core != 0 && sys_may(SYS_DUMP))
		sys_madvise(at, bytes, MADV_DODUMP);
}

static bool open_pages(enum live_region region, uint64_t from, uint64_t bytes, bool reserve)
{
	char *at = memory.region[region] + from;

	if (!sys_may(SYS_MEMORY) || !has_room(bytes, reserve) ||
	    sys_failed(sys_mprotect(at, bytes, PROT_READ | PROT_WRITE)))
		return false;
	memory_dump(at, bytes);
	/* Only pages of a file can fail. Small pieces of other memory are populated
	 * on access: most of them never are, nor are the threads' tables. */
	return (!memory_is_file() && (bytes < POPULATE_MIN || region == LIVE_SCRATCH)) ||
	       sys_populate(at, bytes);
}

static bool open_region(enum live_region region, uint64_t bytes, bool reserve)
{
	uint64_t *opened = &memory.head->opened[region];
	uint64_t from = __atomic_load_n(opened, __ATOMIC_ACQUIRE);

	/* A child that a signal handler forked inside a hook continues that hook: what it opens is not open in its parent. */
	if (hook_in_new_child())
		return false;
	if (CHECKED && chaos_refuses_pages()) {
		health_add(HEALTH_memory_failures);
		return false;
	}
	while (from < bytes && bytes <= memory.head->region[region].bytes) {
		uint64_t to = piece_end(region, from, bytes);

		if (!open_pages(region, from, to - from, true)) {
			to = memory_pages(bytes); /* retry with just what is needed */
			if (!open_pages(region, from, to - from, reserve))
				break;
		}
		uint64_t added = to - from;

		if (__atomic_compare_exchange_n(opened, &from, to, false, __ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE)) {
			__atomic_add_fetch(&memory.head->opened_bytes, added, __ATOMIC_RELAXED);
			return true;
		}
	}
	if (__atomic_load_n(opened, __ATOMIC_ACQUIRE) >= bytes)
		return true; /* another thread was faster */
	health_add(HEALTH_memory_failures);
	return false;
}

COLD static bool memory_open_slow(enum live_region region, uint64_t bytes, bool reserve)
{
	__atomic_fetch_add(&memory.opening[region], 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* before reading the limit: give_back */
	bool opened = open_region(region, bytes, reserve);

	__atomic_fetch_sub(&memory.opening[region], 1, __ATOMIC_RELEASE);
	return opened;
}

bool memory_open(enum live_region region, uint64_t bytes)
{
	return LIKELY(bytes <= memory_opened(region)) || memory_open_slow(region, bytes, false);
}

bool memory_open_above_reserve(enum live_region region, uint64_t bytes)
{
	return LIKELY(bytes <= memory_opened(region)) || memory_open_slow(region, bytes, true);
}

bool memory_open_of_parent(enum live_region region, uint64_t bytes)
{
	uint64_t pages = memory_pages(bytes);

	return pages <= memory.kept_bytes[region] &&
	       !sys_failed(sys_mprotect(memory.region[region], pages, PROT_READ | PROT_WRITE));
}

enum { PRIVATE = MAP_PRIVATE | MAP_ANONYMOUS, ACCESS = PROT_READ | PROT_WRITE };

struct memory_copy memory_copy_take(void)
{
	struct memory_copy copy = { .bytes = sizeof *memory.head };

	for (int i = 0; i < LIVE_REGIONS; i++)
		copy.bytes += copy.opened[i] = MIN(memory_opened(i), memory.kept_bytes[i]);
	if (!sys_may(SYS_MEMORY | SYS_OTHERS))
		return copy;
	long at = sys_mmap(NULL, copy.bytes, ACCESS, PRIVATE, -1, 0);

	if (sys_failed(at))
		return copy;
	copy.at = (char *)at;
	__builtin_memcpy(copy.at, memory.head, sizeof *memory.head);
	char *to = copy.at + sizeof *memory.head;

	for (int i = 0; i < LIVE_REGIONS; to += copy.opened[i++])
		__builtin_memcpy(to, memory.region[i], copy.opened[i]);
	return copy;
}

/* Replaces the whole reservation: the interrupted hook may be about to use memory it has opened, and so may the parent. If a limit
 * forbids that, replaces only what is open. */
static void put_copy(char *at, uint64_t reserved, const char *from, uint64_t bytes)
{
	const int flags = PRIVATE | MAP_FIXED | MAP_NORESERVE;

	if (reserved == 0 ||
	    (sys_failed(sys_mmap(at, reserved, ACCESS, flags, -1, 0)) &&
	     (bytes == 0 || sys_failed(sys_mmap(at, bytes, ACCESS, flags, -1, 0)))))
		return;
	__builtin_memcpy(at, from, bytes);
}

void memory_copy_use(const struct memory_copy *copy)
{
	const char *from = copy->at + sizeof *memory.head;

	if (copy->at == NULL)
		return;
	for (int i = 0; i < LIVE_REGIONS; from += copy->opened[i++])
		put_copy(memory.region[i], memory.kept_bytes[i], from, copy->opened[i]);
	put_copy((char *)memory.head, sizeof *memory.head, copy->at, sizeof *memory.head);
	memory.head->own.id = 0; /* nobody reads this child's log */
}

void memory_copy_drop(const struct memory_copy *copy)
{
	if (copy->at != NULL)
		sys_munmap(copy->at, copy->bytes);
}

uint64_t memory_append(enum live_region region, uint64_t count, uint64_t entry_bytes)
{
	uint64_t *used = &memory.head->used[region];
	uint64_t first = __atomic_load_n(used, __ATOMIC_RELAXED);

	CHAOS_DELAY();
	do {
		if (!memory_open(region, (first + count) * entry_bytes))
			return UINT64_MAX;
	} while (!__atomic_compare_exchange_n(used, &first, first + count, true, __ATOMIC_ACQ_REL,
					      __ATOMIC_RELAXED));
	return first;
}

void *memory_scratch_above_reserve(uint64_t bytes)
{
	uint64_t used = memory_used(LIVE_SCRATCH);

	return memory_open_above_reserve(LIVE_SCRATCH, used + ((bytes + 63) & ~63ull))
		       ? memory_scratch(bytes)
		       : NULL;
}

void *memory_scratch(uint64_t bytes)
{
	uint64_t at = memory_append(LIVE_SCRATCH, (bytes + 63) & ~63ull, 1);

	return at == UINT64_MAX ? NULL : memory.region[LIVE_SCRATCH] + at;
}

bool memory_read_safely(uintptr_t from, void *to, size_t bytes)
{
	return sys_read_safely(memory.head->pid, from, to, bytes);
}
