/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/* The memory sheet of made-up mappings (N2, N3, C5): whose each resident page is. All of them are wholly resident or not at all, so
 * that no page has to be asked for. */
#include "unit.h"

#include <string.h>

#include "base/compiler.h"
#include "collect/process/sheet.h"

#define MIB (1ull << 20)
#define AT(mib) (0x7f0000000000ull + (mib)*MIB)

static struct live_header head;

struct made {
	struct smaps smaps;
	struct block_map map;
	struct inherited inherited;
	struct memory_row row;
};

static void begin(struct made *made, const char *allocator)
{
	*made = (struct made){ .map = { .pagemap = -1, .reader = { .head = &head } } };
	head = (struct live_header){ .granule_shift = 4 };
	memcpy(head.allocator, allocator, strlen(allocator));
}

static void map(struct made *made, uint64_t start, uint64_t bytes, enum mapping_kind kind,
		uint64_t rss)
{
	struct mapping mapping = { start, start + bytes, kind, rss, 0 };

	assert_true(vector_push(&made->smaps.list, mapping));
}

static void block(struct made *made, uint64_t start, uint64_t bytes)
{
	struct recorded_range range = { start, start + bytes, 1 };

	assert_true(vector_push(&made->map.blocks, range));
	made->row.live_bytes += bytes;
}

static void own_map(struct made *made, uint64_t start, uint64_t bytes)
{
	struct recorded_range range = { start, start + bytes, 1 };

	assert_true(vector_push(&made->map.maps, range));
	made->row.map_live_bytes += bytes;
}

/* Small blocks, of which one is a sample; the others are not listed. */
static void small(struct made *made, uint64_t start, uint64_t bytes)
{
	block(made, start, 16);
	made->row.live_bytes += bytes - 16;
}

/* Fills it; the parts add up. */
static const struct memory_row *fill(struct made *made)
{
	struct memory_row *row = &made->row;

	sheet_fill(0, &made->smaps, &made->map, &made->inherited, row);
	assert_int_equal(row->sheet, 1);
	assert_int_equal(row->heap_bytes + row->anonymous_bytes,
			 row->live_bytes + row->fragmentation_bytes - row->untouched_bytes +
				 row->mapped_bytes + row->held_bytes + row->inherited_bytes +
				 row->static_bytes + row->unrecorded_bytes);
	assert_int_equal(row->rss_bytes, row->heap_bytes + row->anonymous_bytes + row->stack_bytes +
						 row->file_bytes + row->shared_bytes +
						 row->own_bytes);
	return row;
}

static void end(struct made *made)
{
	smaps_release(&made->smaps);
	vector_release(&made->map.blocks);
	vector_release(&made->map.maps);
	vector_release(&made->inherited.list);
}

/* A block of 200 MiB that nobody wrote to, beside a heap of which most was freed: "held" was 0. */
static void what_is_held_is_no_residual(void **state)
{
	struct made made;

	(void)state;
	begin(&made, "glibc");
	map(&made, 0x560000000000, 100 * MIB, MAPPING_HEAP, 100 * MIB);
	map(&made, AT(0), 201 * MIB, MAPPING_ANONYMOUS, 0);
	small(&made, 0x560000000000, 10 * MIB);
	block(&made, AT(0) + 16, 200 * MIB);
	const struct memory_row *row = fill(&made);

	assert_int_equal(row->held_bytes, 90 * MIB);
	assert_int_equal(row->untouched_bytes, 200 * MIB);
	assert_int_equal(row->unrecorded_bytes, 0);
	end(&made);
}

/* The kernel has made one mapping of a block, a mapping of the program's and a raw system call's. */
static void neighbours_in_one_mapping_are_told_apart(void **state)
{
	struct made made;

	(void)state;
	begin(&made, "glibc");
	map(&made, AT(0), 60 * MIB, MAPPING_ANONYMOUS, 60 * MIB);
	block(&made, AT(0) + 16, 10 * MIB - 16);
	own_map(&made, AT(10), 20 * MIB);
	const struct memory_row *row = fill(&made);

	assert_int_equal(row->mapped_bytes, 20 * MIB);
	assert_int_equal(row->unrecorded_bytes, 30 * MIB);
	assert_int_equal(row->held_bytes, 16);
	end(&made);
}

