/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/* Where the memory is, and how much of it there may be: classes of mappings, and limits of control groups of both
 * versions, from made-up files. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "collect/kernel/cgroup.h"
#include "collect/kernel/oom.h"
#include "collect/kernel/procfs.h"
#include "collect/process/target.h"
#include "collect/profile/series.h"
#include "collect/kernel/smaps.h"

#define MIB (1ull << 20)

/* ---- smaps ---- */

static struct memory_row sum(const char *text)
{
	char *copy = strdup(text);
	struct memory_row row = { 0 };

	struct smaps smaps;

	assert_true(smaps_parse(copy, &smaps));
	smaps_sum(&smaps, &row);
	smaps_release(&smaps);
	free(copy);
	return row;
}

static void every_page_is_in_one_class(void **state)
{
	struct memory_row row = sum(
		"55d000000000-55d000001000 r-xp 00000000 08:01 77   /usr/bin/tool\nRss:  4 kB\nSwap: 0 kB\n"
		"55d000100000-55d000200000 rw-p 00000000 00:00 0    [heap]\nRss:  300 kB\nSwap: 8 kB\n"
		"7f0000000000-7f0000100000 rw-p 00000000 00:00 0 \nRss:  50 kB\nSwap: 0 kB\n"
		"7f0000100000-7f0004000000 ---p 00000000 00:00 0 \nRss:  0 kB\nSwap: 0 kB\n"
		"7f1000000000-7f1000001000 ---p 00000000 00:00 0 \nRss:  0 kB\nSwap: 0 kB\n"
		"7f1000001000-7f1000801000 rw-p 00000000 00:00 0 \nRss:  16 kB\nSwap: 0 kB\n"
		"7f2000000000-7f2000200000 rw-p 00000000 00:00 0 \nRss:  700 kB\nSwap: 1 kB\n"
		"7f3000000000-7f3000200000 rw-s 00000000 00:01 9   /memfd:heapgauge-profile (deleted)\nRss: 90 kB\n"
		"7f3100000000-7f3100200000 rw-s 00000000 00:01 8   /dev/shm/x\nRss: 60 kB\nSwap: 0 kB\n"
		"7f3200000000-7f3200001000 rw-p 00000000 00:00 0   [anon: glibc: malloc arena]\nRss: 4 kB\n"
		"7f3300000000-7f3300001000 rw-p 00000000 00:00 0   [anon: mine]\nRss: 12 kB\n"
		"7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0   [stack]\nRss: 20 kB\nSwap: 0 kB\n"
		"7ffc00100000-7ffc00102000 r-xp 00000000 00:00 0   [vdso]\nRss: 8 kB\nSwap: 0 kB\n");

	(void)state;
	assert_int_equal(row.heap_bytes, (300 + 50 + 4) * 1024);
	assert_int_equal(row.anonymous_bytes, (700 + 12) * 1024);
	assert_int_equal(row.stack_bytes, (16 + 20) * 1024);
	assert_int_equal(row.file_bytes, (4 + 8) * 1024);
	assert_int_equal(row.shared_bytes, 60 * 1024);
	assert_int_equal(row.own_bytes, 90 * 1024);
	assert_int_equal(row.swap_bytes, 9 * 1024);
	assert_int_equal(row.rss_bytes, row.heap_bytes + row.anonymous_bytes + row.stack_bytes +
						row.file_bytes + row.shared_bytes + row.own_bytes);
}

/* Zeroed variables stand behind the data of a module; SBCL maps its heap behind its core (C5). */
static void static_data_is_behind_a_module(void **state)
{
	char text[] =
		"55d000000000-55d000001000 r-xp 00000000 08:01 77   /usr/bin/tool\nRss:  4 kB\n"
		"55d000001000-55d000002000 rw-p 00001000 08:01 77   /usr/bin/tool\nRss:  4 kB\n"
		"55d000002000-55d000004000 rw-p 00000000 00:00 0 \nRss:  8 kB\n"
		"7f1000000000-7f1000001000 rw-p 00000000 08:01 78   /usr/lib/sbcl.core\nRss:  4 kB\n"
		"7f1000001000-7f1000003000 rw-p 00000000 00:00 0 \nRss:  8 kB\n"
		"7f1000003000-7f1000006000 rw-p 00000000 00:00 0 \nRss:  8 kB\nPrivate_Hugetlb: 0 kB\n";
	const enum mapping_kind kinds[] = { MAPPING_FILES, MAPPING_FILES,     MAPPING_STATIC,
					    MAPPING_FILES, MAPPING_ANONYMOUS, MAPPING_ANONYMOUS };
	struct smaps smaps;

	(void)state;
	assert_true(smaps_parse(text, &smaps));
	assert_int_equal(smaps.list.count, ARRAY_SIZE(kinds));
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		assert_int_equal(smaps.list.at[i].kind, kinds[i]);
	smaps_release(&smaps);
}

