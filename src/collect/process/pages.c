/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what pages_measure.c computes with: blocks, pages, pages, blocks. A block counts if it was there both times, and a page if its
 * state was the same in both readings. The starts of resident pages are read once, and all of those that may have nothing but zeros.
 *
 * The profile is untrusted, as everywhere; the pages are described by the kernel. Runs in a worker or a command; nothing here is
 * shared.
 */
#include "collect/process/pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "collect/kernel/procfs.h"
#include "collect/kernel/stack_guards.h"
#include "format/live/live_view.h"
#include "util/cleanup.h"
#include "util/search.h"

enum {
	HEAD_BYTES = 64,
	HEADS_MAX = 128, /* pages that are read together */
};

struct reading {
	struct live_profile profile; /* a reader of its own */
	pid_t pid;
	uint64_t page_bytes;
	int pagemap;
	bool scans;
	struct smaps smaps;
	struct block_map map;
	struct live_blocks blocks;
	page_runs runs, later_runs, same;
	uint64_t *life_ms;
	uint64_t changed_blocks, changed_bytes;
	/* the starts of the pages from heads_at on, and all of those from content_at on */
	uint64_t heads_at, head_count, content_at, content_bytes;
	char heads[HEADS_MAX * HEAD_BYTES], *content;
};

const char *pages_refusal(uint32_t mode)
{
	switch (mode) {
	case LIVE_MODE_EXACT:
		return NULL;
	case LIVE_MODE_SAMPLE:
		return "samples do not show which blocks share a page, so that pages need --mode exact";
	case LIVE_MODE_TAGS:
		return "without stacks no site is known that pages belong to, so that pages need --mode "
		       "exact";
	default:
		return "the process is dormant, so that its blocks are not known";
	}
}

/* ---- the profile ---- */

static int check_mode(const struct reading *r, struct error *error)
{
	const char *refusal = pages_refusal(live_profile_mode(&r->profile));
	struct live_view view;

	if (live_view_init(&view, r->profile.memory, r->profile.bytes))
		return error_set(error, "its profile cannot be read");
	if (!refusal && live_view_used(&view, LIVE_SAMPLED) > 0)
		refusal = pages_refusal(LIVE_MODE_SAMPLE);
	return refusal ? error_set(error, "%s", refusal) : 0;
}

static uint64_t lifetimes_sum(const struct live_view *view,
			      const struct live_site_counters *counters)
{
	const struct live_lifetimes *lifetimes =
		live_view_pool(view, live_view_used(view, LIVE_POOL),
			       LIVE_LOAD(counters->lifetimes), sizeof *lifetimes);

	return lifetimes ? LIVE_LOAD(lifetimes->sum_ms) : 0;
}

/* The mean remaining life of a site's blocks, if they end at a constant rate: the time that all its blocks have lived, divided by the
 * number of those that were freed. Blocks of a site that frees nothing outlive all others. */
static bool estimate_lives(struct reading *r)
{
	const size_t site_count = r->blocks.site_count;
	AUTO_FREE uint64_t *frees = calloc(site_count + 1, sizeof *frees);
	struct live_view view;

	r->life_ms = calloc(site_count + 1, sizeof *r->life_ms);
	if (!frees || !r->life_ms || live_view_init(&view, r->profile.memory, r->profile.bytes))
		return false;
	const struct live_site_counters *all = live_view_at(&view, LIVE_SITE_COUNTERS);

	for (size_t i = 0; i < live_view_used(&view, LIVE_SITE_COUNTERS); i++) {
		uint32_t site = LIVE_LOAD(all[i].site);

		if (site >= site_count)
			continue;
		frees[site] = saturating_add(frees[site], LIVE_LOAD(all[i].frees));
		r->life_ms[site] = saturating_add(r->life_ms[site], lifetimes_sum(&view, &all[i]));
	}
	for (size_t i = 0; i < r->blocks.list.count; i++) {
		const struct live_block *b = &r->blocks.list.at[i];

		if (b->age_ms != BLOCK_AGE_UNKNOWN)
			r->life_ms[b->site] = saturating_add(r->life_ms[b->site], b->age_ms);
	}
	for (size_t i = 0; i < site_count; i++)
		r->life_ms[i] = frees[i] > 0 ? r->life_ms[i] / frees[i] : UINT64_MAX;
	return true;
}

/* Sets the site of each mapping as its weight; 0: unknown. */
static void match_mappings(struct reading *r)
{
	struct live_view view;
	size_t count;

	if (live_view_init(&view, r->profile.memory, r->profile.bytes))
		return;
	const struct live_site_counters *all = live_view_at(&view, LIVE_SITE_COUNTERS);

	count = live_view_used(&view, LIVE_SITE_COUNTERS);
	for (size_t i = 0; i < r->map.maps.count; i++) {
		struct recorded_range *map = &r->map.maps.at[i];
		uint32_t site = map->counters < count ? LIVE_LOAD(all[map->counters].site) : 0;

		map->weight = site < r->blocks.site_count ? site : 0;
	}
}

