/* SPDX-License-Identifier: Apache-2.0 */
/* The checking build of the recorder (libheapgauge-checked.so, never installed) asserts what the comments state. A failed
 * check writes one line to descriptor 2 and traps.
 *
 * CHECKED is a constant: in the normal build all code that it guards is compiled and discarded, so it neither rots nor
 * costs anything. */
#ifndef RECORDER_CHECKS_CHECK_H
#define RECORDER_CHECKS_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#ifdef HEAPGAUGE_CHECKED
enum { CHECKED = 1 };
#else
enum { CHECKED = 0 };
#endif

struct block;
struct lock;
struct slot;
struct walk;

#define CHECK_TEXT_(x) #x
#define CHECK_TEXT(x) CHECK_TEXT_(x)
#define CHECK_LINE(condition)                                                                      \
	"heapgauge: check failed: " __FILE__ ":" CHECK_TEXT(__LINE__) ": " condition "\n"

#define RECORDER_CHECK(condition)                                                                  \
	do {                                                                                       \
		if (CHECKED && UNLIKELY(!(condition)))                                             \
			check_failed(CHECK_LINE(#condition), sizeof CHECK_LINE(#condition) - 1);   \
	} while (0)

__attribute__((cold, noreturn)) void check_failed(const char *line, size_t bytes);

/* ---- locks: a thread takes them inside a hook, one at a time, and makes no system call while it holds one ---- */

void check_lock_acquired(const struct lock *lock);
void check_lock_released(const struct lock *lock);
/* The lock belongs to an abandoned hook and is released next. */
void check_lock_recovered(const struct lock *lock);
/* A hook that has interrupted another one may ignore the lock that one holds. Returns it, to be put back. */
const struct lock *check_lock_set_aside(void);
void check_lock_put_back(const struct lock *lock);
void check_system_call(void);

/* ---- entries ---- */

/* Site counters that the slot may update. */
void check_counters(const struct slot *slot, uint32_t counters);
/* An entry of the block map or of the sampled blocks. */
void check_block(const struct block *block);

/* The last stack walked. */
void check_walk(const struct walk *walk);

/* ---- whole structures ---- */

/* When a structure is next checked as a whole: rarely enough that checking takes about as long as the work it checks.
 * Protected by the structure's lock. */
struct check_pace {
	uint64_t visits, due;
};

/* False for ever after a hook was abandoned, which may leave an entry, or its count, twice. */
bool check_is_due(struct check_pace *pace);

/* Call after a check that examined `entries` entries. */
static inline void check_done(struct check_pace *pace, uint64_t entries)
{
	enum { ENTRIES_PER_VISIT = 4, VISITS_MIN = 16 };

	pace->visits = 0;
	pace->due = entries / ENTRIES_PER_VISIT + VISITS_MIN;
}

/* Call at the end of a hook: checks the calling thread's own state, and from time to time the rest of the profile. */
void check_leaving(void);

/* Checks the regions of the profile, as far as the calling thread, which owns the slot, can while others run. Returns the
 * number of entries examined. */
uint64_t check_structures(const struct slot *slot);
#endif
