/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-parts format base dl */
/* R15: no lock is held over a system call, and no thread holds two. The parts that had to be watched are compiled in here with
 * a check at every lock and every call of the kernel, and made to do both: objects that are seen for the first time, opened by
 * a relative path, new rules, mappings that other slots end.
 * H3: an unmapping that does not get the lock is neither lost nor live. */
#include <stdbool.h>

struct lock;
static void check_lock(const struct lock *lock, bool taken);
static void check_call(long number);
#define LOCK_CHECK(lock, taken) check_lock(lock, taken)
#define SYS_CHECK(number) check_call(number)

/* clang-format off: the names of the last one's variables would shadow those inside the others */
#include "recorder/memory.c"
#include "recorder/lock.c"
#include "recorder/unwind/modules.c"
#include "recorder/unwind/rules.c"
#include "recorder/counters/sites.h"
#include "recorder/unwind/walk.h"
#include "recorder/counters/maps.c"
/* clang-format on */

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

enum { TOTAL_BYTES = 256 << 20, SLOTS = 3 };

static const struct lock *held;
static uint64_t locks, calls;

static void check_lock(const struct lock *lock, bool taken)
{
	assert_ptr_equal(held, taken ? NULL : lock);
	held = taken ? lock : NULL;
	locks++;
}

static void check_call(long number)
{
	if (held != NULL)
		fail_msg("system call %ld under a lock", number);
	calls++;
}

static struct live_control control = { .budget_bytes = UINT64_MAX, .depth_limit = 16 };
static struct slot slots[SLOTS];

static int make_profile(void **state)
{
	struct live_header *head = mmap(NULL, TOTAL_BYTES, PROT_NONE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	(void)state;
	if (head == MAP_FAILED || mprotect(head, sizeof *head, PROT_READ | PROT_WRITE) != 0 ||
	    live_header_init(head, TOTAL_BYTES) != 0)
		return -1;
	memory_use(head, &control);
	head->depth_limit = control.depth_limit;
	modules_find_loader();
	modules_start();
	if (!rules_start() || !sites_start())
		return -1;
	for (uint32_t i = 0; i < SLOTS; i++) {
		uint64_t id = memory_append(LIVE_SLOTS, 1, sizeof(struct live_slot));

		slots[i] = (struct slot){ .id = (uint32_t)id, .live = memory_slot((uint32_t)id) };
		slots[i].site_counters = table_new(TABLE_FIRST);
		slots[i].cfi = memory_scratch(sizeof *slots[i].cfi);
		slots[i].walk = walk_place(memory_scratch(walk_bytes(control.depth_limit)),
					   control.depth_limit);
	}
	return 0;
}

/* ---- objects and rules ---- */

static uint32_t module_of(uintptr_t pc)
{
	uint64_t rule = rules_make(&slots[0], pc, true);

	return live_frame_module(*memory_frame(rule_frame(rule)));
}

static bool path_ends_with(uint32_t id, const char *end)
{
	const struct live_module *module = memory_module(id);
	const char *path = memory.region[LIVE_STRINGS] + module->path_at;
	size_t bytes = strlen(end);

	return path[0] == '/' && module->path_bytes >= bytes &&
	       memcmp(path + module->path_bytes - bytes, end, bytes) == 0;
}

static void objects_are_described_without_the_lock(void **state)
{
	uint64_t before = calls, taken = locks;
	uint32_t mine = module_of((uintptr_t)objects_are_described_without_the_lock);
	uint32_t libc = module_of((uintptr_t)dlsym(RTLD_DEFAULT, "getpid"));

	(void)state;
	assert_int_not_equal(mine, 0);
	assert_int_not_equal(libc, 0);
	assert_int_not_equal(libc, mine);
	assert_int_not_equal(memory_module(libc)->build_id_bytes, 0);
	assert_true(path_ends_with(mine, "test_recorder_held"));
	assert_true(calls > before && locks > taken);
	assert_int_equal(module_of((uintptr_t)dlsym(RTLD_DEFAULT, "getppid")), libc);
}

/* The kernel is asked for the path. */
static void an_object_that_was_opened_by_a_relative_path_has_its_whole_one(void **state)
{
	Dl_info libc;
	char folder[4096], here[4096];

	(void)state;
	assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "getpid"), &libc), 0);
	snprintf(folder, sizeof folder, "%s", libc.dli_fname);
	*strrchr(folder, '/') = 0;
	assert_non_null(getcwd(here, sizeof here));
	assert_int_equal(chdir(folder), 0);
	void *library = dlopen("./libutil.so.1", RTLD_NOW | RTLD_LOCAL);

	assert_int_equal(chdir(here), 0);
	if (library == NULL)
		skip();
	const struct link_map *map = library;
	/* Some address in it: the symbols have moved to libc. */
	uint32_t id = module_of((uintptr_t)map->l_ld);

	assert_int_not_equal(id, 0);
	if (!path_ends_with(id, "/libutil.so.1"))
		print_message("not asked: %.*s\n", (int)memory_module(id)->path_bytes,
			      memory.region[LIVE_STRINGS] + memory_module(id)->path_at);
	/* Gone, and back at the same place: the same entry, if it is the same place. */
	uint64_t start = memory_module(id)->start;

	modules_loader_frees(&slots[0], map);
	assert_int_not_equal(memory_module(id)->unmapped_ms, 0);
	assert_int_equal(module_of((uintptr_t)map->l_ld), id);
	assert_int_equal(memory_module(id)->unmapped_ms, 0);
	assert_int_equal(memory_module(id)->start, start);
	dlclose(library);
}

