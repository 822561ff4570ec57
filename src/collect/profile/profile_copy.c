/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies the header and the opened part of each region from the memory of the process, which may be in a core file, or by pread from the
 * profile's file, to the same offsets of a private mapping, which format/live_read reads.
 *
 * The target writes during the copy. Site counters and slots are therefore read three times, and the copy says how much each entry
 * moved meanwhile. If the peak's state has changed, everything is copied again.
 *
 * The sizes are untrusted: only pages that exist are copied, and each table is clamped to its existing data, which bounds
 * everything derived from the copy.
 */
#include "collect/profile/profile_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "collect/kernel/container.h"
#include "collect/kernel/memory_source.h"
#include "collect/kernel/mapped_file.h"
#include "collect/kernel/pagemap.h"
#include "collect/kernel/procfs.h"
#include "format/live/live_view.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/files.h"

enum {
	COPIES_MAX = 5,
	/* Up to this size, a process' profile is copied without querying which pages exist: most profiles are smaller. */
	SMALL_PROFILE_BYTES = 8 << 20,
	/* Up to this size, a file is read without searching for holes. */
	SMALL_FILE_BYTES = 16 << 10,
	/* Opened memory may be untouched: the last piece of a table, and part of each leaf of the block map. */
	TABLE_MARGIN = 1 << 20,
	LEAF_UNITS_MAX = 4,
	/* Unused nodes of the block map: if two threads create the same node at once, one becomes a spare, and is leaked if
	 * there already is one. */
	SPARES_MAX = 64,
	/* Largest plausible ratio of opened bytes to RSS, and, if swap is in use, to present bytes. */
	UNTOUCHED_MAX = 128,
	SWAPPED_MAX = 16,
	/* Entries that are added to a table while it is copied; a bound in case the profile is damaged. */
	NEW_ENTRIES_MAX = 1 << 20,
	PART_BYTES = 64 << 10,
};
#define COPY_BYTES (16ull << 20)
#define TOTAL_MAX (1ull << 46)

static struct memory_source source_of(const struct profile_copy *c, int pagemap)
{
	return (struct memory_source){ c->pid, pagemap, c->core };
}

static int copy_memory(const struct memory_source *source, uint64_t from, void *to, uint64_t bytes)
{
	for (uint64_t done = 0; done < bytes;) {
		uint64_t part = MIN(bytes - done, COPY_BYTES);
		ssize_t got = memory_source_read(source, from + done, (char *)to + done, part);

		if (got <= 0)
			return got < 0 ? errno : EFAULT;
		done += (uint64_t)got;
	}
	return 0;
}

/* The length of the part of [from, from + bytes) before the next data or hole: SEEK_DATA, SEEK_HOLE. */
static uint64_t until(int fd, uint64_t from, uint64_t bytes, int what)
{
	off_t at = lseek(fd, (off_t)from, what);

	if (at < 0) /* no more data, or not supported by the kernel */
		return what == SEEK_HOLE || errno == ENXIO ? bytes : 0;
	return MIN((uint64_t)at - from, bytes);
}

static bool is_in_copy(const struct profile_copy *c, const char *to)
{
	return c->memory && to >= c->memory && to < c->memory + c->bytes;
}

/* Holes and data begin and end with pages: what was data in the last copy may be a hole now. */
static void forget(const struct profile_copy *c, char *to, uint64_t bytes)
{
	if (c->refresh && bytes > 0 && is_in_copy(c, to))
		(void)madvise(to, bytes, MADV_DONTNEED);
}

static void note(struct profile_copy *c, const char *to, uint64_t bytes)
{
	if (is_in_copy(c, to))
		copy_runs_note(&c->runs, (uint64_t)(to - c->memory), bytes);
}

/* Returns how much of [from, from + bytes) to read next, after a hole of *skip bytes. */
static uint64_t next_data(int fd, uint64_t from, uint64_t bytes, uint64_t *skip)
{
	*skip = 0;
	if (bytes <= SMALL_FILE_BYTES)
		return bytes;
	*skip = until(fd, from, bytes, SEEK_DATA);
	return *skip == bytes ? 0 : until(fd, from + *skip, bytes - *skip, SEEK_HOLE);
}

