/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See live_profile.h. Every number in the profile is untrusted: sizes are clamped to the regions, and an image takes only as
 * much memory as the profile has data.
 *
 * Owned by the collector's loop; a worker that owns the target loads and reads the image, and may write to the control page.
 */
#include "collect/profile/live_profile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/checked.h"
#include "collect/kernel/procfs.h"
#include "util/cleanup.h"

enum {
	TOTALS_TRIES = 8,
	TOTALS_CLOSE = 32, /* no retry if the bound is at most 1/32 of the number */
};
#define TMPFS_TYPE 0x01021994

/* ---- reading ---- */

/* False on a short read. */
static bool read_at(const struct live_profile *profile, uint64_t at, void *to, size_t bytes)
{
	const struct profile_copy *held = &profile->held;
	struct iovec here = { to, bytes }, there = { (void *)(uintptr_t)(held->at + at), bytes };
	ssize_t got = held->fd >= 0 ? pread(held->fd, to, bytes, (off_t)at)
				    : process_vm_readv(held->pid, &here, 1, &there, 1, 0);

	return got == (ssize_t)bytes;
}

static bool read_front(struct live_profile *profile)
{
	return profile->is_lent || read_at(profile, 0, profile->head, LIVE_FRONT_BYTES);
}

bool live_profile_poll(struct live_profile *profile)
{
	const size_t from = offsetof(struct live_header, used),
		     to = offsetof(struct live_header, health);

	if (profile->is_lent)
		return true;
	if (!live_profile_is_ready(profile))
		return read_front(profile);
	return read_at(profile, from, (char *)profile->head + from, to - from);
}

/* Reads the entry, then its serial again: if that is unchanged, so is the rest. */
bool live_profile_read_start(struct live_profile *profile, uint32_t serial, struct live_start *ret)
{
	uint32_t index = serial % LIVE_STARTS, again = 0;
	uint64_t at = offsetof(struct live_header, start) + index * sizeof *ret;

	if (profile->is_lent) {
		*ret = profile->head->start[index];
		return ret->serial == serial;
	}
	return read_at(profile, at, ret, sizeof *ret) && ret->serial == serial &&
	       read_at(profile, at + offsetof(struct live_start, serial), &again, sizeof again) &&
	       again == serial;
}

/* The number of slots, and where they are. The target provides it; if it is more than a few, it is clamped to what has data. */
static size_t slots_of(const struct live_profile *profile, uint64_t *ret_at)
{
	enum { FEW_BYTES = 1 << 20 };
	const struct live_header *head = profile->head;
	struct live_span span = head->region[LIVE_SLOTS];
	uint64_t room = MIN(span.bytes / sizeof(struct live_slot), (uint64_t)LIVE_SLOTS_MAX);
	uint64_t bytes = MIN(head->used[LIVE_SLOTS], room) * sizeof(struct live_slot);

	*ret_at = span.at;
	if (bytes > FEW_BYTES)
		bytes = MIN(bytes, profile_copy_data_bytes(&profile->held, span.at, bytes));
	return (size_t)(bytes / sizeof(struct live_slot));
}

static struct live_moves moves_between(const struct live_slot *before,
				       const struct live_slot *after, size_t count)
{
	struct live_moves moves = { 0 };

	for (size_t i = 0; i < count; i++) {
		struct live_counted from = { before[i].calls, before[i].bytes, before[i].frees,
					     before[i].freed_bytes };
		struct live_counted to = { after[i].calls, after[i].bytes, after[i].frees,
					   after[i].freed_bytes };

		live_moves_add_one(&moves, live_moved_between(&from, &to));
	}
	return moves;
}

/* Reads all slots three times. The second reading counts; the others bound its error. Returns false if they cannot be read, or if
 * new slots appeared. */
static bool read_slots(struct live_profile *profile, uint64_t at, size_t count,
		       struct live_totals *ret)
{
	const uint64_t used_at = offsetof(struct live_header, used[LIVE_SLOTS]);
	struct live_slot *before = profile->slots, *slots = before + count, *after = slots + count;
	uint64_t used;

	for (size_t i = 0; i < 3 && count > 0; i++)
		if (!read_at(profile, at, before + i * count, count * sizeof *slots))
			return false;
	if (!read_at(profile, used_at, &used, sizeof used) ||
	    used != profile->head->used[LIVE_SLOTS])
		return false;
	struct live_moves moves = moves_between(before, after, count);

	live_totals_read(ret, slots, count, &moves, profile->head);
	return true;
}

static bool make_slot_room(struct live_profile *profile, size_t count)
{
	struct live_slot *more;

	if (count <= profile->slot_room)
		return true;
	more = reallocarray(profile->slots, 3 * count, sizeof *more);
	if (!more)
		return false;
	profile->slots = more;
	profile->slot_room = count;
	return true;
}