/* What has no object is asked for again once there may be one. */
static void rules_without_an_object_are_withdrawn_when_the_loader_works(void **state)
{
	uintptr_t nowhere = 0x1000;
	uint64_t rule = rules_make(&slots[0], nowhere, true);

	(void)state;
	assert_int_equal(rule_kind(rule), RULE_STOP);
	assert_true(rules_have_orphans());
	uint32_t generation = modules_generation;

	modules_loader_allocates(&slots[0]);
	assert_false(rules_have_orphans());
	assert_int_not_equal(modules_generation, generation);
	generation = modules_generation;
	modules_loader_allocates(&slots[0]);
	modules_loader_frees(&slots[0], &slots);
	assert_int_equal(modules_generation, generation);
}

/* ---- mappings ---- */

static const uintptr_t base = UINT64_C(1) << 40;

static uint32_t counters_of_slot(uint32_t slot)
{
	static uint32_t site;

	if (site == 0) {
		site = (uint32_t)memory_append(LIVE_SITES, 1, sizeof(struct live_site));
		*memory_site(site) = (struct live_site){ .key = 77, .kind = LIVE_KIND_MMAP };
	}
	return sites_counters_of_site(&slots[slot], site);
}

static void mappings_end_without_the_lock(void **state)
{
	enum { RANGES = 1000, BYTES = 4 * LIVE_PAGE };
	uint64_t before = calls;

	(void)state;
	maps_reset();
	for (uintptr_t i = 0; i < RANGES; i++)
		maps_add(&slots[0], base + 2 * i * BYTES, BYTES + i % 5 * LIVE_PAGE,
			 counters_of_slot(0));
	assert_int_equal(memory.head->map_live_bytes, RANGES * (BYTES + 2 * LIVE_PAGE));
	/* All at once, by another slot, which has no record of that site yet; the first page stays. */
	maps_remove(&slots[1], base + LIVE_PAGE, 2 * RANGES * BYTES);
	assert_int_equal(memory.head->map_live_bytes, LIVE_PAGE);
	assert_int_equal(slots[1].live->unmap_calls, RANGES - 1);
	maps_remove(&slots[1], base, LIVE_PAGE);
	assert_int_equal(memory.head->map_live_bytes, 0);
	assert_int_equal(slots[1].live->unmap_calls, RANGES);
	assert_int_equal(slots[1].live->unmap_bytes, slots[0].live->map_bytes);
	assert_true(calls > before);
}

/* Another thread gets the old place between the call and what is recorded of it. */
static void a_mapping_that_moves_leaves_what_came_after_it_alone(void **state)
{
	uintptr_t from = base, to = base + (UINT64_C(1) << 30);
	uint64_t bytes = 16 * LIVE_PAGE;

	(void)state;
	maps_reset();
	memory.head->map_live_bytes = 0;
	maps_add(&slots[0], from, bytes, counters_of_slot(0));
	uint64_t until = maps_before_move(&slots[0], from, bytes);

	assert_int_not_equal(until, 0);
	maps_add(&slots[1], from, LIVE_PAGE, counters_of_slot(1)); /* in the middle of mremap */
	maps_move(&slots[0], until, from, bytes, to, 2 * bytes, counters_of_slot(0));
	assert_int_equal(memory.head->map_live_bytes, LIVE_PAGE + 2 * bytes);
	assert_int_equal(used, 2);
	maps_remove(&slots[1], from, LIVE_PAGE);
	maps_remove(&slots[1], to, 2 * bytes);
	assert_int_equal(memory.head->map_live_bytes, 0);
	assert_int_equal(maps_before_move(&slots[0], from, bytes), 0);
}

