/* SPDX-License-Identifier: Apache-2.0 */
/* Our variables in `environ` while libc starts a shell: see shell_environment.h.
 *
 * Owns: one array of entries and the texts of our variables, which are the process' own and stay for ever: other threads read
 * `environ` at any time, and a thread may leave system() without returning from it (cancellation, longjmp). Whoever finds the
 * array in `environ` shares it: the first of several threads installs it, the last one restores the array from before.
 *
 * `users` counts the threads between begin and end. `busy` is held while `environ` or the entries change, for some hundred
 * instructions. It is not a struct lock, since those are for threads inside a hook: a forked child starts shells without a
 * profile. Whoever releases it does what another thread could not do meanwhile, so nobody has to wait at the end.
 *
 * libc's own lock of the environment cannot be taken. So what setenv has changed meanwhile is looked for again after each change
 * of `environ`; the array from before is written only where our copy was changed, since it may be constant. */
#include "recorder/process/shell_environment.h"

#include <unistd.h>

#include "recorder/arch/arch.h"
#include "recorder/process/exec.h"
#include "recorder/process/process_log.h"

enum {
	ENTRIES_MAX = 4 << 10, /* a shell with more is not recorded */
	TEXTS = 4, /* so that one is rarely written while it is read; only its ticket may differ */
	SPINS = 4000,
};

static struct exec_variables text[TEXTS];
static char *installed[ENTRIES_MAX + 3];
static unsigned next_text;

static uint32_t users, busy;
static bool extended;		 /* `installed` may be in `environ`, or its entries in a copy */
static char **before;		 /* what `environ` was; NULL: none */
static char *taken[ENTRIES_MAX]; /* its entries */
static size_t taken_count;
static uint32_t number; /* log entry of the shell whose ticket is in the variables; 0: none */

bool shell_environment_has(const char *entry)
{
	return (uintptr_t)entry - (uintptr_t)text < sizeof text;
}

static bool try_hold(void)
{
	return __atomic_exchange_n(&busy, 1, __ATOMIC_SEQ_CST) == 0;
}

static bool hold(void)
{
	for (unsigned i = 0; i < SPINS; i++) {
		if (__atomic_load_n(&busy, __ATOMIC_RELAXED) == 0 && try_hold())
			return true;
		arch_pause();
	}
	return false;
}

static bool publish(char **from, char **to)
{
	return __atomic_compare_exchange_n(&environ, &from, to, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_RELAXED);
}

/* Writes to the array from before what another thread has changed in ours. If it has replaced one of our variables, there is one entry
 * more than fits. */
static void give_back(void)
{
	size_t n = 0;

	for (size_t i = 0; installed[i] != NULL && n < taken_count; i++) {
		if (shell_environment_has(installed[i]))
			continue;
		if (installed[i] != taken[n])
			before[n] = installed[i];
		n++;
	}
	if (n < taken_count)
		before[n] = NULL;
}

/* Takes our variables out of an array that another thread made of ours: a larger one, or (glibc 2.41 and newer) the one from before, which
 * had room. */
static void strip(char **entries)
{
	size_t n = 0, i = 0;

	for (; entries[i] != NULL; i++) {
		if (shell_environment_has(entries[i]))
			continue;
		if (n != i)
			entries[n] = entries[i];
		n++;
	}
	if (n != i)
		entries[n] = NULL;
}

static void restore(void)
{
	if (environ == installed) {
		give_back();
		publish(installed, before);
		give_back();
	}
	if (environ != NULL)
		strip(environ);
	/* If the program has kept the address and puts it back, it finds its own variables. */
	strip(installed);
	extended = false;
}

/* Releases `busy`, and restores the environment if nobody needs ours. */
static void release(void)
{
	do {
		if (extended && __atomic_load_n(&users, __ATOMIC_SEQ_CST) == 0)
			restore();
		bool again = extended;

		__atomic_store_n(&busy, 0, __ATOMIC_SEQ_CST);
		if (!again)
			return;
	} while (__atomic_load_n(&users, __ATOMIC_SEQ_CST) == 0 && try_hold());
}