/* Uses pread: if it were mapped and its owner truncated it, access would raise SIGBUS. Holes are zero and take no memory in the
 * copy either. */
static int copy_file(struct profile_copy *c, uint64_t from, void *to, uint64_t bytes,
		     uint64_t *data_bytes)
{
	for (uint64_t done = 0, data = 0; done < bytes;) {
		if (data == 0) {
			uint64_t skip;

			data = next_data(c->fd, from + done, bytes - done, &skip);
			forget(c, (char *)to + done, skip);
			done += skip;
		}
		if (done == bytes)
			return 0;
		note(c, (char *)to + done, MIN(data, COPY_BYTES));
		ssize_t got = pread(c->fd, (char *)to + done, MIN(data, COPY_BYTES),
				    (off_t)(from + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? errno : ENODATA;
		done += (uint64_t)got;
		data -= (uint64_t)got;
		*data_bytes += (uint64_t)got;
	}
	return 0;
}

/* Copies only the pages that exist. */
static int copy_present(const struct profile_copy *c, int pagemap, uint64_t from, char *to,
			uint64_t bytes, uint64_t *data_bytes)
{
	const struct memory_source source = source_of(c, pagemap);
	uint64_t at = c->at + from, end = at + bytes, run, run_bytes;
	int number = 0;

	for (; number == 0 && memory_source_next(&source, at, end, &run, &run_bytes);
	     at = run + run_bytes) {
		number = copy_memory(&source, run, to + (run - c->at - from), run_bytes);
		*data_bytes += run_bytes;
	}
	/* Whoever copied the core file may have made holes of pages of zeros. */
	if (c->core)
		*data_bytes = core_file_has(c->core, c->at + from, bytes);
	return number;
}

/* Adds the number of bytes that exist to *data_bytes; pagemap -1: assumes that all of a process' memory does. Returns 0, or an
 * errno. */
static int copy_data(struct profile_copy *c, int pagemap, uint64_t from, void *to, uint64_t bytes,
		     uint64_t *data_bytes)
{
	if (c->fd >= 0)
		return copy_file(c, from, to, bytes, data_bytes);
	c->runs.is_incomplete = true;
	if (pagemap >= 0 || c->core)
		return copy_present(c, pagemap, from, to, bytes, data_bytes);
	const struct memory_source source = source_of(c, -1);

	*data_bytes += bytes;
	return copy_memory(&source, c->at + from, to, bytes);
}

/* For the header and the control page, which are small. */
static int copy(struct profile_copy *c, uint64_t from, void *to, uint64_t bytes)
{
	const struct memory_source source = source_of(c, -1);
	uint64_t data = 0;

	if (c->fd >= 0)
		return copy_file(c, from, to, bytes, &data);
	c->runs.is_incomplete = true;
	return copy_memory(&source, c->at + from, to, bytes);
}

uint64_t profile_copy_data_bytes(const struct profile_copy *c, uint64_t from, uint64_t bytes)
{
	uint64_t at = from, sum = 0;

	while (c->fd >= 0 && at < from + bytes) {
		at += until(c->fd, at, from + bytes - at, SEEK_DATA);
		uint64_t data = until(c->fd, at, from + bytes - at, SEEK_HOLE);

		sum += data;
		at += data;
	}
	return c->fd >= 0 ? sum : bytes;
}

static void release_moves(struct profile_copy *c)
{
	free(c->moves.site_counters.at);
	free(c->moves.slots.at);
	c->moves = (struct live_copy_moves){ 0 };
}

void profile_copy_release_memory(struct profile_copy *copied)
{
	if (copied->memory)
		copy_buffer_free(copied->memory, copied->bytes, &copied->runs);
	copied->memory = NULL;
	copied->bytes = 0;
	release_moves(copied);
}

void profile_copy_release(struct profile_copy *copied)
{
	profile_copy_release_memory(copied);
	if (copied->fd >= 0)
		close(copied->fd);
	*copied = PROFILE_COPY_INIT;
}

static struct live_header *head_of(const struct profile_copy *c)
{
	return (struct live_header *)(void *)c->memory;
}

struct live_header *profile_front_new(void)
{
	struct live_header *front = aligned_alloc(_Alignof(struct live_header), LIVE_FRONT_BYTES);

	return front ? memset(front, 0, LIVE_FRONT_BYTES) : NULL;
}

/* The largest plausible size of a region, given how much of it exists. */
static uint64_t most_of(enum live_region region, uint64_t data_bytes)
{
	uint64_t pages = data_bytes / LIVE_PAGE;

	switch (region) {
	case LIVE_LEAVES: /* at least a page of each leaf was touched, as for areas and eras */
		return (pages + SPARES_MAX) * LEAF_UNITS_MAX * LIVE_LEAF_UNIT;
	case LIVE_AREAS:
		return (pages + SPARES_MAX) * sizeof(struct live_area);
	case LIVE_ERAS:
		return (pages + SPARES_MAX) * LIVE_ERA_UNIT;
	case LIVE_SAVED: /* a ring: positions are relative to its size, which is never large */
		return UINT64_MAX;
	default:
		return data_bytes + TABLE_MARGIN;
	}
}

/* How much of a region to copy. Memory is opened ahead of its use, by a sixth on average; tables are read up to `used`. */
static uint64_t bytes_to_copy(const struct live_header *head, enum live_region region)
{
	uint64_t opened = head->opened[region];

	switch (region) {
	case LIVE_FRAMES:
	case LIVE_NODES:
	case LIVE_SITES:
	case LIVE_SITE_COUNTERS:
	case LIVE_POOL:
		return MIN(opened, saturating_add(saturating_mul(head->used[region],
								 live_entry_bytes(region)),
						  LIVE_PAGE - 1) &
					   ~(LIVE_PAGE - 1ull));
	default:
		return opened;
	}
}

static int copy_region(struct profile_copy *c, int pagemap, enum live_region region)
{
	struct live_span *span = &head_of(c)->region[region];
	uint64_t data = 0;
	int number = copy_data(c, pagemap, span->at, c->memory + span->at,
			       bytes_to_copy(head_of(c), region), &data);
	uint64_t most = most_of(region, data) & ~(uint64_t)(LIVE_PAGE - 1);

	/* Cut off, or the kernel did not make a piece dumpable. */
	head_of(c)->health[HEALTH_damaged_tables] +=
		c->core && data < bytes_to_copy(head_of(c), region);
	/* Readers do not go beyond the region's end, whatever `used` says. */
	span->bytes = MIN(span->bytes, most);
	head_of(c)->opened[region] = MIN(head_of(c)->opened[region], span->bytes);
	return number;
}

/* ---- counters ---- */

static struct live_table_moves *moves_of(struct profile_copy *c, enum live_region region)
{
	return region == LIVE_SLOTS ? &c->moves.slots : &c->moves.site_counters;
}

/* The numbers in an entry of LIVE_SITE_COUNTERS or LIVE_SLOTS. */
static struct live_counted counted_in(const char *entry, enum live_region region)
{
	struct live_counted counted;

	_Static_assert(offsetof(struct live_slot, freed_bytes) ==
				       offsetof(struct live_counted, freed_bytes) &&
			       offsetof(struct live_site_counters, freed_bytes) ==
				       offsetof(struct live_site_counters, calls) +
					       offsetof(struct live_counted, freed_bytes),
		       "both have them in this order");
	if (region == LIVE_SITE_COUNTERS)
		entry += offsetof(struct live_site_counters, calls);
	memcpy(&counted, entry, sizeof counted);
	return counted;
}

/* Raises *count to the number of entries that the table has now. */
static int count_now(struct profile_copy *c, enum live_region region, size_t *count)
{
	const size_t used_at = offsetof(struct live_header, used) + region * sizeof(uint64_t),
		     opened_at = offsetof(struct live_header, opened) + region * sizeof(uint64_t);
	uint64_t used, opened, at = head_of(c)->region[region].at;
	int number = copy(c, used_at, &used, sizeof used);

	if (number == 0)
		number = copy(c, opened_at, &opened, sizeof opened);
	if (number != 0)
		return number;
	opened = MIN(opened, saturating_sub(c->bytes, at));
	used = MIN(used, opened / live_entry_bytes(region));
	*count = MAX(*count, (size_t)MIN(used, *count + NEW_ENTRIES_MAX));
	return 0;
}

/* Reads the table again after the copy. `before` has the `count` entries that were read before it. */
static int read_moves(struct profile_copy *c, int pagemap, enum live_region region,
		      const struct live_counted *before, size_t count)
{
	const struct live_counted none = { 0 };
	struct live_table_moves *moves = moves_of(c, region);
	const size_t bytes = live_entry_bytes(region), most = PART_BYTES / bytes;
	AUTO_FREE char *part = malloc(PART_BYTES);
	size_t all = count, n;
	int number = part ? count_now(c, region, &all) : ENOMEM;

	moves->at = number == 0 ? calloc(all + 1, sizeof *moves->at) : NULL;
	moves->count = moves->at ? all : 0;
	for (size_t i = 0; i < moves->count && number == 0; i += n) {
		uint64_t data = 0, from = head_of(c)->region[region].at + i * bytes;

		n = MIN(moves->count - i, most);
		memset(part, 0, n * bytes); /* holes stay zero */
		number = copy_data(c, pagemap, from, part, n * bytes, &data);
		for (size_t k = 0; k < n; k++) {
			const struct live_counted after = counted_in(part + k * bytes, region);

			moves->at[i + k] =
				live_moved_between(i + k < count ? &before[i + k] : &none, &after);
		}
	}
	return moves->at || number ? number : ENOMEM;
}

/* Copies a table of counters, between two other readings that bound the error of sums over its entries. */
static int copy_counters(struct profile_copy *c, int pagemap, enum live_region region)
{
	const char *first = c->memory + head_of(c)->region[region].at;
	int number = copy_region(c, pagemap, region);
	size_t bytes = live_entry_bytes(region);
	size_t count = MIN(head_of(c)->used[region], head_of(c)->opened[region] / bytes);
	AUTO_FREE struct live_counted *before =
		number == 0 ? calloc(count + 1, sizeof *before) : NULL;

	if (!before)
		return number == 0 ? ENOMEM : number;
	for (size_t i = 0; i < count; i++)
		before[i] = counted_in(first + i * bytes, region);
	number = copy_region(c, pagemap, region);
	return number == 0 ? read_moves(c, pagemap, region, before, count) : number;
}

static bool is_wanted(enum live_region region, enum profile_copy_parts parts)
{
	switch (region) {
	case LIVE_SCRATCH: /* private to the recorder */
		return false;
	case LIVE_FRAMES:
	case LIVE_NODES:
	case LIVE_MODULES:
	case LIVE_POOL:
	case LIVE_VISITS:
		return parts != PROFILE_COPY_LIVE;
	case LIVE_SAMPLED:
	case LIVE_AREAS:
	case LIVE_LEAVES:
	case LIVE_LEAF_ERAS:
	case LIVE_ERAS:
		return parts == PROFILE_COPY_ALL;
	default:
		return true;
	}
}

static uint64_t rss_of(pid_t pid)
{
	AUTO_CLOSE int statm = procfs_statm_open(pid);

	return procfs_rss(statm);
}

static uint64_t present_bytes(const struct profile_copy *c, int pagemap,
			      enum profile_copy_parts parts)
{
	const struct live_header *head = head_of(c);
	uint64_t sum = 0, run, run_bytes;

	for (int i = 0; i < LIVE_REGIONS; i++) {
		uint64_t at = c->at + head->region[i].at, end = at + head->opened[i];

		for (; is_wanted((enum live_region)i, parts) &&
		       pagemap_next(pagemap, at, end, &run, &run_bytes);
		     at = run + run_bytes)
			sum += run_bytes;
	}
	return sum;
}

/* For a process' profile that is not small, opens pagemap to find which pages exist: reading the others would allocate them.
 * The caller closes *ret_pagemap; -1: copy all pages. Sets the error if the profile claims far more memory than it can have. */
static int find_present(const struct profile_copy *c, enum profile_copy_parts parts,
			int *ret_pagemap, struct error *error)
{
	const struct live_header *head = head_of(c);
	uint64_t wanted = 0, there;

	for (int i = 0; i < LIVE_REGIONS; i++)
		wanted += is_wanted((enum live_region)i, parts) ? head->opened[i] : 0;
	if (c->fd >= 0 || wanted <= SMALL_PROFILE_BYTES)
		return 0;
	there = c->core ? c->core->present_bytes : rss_of(c->pid);
	if (wanted / UNTOUCHED_MAX <= there && c->core)
		return 0;
	if (wanted / UNTOUCHED_MAX <= there) {
		AUTO_CLOSE int pagemap = pagemap_open(c->pid);

		if (pagemap < 0)
			return error_errno(error,
					   "cannot determine which of its pages are present");
		if (!pagemap_is_swap_used()) {
			*ret_pagemap = TAKE_FD(pagemap);
			return 0;
		}
		/* pagemap does not show swapped pages of shared memory: copy everything, if the size is plausible. */
		there = present_bytes(c, pagemap, parts);
		if (wanted / SWAPPED_MAX <= there)
			return 0;
	}
	return error_set(
		error,
		"the profile cannot be read: it claims to hold %llu MiB, but %llu MiB are in "
		"memory; it is damaged, or was swapped out",
		(unsigned long long)(wanted >> 20), (unsigned long long)(there >> 20));
}

/* Counts truncated tables, which every report mentions. */
static void note_damage(struct profile_copy *c, enum profile_copy_parts parts)
{
	struct live_header *head = head_of(c);

	for (int i = 0; i < LIVE_REGIONS; i++) {
		enum live_region region = (enum live_region)i;

		head->health[HEALTH_damaged_tables] +=
			is_wanted(region, parts) && region != LIVE_SAVED &&
			head->used[i] > head->region[i].bytes / live_entry_bytes(region);
	}
}

static int copy_regions(struct profile_copy *c, int pagemap, enum profile_copy_parts parts)
{
	int number = 0;

	release_moves(c);
	for (int i = 0; i < LIVE_REGIONS && number == 0; i++) {
		enum live_region region = (enum live_region)i;
		bool moves = !c->still && (region == LIVE_SITE_COUNTERS || region == LIVE_SLOTS);

		if (is_wanted(region, parts))
			number = (moves ? copy_counters : copy_region)(c, pagemap, region);
	}
	note_damage(c, parts);
	return number;
}

/* Limits readers to the opened part of each region. */
static void cut_regions(const struct profile_copy *c)
{
	struct live_header *head = head_of(c);

	for (int i = 0; i < LIVE_REGIONS; i++) {
		head->opened[i] = MIN(head->opened[i], head->region[i].bytes) & ~(LIVE_PAGE - 1ull);
		if (i != LIVE_SAVED) /* a ring: positions depend on its size */
			head->region[i].bytes = head->opened[i];
	}
}

int profile_check_header(const struct live_header *header, uint64_t bytes, struct error *error)
{
	const char *reason = live_header_check(header, bytes);

	if (!reason && header->total_bytes > TOTAL_MAX)
		reason = "it is too large";
	if (!reason)
		return 0;
	if (!live_header_is_of_other_format(header))
		return error_set(error, "the profile cannot be read: %s", reason);
	return error_set(error,
			 "the profile was written in format %u.%u, and this heapgauge reads format "
			 "%u: use the heapgauge that belongs to its recorder, or restart the "
			 "program with this one",
			 header->major, header->minor, LIVE_MAJOR);
}

static int check_head(const struct profile_copy *c, struct error *error)
{
	struct live_header *head = head_of(c);

	if (profile_check_header(head, c->bytes, error) < 0)
		return -1;
	if (!head->ready)
		return error_set(error,
				 c->pid ? "the recorder has not started yet: try again"
					: "nothing was recorded: the recorder had not started");
	cut_regions(c);
	return 0;
}

/* Allocates memory for a profile of that size, if there is none yet. */
static int make_room(struct profile_copy *c, uint64_t bytes, struct error *error)
{
	/* Zeroes it, since a hole may have been data before. But memory that is lost with its process keeps the last copy as a
	 * fallback. */
	if (c->memory && c->bytes == bytes)
		return c->fd < 0 || c->refresh || copy_buffer_empty(c->memory, bytes, &c->runs) == 0
			       ? 0
			       : error_errno(error, "cannot allocate memory for the profile");
	profile_copy_release_memory(c);
	c->memory = copy_buffer_new(bytes);
	if (!c->memory)
		return error_errno(error, "cannot allocate memory for the profile");
	c->bytes = bytes;
	return 0;
}

static int failed(const struct profile_copy *c, int number, struct error *error)
{
	pid_t pid = c->pid;
	bool gone = pid && (number == ESRCH || (kill(pid, 0) < 0 && errno == ESRCH));

	errno = number;
	if (pid)
		recorded_failed(pid, number, error);
	else if (number == ENODATA)
		error_set(error, "it is shorter than its header says");
	else
		error_errno(error, "it cannot be read");
	return gone ? PROFILE_COPY_NOTHING : PROFILE_COPY_FAILED;
}

/* Copies the header, then all regions; retries while the peak changes meanwhile, at most COPIES_MAX times. */
static int copy_profile(struct profile_copy *c, enum profile_copy_parts parts, struct error *error)
{
	for (int i = 0; i < COPIES_MAX; i++) {
		AUTO_CLOSE int pagemap = -1;
		uint32_t state = 0;
		/* Only the ages of blocks need `top`. */
		uint64_t front = parts == PROFILE_COPY_ALL ? c->header_bytes : LIVE_FRONT_BYTES;
		int number = copy(c, 0, c->memory, front);

		if (number == 0 &&
		    (check_head(c, error) < 0 || find_present(c, parts, &pagemap, error) < 0))
			return PROFILE_COPY_FAILED;
		if (number == 0)
			number = copy_regions(c, pagemap, parts);
		if (number == 0)
			number = copy(c, offsetof(struct live_header, peak.state), &state,
				      sizeof state);
		if (number != 0)
			return failed(c, number, error);
		if (state == head_of(c)->peak.state)
			break;
	}
	return 0;
}

/* Adds the process to error messages that do not name it. */
static int of_process(const struct profile_copy *c, int status, struct error *error)
{
	if (status == PROFILE_COPY_FAILED && c->pid && !strstr(error->message, "process"))
		error_wrap(error, "process %d", (int)c->pid);
	return status;
}

/* If the kernel does not permit reading its memory, its file may be readable. */
static int open_file(struct profile_copy *c, const struct recorded *recorded)
{
	if (c->fd < 0 && recorded->file[0])
		c->fd = container_open(recorded->pid, recorded->file);
	return c->fd;
}

/* Returns false if the profile is that of a process that this one was forked from. The first processes of two pid namespaces have the same pid. */
static bool is_of(const struct live_header *head, pid_t pid)
{
	uint64_t namespace = procfs_pid_namespace(pid);

	return head->pid == (uint32_t)procfs_own_pid(pid) &&
	       (namespace == 0 || head->own.pid_namespace == 0 ||
		head->own.pid_namespace == namespace);
}

/* Reads enough of the header to know the size and the owner of the profile. */
static int read_head(struct profile_copy *c, const struct recorded *recorded, uint64_t *ret_bytes,
		     struct error *error)
{
	const uint64_t front = LIVE_FRONT_BYTES;
	AUTO_FREE struct live_header *head = profile_front_new();
	int number = head ? copy(c, 0, head, front) : ENOMEM;
	struct stat st;

	if ((number == EPERM || number == EACCES || number == ENOSYS) && recorded &&
	    open_file(c, recorded) >= 0)
		number = copy(c, 0, head, front);
	if (number != 0)
		return failed(c, number, error);
	if (profile_check_header(head, head->total_bytes, error) < 0)
		return -1;
	if (c->pid && head->ready && !is_of(head, c->pid)) {
		error_set(
			error,
			"process %d has no profile of its own: it is a fork of a recorded one and has "
			"not allocated anything since",
			(int)c->pid);
		return PROFILE_COPY_NOTHING;
	}
	if (c->fd >= 0 && (fstat(c->fd, &st) < 0 || (uint64_t)st.st_size < head->total_bytes))
		return failed(c, ENODATA, error);
	*ret_bytes = head->total_bytes;
	c->header_bytes =
		LIVE_FRONT_BYTES + live_top_entries(head->header_bytes) * sizeof(uint32_t);
	return 0;
}

/* The page after the profile. */
static void copy_control(struct profile_copy *c)
{
	c->control = (struct live_control){ 0 };
	(void)copy(c, head_of(c)->total_bytes, &c->control, sizeof c->control);
}

static int take(struct profile_copy *c, const struct recorded *recorded,
		enum profile_copy_parts parts, struct error *error)
{
	uint64_t bytes = 0;
	int status = read_head(c, recorded, &bytes, error);

	if (status == 0)
		status = make_room(c, bytes, error);
	if (status == 0)
		status = copy_profile(c, parts, error);
	if (status == 0)
		copy_control(c);
	return of_process(c, status, error);
}

int profile_copy_take(struct profile_copy *c, const struct recorded *recorded,
		      enum profile_copy_parts parts, struct error *error)
{
	if (c->pid != recorded->pid && c->fd >= 0)
		close(TAKE_FD(c->fd));
	c->pid = recorded->pid;
	c->at = recorded->profile;
	return take(c, recorded, parts, error);
}

int profile_copy_take_file(struct profile_copy *c, const char *path, enum profile_copy_parts parts,
			   struct error *error)
{
	if (c->fd >= 0)
		close(TAKE_FD(c->fd));
	c->pid = 0;
	c->fd = file_open_regular(path, NULL, NULL);
	if (c->fd < 0)
		return errno == EINVAL ? error_set(error, "it is not a regular file")
				       : error_errno(error, "it cannot be opened");
	return take(c, NULL, parts, error);
}

int profile_copy_take_core(struct profile_copy *c, const struct core_file *core, uint64_t at,
			   enum profile_copy_parts parts, struct error *error)
{
	if (c->fd >= 0)
		close(TAKE_FD(c->fd));
	c->pid = 0;
	c->core = core;
	c->at = at;
	c->still = true;
	return take(c, NULL, parts, error);
}

bool profile_copy_hold(struct profile_copy *c, const struct recorded *recorded)
{
	if (c->fd >= 0)
		close(TAKE_FD(c->fd));
	c->pid = recorded->pid;
	/* Root gets what is mapped; at the path its owner may have put something else. */
	c->fd = mapped_file_open(recorded->pid, recorded->profile, recorded->profile_end);
	return c->fd >= 0 || ((errno == EPERM || errno == EACCES) && open_file(c, recorded) >= 0);
}

int profile_copy_take_held(struct profile_copy *c, enum profile_copy_parts parts,
			   struct error *error)
{
	if (c->fd >= 0)
		c->pid = 0;
	return take(c, NULL, parts, error);
}

uint64_t profile_copy_clock_ms(const struct profile_copy *c)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (!c->pid || profile_copy_head(c)->own.kept == LIVE_KEPT_COLLECTOR)
		return c->control.clock_ms;
	return saturating_sub(now_ns, profile_copy_head(c)->started_mono_ns) / NS_PER_MS;
}
