/* SPDX-License-Identifier: Apache-2.0 */
/* Global variables of a process, with their resident part when the collector last looked. */
#ifndef MODEL_FRAMES_GLOBALS_H
#define MODEL_FRAMES_GLOBALS_H

#include "model/frames/names.h"

struct profile_variable {
	const char *
		name; /* in the requested style; NULL: the rest of the module, which has no symbols */
	const char *full;    /* the same in the full style */
	const char *file;    /* NULL: unknown */
	uint32_t line;	     /* 0: unknown */
	const char *module;  /* path */
	const char *section; /* "data", "bss", "relro" or "tls"; of a rest "static" or "tls" */
	uint64_t address;    /* ELF virtual address; "tls": offset in the memory of the thread */
	uint64_t bytes;	     /* of one copy */
	uint64_t copies;     /* one, or "tls": the threads */
	uint64_t resident_bytes;
	bool resident_known; /* false for "tls" */
};

struct profile_globals {
	uint64_t at_ns;	  /* when it was read */
	uint64_t threads; /* then */
	const struct profile_variable *at;
	size_t count; /* 0: the process ended before it was read, or an older recording */
};
/* In the arena; texts live as long as `names` and the profile. -1 if out of memory. */
int profile_globals(const struct profile_process *process, struct names *names, struct arena *arena,
		    struct profile_globals *ret);

#endif