static bool is_close(const struct live_now *live)
{
	return live->bytes_bound <= live->bytes / TOTALS_CLOSE &&
	       live->blocks_bound <= live->blocks / TOTALS_CLOSE;
}

bool live_profile_read_totals(struct live_profile *profile, struct live_totals *ret)
{
	struct live_totals best, totals;
	bool is_read = false;

	if (profile->is_lent)
		return live_read_totals(profile->memory, profile->bytes, &profile->moves, ret) == 0;
	for (int i = 0; i < TOTALS_TRIES && !(is_read && is_close(&best.live)); i++) {
		uint64_t at;

		if (!read_front(profile))
			return false;
		size_t count = slots_of(profile, &at);

		if (!make_slot_room(profile, count))
			return false;
		if (!read_slots(profile, at, count, &totals))
			continue;
		if (!is_read || totals.live.bytes_bound < best.live.bytes_bound)
			best = totals;
		is_read = true;
	}
	if (is_read)
		*ret = best;
	return is_read;
}

bool live_profile_read(const struct live_profile *profile, uint64_t at, void *to, size_t bytes)
{
	return range_within(at, bytes, profile->head->total_bytes) &&
	       read_at(profile, at, to, bytes);
}

bool live_profile_reader(const struct live_profile *profile, struct live_profile *ret)
{
	struct live_profile reader = LIVE_PROFILE_INIT;
	struct error ignored;

	reader.held.fd = profile->held.fd;
	reader.held.pid = profile->held.pid;
	reader.held.at = profile->held.at;
	reader.head = profile_front_new();
	if (!reader.head)
		return false;
	if (!read_front(&reader) ||
	    profile_check_header(reader.head, reader.head->total_bytes, &ignored) < 0) {
		live_profile_reader_release(&reader);
		return false;
	}
	*ret = reader;
	return true;
}

void live_profile_reader_release(struct live_profile *reader)
{
	free(reader->head);
	free(reader->slots);
	*reader = LIVE_PROFILE_INIT;
}

/* ---- taking over ---- */

static int take(struct live_profile *profile, struct error *error)
{
	profile->head = profile_front_new();
	if (!profile->head)
		return error_set(error, "out of memory");
	if (!read_front(profile))
		return error_set(error, "its profile cannot be read");
	if (profile_check_header(profile->head, profile->head->total_bytes, error) < 0)
		return -1;
	if (!read_at(profile, profile->head->total_bytes, &profile->control,
		     sizeof profile->control))
		return error_set(error, "its control page cannot be read");
	return 0;
}

static int check_descriptor(int fd, bool sealed, struct stat *ret, struct error *error)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	struct statfs system;

	if (fstat(fd, ret) < 0 || !S_ISREG(ret->st_mode) || fstatfs(fd, &system) < 0)
		return error_set(error, "it is not a memory file");
	/* Excludes hugetlbfs, whose mappings can raise SIGBUS; a recorder never uses it. */
	if (system.f_type != TMPFS_TYPE)
		return error_set(error, "it is not on a tmpfs");
	if (sealed && (fcntl(fd, F_GET_SEALS) & seals) != seals)
		return error_set(error, "it is not sealed");
	if ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDWR)
		return error_set(error, "it cannot be written");
	return 0;
}

static int take_descriptor(struct live_profile *ret, int fd, bool sealed, struct error *error)
{
	struct live_profile profile = LIVE_PROFILE_INIT;
	struct stat st;

	profile.held.fd = fd;
	if (check_descriptor(fd, sealed, &st, error) < 0 || take(&profile, error) < 0) {
		live_profile_release(&profile);
		return -1;
	}
	if ((uint64_t)st.st_size != profile.head->total_bytes + LIVE_PAGE) {
		live_profile_release(&profile);
		return error_set(error, "the size of its profile differs from its header");
	}
	profile.inode = (uint64_t)st.st_ino;
	profile.user = st.st_uid + 1;
	*ret = profile;
	return 0;
}

int live_profile_take(struct live_profile *ret, int fd, struct error *error)
{
	return take_descriptor(ret, fd, true, error);
}

int live_profile_take_file(struct live_profile *ret, int fd, const char *path, struct error *error)
{
	if (take_descriptor(ret, fd, false, error) < 0)
		return -1;
	ret->file = strdup(path);
	return 0;
}

int live_profile_take_memory(struct live_profile *ret, pid_t pid, uint64_t at, struct error *error)
{
	struct live_profile profile = LIVE_PROFILE_INIT;

	profile.held.pid = pid;
	profile.held.at = at;
	if (take(&profile, error) < 0) {
		live_profile_release(&profile);
		return -1;
	}
	*ret = profile;
	return 0;
}

int live_profile_twin(const struct live_profile *profile, struct live_profile *ret,
		      struct error *error)
{
	int fd;

