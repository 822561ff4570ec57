/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolves the path of an output, chooses how it is written, and writes it.
 *
 * Invariant: between the check of a path and its use, another user may have replaced the file. Rename replaces whatever is there; a
 * file that is opened is compared with the one that was checked, and its last component is not followed.
 *
 * Internal functions set an error without the path, which the public ones prepend.
 */
#include "util/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/files.h"

enum { LINKS_MAX = 40, WAIT_MS = 50, NEW_FILE_MODE = 0666, KEPT_MODE_BITS = 0777 };

struct output_target {
	char *path; /* without symbolic links in its last component */
	int fd;	    /* a copy of the descriptor that the path names; -1: none */
	bool exists;
	bool in_proc; /* a link in /proc, which leads to an open file */
	bool planted; /* by another user, perhaps to get our output */
	struct stat st;
};

#define OUTPUT_TARGET_INIT ((struct output_target){ .fd = -1 })

static void output_target_release(struct output_target *t)
{
	cleanup_free(&t->path);
	cleanup_close(&t->fd);
}

/* The error is the text of errno, which is preserved. */
static int output_errno(struct error *err)
{
	int saved = errno;

	error_set(err, "%s", strerror(saved));
	errno = saved;
	return -1;
}

/* ---- the path ---- */

/* Returns the descriptor that the path stands for; -1: none. */
static int output_path_descriptor(const char *path)
{
	size_t prefix = 0;
	char *end;

	if (strcmp(path, "/dev/stdout") == 0)
		return STDOUT_FILENO;
	if (strcmp(path, "/dev/stderr") == 0)
		return STDERR_FILENO;
	if (strncmp(path, "/dev/fd/", strlen("/dev/fd/")) == 0)
		prefix = strlen("/dev/fd/");
	else if (strncmp(path, "/proc/self/fd/", strlen("/proc/self/fd/")) == 0)
		prefix = strlen("/proc/self/fd/");
	long number = strtol(path + prefix, &end, 10);

	return prefix && path[prefix] && !*end && number <= INT_MAX ? (int)number : -1;
}

/* Replaces the path by what its symbolic link leads to. */
static int output_target_follow(struct output_target *t, struct error *err)
{
	AUTO_FREE char *folder = path_folder(t->path), *next = NULL;
	char name[PATH_MAX];
	ssize_t length = readlink(t->path, name, sizeof name - 1);

	if (length < 0)
		return output_errno(err);
	name[length] = '\0';
	if (folder)
		next = name[0] == '/' ? strdup(name) : path_join(folder, name);
	if (!next)
		return error_set(err, "out of memory");
	free(t->path);
	t->path = TAKE(next);
	return 0;
}

/* Looks at the last component of the path. Returns 1 if it is a symbolic link to follow. */
static int output_target_look(struct output_target *t, struct error *err)
{
	int number = output_path_descriptor(t->path);

	if (number >= 0) {
		t->fd = fcntl(number, F_DUPFD_CLOEXEC, 0);
		t->exists = t->fd >= 0 && fstat(t->fd, &t->st) == 0;
		return t->exists ? 0 : output_errno(err);
	}
	t->exists = lstat(t->path, &t->st) == 0;
	if (!t->exists)
		return errno == ENOENT ? 0 : output_errno(err);
	AUTO_FREE char *folder = path_folder(t->path);
	struct statfs fs;
	struct stat st;

	if (!folder || stat(folder, &st) < 0 || statfs(folder, &fs) < 0)
		return output_errno(err);
	bool is_foreign = t->st.st_uid != geteuid() && t->st.st_uid != 0;

	/* The kernel refuses the same if fs.protected_fifos and fs.protected_regular are on. */
	t->planted = is_foreign && (st.st_mode & S_IWOTH) && st.st_uid != t->st.st_uid;
	if (!S_ISLNK(t->st.st_mode))
		return 0;
	if (is_foreign)
		return error_set(err, "it is a symbolic link of another user; name the file that "
				      "it leads to, or another one");
	t->in_proc = fs.f_type == PROC_SUPER_MAGIC;
	if (!t->in_proc)
		return 1;
	return stat(t->path, &t->st) == 0 ? 0 : output_errno(err);
}

