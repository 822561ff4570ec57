/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole files: map, read, write at once, find. Functions return 0, or -1 with err set ("open
 * run.hg: No such file or directory"). Any thread.
 */
#ifndef UTIL_FILES_H
#define UTIL_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include "base/span.h"
#include "util/buffer.h"
#include "util/error.h"

/*
 * Opens a regular file for reading and fails for everything else. It never waits, as opening or reading a pipe of that name would, and
 * becomes nobody's terminal. *ret_status (may be NULL) is the status of what was opened: who asks about its owner must ask there,
 * since the path may lead to another file by now. Returns the descriptor; -1 with err and errno set.
 */
int file_open_regular(const char *path, struct stat *ret_status, struct error *err);

/* Tells a file from every other, and from what it becomes when it is written to. */
struct file_identity {
	uint64_t device, inode, bytes;
	struct timespec modified, changed;
};
/* All zero if there is none. */
struct file_identity file_identity(int fd);

/* There is something at the path and it is no regular file: what a library that opens paths itself must not be let near. */
bool file_is_irregular(const char *path);

/*
 * A file mapped read-only. If somebody else makes the file shorter meanwhile, its tail reads as zeros: by a handler of SIGBUS, so no
 * thread that reads may block that.
 */
struct file_map {
	struct span bytes;
};

#define FILE_MAP_INIT ((struct file_map){ 0 })

/* Only regular files. An empty file gives an empty span. */
int file_map_open(struct file_map *map, const char *path, struct error *err);
void file_map_release(struct file_map *map);

/*
 * Appends the whole regular file to out; works for /proc too, where sizes are unknown. A file of more than
 * limit_bytes is an error: what was asked for was a file of that kind, not a disk image.
 */
int file_read(const char *path, size_t limit_bytes, struct buffer *out, struct error *err);
/* The same of what the user has named: also a pipe, and then waits for who writes to it. `budgets=<(make-budgets)` */
int file_read_stream(const char *path, size_t limit_bytes, struct buffer *out, struct error *err);
/* The same of an open file; `path` is for the message only. */
int file_read_all(int fd, size_t limit_bytes, const char *path, struct buffer *out,
		  struct error *err);

/*
 * Replaces path by a file with these bytes, or leaves it alone: a reader sees the old file or the
 * new one, never half of it. What exists and is no regular file (/dev/null, a pipe) is simply
 * written to.
 */
int file_write_atomic(const char *path, struct span bytes, mode_t mode, struct error *err);

/* A file that was not there before, FOLDER/NAME with a random part before its suffix, for this user alone. *ret_path is the caller's. */
int file_write_new(const char *folder, const char *name, struct span bytes, char **ret_path,
		   struct error *err);

/*
 * Whether anybody has the file open, or mapped, for writing: also who is in another pid namespace or hides its /proc. Asks for
 * a read lease, so it is only known to the file's owner and to root; false if it is not known.
 */
bool file_has_writer(int fd);

/* Writes all bytes, however many calls it takes. path is for the message only. */
int file_write_all(int fd, struct span bytes, const char *path, struct error *err);

/*
 * The newest regular file of the folder whose name ends in suffix, e.g. ".hg"; of equally new ones
 * the last by name. *ret_path is the caller's (free), or NULL if there is none, which is no error.
 */
int file_newest(const char *folder, const char *suffix, char **ret_path, struct error *err);

/* The part behind the last slash; points into path. */
const char *path_base(const char *path);
/* Where to begin a command or path that must fit `room` bytes: behind as many of its program's folders as it takes, at a '/'. */
const char *path_tail(const char *command, size_t room);
/*
 * The folder that holds path: "." if there is no slash, "/" for the root. The caller's (free); NULL
 * if out of memory.
 */
char *path_folder(const char *path);
/* "folder/name". The caller's (free); NULL if out of memory. */
char *path_join(const char *folder, const char *name);
/*
 * The path that execvp would take: `program` itself if it has a slash, else what $PATH gives. The
 * caller's (free); NULL if there is none.
 */
char *program_path(const char *program);

#endif