static void leave(void)
{
	uint32_t have = __atomic_load_n(&users, __ATOMIC_RELAXED);

	/* 0: in a child that a signal handler forked during the call. */
	while (have != 0 && !__atomic_compare_exchange_n(&users, &have, have - 1, false,
							 __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
	}
	if (have <= 1 && try_hold())
		release();
}

/* From the end down, so that a thread that still reads the array finds an entry where it looks. */
static bool copy(char **from)
{
	size_t count = 0, n = 0;

	for (; from != NULL && from[count] != NULL; count++)
		n += !shell_environment_has(from[count]);
	if (n > ENTRIES_MAX)
		return false;
	before = from;
	taken_count = n;
	installed[n + 2] = NULL;
	while (count-- > 0) {
		if (!shell_environment_has(from[count]))
			taken[--n] = from[count];
	}
	return true;
}

static void add(const struct exec_variables *ours)
{
	installed[taken_count + 1] = (char *)(uintptr_t)ours->handover;
	installed[taken_count] = (char *)(uintptr_t)ours->preload;
	for (size_t n = taken_count; n-- > 0;)
		installed[n] = taken[n];
}

/* Of what setenv has changed since the array was copied. */
static void copy_changes(void)
{
	size_t n = 0;

	for (size_t i = 0; before != NULL && before[i] != NULL && n < taken_count; i++) {
		if (shell_environment_has(before[i]))
			continue;
		if (before[i] != taken[n])
			installed[n] = taken[n] = before[i];
		n++;
	}
}

static bool install(const struct exec_variables *ours)
{
	enum { TRIES = 4 };

	for (int i = 0; i < TRIES; i++) {
		char **now = environ;

		if (!copy(now))
			return false;
		add(ours);
		extended = true;
		if (publish(now, installed)) {
			if (now != installed)
				copy_changes();
			return true;
		}
	}
	return false;
}

/* Replaces the variables of another shell by those of this one. False: the program has replaced one. */
static bool replace(const struct exec_variables *ours)
{
	size_t at[2], found = 0;

	for (size_t i = 0; installed[i] != NULL; i++) {
		if (shell_environment_has(installed[i]) && found < 2)
			at[found++] = i;
	}
	if (found < 2)
		return false;
	__atomic_store_n(&installed[at[0]], (char *)(uintptr_t)ours->preload, __ATOMIC_RELEASE);
	__atomic_store_n(&installed[at[1]], (char *)(uintptr_t)ours->handover, __ATOMIC_RELEASE);
	return true;
}

/* Which of several shells takes which ticket is not known: they have none, and are not in the log. */
static void log_it(struct exec_variables *ours)
{
	if (__atomic_load_n(&users, __ATOMIC_SEQ_CST) > 1) {
		process_log_retract(number);
		number = 0;
		return;
	}
	number = exec_announce(MISSED_unconnected, "/bin/sh", false);
	live_ticket_write(ours->handover + sizeof EXEC_HANDOVER - 1, process_log_ticket(number));
}

static bool extend(struct exec_variables *ours, uint32_t *ret_number)
{
	__atomic_add_fetch(&users, 1, __ATOMIC_SEQ_CST);
	if (!hold()) {
		leave();
		return false;
	}
	log_it(ours);
	bool done = extended && environ == installed ? replace(ours) : install(ours);

	if (!done)
		process_log_retract(number);
	*ret_number = number;
	release();
	if (!done)
		leave();
	return done;
}

struct shell_start shell_environment_begin(void)
{
	struct exec_variables *ours =
		&text[__atomic_fetch_add(&next_text, 1, __ATOMIC_RELAXED) % TEXTS];
	struct shell_start start = { 0 };

	if (!exec_begin_shell(ours, &start.number))
		return start;
	start.extended = extend(ours, &start.number);
	if (!start.extended)
		start.number = exec_announce(MISSED_busy, "/bin/sh", false);
	return start;
}

void shell_environment_end(struct shell_start start)
{
	if (start.extended)
		leave();
}

void shell_environment_forked(void)
{
	users = 0;
	busy = 0;
	number = 0;
	if (extended)
		restore();
}
