/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the recorded processes of this machine, and the address of their profiles, in /proc/PID/maps. Processes that the kernel
 * does not let us read are counted, so that nothing is hidden silently. */
#ifndef COLLECT_KERNEL_RECORDED_PROCESSES_H
#define COLLECT_KERNEL_RECORDED_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "util/error.h"
#include "util/vector.h"

enum { RECORDED_PATH = 400 };

struct recorded_file {
	dev_t device;
	ino_t inode;
};

struct recorded {
	pid_t pid;
	uint64_t profile, profile_end; /* the mapping that starts with its header */
	struct recorded_file
		mapped; /* by it: a new program has another one, at the same address perhaps */
	char file
		[RECORDED_PATH]; /* that contains the profile, as a path in the process' root; "" = none */
};

/* -1 with the error set: the process does not exist, is not recorded, or may not be read. */
int recorded_find(pid_t pid, struct recorded *ret, struct error *error);

struct core_file;
/* The same for the process that a core file is of. */
int recorded_find_core(const struct core_file *core, struct recorded *ret, struct error *error);

struct recorded_list {
	VECTOR(struct recorded) found;	    /* by pid */
	VECTOR(struct recorded_file) files; /* that have profiles of processes that run */
	size_t hidden;			    /* processes that may not be read */
};
/* Lists all visible recorded processes, except this one. -1 with the error set if there is no /proc. */
int recorded_list(struct recorded_list *ret, struct error *error);
/* The same without those that the function says are known: reading the mappings of a process is the expense. */
typedef bool recorded_is_known(void *context, pid_t pid);
int recorded_list_new(struct recorded_list *ret, recorded_is_known *is_known, void *context,
		      struct error *error);
void recorded_list_release(struct recorded_list *list);
/* Whether a process had this file mapped when the list was made: for many files, where recorded_by would take long. */
bool recorded_list_has_file(const struct recorded_list *list, const struct stat *file);

/* Whether the process has this file mapped as its profile. */
bool recorded_maps(pid_t pid, const struct stat *file);
/* The process that has this file mapped as its profile; 0 if there is none that may be read. */
pid_t recorded_by(const struct stat *file);

/* Whether a mapping's name, up to the end of the line, is that of a file with the profile of a process without a collector.
 * Pure. */
bool recorded_file_name(const char *name);

/* Sets the reason why a process could not be read, from the errno of the attempt. Returns -1. */
int recorded_failed(pid_t pid, int number, struct error *error);

#endif