static int output_target_resolve(struct output_target *t, const char *path, struct error *err)
{
	t->path = strdup(path);
	if (!t->path)
		return error_set(err, "out of memory");
	for (int links = 0; links < LINKS_MAX; links++) {
		int status = output_target_look(t, err);

		if (status <= 0)
			return status;
		if (output_target_follow(t, err) < 0)
			return -1;
	}
	return error_set(err, "too many symbolic links");
}

static bool output_target_is_stream(const struct output_target *t)
{
	return t->fd >= 0 || (t->exists && !S_ISREG(t->st.st_mode));
}

static int output_planted_error(struct error *err)
{
	errno = EACCES;
	return error_set(err, "it belongs to another user, in a directory that everyone can write; "
			      "name another file");
}

static int output_folder_check(const char *path, struct error *err)
{
	AUTO_FREE char *folder = path_folder(path);

	if (folder && faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0)
		return 0;
	if (folder && errno == ENOENT)
		return error_set(err, "there is no directory %s; create it first", folder);
	return output_errno(err);
}

static int output_target_check(const struct output_target *t, struct error *err)
{
	if (t->fd >= 0)
		return 0;
	if (!t->exists)
		return output_folder_check(t->path, err);
	if (S_ISDIR(t->st.st_mode))
		return error_set(err, "it is a directory; name a file in it");
	if (t->planted && !S_ISREG(t->st.st_mode))
		return output_planted_error(err);
	return faccessat(AT_FDCWD, t->path, W_OK, AT_EACCESS) == 0 ? 0 : output_errno(err);
}

int output_file_check(const char *path, const char *const *inputs, size_t count, struct error *err)
{
	AUTO(output_target_release) struct output_target t = OUTPUT_TARGET_INIT;
	struct stat st;

	if (output_target_resolve(&t, path, err) < 0 || output_target_check(&t, err) < 0)
		return error_wrap(err, "cannot write %s", path);
	for (size_t i = 0; t.exists && S_ISREG(t.st.st_mode) && i < count; i++)
		if (inputs[i] && stat(inputs[i], &st) == 0 && st.st_dev == t.st.st_dev &&
		    st.st_ino == t.st.st_ino)
			return error_set(err,
					 "cannot write %s: this command reads that file; name "
					 "another one",
					 path);
	return 0;
}

int output_file_check_folder(const char *path, struct error *err)
{
	return output_folder_check(path, err) == 0 ? 0 : error_wrap(err, "cannot write %s", path);
}

bool output_file_is_stream(const char *path)
{
	AUTO(output_target_release) struct output_target t = OUTPUT_TARGET_INIT;

	return output_target_resolve(&t, path, NULL) == 0 && output_target_is_stream(&t);
}

/* ---- pipes and devices ---- */

bool (*output_file_pause)(long milliseconds);

static bool output_pause(long milliseconds)
{
	const struct timespec time = { .tv_nsec = milliseconds * 1000000 };

	if (output_file_pause)
		return output_file_pause(milliseconds);
	nanosleep(&time, NULL);
	return true;
}

/* Opens the target for writing, and waits for the reader of a FIFO. */
static int output_target_open(const struct output_target *t, struct error *err)
{
	const int flags =
		O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (t->in_proc ? 0 : O_NOFOLLOW);
	AUTO_CLOSE int fd = open(t->path, flags);
	struct stat st;

	while (fd < 0 && errno == ENXIO && S_ISFIFO(t->st.st_mode)) {
		if (!output_pause(WAIT_MS))
			return error_set(err, "interrupted while waiting for a reader");
		fd = open(t->path, flags);
	}
	if (fd < 0 || fstat(fd, &st) < 0)
		return output_errno(err);
	if (st.st_dev != t->st.st_dev || st.st_ino != t->st.st_ino)
		return error_set(err, "it was replaced by another file");
	return TAKE_FD(fd);
}

