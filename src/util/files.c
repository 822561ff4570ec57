/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole-file helpers over plain system calls. The only state is the SIGBUS handler; every descriptor is closed where it was
 * opened, and all are O_CLOEXEC because the collector starts other programs.
 */
#include "util/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/cleanup.h"

const char *path_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

const char *path_tail(const char *command, size_t room)
{
	size_t program = strcspn(command, " "), at = 0;

	while (command[0] == '/' && strlen(command + at) > room) {
		size_t next = at + 1 + strcspn(command + at + 1, "/");

		if (next >= program)
			break;
		at = next;
	}
	return command + at;
}

char *path_folder(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return strdup(".");
	if (slash == path)
		return strdup("/");
	return strndup(path, (size_t)(slash - path));
}

char *path_join(const char *folder, const char *name)
{
	size_t length = strlen(folder);
	const char *slash = length > 0 && folder[length - 1] == '/' ? "" : "/";
	char *joined;

	return asprintf(&joined, "%s%s%s", folder, slash, name) < 0 ? NULL : joined;
}

int file_open_regular(const char *path, struct stat *ret_status, struct error *err)
{
	/* Without O_NONBLOCK, open would wait for a writer if the path is a FIFO. */
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return error_errno(err, "open %s", path);
	if (fstat(fd, &st) < 0)
		return error_errno(err, "stat %s", path);
	if (!S_ISREG(st.st_mode)) {
		error_set(err, "%s is not a regular file", path);
		errno = EINVAL;
		return -1;
	}
	if (ret_status)
		*ret_status = st;
	return TAKE_FD(fd);
}

struct file_identity file_identity(int fd)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return (struct file_identity){ 0 };
	return (struct file_identity){ st.st_dev, st.st_ino, (uint64_t)st.st_size, st.st_mtim,
				       st.st_ctim };
}

bool file_is_irregular(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

#define READ_MAX_BYTES ((off_t)1 << 30)

static bool may_map;

void file_map_allow(void)
{
	may_map = true;
}

static void *map_file(int fd, size_t bytes)
{
	return mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
}

/* Reads what the file still has. -1 with errno set. */
static int read_extent(int fd, char *data, off_t at, off_t end)
{
	while (at < end) {
		ssize_t got = pread(fd, data + at, (size_t)(end - at), at);

		if (got < 0 && errno != EINTR)
			return -1;
		if (got == 0)
			break;
		at += got > 0 ? got : 0;
	}
	return 0;
}

/* Leaves out holes: a file may seem larger than all memory. -1 with errno set. */
static int read_extents(int fd, char *data, off_t bytes)
{
	off_t left = READ_MAX_BYTES, begin, end;

	for (off_t at = 0; at < bytes; at = end) {
		begin = lseek(fd, at, SEEK_DATA);
		if (begin < 0 && errno == ENXIO)
			return 0;
		begin = begin < 0 ? at : begin;
		end = lseek(fd, begin, SEEK_HOLE);
		end = end <= begin || end > bytes ? bytes : end;
		if (end - begin > left) {
			errno = EFBIG;
			return -1;
		}
		left -= MAX(end - begin, 0);
		if (read_extent(fd, data, begin, end) < 0)
			return -1;
	}
	return 0;
}

static void *read_file(int fd, size_t bytes)
{
	void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (data == MAP_FAILED || read_extents(fd, data, (off_t)bytes) == 0)
		return data;
	int number = errno;

	munmap(data, bytes);
	errno = number;
	return MAP_FAILED;
}

int file_map_open(struct file_map *map, const char *path, struct error *err)
{
	struct stat st = { 0 };
	AUTO_CLOSE int fd = file_open_regular(path, &st, err);
	void *data;

	if (fd < 0)
		return -1;
	*map = FILE_MAP_INIT;
	if (st.st_size == 0)
		return 0;
	data = (may_map ? map_file : read_file)(fd, (size_t)st.st_size);
	if (data == MAP_FAILED)
		return error_errno(err, "%s %s", may_map ? "map" : "read", path);
	map->bytes = span_of(data, (size_t)st.st_size);
	return 0;
}

void file_map_release(struct file_map *map)
{
	if (map->bytes.size)
		munmap((void *)(uintptr_t)map->bytes.data, map->bytes.size);
	*map = FILE_MAP_INIT;
}

int file_read_all(int fd, size_t limit_bytes, const char *path, struct buffer *out,
		  struct error *err)
{
	size_t total = 0;

	for (;;) {
		enum { STEP = 65536 };
		void *room = buffer_reserve(out, STEP);
		ssize_t got;

		if (!room)
			return error_set(err, "read %s: out of memory", path);
		got = read(fd, room, STEP);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return error_errno(err, "read %s", path);
		if (got == 0)
			return 0;
		total += (size_t)got;
		if (total > limit_bytes)
			return error_set(err, "read %s: more than %zu bytes", path, limit_bytes);
		out->size += (size_t)got;
	}
}

int file_read(const char *path, size_t limit_bytes, struct buffer *out, struct error *err)
{
	AUTO_CLOSE int fd = file_open_regular(path, NULL, err);

	return fd < 0 ? -1 : file_read_all(fd, limit_bytes, path, out, err);
}

int file_read_stream(const char *path, size_t limit_bytes, struct buffer *out, struct error *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return error_errno(err, "open %s", path);
	return file_read_all(fd, limit_bytes, path, out, err);
}

/* 0, or the errno. */
static int try_lease(int fd)
{
	if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0)
		return errno;
	fcntl(fd, F_SETLEASE, F_UNLCK);
	return 0;
}