/* ---- pages ---- */

static bool has_pages(const struct mapping *m)
{
	return m->kind != MAPPING_FILES && m->kind != MAPPING_OWN;
}

static bool read_runs(struct reading *r, page_runs *to)
{
	for (size_t i = 0; i < r->smaps.list.count; i++) {
		const struct mapping *m = &r->smaps.list.at[i];

		if (has_pages(m) && m->rss_bytes + m->swap_bytes > 0 &&
		    !pagemap_runs(r->pagemap, r->scans, m->start, m->end, to))
			return false;
	}
	return true;
}

/* Leaves the pages that were in the same state twice; counts those that have become resident. */
static bool leave_same_runs(struct reading *r)
{
	uint64_t resident = 0, both = 0;
	size_t k = 0;

	for (size_t i = 0; i < r->later_runs.count; i++) {
		const struct page_run *b = &r->later_runs.at[i];

		resident += b->state & PAGE_RESIDENT ? b->end - b->start : 0;
		while (k < r->runs.count && r->runs.at[k].end <= b->start)
			k++;
		for (size_t j = k; j < r->runs.count && r->runs.at[j].start < b->end; j++) {
			const struct page_run *a = &r->runs.at[j];
			struct page_run run = { MAX(a->start, b->start), MIN(a->end, b->end),
						b->state };
			bool is_resident = a->state & b->state & PAGE_RESIDENT;

			if (!is_resident && a->state != b->state)
				continue;
			both += is_resident ? run.end - run.start : 0;
			if (!vector_push(&r->same, run))
				return false;
		}
	}
	r->changed_bytes = resident - both;
	return true;
}

/* Reads the start of each page of a range, or all of it. A part of what was asked for is read if a page is gone meanwhile. */
static void read_heads(struct reading *r, uint64_t start, uint64_t end)
{
	struct iovec remote[HEADS_MAX], local = { r->heads, 0 };
	unsigned long count = 0;

	for (uint64_t page = start; page < end && count < HEADS_MAX; page += r->page_bytes)
		remote[count++] = (struct iovec){ (void *)(uintptr_t)page, HEAD_BYTES };
	local.iov_len = count * HEAD_BYTES;
	ssize_t got = process_vm_readv(r->pid, &local, 1, remote, count, 0);

	r->heads_at = start;
	r->head_count = got > 0 ? (uint64_t)got / HEAD_BYTES : 0;
	r->content_bytes = 0;
}

static void read_content(struct reading *r, uint64_t start, uint64_t bytes)
{
	struct iovec local = { r->content, bytes };
	struct iovec remote = { (void *)(uintptr_t)start, bytes };
	ssize_t got = process_vm_readv(r->pid, &local, 1, &remote, 1, 0);

	r->content_at = start;
	r->content_bytes = got > 0 ? (uint64_t)got : 0;
}

/* The end of the run that the page is in. */
static uint64_t run_end(const struct reading *r, uint64_t page)
{
	size_t low = FIRST_WHERE(i, r->same.count, r->same.at[i].end > page);

	return low < r->same.count ? r->same.at[low].end : page + r->page_bytes;
}

static bool is_filled_with_zero(const char *at, uint64_t bytes)
{
	return at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0;
}

/* Most pages show at their start that they are not zero; the others are read with those that follow. Pages that cannot be read, because
 * they are gone meanwhile, are not zero. */
static bool is_zero(void *context, uint64_t page)
{
	struct reading *r = context;
	uint64_t head = (page - r->heads_at) / r->page_bytes;

	if (page < r->heads_at || head >= r->head_count) {
		read_heads(r, page, run_end(r, page));
		head = 0;
	}
	if (head >= r->head_count || !is_filled_with_zero(r->heads + head * HEAD_BYTES, HEAD_BYTES))
		return false;
	if (page < r->content_at || page + r->page_bytes > r->content_at + r->content_bytes)
		read_content(r, page, (r->head_count - head) * r->page_bytes);
	return r->content_bytes >= r->page_bytes &&
	       is_filled_with_zero(r->content + (page - r->content_at), r->page_bytes);
}

/* ---- both ---- */

static void reading_release(struct reading *r)
{
	live_profile_release(&r->profile);
	if (r->pagemap >= 0)
		close(r->pagemap);
	smaps_release(&r->smaps);
	block_map_release(&r->map);
	live_blocks_release(&r->blocks);
	vector_release(&r->runs);
	vector_release(&r->later_runs);
	vector_release(&r->same);
	free(r->life_ms);
	free(r->content);
}

/* Whether the memory is that of the program that the profile describes, as far as that is known. */
static bool is_of_profile(const struct reading *r)
{
	for (size_t i = 0; r->profile.inode != 0 && i < r->smaps.list.count; i++)
		if (r->smaps.list.at[i].kind == MAPPING_OWN &&
		    r->smaps.list.at[i].inode == r->profile.inode)
			return true;
	return r->profile.inode == 0;
}

