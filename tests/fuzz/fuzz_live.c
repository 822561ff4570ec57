/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/* runs: 4000 */
/*
 * A live profile whose memory holds anything. The input is a list of (place, value) writes of 32 bits into a fresh
 * profile: the head, the tables and the block map. Whatever is read from it must be good enough to be encoded, which
 * asserts every id, and must decode without a bad chunk.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "collect/profile/blocks.h"
#include "format/live/live_marks.h"
#include "format/live/live_read.h"
#include "fuzz_check.h"

/* The head says where the regions are: here each is as small as it can be, so that little is walked and nothing is large to wipe.
 * With the smallest profile that a recorder makes there were 60 runs a second, and a shift by 496 was not found; with the whole top
 * level of the block map there were 300, and a sum that overflows was not found for a week. */
enum { WINDOW = 4096, HEAD_WINDOW = 4096, LEAF_UNITS = 4, TOP_ENTRIES = 1024 };
#define HEAD (LIVE_FRONT_BYTES + TOP_ENTRIES * sizeof(uint32_t))
#define TOTAL                                                                                      \
	(HEAD + (size_t)LIVE_REGIONS * WINDOW + sizeof(struct live_area) +                         \
	 (size_t)LEAF_UNITS * LIVE_LEAF_UNIT + LIVE_ERA_UNIT)

/* What can be written of a region. */
static size_t window_of(unsigned region)
{
	return region == LIVE_AREAS ? sizeof(struct live_area) : WINDOW;
}

static void write_word(struct live_header *head, const struct live_header *clean,
		       const uint8_t *data)
{
	unsigned region = data[0] % (LIVE_REGIONS + 2);
	uint32_t value;
	uint16_t place;
	uint8_t *to;

	memcpy(&place, data + 1, sizeof place);
	memcpy(&value, data + 3, sizeof value);
	if (region < LIVE_REGIONS)
		to = (uint8_t *)head + clean->region[region].at + place % window_of(region) / 4 * 4;
	else if (region == LIVE_REGIONS)
		to = (uint8_t *)head + place % HEAD_WINDOW / 4 * 4;
	else
		to = (uint8_t *)&head->used[place % LIVE_REGIONS];
	memcpy(to, &value, sizeof value);
}

/* In order, without overlap, of sites that exist. */
static void read_blocks(const struct live_header *head)
{
	struct live_blocks blocks;

	(void)live_blocks_read(head, TOTAL, 1000, &blocks, NULL);
	for (size_t i = 0; i < blocks.list.count; i++) {
		const struct live_block *b = &blocks.list.at[i];

		CHECK(b->site != 0 && b->site < blocks.site_count);
		CHECK(b->size_bytes < UINT64_C(1) << 48 || i + 1 < blocks.list.count);
		CHECK(i + 1 == blocks.list.count || b->address + b->size_bytes <= b[1].address);
	}
	live_blocks_release(&blocks);
}

static void read_all(struct live_header *head)
{
	struct process_rows rows = { 0 };
	struct live_totals totals;
	struct live_sites sites;

	(void)live_read_totals(head, TOTAL, NULL, &totals);
	if (live_read_sites(head, TOTAL, NULL, &sites) == 0)
		live_sites_release(&sites);
	struct live_mark_read mark;

	for (size_t i = 0; i < 100 && live_mark_get(head, TOTAL, i, &mark); i++) {
		CHECK(strlen(mark.name) <= LIVE_TAG_TEXT_MAX);
		if (mark.saved && live_read_saved_sites(head, TOTAL, &mark, &sites) == 0) {
			(void)live_sum_heap(head, TOTAL, &sites);
			live_sites_release(&sites);
		}
	}
	read_blocks(head);
	if (live_read_rows(head, TOTAL, NULL, LIVE_MODE_EXACT, &rows, NULL) == 0) {
		struct recording recording = { .processes = &rows, .process_count = 1 }, back;
		void *bytes;
		size_t length;

		CHECK(live_read_ages(head, TOTAL, 1000, &rows, NULL) == 0);
		CHECK(recording_encode(&recording, &bytes, &length, NULL) == 0);
		CHECK(recording_decode(bytes, length, &back, NULL) == 0);
		CHECK(back.warnings.bad_chunks == 0 && !back.warnings.unfinished);
		CHECK(back.processes[0].process.calls == rows.process.calls);
		recording_release(&back);
		free(bytes);
		process_rows_release(&rows);
	}
}

static void lay_out(struct live_header *clean)
{
	uint64_t at = HEAD;

	CHECK(live_header_init(clean, LIVE_TOTAL_MIN) == 0);
	clean->header_bytes = HEAD;
	clean->total_bytes = TOTAL;
	clean->granule_shift = 4;
	for (unsigned i = 0; i < LIVE_REGIONS; i++) {
		uint64_t bytes = i == LIVE_LEAVES  ? (uint64_t)LEAF_UNITS * LIVE_LEAF_UNIT
				 : i == LIVE_AREAS ? sizeof(struct live_area)
				 : i == LIVE_ERAS  ? LIVE_ERA_UNIT
						   : WINDOW;

		clean->region[i] = (struct live_span){ at, bytes };
		at += bytes;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct live_header *head;
	static struct live_header clean;

	if (!head) {
		head = mmap(NULL, TOTAL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);
		CHECK(head != MAP_FAILED);
		lay_out(&clean);
	}
	memcpy(head, &clean, offsetof(struct live_header, top));
	for (unsigned i = 0; i < LIVE_REGIONS; i++) {
		memset((uint8_t *)head + clean.region[i].at, 0, window_of(i));
		head->used[i] = i == LIVE_LEAVES ? LEAF_UNITS : 8;
	}
	head->top[0] = 1;
	for (; size >= 7; data += 7, size -= 7)
		write_word(head, &clean, data);
	read_all(head);
	return 0;
}
