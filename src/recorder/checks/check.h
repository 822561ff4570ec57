/* SPDX-License-Identifier: Apache-2.0 */
/* The checking build of the recorder (libheapgauge-checked.so, never installed) asserts what the comments state. A failed
 * check writes one line to descriptor 2 and traps.
 *
 * CHECKED is a constant: in the ordinary build everything behind it is compiled and thrown away, so neither can it rot nor
 * does it cost anything. */
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

/* ---- locks: a thread takes them inside a hook, one at a time, and makes no system call until it has released it ---- */

void check_lock_taken(const struct lock *lock);
void check_lock_released(const struct lock *lock);
/* The lock belongs to a hook that was left without its end; it is released next. */
void check_lock_recovered(const struct lock *lock);
/* The hook that has interrupted another one is not bound by what that one holds. Returns that, to be put back. */
const struct lock *check_lock_set_aside(void);
void check_lock_put_back(const struct lock *lock);
void check_system_call(void);

/* ---- entries ---- */

/* Site counters that the slot may count at. */
void check_counters(const struct slot *slot, uint32_t counters);
/* What the block map or the list of samples holds for an address. */
void check_block(const struct block *block);

/* The stack that was walked last. */
void check_walk(const struct walk *walk);

/* ---- whole structures ---- */

/* When a structure is next checked as a whole: so seldom that checking takes about as long as what it checks. Under whatever
 * protects the structure. */
struct check_pace {
	uint64_t visits, due;
};

/* Never again after a hook was left in its middle, which may have left an entry twice, or counted twice. */
bool check_is_due(struct check_pace *pace);

/* It was checked; that examined so many entries. */
static inline void check_done(struct check_pace *pace, uint64_t entries)
{
	enum { ENTRIES_PER_VISIT = 4, VISITS_MIN = 16 };

	pace->visits = 0;
	pace->due = entries / ENTRIES_PER_VISIT + VISITS_MIN;
}

/* A hook ends: what the calling thread owns is whole, and now and then the rest of the profile is checked too. */
void check_leaving(void);

/* What lies in the regions of the profile, as far as the calling thread, which owns the slot, can look at it while others
 * go on. Returns how many entries it examined. */
uint64_t check_structures(const struct slot *slot);
#endif
