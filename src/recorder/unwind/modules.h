/* SPDX-License-Identifier: Apache-2.0 */
/* The objects that code comes from: a log in the live profile, filled in when their code is first seen on a stack.
 *
 * Objects that the program started with are permanent. Others may be unloaded and replaced at any time. An object is *watched* if
 * the free of its descriptor (struct libc_object) is certain to reach modules_loader_frees. This requires that the loader calls our
 * free, and that every free looks up its block. walk_stack verifies all other objects at each walk, and their stacks are not cached. libc_find takes no
 * lock. docs/internals/stack-walk.md has the proof. */
#ifndef RECORDER_UNWIND_MODULES_H
#define RECORDER_UNWIND_MODULES_H

#include <stdbool.h>

#include "recorder/unwind/cfi.h"
#include "recorder/memory.h"
#include "recorder/slot.h"

/* Incremented when unwind rules have become invalid; stored walks of another generation are dropped. Relaxed:
 * ld.so's thread changes it, and code of a new object runs only after that thread has continued. */
extern HIDDEN uint32_t modules_generation;

/* The loader's own code. */
extern HIDDEN uintptr_t loader_start, loader_bytes;

static ALWAYS_INLINE bool modules_is_loader(uintptr_t pc)
{
	return UNLIKELY(pc - loader_start < loader_bytes);
}

/* Finds the code ranges of the loader and the recorder. Call it before anything else here. */
void modules_find_loader(void);

/* Reads the name of the executable. At start-up, before the first walk. */
void modules_start(void);

/* True if two functions are in the same object. False if one is NULL. */
bool modules_same(const void *a, const void *b);

/* Code range of the recorder if it is part of the executable: linked_in.ld. */
extern const char recorder_code_begin[] __attribute__((weak, visibility("hidden")));
extern const char recorder_code_end[] __attribute__((weak, visibility("hidden")));

static inline bool modules_is_linked_in(void)
{
	return recorder_code_begin != NULL;
}

/* The recorder's own code. */
extern uintptr_t recorder_start, recorder_bytes;

static ALWAYS_INLINE bool modules_is_recorder(uintptr_t pc)
{
	return pc - recorder_start < recorder_bytes;
}

/* Drops all stored walks when a forked child starts over. */
void modules_reset(void);

struct module_found {
	uint32_t id; /* 0: no object contains this address */
	struct cfi_table unwind;
	uint64_t bias;
};
/* Adds an entry for a source file of an interpreted language, whose path is in LIVE_STRINGS. 0: no memory, or no lock. */
uint32_t modules_add_file(struct slot *slot, uint32_t path_at, uint32_t path_bytes);

/* Finds the object that contains pc. Takes the rules' lock if it is not in the log yet. */
void modules_find(struct slot *slot, uintptr_t pc, struct module_found *ret);

/* True if our free and calloc are the first definitions in the process. */
bool modules_we_are_first(void);

/* Number of loaded objects in the log that are neither permanent nor watched. */
extern HIDDEN uint32_t modules_unwatched;

/* Call when the recorder may not notice the loading of objects from now on. */
void modules_miss_loads(void);

/* True if modules_loader_allocates is called whenever an object is loaded. Assumed with musl, whose loader does not call us. */
bool modules_notice_loads(void);

/* True if `id` is still the object at pc (0: still no object). Otherwise invalidates its rules, unless the lock times out. */
bool modules_verify(struct slot *slot, uintptr_t pc, uint32_t id);

/* True if the object cannot be replaced without notice. id 0: no object. */
bool modules_is_watched(uint32_t id);

/* True if a result of modules_find is still valid; it stays so while the caller holds the rules' lock. */
bool modules_is_of(uintptr_t pc, uint32_t id);

/* The unwind information of the object that contains pc, without touching the log: no lock, any time. */
struct cfi_table modules_unwind_table(uintptr_t pc);

/* ld.so called us: to allocate (objects may appear), or to free `block`, which may be the descriptor of an object. slot NULL: the
 * thread has none. */
void modules_loader_allocates(struct slot *slot);
void modules_loader_frees(struct slot *slot, const void *block);

/* Returns the range of the object that contains an address; unchanged: none. */
void modules_extent(const void *address, uintptr_t *ret_start, uintptr_t *ret_bytes);

/* The file of the object that contains an address, "" if none. Start-up only. */
const char *modules_file_of(const void *address);
#endif
