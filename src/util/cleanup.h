/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cleanup by scope: what a function owns is released when it returns, on every path. TAKE transfers
 * ownership.
 *
 *	AUTO_FREE char *name = strdup(text);
 *	AUTO_CLOSE int fd = open(...);
 *	AUTO(buffer_release) struct buffer out = BUFFER_INIT;
 *	...
 *	*ret_name = TAKE(name);
 *
 * The variable must be initialized where it is declared: a return before its first assignment would
 * free an undefined value.
 */
#ifndef UTIL_CLEANUP_H
#define UTIL_CLEANUP_H

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* release takes a pointer to the variable and must preserve errno. */
#define AUTO(release) __attribute__((cleanup(release)))
/* For any pointer from malloc; NULL is fine. */
#define AUTO_FREE AUTO(cleanup_free)
/* For a file descriptor; negative is fine. */
#define AUTO_CLOSE AUTO(cleanup_close)
/* For a DIR *; NULL is fine. */
#define AUTO_CLOSE_FOLDER AUTO(cleanup_close_folder)

/* Returns the pointer and sets the variable to NULL. */
#define TAKE(p)                                                                                    \
	__extension__({                                                                            \
		__typeof__(p) taken_ = (p);                                                        \
		(p) = NULL;                                                                        \
		taken_;                                                                            \
	})
/* Returns the descriptor and sets the variable to -1. */
#define TAKE_FD(fd)                                                                                \
	__extension__({                                                                            \
		int taken_ = (fd);                                                                 \
		(fd) = -1;                                                                         \
		taken_;                                                                            \
	})

static inline void cleanup_free(void *variable)
{
	void *p;

	/* Copied, because reading a char ** as a void ** violates aliasing rules. */
	memcpy(&p, variable, sizeof p);
	free(p);
}

static inline void cleanup_close(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

static inline void cleanup_close_folder(DIR **folder)
{
	int saved = errno;

	if (*folder)
		closedir(*folder);
	errno = saved;
}

#endif