static void huge_pages_beside_the_rss_are_counted(void **state)
{
	char text[] =
		"7f1000000000-7f1000400000 rw-p 00000000 00:11 7  /anon_hugepage (deleted)\nRss:  0 kB\n"
		"Shared_Hugetlb:  0 kB\nPrivate_Hugetlb:  4096 kB\n"
		"7f2000000000-7f2000200000 rw-p 00000000 00:11 8  /anon_hugepage (deleted)\nRss:  0 kB\n"
		"Shared_Hugetlb:  2048 kB\nPrivate_Hugetlb:  2048 kB\n";
	struct smaps smaps;

	(void)state;
	assert_true(smaps_parse(text, &smaps));
	assert_int_equal(smaps.list.count, 2);
	assert_int_equal(smaps.hugetlb_bytes, 6 << 20);
	smaps_release(&smaps);
}

/* The kernel writes a few mappings at a time: those that were merged, or cut, in between are written again, as they are now. */
static void mappings_that_changed_meanwhile_do_not_overlap(void **state)
{
	char text[] = "7f1000000000-7f1000001000 rw-p 00000000 00:00 0 \nRss:  4 kB\nSwap: 0 kB\n"
		      "7f1000002000-7f1000003000 r--p 00000000 00:00 0 \nRss:  4 kB\nSwap: 0 kB\n"
		      "7f1000003000-7f1000004000 rw-p 00000000 00:00 0 \nRss:  4 kB\nSwap: 0 kB\n"
		      "7f1000002000-7f1000006000 rw-p 00000000 00:00 0 \nRss:  16 kB\nSwap: 0 kB\n"
		      "7f1000005000-7f1000007000 r--p 00000000 00:00 0 \nRss:  8 kB\nSwap: 0 kB\n";
	const uint64_t starts[] = { 0x7f1000000000, 0x7f1000002000, 0x7f1000005000 };
	const uint64_t ends[] = { 0x7f1000001000, 0x7f1000005000, 0x7f1000007000 };
	const uint64_t pages[] = { 1, 3, 2 };
	struct smaps smaps;

	(void)state;
	assert_true(smaps_parse(text, &smaps));
	assert_int_equal(smaps.list.count, ARRAY_SIZE(starts));
	for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
		assert_int_equal(smaps.list.at[i].start, starts[i]);
		assert_int_equal(smaps.list.at[i].end, ends[i]);
		assert_int_equal(smaps.list.at[i].rss_bytes, pages[i] * 4096);
	}
	smaps_release(&smaps);
}

/* The kernel places large mappings at huge pages, so that one stack of 32 begins where an arena would. */
static void a_stack_may_begin_where_an_arena_would(void **state)
{
	char text[] = "7f0ffffff000-7f1000000000 ---p 00000000 00:00 0 \nRss:  0 kB\n"
		      "7f1000000000-7f1000800000 rw-p 00000000 00:00 0 \nRss:  8 kB\n"
		      "7f1000800000-7f1000801000 ---p 00000000 00:00 0 \nRss:  0 kB\n"
		      "7f1000801000-7f1001001000 rw-p 00000000 00:00 0 \nRss:  8 kB\n"
		      "7f1007fff000-7f1008000000 ---p 00000000 00:00 0 \nRss:  0 kB\n"
		      "7f1008000000-7f1008021000 rw-p 00000000 00:00 0 \nRss:  8 kB\n"
		      "7f1008021000-7f100c000000 ---p 00000000 00:00 0 \nRss:  0 kB\n";
	struct smaps smaps;

	(void)state;
	assert_true(smaps_parse(text, &smaps));
	assert_int_equal(smaps.list.at[1].kind, MAPPING_STACK);
	assert_int_equal(smaps.list.at[3].kind, MAPPING_STACK);
	assert_int_equal(smaps.list.at[5].kind, MAPPING_HEAP);
	smaps_release(&smaps);
}

