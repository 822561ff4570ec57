/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process_vm_readv, or pread from its file, copies the head and the opened part of each region to the same places of a
 * private mapping, and the usual reader reads that.
 *
 * The target writes while it is copied. Two rules of docs/format.md are kept: of site counters and slots the frees are taken
 * from an earlier copy than the allocations, so that no sum is negative; and if the peak's state has changed meanwhile,
 * all is copied again.
 *
 * What it says of its own size is another process' word: only pages that are really there are copied, and each table is cut to
 * what is there of it, so that all that is made of the copy is bounded by it.
 */
#include "collect/profile/profile_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/checked.h"
#include "collect/kernel/container.h"
#include "collect/kernel/pagemap.h"
#include "collect/kernel/procfs.h"
#include "format/live/live_view.h"
#include "util/cleanup.h"
#include "util/files.h"

enum {
	COPIES_MAX = 5,
	/* So much of a process is copied without asking which pages are there: most profiles are smaller. */
	EASY_BYTES = 8 << 20,
	/* So much of a file is read without asking where it has holes. */
	EASY_FILE_BYTES = 16 << 10,
	/* Not all that is opened is touched: in a table, of its last piece; in the block map, of each leaf. */
	TABLE_SLACK = 1 << 20,
	LEAF_UNITS_MAX = 4,
	/* Of the block map: what two threads made at once for the same place. One is left over, and lost if there was one already. */
	SPARES_MAX = 64,
	/* How much more it may have opened than it has touched, and than was not swapped out. */
	UNTOUCHED_MAX = 128,
	SWAPPED_MAX = 16,
};
#define COPY_BYTES (16ull << 20)
#define TOTAL_MAX (1ull << 46)

static int copy_memory(pid_t pid, uint64_t from, void *to, uint64_t bytes)
{
	for (uint64_t done = 0; done < bytes;) {
		uint64_t part = MIN(bytes - done, COPY_BYTES);
		struct iovec local = { (char *)to + done, part };
		struct iovec remote = { (void *)(uintptr_t)(from + done), part };
		ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);

		if (got <= 0)
			return got < 0 ? errno : EFAULT;
		done += (uint64_t)got;
	}
	return 0;
}

/* How much of [from, from + bytes) there is before the next data, or the next hole: SEEK_DATA, SEEK_HOLE. */
static uint64_t until(int fd, uint64_t from, uint64_t bytes, int what)
{
	off_t at = lseek(fd, (off_t)from, what);

	if (at < 0) /* there is no more data, or the kernel does not tell */
		return what == SEEK_HOLE || errno == ENXIO ? bytes : 0;
	return MIN((uint64_t)at - from, bytes);
}

static void note(struct profile_copy *c, const char *to, uint64_t bytes)
{
	if (c->memory && to >= c->memory && to < c->memory + c->bytes)
		copy_runs_note(&c->runs, (uint64_t)(to - c->memory), bytes);
}

/* How much of [from, from + bytes) is to be read at once; *skip: after so much that is not there. */
static uint64_t next_data(int fd, uint64_t from, uint64_t bytes, uint64_t *skip)
{
	*skip = 0;
	if (bytes <= EASY_FILE_BYTES)
		return bytes;
	*skip = until(fd, from, bytes, SEEK_DATA);
	return *skip == bytes ? 0 : until(fd, from + *skip, bytes - *skip, SEEK_HOLE);
}