/* Who has the old place next, and was not recorded when he got it, moves nothing that is known. */
static void a_mapping_that_moves_is_nobody_elses(void **state)
{
	uint64_t bytes = 16 * LIVE_PAGE;

	(void)state;
	maps_reset();
	memory.head->map_live_bytes = 0;
	maps_add(&slots[0], base, bytes, counters_of_slot(0));
	uint64_t until = maps_before_move(&slots[0], base, bytes);

	assert_int_not_equal(until, 0);
	assert_int_equal(maps_before_move(&slots[1], base, LIVE_PAGE), 0);
	maps_stay(&slots[0], until, base, bytes); /* the call has failed */
	assert_int_not_equal(maps_before_move(&slots[1], base, LIVE_PAGE), 0);
	maps_remove(&slots[0], base, bytes);
	assert_int_equal(memory.head->map_live_bytes, 0);
}

static uint64_t unknown_ends(void)
{
	return memory.head->health[HEALTH_unknown_ends];
}

static uint64_t unmap_calls(void)
{
	return slots[0].live->unmap_calls + slots[1].live->unmap_calls;
}

static void an_unmapping_without_the_lock_is_made_up_for(void **state)
{
	uint64_t bytes = 4 * LIVE_PAGE;

	(void)state;
	maps_reset();
	memory.head->map_live_bytes = 0;
	for (uintptr_t i = 0; i < 40; i++)
		maps_add(&slots[0], base + i * bytes, bytes, counters_of_slot(0));
	uint64_t freed = unmap_calls(), taken = slots[0].live->map_calls;

	maps_lock.word = 2 + LOCK_GIVE_UPS * LOCK_GIVEN_UP; /* slot 1 has it, and has vanished */
	held = NULL;
	for (uintptr_t i = 0; i < 30; i++)
		maps_remove(&slots[1], base + i * bytes, bytes);
	assert_int_equal(unknown_ends(), 30);
	assert_int_equal(memory.head->map_live_bytes, 40 * bytes);
	maps_add(&slots[0], base, bytes, counters_of_slot(0)); /* not recorded */
	assert_int_equal(slots[0].live->map_calls, taken);
	maps_lock.word = 0;
	/* At the address of one that ended there is a new one: that one stays. */
	maps_add(&slots[0], base, bytes, counters_of_slot(0));
	assert_int_equal(unknown_ends(), 0);
	assert_int_equal(memory.head->map_live_bytes, 11 * bytes);
	assert_int_equal(unmap_calls() - freed, 30);
}

/* munmap has failed to get the lock, and its range was mapped again before the next owner makes up for it. */
static void an_unmapping_without_the_lock_leaves_what_came_after_it_alone(void **state)
{
	(void)state;
	maps_reset();
	memory.head->map_live_bytes = 0;
	maps_add(&slots[0], base, 2 * LIVE_PAGE, counters_of_slot(0));
	uint64_t until = maps_additions();

	maps_add(&slots[1], base, LIVE_PAGE,
		 counters_of_slot(1)); /* between munmap and its record */
	maps_lock.word = 2 + LOCK_GIVE_UPS * LOCK_GIVEN_UP;
	held = NULL;
	maps_remove_before(&slots[0], until, base, 2 * LIVE_PAGE);
	maps_lock.word = 0;
	maps_add(&slots[0], base + 8 * LIVE_PAGE, LIVE_PAGE, counters_of_slot(0));
	assert_int_equal(memory.head->map_live_bytes, 2 * LIVE_PAGE);
	maps_remove(&slots[1], base, 16 * LIVE_PAGE);
	assert_int_equal(memory.head->map_live_bytes, 0);
}

/* munmap(NULL, bytes) is a valid call. An entry without a key would stay pending. */
static void an_unmapping_from_address_0_leaves_nothing_pending(void **state)
{
	(void)state;
	maps_reset();
	memory.head->map_live_bytes = 0;
	memory.head->health[HEALTH_unknown_ends] = 0;
	maps_add(&slots[0], base, LIVE_PAGE, counters_of_slot(0));
	maps_lock.word = 2 + LOCK_GIVE_UPS * LOCK_GIVEN_UP;
	maps_remove(&slots[0], 0, LIVE_PAGE);
	assert_int_equal(unknown_ends(), 1);
	assert_true(deferred_frees_is_empty(&late));
	maps_lock.word = 0;
	maps_remove(&slots[0], base, LIVE_PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_are_described_without_the_lock),
		cmocka_unit_test(an_object_that_was_opened_by_a_relative_path_has_its_whole_one),
		cmocka_unit_test(rules_without_an_object_are_withdrawn_when_the_loader_works),
		cmocka_unit_test(mappings_end_without_the_lock),
		cmocka_unit_test(a_mapping_that_moves_leaves_what_came_after_it_alone),
		cmocka_unit_test(a_mapping_that_moves_is_nobody_elses),
		cmocka_unit_test(an_unmapping_without_the_lock_is_made_up_for),
		cmocka_unit_test(an_unmapping_without_the_lock_leaves_what_came_after_it_alone),
		cmocka_unit_test(an_unmapping_from_address_0_leaves_nothing_pending),
	};

	return cmocka_run_group_tests(tests, make_profile, NULL);
}