/* Writes without blocking for longer than WAIT_MS. The descriptor may be shared, so its flags are left alone. */
static int output_stream_write(int fd, struct span bytes, struct error *err)
{
	while (bytes.size > 0) {
		struct pollfd room = { .fd = fd, .events = POLLOUT };
		int ready = poll(&room, 1, WAIT_MS);

		if (ready < 0 || (ready == 0 && !output_pause(0)))
			return error_set(err, "interrupted");
		if (ready == 0)
			continue;
		ssize_t put = write(fd, bytes.data, MIN(bytes.size, (size_t)PIPE_BUF));

		if (put < 0 && errno != EAGAIN && errno != EINTR)
			return output_errno(err);
		if (put > 0)
			bytes = span_of(bytes.data + put, bytes.size - (size_t)put);
	}
	return 0;
}

/* ---- regular files ---- */

/* open() instead of mkstemp(), so that the kernel applies the umask to the mode. */
static int output_temporary_open(const char *path, mode_t mode, char **ret_name, struct error *err)
{
	for (unsigned attempt = 0; attempt < 100; attempt++) {
		AUTO_FREE char *name = NULL;
		int fd;

		if (asprintf(&name, "%s.%ld-%u.tmp", path, (long)getpid(), attempt) < 0) {
			name = NULL;
			return error_set(err, "out of memory");
		}
		fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
		if (fd >= 0) {
			*ret_name = TAKE(name);
			return fd;
		}
		if (errno != EEXIST)
			return output_errno(err);
	}
	return error_set(err, "too many temporary files next to it");
}

/* Without fsync, a power failure may leave the new name on an empty file. */
static bool output_regular_write(int fd, struct span bytes, bool syncs)
{
	return file_write_all(fd, bytes, "", NULL) == 0 &&
	       (!syncs || fsync(fd) == 0 || errno == EINVAL || errno == EROFS);
}

/* Gives a new file the owner and mode of an old one. */
static bool output_copy_owner(int fd, const struct stat *old)
{
	struct stat st;

	if (fstat(fd, &st) == 0 &&
	    ((st.st_uid == old->st_uid && st.st_gid == old->st_gid) ||
	     fchown(fd, old->st_uid, old->st_gid) == 0) &&
	    (((st.st_mode ^ old->st_mode) & KEPT_MODE_BITS) == 0 ||
	     fchmod(fd, old->st_mode & KEPT_MODE_BITS) == 0))
		return true;
	errno = EPERM;
	return false;
}

/* Writes a temporary file next to the path, with the owner and mode of `old` if it is not NULL, and moves it to the path. */
static int output_write_and_move(const char *path, const struct stat *old, struct span bytes,
				 mode_t mode, bool syncs,
				 int (*move)(const char *from, const char *to), struct error *err)
{
	AUTO_FREE char *temporary = NULL;
	AUTO_CLOSE int fd = output_temporary_open(path, old ? 0600 : mode, &temporary, err);

	if (fd < 0 || !temporary)
		return -1;
	if ((!old || output_copy_owner(fd, old)) && output_regular_write(fd, bytes, syncs) &&
	    move(temporary, path) == 0)
		return 0;
	output_errno(err);
	int saved = errno;

	(void)unlink(temporary);
	errno = saved;
	return -1;
}

/* Returns true if the directory refused a new file or the rename, so that only the file itself can be written. */
static bool output_rename_is_impossible(int number)
{
	return number == EACCES || number == EPERM || number == EROFS || number == EBUSY ||
	       number == EXDEV || number == ENAMETOOLONG;
}

static int output_target_copy(const struct output_target *t, struct span bytes, bool syncs,
			      struct error *err)
{
	AUTO_CLOSE int fd = output_target_open(t, err);