/* It has no rest of its own that would tell it; the small rest below looks like a guard. */
static void a_full_arena_above_the_rest_of_another_is_no_stack(void **state)
{
	char text[] = "7f1000000000-7f1003fb8000 rw-p 00000000 00:00 0 \nRss:  8 kB\n"
		      "7f1003fb8000-7f1004000000 ---p 00000000 00:00 0 \nRss:  0 kB\n"
		      "7f1004000000-7f1008000000 rw-p 00000000 00:00 0 \nRss:  8 kB\n"
		      "7f1008000000-7f100bffd000 rw-p 00000000 00:00 0 \nRss:  8 kB\n"
		      "7f100bffd000-7f100c000000 ---p 00000000 00:00 0 \nRss:  0 kB\n"
		      "7f100c000000-7f1014000000 rw-p 00000000 00:00 0 \nRss:  8 kB\n"
		      "7f1014000000-7f1014001000 ---p 00000000 00:00 0 \nRss:  0 kB\n"
		      "7f1014001000-7f1014801000 rw-p 00000000 00:00 0 \nRss:  8 kB\n";
	const struct {
		size_t index;
		enum mapping_kind kind;
	} expected[] = {
		{ 0, MAPPING_HEAP },	  { 2, MAPPING_ANONYMOUS }, { 3, MAPPING_HEAP },
		{ 5, MAPPING_ANONYMOUS }, { 7, MAPPING_STACK },
	};
	struct smaps smaps;

	(void)state;
	assert_true(smaps_parse(text, &smaps));
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
		assert_int_equal(smaps.list.at[expected[i].index].kind, expected[i].kind);
	smaps_release(&smaps);
}

/* glibc 2.42: three stacks in one mapping, below them memory of the same kind, and a heap without huge pages that has no guard. */
static void stacks_begin_at_their_guards(void **state)
{
	char text[] =
		"7f1000000000-7f1000100000 rw-p 00000000 00:00 0 \nRss:  48 kB\nSwap: 4 kB\nVmFlags: rd wr mr mw me ac nh \n"
		"7f2000000000-7f2000100000 rw-p 00000000 00:00 0 \nRss:  16 kB\nVmFlags: rd wr mr mw me ac nh \n"
		"7f3000000000-7f3000100000 rw-p 00000000 00:00 0 \nRss:  16 kB\nVmFlags: rd wr mr mw me ac \n"
		"7f4000000000-7f4000100000 rw-p 00000000 00:00 0    [anon: glibc: pthread stack: 7]\nRss:  16 kB\nVmFlags: rd nh\n"
		"7f5000000000-7f5000001000 ---p 00000000 00:00 0 \nRss:  0 kB\nVmFlags: mr mw me nh\n"
		"7f5000001000-7f5000100000 rw-p 00000000 00:00 0 \nRss:  8 kB\nVmFlags: rd nh\n";
	static const struct page_run all[] = {
		{ 0x7f1000000000, 0x7f1000002000, PAGE_RESIDENT },
		{ 0x7f1000010000, 0x7f1000011000, PAGE_GUARD },
		{ 0x7f100001f000, 0x7f1000020000, PAGE_RESIDENT },
		{ 0x7f1000020000, 0x7f1000024000, PAGE_GUARD },
		{ 0x7f1000024000, 0x7f1000025000, PAGE_SWAPPED },
		{ 0x7f1000025000, 0x7f1000026000, PAGE_ZERO },
		{ 0x7f1000080000, 0x7f1000081000, PAGE_GUARD },
		{ 0x7f10000f8000, 0x7f1000100000, PAGE_RESIDENT },
		{ 0x7f2000000000, 0x7f2000004000, PAGE_RESIDENT },
		{ 0x7f3000000000, 0x7f3000001000, PAGE_GUARD },
		{ 0x7f4000000000, 0x7f4000001000, PAGE_GUARD },
		{ 0x7f40000fc000, 0x7f4000100000, PAGE_RESIDENT },
	};
	static const struct mapping expected[] = {
		{ 0x7f1000000000, 0x7f1000010000, MAPPING_ANONYMOUS, .rss_bytes = 0x2000 },
		{ 0x7f1000010000, 0x7f1000011000, MAPPING_ANONYMOUS },
		{ 0x7f1000011000, 0x7f1000020000, MAPPING_STACK, .rss_bytes = 0x1000 },
		{ 0x7f1000020000, 0x7f1000024000, MAPPING_ANONYMOUS },
		{ 0x7f1000024000, 0x7f1000080000, MAPPING_STACK, .swap_bytes = 0x1000 },
		{ 0x7f1000080000, 0x7f1000081000, MAPPING_ANONYMOUS },
		{ 0x7f1000081000, 0x7f1000100000, MAPPING_STACK, .rss_bytes = 0x8000 },
		{ 0x7f2000000000, 0x7f2000100000, MAPPING_ANONYMOUS, .rss_bytes = 0x4000 },
		{ 0x7f3000000000, 0x7f3000100000, MAPPING_ANONYMOUS, .rss_bytes = 0x4000 },
		{ 0x7f4000000000, 0x7f4000001000, MAPPING_ANONYMOUS },
		{ 0x7f4000001000, 0x7f4000100000, MAPPING_STACK, .rss_bytes = 0x4000 },
		{ 0x7f5000000000, 0x7f5000001000, MAPPING_ANONYMOUS },
		{ 0x7f5000001000, 0x7f5000100000, MAPPING_STACK, .rss_bytes = 0x2000 },
	};
	struct memory_row row = { 0 };
	page_runs runs = { 0 };
	struct smaps smaps;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		assert_true(vector_push(&runs, all[i]));
	assert_true(smaps_parse(text, &smaps));
	assert_true(smaps_split_at_guards(&smaps, &runs));
	assert_int_equal(smaps.list.count, ARRAY_SIZE(expected));
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		const struct mapping *m = &smaps.list.at[i];

		assert_int_equal(m->start, expected[i].start);
		assert_int_equal(m->end, expected[i].end);
		assert_int_equal(m->kind, expected[i].kind);
		assert_int_equal(m->rss_bytes, expected[i].rss_bytes);
		assert_int_equal(m->swap_bytes, expected[i].swap_bytes);
	}
	smaps_sum(&smaps, &row);
	assert_int_equal(row.stack_largest_bytes, 0x8000);
	smaps_release(&smaps);
	vector_release(&runs);
}

