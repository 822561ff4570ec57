/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A core file of Linux, by the kernel, gdb or anybody else: an ELF file with the memory of a process, and notes about its threads and
 * mapped files. Untrusted: memory use is bounded by the data in the file, and no byte of it is read as two pieces of memory.
 */
#ifndef COLLECT_KERNEL_CORE_FILE_H
#define COLLECT_KERNEL_CORE_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/span.h"
#include "util/error.h"
#include "util/vector.h"

/* A mapping. The core file may have only its beginning, or nothing of it. */
struct core_segment {
	uint64_t start, end;
	uint64_t data_bytes; /* how much of it is in the file */
	uint64_t offset;     /* where */
	uint32_t flags;	     /* PF_R, PF_W, PF_X */
};
/* A mapping of a file (NT_FILE). */
struct core_mapped {
	uint64_t start, end;
	uint64_t offset; /* in the file */
	uint64_t number; /* of the file: the same as the one before if it has the same name */
	const char *name;
};
struct core_thread {
	pid_t tid;
	struct span registers;	 /* as PTRACE_GETREGSET gets NT_PRSTATUS */
	struct span vectors;	 /* the registers that VECTOR_NOTE has; empty: unknown */
	uint64_t thread_pointer; /* 0: unknown, or in the registers */
};
struct core_file {
	int fd;
	uint64_t present_bytes;		      /* of the file, without holes */
	bool is_cut;			      /* it ends before its last segment */
	VECTOR(struct core_segment) segments; /* by address, disjoint */
	VECTOR(struct core_mapped) mapped;    /* by address */
	VECTOR(struct core_thread) threads;
	pid_t pid, ppid; /* 0: unknown */
	uint32_t uid;	 /* + 1; 0: unknown */
	int signal;	 /* that ended it; 0: none */
	uint64_t entry,
		stack; /* an address in the executable, and one in the first thread's stack; 0: unknown */
	char *notes; /* what the spans and names are in */
	size_t notes_bytes;
};
#define CORE_FILE_INIT ((struct core_file){ .fd = -1 })

/* Whether a file that begins with these bytes, CORE_FILE_FIRST_BYTES unless it is shorter, is a core file. Pure. */
enum { CORE_FILE_FIRST_BYTES = 64 };
bool core_file_is(struct span first);
/* -1 with error set: it is not a core file of this kind of machine, or damaged. The error refers to the file as "it". */
int core_file_open(struct core_file *ret, const char *path, struct error *error);
/* The same for a descriptor, which it takes. */
int core_file_open_fd(struct core_file *ret, int fd, struct error *error);
void core_file_release(struct core_file *core);

/* Reads up to the end of the segment or of its data. Returns how much; 0: nothing at this address is in the file. */
size_t core_file_read(const struct core_file *core, uint64_t at, void *to, size_t bytes);
/* Finds the first run of memory in [from, end) that the file has, without its holes, which are zero. False: there is none. */
bool core_file_next(const struct core_file *core, uint64_t from, uint64_t end, uint64_t *ret_at,
		    uint64_t *ret_bytes);
/* How many bytes of the range the file has, including its holes. */
uint64_t core_file_has(const struct core_file *core, uint64_t from, uint64_t bytes);

/* What /proc/PID/maps would say, as far as it can be known: a file's number stands for its inode. malloc'd; NULL: out of memory. */
char *core_file_maps(const struct core_file *core);

/* Fills in everything that notes say. False: out of memory. For core_file.c. */
bool core_notes_read(struct core_file *core);

#endif