	if (profile->held.fd < 0)
		return live_profile_take_memory(ret, profile->held.pid, profile->held.at, error);
	fd = fcntl(profile->held.fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return error_errno(error, "its profile cannot be opened again");
	return take_descriptor(ret, fd, false, error);
}

void live_profile_lend(struct live_profile *profile, const struct profile_copy *copied)
{
	profile->is_lent = true;
	/* Data missing from the copy is read from the process; the lender keeps the descriptor. */
	profile->held.pid = copied->pid;
	profile->held.at = copied->at;
	profile->memory = copied->memory;
	profile->bytes = copied->bytes;
	profile->moves = copied->moves;
	profile->head = (struct live_header *)(void *)copied->memory;
}

void live_profile_keep(struct live_profile *profile, struct profile_copy *copied)
{
	profile->held = *copied;
	*copied = PROFILE_COPY_INIT;
	live_profile_lend(profile, &profile->held);
}

void live_profile_release(struct live_profile *profile)
{
	if (profile->file)
		(void)unlink(profile->file);
	if (!profile->is_lent)
		free(profile->head);
	profile_copy_release(&profile->held);
	free(profile->slots);
	free(profile->file);
	*profile = LIVE_PROFILE_INIT;
}

/* ---- the image ---- */

int live_profile_load(struct live_profile *profile, enum profile_copy_parts parts, bool still,
		      struct error *error)
{
	int status;

	if (profile->is_lent)
		return 0;
	profile->held.still = still;
	/* Memory that is lost with its process: any image may be the last. */
	status = profile_copy_take_held(&profile->held,
					profile->held.fd < 0 ? PROFILE_COPY_ALL : parts, error);
	/* If the memory was lost with its process, fall back to the last image. */
	if (status < 0 && !(profile->held.fd < 0 && profile->held.memory))
		return -1;
	profile->is_old = status < 0;
	profile->memory = profile->held.memory;
	profile->bytes = profile->held.bytes;
	profile->moves = profile->held.moves;
	return 0;
}

uint32_t live_profile_mode(const struct live_profile *profile)
{
	return profile->is_lent ? profile->control.mode : profile->held.control.mode;
}

void live_profile_unload(struct live_profile *profile)
{
	if (profile->is_lent || profile->held.fd < 0)
		return;
	profile_copy_release_memory(&profile->held);
	profile->memory = NULL;
	profile->bytes = 0;
}

/* ---- writing ---- */

static void write_control(const struct live_profile *profile, size_t offset, size_t bytes)
{
	if (profile->held.fd < 0)
		return;
	(void)!pwrite(profile->held.fd, (const char *)&profile->control + offset, bytes,
		      (off_t)(profile->head->total_bytes + offset));
}

#define WRITE(profile, field)                                                                      \
	write_control((profile), offsetof(struct live_control, field),                             \
		      sizeof((struct live_control *)0)->field)

void live_profile_write_clock(struct live_profile *profile, uint64_t ms)
{
	profile->control.clock_ms = live_clock(ms);
	WRITE(profile, clock_ms);
}

void live_profile_write_budget(struct live_profile *profile, uint64_t bytes, uint64_t limit_bytes)
{
	if (profile->control.budget_bytes == bytes &&
	    profile->control.budget_limit_bytes == limit_bytes)
		return;
	profile->control.budget_bytes = bytes;
	profile->control.budget_limit_bytes = limit_bytes;
	WRITE(profile, budget_limit_bytes);
	WRITE(profile, budget_bytes);
}

void live_profile_write_saved(struct live_profile *profile, uint64_t saved_read)
{
	profile->control.saved_read = saved_read;
	WRITE(profile, saved_read);
}

bool live_profile_waits(const struct live_profile *profile)
{
	uint32_t state;

	return profile->held.fd >= 0 &&
	       pread(profile->held.fd, &state, sizeof state,
		     (off_t)(profile->head->total_bytes +
			     offsetof(struct live_control, at_exit))) == (ssize_t)sizeof state &&
	       (state == LIVE_EXIT_WAITING || state == LIVE_EXIT_TAKEN);
}

void live_profile_answer_exit(struct live_profile *profile)
{
	if (profile->control.at_exit == LIVE_EXIT_TAKEN)
		return;
	profile->control.at_exit = LIVE_EXIT_TAKEN;
	WRITE(profile, at_exit);
}

void live_profile_let_exit(struct live_profile *profile)
{
	profile->control.at_exit = LIVE_EXIT_RELEASED;
	WRITE(profile, at_exit);
}

void live_profile_make_dormant(struct live_profile *profile)
{
	profile->control.mode = LIVE_MODE_DORMANT;
	WRITE(profile, mode);
}

void live_profile_dismiss(struct live_profile *profile)
{
	profile->control.follow_fork = profile->control.follow_exec = 0;
	WRITE(profile, follow_exec);
	WRITE(profile, follow_fork);
	live_profile_let_exit(profile);
	live_profile_make_dormant(profile);
}