static int fail_unreadable(const struct reading *r, struct error *error)
{
	if (errno == 0) /* nothing is left to read */
		errno = ESRCH;
	return error_errno(error, "the pages of process %d cannot be read", (int)r->pid);
}

/* Reads the first list and the pages twice. */
static int read_first(struct reading *r, uint64_t now_ms, struct error *error)
{
	AUTO_FREE char *text = NULL;

	if (live_blocks_read(r->profile.memory, r->profile.bytes, now_ms, &r->blocks, error) < 0)
		return -1;
	errno = 0;
	/* In this order: once opened, it is of this memory, and has no pages after an exec. */
	r->pagemap = pagemap_open(r->pid);
	text = procfs_file(r->pid, "smaps", NULL);
	if (!text || r->pagemap < 0 || !smaps_parse(text, &r->smaps) ||
	    !stack_guards_find(r->pagemap, &r->smaps))
		return fail_unreadable(r, error);
	if (!is_of_profile(r))
		return error_set(error, "process %d has called exec", (int)r->pid);
	r->scans = true;
	if (!read_runs(r, &r->runs) && (errno == ENOTTY || errno == EINVAL)) {
		r->scans = false;
		r->runs.count = 0;
		errno = 0;
		(void)read_runs(r, &r->runs);
	}
	return read_runs(r, &r->later_runs) && leave_same_runs(r) ? 0 : fail_unreadable(r, error);
}

static uint64_t unknown_blocks(const struct live_header *head)
{
	bool unrecorded = LIVE_LOAD(head->compatible) & LIVE_MISSES_BLOCKS ||
			  LIVE_LOAD(head->health[HEALTH_untracked_blocks]) > 0 ||
			  LIVE_LOAD(head->health[HEALTH_unregistered_calls]) > 0;

	return (LIVE_LOAD(head->own.begin) == LIVE_BEGIN_FORK ? PAGES_INHERITED : 0) |
	       (unrecorded ? PAGES_UNRECORDED : 0);
}

/* What no known block lies on may be in use. */
static void forecast_nothing(struct pages_rows *rows)
{
	free(TAKE(rows->heaps));
	rows->heap_count = 0;
	rows->sums->trim_bytes = 0;
}

static int measure(struct reading *r, uint64_t at_ns, struct pages_rows *ret, struct error *error)
{
	const struct pages_input input = {
		.blocks = &r->blocks,
		.runs = &r->same,
		.smaps = &r->smaps,
		.maps = r->map.maps.at,
		.map_count = r->map.maps.count,
		.life_ms = r->life_ms,
		.is_glibc = strcmp(r->profile.head->allocator, "glibc") == 0,
		.usable = usable_size_of(r->profile.head->allocator),
		.page_bytes = r->page_bytes,
		.is_zero = is_zero,
		.context = r,
	};

	r->content = malloc(HEADS_MAX * r->page_bytes);
	if (!r->content || !pages_measure(&input, ret))
		return error_set(error, "out of memory");
	ret->sums->at_ns = at_ns;
	ret->sums->changed_blocks = r->changed_blocks;
	ret->sums->changed_bytes = r->changed_bytes;
	ret->sums->rss_bytes += r->changed_bytes;
	ret->sums->knows_huge = r->scans;
	ret->sums->unknown_blocks = unknown_blocks(r->profile.memory);
	if (ret->sums->unknown_blocks != 0)
		forecast_nothing(ret);
	return 0;
}

int pages_read(const struct live_profile *profile, pid_t pid, uint64_t at_ns,
	       struct pages_rows *ret, struct error *error)
{
	AUTO(reading_release)
	struct reading r = {
		.profile = LIVE_PROFILE_INIT,
		.pid = pid,
		.page_bytes = (uint64_t)sysconf(_SC_PAGESIZE),
		.pagemap = -1,
		.map = { .pagemap = -1, .reader = LIVE_PROFILE_INIT },
	};
	uint64_t now_ms;

	*ret = (struct pages_rows){ 0 };
	if (live_profile_twin(profile, &r.profile, error) < 0 ||
	    live_profile_load(&r.profile, PROFILE_COPY_ALL, false, error) < 0 ||
	    check_mode(&r, error) < 0)
		return -1;
	now_ms = profile_copy_clock_ms(&r.profile.held);
	/* Ages are relative to the same time in both lists. */
	if (read_first(&r, now_ms, error) < 0 ||
	    live_profile_load(&r.profile, PROFILE_COPY_ALL, false, error) < 0 ||
	    live_blocks_leave_same(&r.blocks, r.profile.memory, r.profile.bytes, now_ms,
				   &r.changed_blocks, error) < 0)
		return -1;
	if (!block_map_read_mappings(&r.profile, &r.map) || !estimate_lives(&r))
		return error_set(error, "its profile cannot be read, or out of memory");
	match_mappings(&r);
	return measure(&r, at_ns, ret, error);
}