/* Not mapped: its owner may make it shorter, which would be a signal here. Holes are zero, and take no memory here either. */
static int copy_file(struct profile_copy *c, uint64_t from, void *to, uint64_t bytes,
		     uint64_t *data_bytes)
{
	for (uint64_t done = 0, data = 0; done < bytes;) {
		if (data == 0) {
			uint64_t skip;

			data = next_data(c->fd, from + done, bytes - done, &skip);
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

/* Only the pages that are there. */
static int copy_present(const struct profile_copy *c, int pagemap, uint64_t from, char *to,
			uint64_t bytes, uint64_t *data_bytes)
{
	uint64_t at = c->at + from, end = at + bytes, run, run_bytes;
	int number = 0;

	for (; number == 0 && pagemap_next(pagemap, at, end, &run, &run_bytes);
	     at = run + run_bytes) {
		number = copy_memory(c->pid, run, to + (run - c->at - from), run_bytes);
		*data_bytes += run_bytes;
	}
	return number;
}

/* Adds what was there to *data_bytes; pagemap -1: all of a process' memory is. Returns 0, or an errno. */
static int copy_data(struct profile_copy *c, int pagemap, uint64_t from, void *to, uint64_t bytes,
		     uint64_t *data_bytes)
{
	if (c->fd >= 0)
		return copy_file(c, from, to, bytes, data_bytes);
	c->runs.is_incomplete = true;
	if (pagemap >= 0)
		return copy_present(c, pagemap, from, to, bytes, data_bytes);
	*data_bytes += bytes;
	return copy_memory(c->pid, c->at + from, to, bytes);
}

/* Of the head and the page behind the profile, which are small. */
static int copy(struct profile_copy *c, uint64_t from, void *to, uint64_t bytes)
{
	uint64_t data = 0;

	if (c->fd >= 0)
		return copy_file(c, from, to, bytes, &data);
	c->runs.is_incomplete = true;
	return copy_memory(c->pid, c->at + from, to, bytes);
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

void profile_copy_release_memory(struct profile_copy *copied)
{
	if (copied->memory)
		copy_room_free(copied->memory, copied->bytes, &copied->runs);
	copied->memory = NULL;
	copied->bytes = 0;
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

/* How large a region can be of which so much is there. */
static uint64_t most_of(enum live_region region, uint64_t data_bytes)
{
	uint64_t pages = data_bytes / LIVE_PAGE;

	switch (region) {
	case LIVE_LEAVES: /* of each leaf at least a page was touched, and so of the others */
		return (pages + SPARES_MAX) * LEAF_UNITS_MAX * LIVE_LEAF_UNIT;
	case LIVE_AREAS:
		return (pages + SPARES_MAX) * sizeof(struct live_area);
	case LIVE_ERAS:
		return (pages + SPARES_MAX) * LIVE_ERA_UNIT;
	case LIVE_SAVED: /* a ring: its size is what places in it are counted by, and it is never large */
		return UINT64_MAX;
	default:
		return data_bytes + TABLE_SLACK;
	}
}

static int copy_region(struct profile_copy *c, int pagemap, enum live_region region)
{
	struct live_span *span = &head_of(c)->region[region];
	uint64_t data = 0;
	int number = copy_data(c, pagemap, span->at, c->memory + span->at,
			       head_of(c)->opened[region], &data);
	uint64_t most = most_of(region, data) & ~(uint64_t)(LIVE_PAGE - 1);

	/* Readers go no farther than the region's end, whatever `used` says. */
	span->bytes = MIN(span->bytes, most);
	head_of(c)->opened[region] = MIN(head_of(c)->opened[region], span->bytes);
	return number;
}

/* Takes the frees of an earlier copy of the same tables. */
static void take_frees(struct profile_copy *c, const struct live_site_counters *site_counters,
		       const struct live_slot *slots)
{
	const struct live_header *head = head_of(c);
	struct live_site_counters *new_counters =
		(struct live_site_counters *)(void *)(c->memory +
						      head->region[LIVE_SITE_COUNTERS].at);
	struct live_slot *new_slots =
		(struct live_slot *)(void *)(c->memory + head->region[LIVE_SLOTS].at);

	for (uint64_t i = 0; i < head->opened[LIVE_SITE_COUNTERS] / sizeof *site_counters; i++) {
		new_counters[i].frees = site_counters[i].frees;
		new_counters[i].freed_bytes = site_counters[i].freed_bytes;
		new_counters[i].freed_slack = site_counters[i].freed_slack;
	}
	for (uint64_t i = 0; i < head->opened[LIVE_SLOTS] / sizeof *slots; i++) {
		new_slots[i].frees = slots[i].frees;
		new_slots[i].freed_bytes = slots[i].freed_bytes;
		new_slots[i].freed_slack = slots[i].freed_slack;
	}
}

/* A copy of what a region held, apart from the mapping. NULL if there is no memory for it. */
static void *kept(const struct profile_copy *c, enum live_region region)
{
	const struct live_header *head = head_of(c);
	void *copy_of = malloc(head->opened[region] + 1);

	if (copy_of)
		memcpy(copy_of, c->memory + head->region[region].at, head->opened[region]);
	return copy_of;
}

static bool is_wanted(enum live_region region, enum profile_copy_parts parts)
{
	switch (region) {
	case LIVE_SCRATCH: /* the recorder's own */
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

/* Of a process' profile that is not small, it is asked which pages are there: reading the others would make them. *ret_pagemap is
 * the caller's; -1: all are. Sets the error if it says that it holds far more than it can. */
static int ask_present(const struct profile_copy *c, enum profile_copy_parts parts,
		       int *ret_pagemap, struct error *error)
{
	const struct live_header *head = head_of(c);
	uint64_t wanted = 0, there;

	for (int i = 0; i < LIVE_REGIONS; i++)
		wanted += is_wanted((enum live_region)i, parts) ? head->opened[i] : 0;
	if (c->fd >= 0 || wanted <= EASY_BYTES)
		return 0;
	there = rss_of(c->pid);
	if (wanted / UNTOUCHED_MAX <= there) {
		AUTO_CLOSE int pagemap = pagemap_open(c->pid);

		if (pagemap < 0)
			return error_errno(error, "cannot ask which of its pages are there");
		if (!pagemap_is_swap_used()) {
			*ret_pagemap = TAKE_FD(pagemap);
			return 0;
		}
		/* It does not tell what was swapped out: all is copied, if it can be that much. */
		there = present_bytes(c, pagemap, parts);
		if (wanted / SWAPPED_MAX <= there)
			return 0;
	}
	return error_set(
		error,
		"the profile cannot be read: it says that it holds %llu MiB, and %llu MiB are in "
		"memory; it is damaged, or was swapped out",
		(unsigned long long)(wanted >> 20), (unsigned long long)(there >> 20));
}

/* What was cut off is said under every report. */
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
	AUTO_FREE struct live_site_counters *site_counters = NULL;
	AUTO_FREE struct live_slot *slots = NULL;
	int number = 0;

	if (!c->still) {
		number = copy_region(c, pagemap, LIVE_SITE_COUNTERS);
		if (number == 0)
			number = copy_region(c, pagemap, LIVE_SLOTS);
		if (number != 0)
			return number;
		site_counters = kept(c, LIVE_SITE_COUNTERS);
		slots = kept(c, LIVE_SLOTS);
		if (!site_counters || !slots)
			return ENOMEM;
	}
	for (int i = 0; i < LIVE_REGIONS && number == 0; i++)
		if (is_wanted((enum live_region)i, parts))
			number = copy_region(c, pagemap, (enum live_region)i);
	if (number == 0 && site_counters)
		take_frees(c, site_counters, slots);
	note_damage(c, parts);
	return number;
}

/* Readers see no more of a region than was opened. */
static void cut_regions(const struct profile_copy *c)
{
	struct live_header *head = head_of(c);

	for (int i = 0; i < LIVE_REGIONS; i++) {
		head->opened[i] = MIN(head->opened[i], head->region[i].bytes) & ~(LIVE_PAGE - 1ull);
		if (i != LIVE_SAVED) /* a ring: its size is a part of its numbers */
			head->region[i].bytes = head->opened[i];
	}
}

/* Checks what came: it is another process' word. */
static int check_head(const struct profile_copy *c, struct error *error)
{
	struct live_header *head = head_of(c);
	const char *reason = live_header_check(head, c->bytes);

	if (reason)
		return error_set(error, "the profile cannot be read: %s", reason);
	if (!head->ready)
		return error_set(error, "the recorder has not begun yet: try again");
	cut_regions(c);
	return 0;
}

/* Room for a profile of that size, if there is none yet. */
static int make_room(struct profile_copy *c, uint64_t bytes, struct error *error)
{
	/* What is a hole now may have been data before. But of memory that goes with its process, the last copy has to do. */
	if (c->memory && c->bytes == bytes)
		return c->fd < 0 || copy_room_empty(c->memory, bytes, &c->runs) == 0
			       ? 0
			       : error_errno(error, "cannot make room for the profile");
	profile_copy_release_memory(c);
	c->memory = copy_room_new(bytes);
	if (!c->memory)
		return error_errno(error, "cannot make room for the profile");
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
		error_set(error, "it is shorter than it says");
	else
		error_errno(error, "it cannot be read");
	return gone ? PROFILE_COPY_NOTHING : PROFILE_COPY_FAILED;
}

/* Copies the head, then all regions, until the peak did not move meanwhile or it has been tried often enough. */
static int copy_profile(struct profile_copy *c, enum profile_copy_parts parts, struct error *error)
{
	for (int i = 0; i < COPIES_MAX; i++) {
		AUTO_CLOSE int pagemap = -1;
		uint32_t state = 0;
		int number = copy(c, 0, c->memory, sizeof *head_of(c));

		if (number == 0 &&
		    (check_head(c, error) < 0 || ask_present(c, parts, &pagemap, error) < 0))
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

/* What is said about a process is said of which. */
static int of_process(const struct profile_copy *c, int status, struct error *error)
{
	if (status == PROFILE_COPY_FAILED && c->pid && !strstr(error->message, "process"))
		error_wrap(error, "process %d", (int)c->pid);
	return status;
}

/* Where the kernel does not let us read its memory, its file may be ours to read. */
static int open_file(struct profile_copy *c, const struct recorded *recorded)
{
	if (c->fd < 0 && recorded->file[0])
		c->fd = container_open(recorded->pid, recorded->file);
	return c->fd;
}

/* The head, as far as it is needed to know how large the profile is and whose. */
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
	if (live_header_check(head, head->total_bytes) || head->total_bytes > TOTAL_MAX)
		return error_set(error, "the profile is damaged, or of another version");
	if (c->pid && head->ready && head->pid != (uint32_t)procfs_own_pid(c->pid)) {
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
	return 0;
}

/* The page behind the profile. */
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

bool profile_copy_hold(struct profile_copy *c, const struct recorded *recorded)
{
	char path[96];

	if (c->fd >= 0)
		close(TAKE_FD(c->fd));
	c->pid = recorded->pid;
	if (open_file(c, recorded) >= 0)
		return true;
	snprintf(path, sizeof path, "/proc/%d/map_files/%llx-%llx", (int)recorded->pid,
		 (unsigned long long)recorded->profile, (unsigned long long)recorded->profile_end);
	c->fd = file_open_regular(path, NULL, NULL);
	return c->fd >= 0;
}

int profile_copy_take_held(struct profile_copy *c, enum profile_copy_parts parts,
			   struct error *error)
{
	if (c->fd >= 0)
		c->pid = 0;
	return take(c, NULL, parts, error);
}