static void text_that_is_no_smaps_counts_nothing(void **state)
{
	static const char *const texts[] = { "", "\n\n", "Rss: 5 kB\n", "zz-11 rw-p\nRss: 5 kB\n",
					     "1000-2000\nRss: 7 kB\n" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(sum(texts[i]).rss_bytes, 0);
}

/* ---- how often ---- */

static void reading_takes_at_most_a_hundredth_of_the_time(void **state)
{
	struct memories memories;
	struct memory_row row = { .at_ns = 1000 };

	(void)state;
	memories_init(&memories);
	memories_add(&memories, &row, 50000000); /* 50 ms */
	assert_int_equal(memories.earliest_ns, 1000 + 5000000000);
	assert_false(memories_is_due(&memories, 1000 + 4999999999, 1 << 30, 1 << 30));
	assert_true(memories_is_due(&memories, 1000 + 5000000000, 0, 0));
	memories_add(&memories, &row, 10);
	assert_int_equal(memories.next_ns, 1000 + SNAPSHOT_INTERVAL_NS);
	memories_release(&memories);
}

static void a_new_maximum_is_read_at_once(void **state)
{
	struct memories memories;
	struct memory_row row = { .at_ns = 20000000, .rss_bytes = 100 * MIB, .live_bytes = MIB };

	(void)state;
	memories_init(&memories);
	assert_false(memories_is_due(&memories, MEMORY_FIRST_NS - 1, 0, 0));
	assert_true(memories_is_due(&memories, MEMORY_FIRST_NS, 0, 0));
	memories_add(&memories, &row, 1000);
	assert_false(memories_is_due(&memories, 30000000, 101 * MIB, MIB)); /* hardly more */
	assert_true(memories_is_due(&memories, 30000000, 110 * MIB, MIB));
	assert_true(memories_is_due(&memories, 30000000, 100 * MIB, 2 * MIB));
	memories_release(&memories);
}

/* Also if they are read much more often than they are kept; and so do the largest. */
static void many_rows_are_thinned_and_the_newest_stays(void **state)
{
	enum { MOST_AT = 5003, ASKED_AT = 6007, STEP_NS = 3000000 };
	struct memories memories;
	bool has_most = false, has_asked = false;

	(void)state;
	memories_init(&memories);
	for (uint64_t i = 0; i < 20000; i++) {
		struct memory_row row = { .at_ns = i * STEP_NS,
					  .rss_bytes = i == MOST_AT ? 9 : 1,
					  .live_bytes = i == MOST_AT ? 9 : 1,
					  .asked = i == ASKED_AT };

		memories_add(&memories, &row, 0);
		assert_true(memories.rows.count <= MEMORIES_MAX + 1);
		assert_int_equal(memories.rows.at[memories.rows.count - 1].at_ns, i * STEP_NS);
	}
	assert_true(memories.interval_ns > SNAPSHOT_INTERVAL_NS);
	assert_true(memories.rows.count >= MEMORIES_MAX / 2);
	for (size_t i = 0; i < memories.rows.count; i++) {
		has_most |= memories.rows.at[i].rss_bytes == 9;
		has_asked |= memories.rows.at[i].asked;
		assert_true(i == 0 || memories.rows.at[i].at_ns > memories.rows.at[i - 1].at_ns);
	}
	assert_true(has_most && has_asked);
	memories_release(&memories);
}

/* ---- control groups ---- */

static char root[] = "/tmp/test_collect_memory.XXXXXX";

static void put(const char *path, const char *text)
{
	char whole[512];
	FILE *file;

	snprintf(whole, sizeof whole, "%s%s", root, path);
	for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
		*at = '\0';
		mkdir(whole, 0777);
		*at = '/';
	}
	file = fopen(whole, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static struct cgroup_memory ask(void)
{
	struct cgroups cgroups;
	struct cgroup_memory memory;

	cgroups_init(&cgroups, root);
	memory = cgroups_memory(&cgroups, 7);
	cgroups_release(&cgroups);
	return memory;
}

static int make_root(void **state)
{
	(void)state;
	memcpy(root + sizeof root - 7, "XXXXXX", 6);
	return mkdtemp(root) ? 0 : -1;
}

static int drop_root(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof command, "rm -rf %s", root);
	return system(command);
}

#define MOUNT_2 "30 1 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
#define MOUNT_1 "31 1 0:27 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"

static void version_2_counts_without_the_files_that_can_go(void **state)
{
	struct cgroup_memory memory;

	(void)state;
	put("/proc/self/mountinfo", "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n" MOUNT_2);
	put("/proc/7/cgroup", "0::/app.slice/web\n");
	put("/sys/fs/cgroup/app.slice/web/memory.max", "104857600\n");
	put("/sys/fs/cgroup/app.slice/web/memory.current", "62914560\n");
	put("/sys/fs/cgroup/app.slice/web/memory.stat",
	    "anon 1\nactive_file 5\ninactive_file 20971520\n");
	memory = ask();
	assert_int_equal(memory.limit_bytes, 100 * MIB);
	assert_int_equal(memory.usage_bytes, 40 * MIB);
}

static uint64_t kills_of(const char *group)
{
	struct cgroups cgroups;
	uint64_t kills;

	cgroups_init(&cgroups, root);
	kills = cgroups_oom_kills(&cgroups, group);
	cgroups_release(&cgroups);
	return kills;
}

static void kills_of_a_group_are_told_by_both_versions(void **state)
{
	(void)state;
	put("/proc/self/mountinfo", MOUNT_2);
	/* memory.events includes the groups below. */
	put("/sys/fs/cgroup/app/memory.events",
	    "low 0\nhigh 0\nmax 12\noom 3\noom_kill 9\noom_group_kill 0\n");
	put("/sys/fs/cgroup/app/memory.events.local",
	    "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n");
	assert_int_equal(kills_of("/app"), 2);
	assert_int_equal(kills_of("/gone"), UINT64_MAX);
	put("/proc/self/mountinfo", MOUNT_1 MOUNT_2);
	put("/sys/fs/cgroup/memory/app/memory.oom_control",
	    "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
	assert_int_equal(kills_of("/app"), 5);
}

static struct pressure pressure_of(pid_t pid)
{
	struct cgroups cgroups;
	struct pressure pressure;

	cgroups_init(&cgroups, root);
	pressure = cgroups_pressure(&cgroups, pid);
	cgroups_release(&cgroups);
	return pressure;
}

static void pressure_is_the_groups_or_else_the_machines(void **state)
{
	struct pressure pressure;

	(void)state;
	put("/proc/self/mountinfo",
	    MOUNT_1 "32 1 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
	put("/proc/7/cgroup", "4:memory:/box\n0::/web\n");
	assert_false(pressure_of(7).known);
	put("/proc/pressure/memory", "some avg10=0.00 avg60=0.10 avg300=12.34 total=1413529\n"
				     "full avg10=99.99 avg60=0.00 avg300=0.01 total=1230610\n");
	pressure = pressure_of(7);
	assert_true(pressure.known && !pressure.of_group);
	assert_int_equal(pressure.some_10s, 0);
	assert_int_equal(pressure.some_60s, 10);
	assert_int_equal(pressure.some_300s, 1234);
	assert_int_equal(pressure.full_10s, 9999);
	assert_int_equal(pressure.full_300s, 1);
	put("/sys/fs/cgroup/unified/web/memory.pressure",
	    "some avg10=20.50 avg60=3.00 avg300=1.00 total=5\n");
	pressure = pressure_of(7);
	assert_true(pressure.known && pressure.of_group);
	assert_int_equal(pressure.some_10s, 2050);
	assert_int_equal(pressure.full_10s, 0); /* a line that is missing */
	assert_false(pressure_parse("").known);
	assert_int_equal(pressure_parse("some avg10=nan avg60=-3").some_10s, 0);
	assert_int_equal(pressure_parse("some avg10=1e300").some_10s, 0);
}

/* ---- the kernel's log ---- */

static void kills_stand_in_the_log(void **state)
{
	struct oom_kill kill;

	(void)state;
	assert_true(oom_parse(
		"6,339,5140900,-;Memory cgroup out of memory: Killed process 9120 (worker) "
		"total-vm:1kB, anon-rss:2kB\n SUBSYSTEM=x\n",
		&kill));
	assert_int_equal(kill.at_ns, 5140900000);
	assert_int_equal(kill.pid, 9120);
	assert_string_equal(kill.name, "worker");
	assert_true(kill.in_group);
	assert_true(oom_parse(
		"3,1,7,c,caller=T1;Out of memory: Killed process 3 (a (b) c) total-vm:1kB", &kill));
	assert_string_equal(kill.name, "a (b) c");
	assert_false(kill.in_group);
	assert_true(oom_parse(
		"3,1,7,-;Out of memory: Killed process 3 (a_very_long_name_of_a_thread)", &kill));
	assert_string_equal(kill.name, "a_very_long_nam");
	assert_false(oom_parse("6,1,2,-;oom_reaper: reaped process 9120 (worker), now anon-rss:0kB",
			       &kill));
	assert_false(oom_parse("", &kill));
	assert_false(oom_parse("Out of memory: Killed process 3 (x", &kill));
	assert_false(oom_parse("1,2,3,-;Out of memory: Killed process 3", &kill));
}

enum { INITIAL = 0xeffffffc, OTHER = 0xf0000001 };

static const struct oom_kill *find_kill(const struct oom_log *log, pid_t pid, uint64_t namespace,
					const char *name, uint64_t started_s, uint64_t seen_s)
{
	const struct oom_victim victim = { pid, namespace, name, started_s * 1000000000,
					   seen_s * 1000000000 };

	return oom_log_find(log, &victim);
}

static void a_kill_fits_by_number_or_name_and_time(void **state)
{
	const uint64_t second = 1000000000;
	struct oom_kill kills[] = { { 10 * second, 5, "old", true },
				    { 100 * second, 7, "worker", true },
				    { 200 * second, 8, "worker", false } };
	struct oom_log log = { .kills = { kills, 3, 3 } };

	(void)state;
	assert_ptr_equal(find_kill(&log, 7, INITIAL, "x", 1, 50), &kills[1]);
	assert_ptr_equal(find_kill(&log, 7, INITIAL, "x", 1, 104), &kills[1]);
	assert_null(find_kill(&log, 7, INITIAL, "x", 1, 106));
	/* By its name, from elsewhere: near in time, and in its life. */
	assert_ptr_equal(find_kill(&log, 1, OTHER, "worker", 50, 95), &kills[1]);
	assert_ptr_equal(find_kill(&log, 1, OTHER, "worker", 101, 199), &kills[2]);
	assert_null(find_kill(&log, 1, OTHER, "worker", 101, 101));
	assert_null(find_kill(&log, 1, OTHER, "worker", 50, 80));
	assert_null(find_kill(&log, 1, OTHER, "worker", 50, 150));
	assert_null(find_kill(&log, 5, OTHER, "y", 1, 50));
	/* From nobody knows where: either may be right. */
	assert_ptr_equal(find_kill(&log, 7, 0, "x", 1, 50), &kills[1]);
	assert_ptr_equal(find_kill(&log, 1, 0, "worker", 50, 95), &kills[1]);
}

static void a_killed_sibling_of_the_same_name_is_another_process(void **state)
{
	const uint64_t second = 1000000000;
	struct oom_kill kills[] = { { 100 * second, 7, "worker", true } };
	struct oom_log log = { .kills = { kills, 1, 1 } };

	(void)state;
	assert_null(find_kill(&log, 6, INITIAL, "worker", 50, 95));
	/* The log's numbers mean nothing in another namespace. */
	assert_null(find_kill(&log, 7, OTHER, "x", 1, 95));
}

static void only_a_log_that_would_name_the_victim_proves_anything(void **state)
{
	const uint64_t second = 1000000000;
	const struct oom_victim here = { .pid = 7,
					 .pid_namespace = INITIAL,
					 .seen_ns = 50 * second };
	const struct oom_victim elsewhere = { .pid = 7,
					      .pid_namespace = OTHER,
					      .seen_ns = 50 * second };
	struct oom_log log = { .since_ns = 20 * second, .readable = true };

	(void)state;
	assert_true(oom_log_is_complete(&log, &here));
	assert_false(oom_log_is_complete(&log, &elsewhere));
	log.since_ns = 60 * second; /* older records were overwritten */
	assert_false(oom_log_is_complete(&log, &here));
	log = (struct oom_log){ .since_ns = UINT64_MAX };
	assert_false(oom_log_is_complete(&log, &here));
}

static void the_tightest_group_above_counts(void **state)
{
	struct cgroup_memory memory;

	(void)state;
	put("/proc/self/mountinfo", MOUNT_2);
	put("/proc/7/cgroup", "0::/outer/inner\n");
	put("/sys/fs/cgroup/outer/inner/memory.max", "max\n");
	put("/sys/fs/cgroup/outer/inner/memory.current", "1048576\n");
	put("/sys/fs/cgroup/outer/memory.max", "10485760\n");
	put("/sys/fs/cgroup/outer/memory.current", "3145728\n");
	memory = ask();
	assert_int_equal(memory.limit_bytes, 10 * MIB);
	assert_int_equal(memory.usage_bytes, 3 * MIB);
}

static void version_1_is_found_beside_an_empty_version_2(void **state)
{
	struct cgroup_memory memory;

	(void)state;
	put("/proc/self/mountinfo",
	    "29 1 0:25 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n" MOUNT_1
	    "32 1 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
	put("/proc/7/cgroup", "5:cpu:/elsewhere\n4:memory:/box\n0::/\n");
	put("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "52428800\n");
	put("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "10485760\n");
	put("/sys/fs/cgroup/memory/box/memory.stat", "cache 0\ntotal_inactive_file 2097152\n");
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "99999999999\n");
	memory = ask();
	assert_int_equal(memory.limit_bytes, 50 * MIB);
	assert_int_equal(memory.usage_bytes, 8 * MIB);
}

static void a_container_sees_its_own_group_as_the_root(void **state)
{
	(void)state;
	put("/proc/self/mountinfo",
	    "30 1 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n");
	put("/sys/fs/cgroup/memory.max", "31457280\n");
	put("/sys/fs/cgroup/memory.current", "1048576\n");
	put("/proc/7/cgroup", "0::/docker/abc\n");
	assert_int_equal(ask().limit_bytes, 30 * MIB);
	put("/proc/7/cgroup", "0::/\n");
	assert_int_equal(ask().limit_bytes, 30 * MIB);
	/* Those of other containers are not ours: below a common parent, or seen from a namespace of ours. */
	put("/proc/7/cgroup", "0::/docker/abcd\n");
	assert_int_equal(ask().limit_bytes, 0);
	put("/proc/7/cgroup", "0::/../other\n");
	assert_int_equal(ask().limit_bytes, 0);
	put("/proc/self/mountinfo", "30 1 0:26 /../other /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n");
	assert_int_equal(ask().limit_bytes, 30 * MIB);
}

static void no_limit_and_no_controller_are_the_same(void **state)
{
	(void)state;
	assert_int_equal(ask().limit_bytes, 0); /* no files at all */
	put("/proc/self/mountinfo", MOUNT_2 "damaged line\n30 1\n");
	assert_int_equal(ask().limit_bytes, 0);
	put("/proc/7/cgroup", "0::/free\nnonsense\n:\n");
	put("/sys/fs/cgroup/free/memory.max", "max\n");
	put("/sys/fs/cgroup/free/memory.current", "1\n");
	assert_int_equal(ask().limit_bytes, 0);
}

/* ---- the recorder's budget ---- */

static void the_default_budget_is_a_tenth_of_free_memory_within_bounds(void **state)
{
	(void)state;
	assert_int_equal(live_budget_default(0, UINT64_MAX, 0).bytes, 64 * MIB);
	assert_int_equal(live_budget_default(100 * MIB, UINT64_MAX, 0).bytes, 64 * MIB);
	assert_int_equal(live_budget_default(4000 * MIB, UINT64_MAX, 0).bytes, 400 * MIB);
	assert_int_equal(live_budget_default(3700 * MIB, UINT64_MAX, 300 * MIB).bytes, 400 * MIB);
	assert_int_equal(live_budget_default(64000 * MIB, UINT64_MAX, 0).bytes, 1024 * MIB);
	assert_int_equal(live_budget_default(64000 * MIB, UINT64_MAX, 0).limit_bytes, UINT64_MAX);
	assert_in_range(procfs_free_memory(), 10 * MIB, UINT64_MAX / 2);
}

static void a_control_group_bounds_the_budget_and_the_heaps_share(void **state)
{
	const struct cgroup_memory half = { 1000 * MIB, 500 * MIB },
				   over = { 100 * MIB, 200 * MIB };
	struct live_budget budget = live_budget_default(64000 * MIB, 500 * MIB, 0);

	(void)state;
	assert_int_equal(budget.bytes, 50 * MIB);
	assert_int_equal(budget.limit_bytes, 50 * MIB);
	assert_int_equal(live_budget_default(64000 * MIB, 500 * MIB, 20 * MIB).bytes, 52 * MIB);
	assert_int_equal(target_budget(0, &half, 0).limit_bytes, 50 * MIB);
	assert_int_equal(target_budget(0, &over, 0).bytes, 0);
	assert_int_equal(target_budget(7 * MIB, &over, 0).bytes, 7 * MIB);
	/* What the recorder has opened and not touched is not in the usage: still a tenth of the limit at most. */
	assert_int_equal(target_budget(0, &half, half.limit_bytes).limit_bytes,
			 half.limit_bytes / 10);
}

/* A row is read between two others. Memory that changed in between may have been recorded or not. */
static void a_row_has_what_changed_around_it(void **state)
{
	struct memories memories;
	struct memory_row first = { .at_ns = 1000000000 }, second = { .at_ns = 2000000000 };

	(void)state;
	memories_init(&memories);
	memories_note_flow(&memories, &first, (struct memory_flow){ 100, 20 });
	memories_add(&memories, &first, 0);
	memories_note_flow(&memories, &second, (struct memory_flow){ 107, 23 });
	memories_add(&memories, &second, 0);
	memories_note_flow(&memories, NULL, (struct memory_flow){ 160, 90 });
	assert_int_equal(memories.rows.count, 2);
	assert_int_equal(memories.rows.at[0].changed_bytes, 20 + 7);
	assert_int_equal(memories.rows.at[1].changed_bytes, 3 + 53);
	memories_release(&memories);
}

int main(void)
{
#define WITH_ROOT(test) cmocka_unit_test_setup_teardown(test, make_root, drop_root)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_page_is_in_one_class),
		cmocka_unit_test(static_data_is_behind_a_module),
		cmocka_unit_test(huge_pages_beside_the_rss_are_counted),
		cmocka_unit_test(mappings_that_changed_meanwhile_do_not_overlap),
		cmocka_unit_test(a_stack_may_begin_where_an_arena_would),
		cmocka_unit_test(a_full_arena_above_the_rest_of_another_is_no_stack),
		cmocka_unit_test(stacks_begin_at_their_guards),
		cmocka_unit_test(text_that_is_no_smaps_counts_nothing),
		cmocka_unit_test(reading_takes_at_most_a_hundredth_of_the_time),
		cmocka_unit_test(a_new_maximum_is_read_at_once),
		cmocka_unit_test(many_rows_are_thinned_and_the_newest_stays),
		WITH_ROOT(version_2_counts_without_the_files_that_can_go),
		WITH_ROOT(the_tightest_group_above_counts),
		WITH_ROOT(kills_of_a_group_are_told_by_both_versions),
		WITH_ROOT(pressure_is_the_groups_or_else_the_machines),
		cmocka_unit_test(kills_stand_in_the_log),
		cmocka_unit_test(a_kill_fits_by_number_or_name_and_time),
		cmocka_unit_test(a_killed_sibling_of_the_same_name_is_another_process),
		cmocka_unit_test(only_a_log_that_would_name_the_victim_proves_anything),
		WITH_ROOT(version_1_is_found_beside_an_empty_version_2),
		WITH_ROOT(a_container_sees_its_own_group_as_the_root),
		WITH_ROOT(no_limit_and_no_controller_are_the_same),
		cmocka_unit_test(the_default_budget_is_a_tenth_of_free_memory_within_bounds),
		cmocka_unit_test(a_control_group_bounds_the_budget_and_the_heaps_share),
		cmocka_unit_test(a_row_has_what_changed_around_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