static void a_stack_and_a_block_in_one_mapping_are_told_apart(void **state)
{
	struct made made;

	(void)state;
	begin(&made, "glibc");
	map(&made, AT(1), 10 * MIB, MAPPING_STACK, 10 * MIB);
	block(&made, AT(3), 8 * MIB);
	const struct memory_row *row = fill(&made);

	assert_int_equal(row->stack_bytes, 2 * MIB);
	assert_int_equal(row->anonymous_bytes, 8 * MIB);
	end(&made);
}

/* glibc's arenas are 64 MiB each; what lies beside one in the same mapping is not its. */
static void an_arena_owns_its_64_mebibytes(void **state)
{
	struct made made;

	(void)state;
	begin(&made, "glibc");
	map(&made, AT(64), 100 * MIB, MAPPING_ANONYMOUS, 100 * MIB);
	small(&made, AT(70), 4 * MIB);
	const struct memory_row *row = fill(&made);

	assert_int_equal(row->held_bytes, 60 * MIB);
	assert_int_equal(row->unrecorded_bytes, 36 * MIB);
	end(&made);
}

static void another_allocator_owns_the_mappings_of_its_blocks(void **state)
{
	struct made made;

	(void)state;
	begin(&made, "libjemalloc.so.2");
	map(&made, 0x560000000000, 3 * MIB, MAPPING_HEAP, 3 * MIB);
	map(&made, AT(0), 8 * MIB, MAPPING_ANONYMOUS, 8 * MIB);
	map(&made, AT(16), 8 * MIB, MAPPING_ANONYMOUS, 8 * MIB);
	map(&made, AT(32), 4 * MIB, MAPPING_STATIC, 4 * MIB);
	block(&made, AT(17), 2 * MIB);
	const struct memory_row *row = fill(&made);

	assert_int_equal(row->held_bytes, 6 * MIB);
	assert_int_equal(row->static_bytes, 4 * MIB);
	assert_int_equal(row->unrecorded_bytes, (3 + 8) * MIB);
	end(&made);
}

static void what_a_child_has_from_its_parent_is_inherited(void **state)
{
	struct made made;

	(void)state;
	begin(&made, "glibc");
	made.inherited.is_wanted = true;
	map(&made, 0x560000000000, 20 * MIB, MAPPING_HEAP, 20 * MIB);
	map(&made, AT(0), 50 * MIB, MAPPING_ANONYMOUS, 50 * MIB);
	small(&made, 0x560000000000, MIB);
	const struct memory_row *row = fill(&made);

	assert_int_equal(row->inherited_bytes, (19 + 50) * MIB);
	assert_int_equal(row->held_bytes, 0);
	/* It allocates a block beside the parent's, and its heap grows. */
	made.smaps.list.count = 0;
	map(&made, 0x560000000000, 30 * MIB, MAPPING_HEAP, 30 * MIB);
	map(&made, AT(0), 150 * MIB, MAPPING_ANONYMOUS, 150 * MIB);
	block(&made, AT(50), 100 * MIB);
	row = fill(&made);
	assert_int_equal(row->inherited_bytes, (19 + 50) * MIB);
	assert_int_equal(row->held_bytes, 10 * MIB);
	assert_int_equal(row->unrecorded_bytes, 0);
	end(&made);
}

static void what_is_mapped_and_shared_is_no_private_memory(void **state)
{
	struct made made;

	(void)state;
	begin(&made, "glibc");
	map(&made, AT(0), 40 * MIB, MAPPING_SHARED, 40 * MIB);
	own_map(&made, AT(0), 40 * MIB);
	const struct memory_row *row = fill(&made);

	assert_int_equal(row->mapped_bytes, 0);
	assert_int_equal(row->mapped_shared_bytes, 40 * MIB);
	end(&made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_held_is_no_residual),
		cmocka_unit_test(neighbours_in_one_mapping_are_told_apart),
		cmocka_unit_test(a_stack_and_a_block_in_one_mapping_are_told_apart),
		cmocka_unit_test(an_arena_owns_its_64_mebibytes),
		cmocka_unit_test(another_allocator_owns_the_mappings_of_its_blocks),
		cmocka_unit_test(what_a_child_has_from_its_parent_is_inherited),
		cmocka_unit_test(what_is_mapped_and_shared_is_no_private_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