/* For root without CAP_LEASE, which containers lack. The file system's user belongs to the thread. */
static int try_lease_as_owner(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return errno;
	uid_t before = (uid_t)setfsuid(st.st_uid);
	int number = try_lease(fd);

	setfsuid(before);
	return number;
}

bool file_has_writer(int fd)
{
	/* If a process opens the file for writing while we hold the lease, the kernel signals us: SIGIO would kill us, SIGURG
	 * is ignored. */
	if (fcntl(fd, F_SETSIG, SIGURG) < 0)
		return false;
	int number = try_lease(fd);

	if (number == EACCES)
		number = try_lease_as_owner(fd);
	return number == EAGAIN;
}

int file_write_all(int fd, struct span bytes, const char *path, struct error *err)
{
	while (bytes.size > 0) {
		ssize_t put = write(fd, bytes.data, bytes.size);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return error_errno(err, "write %s", path);
		bytes.data += put;
		bytes.size -= (size_t)put;
	}
	return 0;
}

static bool ends_in(const char *name, const char *suffix)
{
	size_t n = strlen(name), s = strlen(suffix);

	return n > s && memcmp(name + n - s, suffix, s) == 0;
}

static bool is_newer(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

int file_newest(const char *folder, const char *suffix, char **ret_path, struct error *err)
{
	AUTO_CLOSE_FOLDER DIR *dir = opendir(folder);
	AUTO_FREE char *best = NULL;
	struct timespec best_time = { 0 };
	struct dirent *entry;

	if (!dir)
		return error_errno(err, "open folder %s", folder);
	while ((entry = readdir(dir))) {
		struct stat st;

		if (!ends_in(entry->d_name, suffix))
			continue;
		/* A file that was removed after it was listed is not the newest. */
		if (fstatat(dirfd(dir), entry->d_name, &st, 0) < 0 || !S_ISREG(st.st_mode))
			continue;
		if (best &&
		    (is_newer(&best_time, &st.st_mtim) ||
		     (!is_newer(&st.st_mtim, &best_time) && strcmp(entry->d_name, best) < 0)))
			continue;
		free(best);
		best = strdup(entry->d_name);
		if (!best)
			return error_set(err, "open folder %s: out of memory", folder);
		best_time = st.st_mtim;
	}
	*ret_path = NULL;
	if (!best)
		return 0;
	*ret_path = strcmp(folder, ".") == 0 ? TAKE(best) : path_join(folder, best);
	return *ret_path ? 0 : error_set(err, "open folder %s: out of memory", folder);
}

char *program_path(const char *program)
{
	const char *path = getenv("PATH");
	struct stat status;

	if (strchr(program, '/'))
		return strdup(program);
	for (const char *at = path ? path : "/bin:/usr/bin"; at;) {
		size_t length = strcspn(at, ":");
		AUTO_FREE char *folder = length ? strndup(at, length) : strdup(".");
		AUTO_FREE char *candidate = folder ? path_join(folder, program) : NULL;

		if (candidate && stat(candidate, &status) == 0 && S_ISREG(status.st_mode) &&
		    access(candidate, X_OK) == 0)
			return TAKE(candidate);
		at = at[length] ? at + length + 1 : NULL;
	}
	return NULL;
}