	if (fd < 0)
		return -1;
	/* Reserve the space first: a full disk should not destroy the old content. */
	if (bytes.size > 0 && fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes.size) < 0 &&
	    (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
		return output_errno(err);
	if (!output_regular_write(fd, bytes, false) || ftruncate(fd, (off_t)bytes.size) < 0 ||
	    !output_regular_write(fd, span_of(NULL, 0), syncs))
		return output_errno(err);
	return 0;
}

static int output_target_write(const struct output_target *t, struct span bytes, mode_t mode,
			       bool syncs, struct error *err)
{
	if (t->fd >= 0)
		return output_stream_write(t->fd, bytes, err);
	if (output_target_is_stream(t)) {
		AUTO_CLOSE int fd = output_target_open(t, err);

		return fd < 0 ? -1 : output_stream_write(fd, bytes, err);
	}
	if (!t->in_proc) {
		const struct stat *old = t->exists && !t->planted ? &t->st : NULL;

		if (output_write_and_move(t->path, old, bytes, mode, syncs, rename, err) == 0)
			return 0;
		if (!t->exists || !output_rename_is_impossible(errno))
			return -1;
	}
	return t->planted ? output_planted_error(err) : output_target_copy(t, bytes, syncs, err);
}

static int output_write(const char *path, struct span bytes, mode_t mode, bool syncs,
			struct error *err)
{
	AUTO(output_target_release) struct output_target t = OUTPUT_TARGET_INIT;

	if (output_target_resolve(&t, path, err) == 0 && output_target_check(&t, err) == 0 &&
	    output_target_write(&t, bytes, mode, syncs, err) == 0)
		return 0;
	return error_wrap(err, "cannot write %s", path);
}

int output_file_write(const char *path, struct span bytes, mode_t mode, struct error *err)
{
	return output_write(path, bytes, mode, true, err);
}

int output_file_write_unsynced(const char *path, struct span bytes, mode_t mode, struct error *err)
{
	return output_write(path, bytes, mode, false, err);
}

/* ---- new files ---- */

static bool output_name_is_used(const char *path)
{
	return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Renames a file to a new name, or fails with errno EEXIST. */
static int output_rename_new(const char *from, const char *to)
{
	if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -1;
	/* NFS and many FUSE file systems reject all flags. */
	if (link(from, to) == 0)
		return unlink(from);
	/* File systems without links have no atomic way. */
	if (errno != EEXIST && !output_name_is_used(to))
		return rename(from, to);
	errno = EEXIST;
	return -1;
}

int output_file_write_new(const char *path, struct span bytes, mode_t mode, struct error *err)
{
	if (output_name_is_used(path)) {
		errno = EEXIST;
		return error_errno(err, "cannot create %s", path);
	}
	if (output_folder_check(path, err) == 0 &&
	    output_write_and_move(path, NULL, bytes, mode, true, output_rename_new, err) == 0)
		return 0;
	return error_wrap(err, "cannot create %s", path);
}

/* ---- streams ---- */

int output_file_open(struct output_file *file, const char *path, const char *const *inputs,
		     size_t count, struct error *err)
{
	if (output_file_check(path, inputs, count, err) < 0)
		return -1;
	*file = (struct output_file){ .path = path };
	file->stream = open_memstream(&file->bytes, &file->size);
	return file->stream ? 0 : error_set(err, "cannot write %s: out of memory", path);
}

int output_file_commit(struct output_file *file, struct error *err)
{
	bool failed = ferror(file->stream) != 0;
	int status;

	failed |= fclose(TAKE(file->stream)) != 0;
	status = failed ? error_set(err, "cannot write %s: out of memory", file->path)
			: output_file_write(file->path, span_of(file->bytes, file->size),
					    NEW_FILE_MODE, err);
	output_file_abort(file);
	return status;
}

void output_file_abort(struct output_file *file)
{
	if (file->stream)
		fclose(file->stream);
	cleanup_free(&file->bytes);
	*file = OUTPUT_FILE_INIT;
}
