/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/* A profile that no recorder writes, made to keep its reader busy: what is made of it is bounded by what there is of it. */
#include "collect/profile/block_map.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"
#include "live_made.h"
#include "unit.h"

#define TOTAL (64ull << 30)
#define MIB (1ull << 20)

struct profile {
	struct made made;
	struct live_profile live;
};

static void begin(struct profile *p)
{
	int fd = memfd_create("profile", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)(TOTAL + LIVE_PAGE)), 0);
	p->made.head = mmap(NULL, TOTAL, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	assert_true(p->made.head != MAP_FAILED);
	assert_int_equal(live_header_init(p->made.head, TOTAL), 0);
	p->made.head->ready = 1;
	p->made.head->granule_shift = 4;
	for (int i = 0; i < LIVE_REGIONS; i++)
		p->made.head->opened[i] = p->made.head->region[i].bytes;
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	assert_int_equal(live_profile_take(&p->live, fd, NULL), 0);
}

static void end(struct profile *p)
{
	live_profile_release(&p->live);
	munmap(p->made.head, TOTAL);
}

static void check_order(const struct recorded_range *at, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		assert_true(at[i].start < at[i].end);
		assert_true(i == 0 || at[i - 1].end <= at[i].start);
	}
}

/* Each would be looked at for each mapping of the process, and each page of it. */
static void ranges_do_not_overlap(void **state)
{
	enum { COUNT = 1000 };
	const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	struct profile p;
	struct block_map map;

	(void)state;
	begin(&p);
	struct live_map_range *ranges = made_at(&p.made, LIVE_SCRATCH);
	struct live_sampled *sampled = made_at(&p.made, LIVE_SAMPLED);

	made_append(&p.made, LIVE_SAMPLED, COUNT);
	for (uint64_t i = 0; i < COUNT; i++) {
		ranges[COUNT - 1 - i] = (struct live_map_range){ .start = i * page_bytes,
								 .end = -(i + 1) * page_bytes };
		sampled[i] = (struct live_sampled){ .address = 1 + i % 7 * MIB,
						    .size_bytes = i * MIB,
						    .weight = 1 };
	}
	p.made.head->maps = (struct live_maps){ 2, p.made.head->region[LIVE_SCRATCH].at, COUNT };
	assert_true(block_map_read(&p.live, &map));
	assert_true(map.maps.count > 0 && map.blocks.count > 0);
	check_order(map.maps.at, map.maps.count);
	check_order(map.blocks.at, map.blocks.count);
	block_map_release(&map);
	end(&p);
}

/* Their page would be counted for each of them. */
static void ranges_have_whole_pages(void **state)
{
	enum { COUNT = 100 };
	const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	struct profile p;
	struct block_map map;

	(void)state;
	begin(&p);
	struct live_map_range *ranges = made_at(&p.made, LIVE_SCRATCH);

	for (uint64_t i = 0; i < COUNT; i++)
		ranges[i] =
			(struct live_map_range){ .start = MIB + i * 16, .end = MIB + (i + 1) * 16 };
	ranges[COUNT - 1] = (struct live_map_range){ .start = MIB, .end = MIB + page_bytes };
	p.made.head->maps = (struct live_maps){ 2, p.made.head->region[LIVE_SCRATCH].at, COUNT };
	assert_true(block_map_read_mappings(&p.live, &map));
	assert_int_equal(map.maps.count, 1);
	assert_int_equal(map.maps.at[0].end, MIB + page_bytes);
	block_map_release(&map);
	end(&p);
}

/* An area for each 4 GiB; each mebibyte has the same leaf, or one of those for tiny blocks, of which one word makes 256. */
static void windows_are_bounded(void **state)
{
	enum { AREAS = 2000 };

	(void)state;
	for (int tiny = 0; tiny < 2; tiny++) {
		struct profile p;
		struct block_map map;

		begin(&p);
		struct live_area *areas = made_at(&p.made, LIVE_AREAS);

		made_append(&p.made, LIVE_AREAS, AREAS);
		made_append(&p.made, LIVE_LEAVES, 4);
		for (uint32_t i = 0; i < AREAS; i++) {
			p.made.head->top[i] = i + 1;
			for (size_t k = 0; k < (tiny ? ARRAY_SIZE(areas->tiny) : 100); k++)
				(tiny ? areas[i].tiny : areas[i].small)[k] = 1;
		}
		assert_true(block_map_read(&p.live, &map));
		assert_in_range(map.windows.count, 1, tiny ? 1 << 22 : 1);
		block_map_release(&map);
		end(&p);
	}
}

/* A table of tiny leaves covers 256 MiB. A block on one page made all mappings there look like the allocator's. */
static void a_tiny_block_is_only_on_its_page(void **state)
{
	const uint64_t page = LIVE_PAGE, at = 77 * MIB + 5 * page;
	const uint32_t unit_pages = LIVE_LEAF_UNIT / LIVE_PAGE;
	struct profile p;
	struct block_map map;

	(void)state;
	begin(&p);
	struct live_area *area = made_at(&p.made, LIVE_AREAS);
	char *leaves = made_at(&p.made, LIVE_LEAVES);

	made_append(&p.made, LIVE_AREAS, 1);
	made_append(&p.made, LIVE_LEAVES, 2);
	p.made.head->top[0] = 1;
	area->tiny[0] = 1;
	((uint32_t *)(void *)leaves)[at / page] = unit_pages + 2;     /* with a block */
	((uint32_t *)(void *)leaves)[at / page + 1] = unit_pages + 3; /* it was freed */
	((uint64_t *)(void *)(leaves + LIVE_LEAF_UNIT + page))[9] = 1;
	assert_true(block_map_read(&p.live, &map));
	assert_true(block_map_has_small(&map, at, at + page));
	assert_true(block_map_has_small(&map, 0, 256 * MIB));
	assert_false(block_map_has_small(&map, 76 * MIB, at));
	assert_false(block_map_has_small(&map, at + page, 256 * MIB));
	block_map_release(&map);
	end(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_do_not_overlap),
		cmocka_unit_test(ranges_have_whole_pages),
		cmocka_unit_test(windows_are_bounded),
		cmocka_unit_test(a_tiny_block_is_only_on_its_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
