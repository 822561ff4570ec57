/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole files: map, read, write at once, find. Functions return 0, or -1 with err set ("open run.hg: No such file or
 * directory"). Any thread.
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
 * Opens a regular file for reading and fails for anything else. Never blocks, as a FIFO could, and never acquires a controlling
 * terminal. *ret_status (may be NULL) is the status of the opened file: check its owner there, since the path may refer to
 * another file by now. Returns the descriptor; -1 with err and errno set.
 */
int file_open_regular(const char *path, struct stat *ret_status, struct error *err);

/* Identifies a file and its content: changes when it is written to. */
struct file_identity {
	uint64_t device, inode, bytes;
	struct timespec modified, changed;
};
/* All zero if fd is not valid. */
struct file_identity file_identity(int fd);

/* Whether the path exists but is not a regular file: libraries that open paths themselves must not get it. */
bool file_is_irregular(const char *path);

/*
 * A read-only view of a file. If another process truncates the file, its tail may read as zeros. Files of up to 1 GiB without holes
 * are read into memory, unless the program allows mapping them.
 */
struct file_map {
	struct span bytes;
};

#define FILE_MAP_INIT ((struct file_map){ 0 })

/*
 * Lets file_map_open map files. Pre: the program handles SIGBUS, which access to a truncated mapping raises, by replacing the page,
 * and no thread blocks it. Call it before the first thread starts.
 */
void file_map_allow(void);
/* Only regular files. An empty file gives an empty span. */
int file_map_open(struct file_map *map, const char *path, struct error *err);
void file_map_release(struct file_map *map);

/*
 * Appends the whole regular file to out; works for /proc too, where sizes are unknown. A file of more than limit_bytes is an
 * error: it is not of the expected kind.
 */
int file_read(const char *path, size_t limit_bytes, struct buffer *out, struct error *err);
/* The same for a path given by the user, which may be a FIFO: then waits for its writer. `budgets=<(make-budgets)` */
int file_read_stream(const char *path, size_t limit_bytes, struct buffer *out, struct error *err);
/* The same for an open file; `path` is only for the message. */
int file_read_all(int fd, size_t limit_bytes, const char *path, struct buffer *out,
		  struct error *err);

/*
 * Whether any process has the file open, or mapped, for writing, even one in another pid namespace or with a hidden /proc. Uses
 * a read lease, which only the file's owner and root may take; false if unknown.
 */
bool file_has_writer(int fd);

/* Writes all bytes, in as many calls as needed. path is only for the message. */
int file_write_all(int fd, struct span bytes, const char *path, struct error *err);

/*
 * The newest regular file in the folder whose name ends in suffix, e.g. ".hg"; among equally new ones the last by name. The
 * caller frees *ret_path; NULL if there is none, which is not an error.
 */
int file_newest(const char *folder, const char *suffix, char **ret_path, struct error *err);

/* The part after the last slash; points into path. */
const char *path_base(const char *path);
/* The suffix of a command or path that fits into `room` bytes: skips as many leading folders of its program as necessary,
 * starts at a '/'. */
const char *path_tail(const char *command, size_t room);
/*
 * The folder that contains path: "." if there is no slash, "/" for the root. The caller frees it; NULL if out of memory.
 */
char *path_folder(const char *path);
/* "folder/name". The caller frees it; NULL if out of memory. */
char *path_join(const char *folder, const char *name);
/*
 * The path that execvp would use: `program` itself if it has a slash, else found in $PATH. The caller frees it; NULL if there
 * is none.
 */
char *program_path(const char *program);

#endif
