/* SPDX-License-Identifier: Apache-2.0 */
/* Our variables in `environ` while libc starts a shell: see shell_environment.h.
 *
 * Owns: one array of entries and the texts of our variables, which are the process' own and stay for ever: other threads read
 * `environ` at any time, and a thread may leave system() without returning from it (cancellation, longjmp). Whoever finds the
 * array in `environ` shares it: the first of several threads installs it, the last one restores the array from before.
 *
 * `users` counts the threads between begin and end. `busy` is held while `environ` or the entries change, for some hundred
 * instructions. It is not a struct lock, since those are for threads inside a hook: a forked child starts shells without a
 * profile. Whoever releases it does what another thread could not do meanwhile, so nobody has to wait at the end. */
#include "recorder/process/shell_environment.h"

#include <unistd.h>

#include "recorder/arch/arch.h"
#include "recorder/process/exec.h"
#include "recorder/process/process_log.h"

enum {
	ENTRIES_MAX = 4 << 10, /* a shell with more is not recorded */
	TEXTS = 4,	    /* a reader of one is faster than three other shells */
	SPINS = 4000,
};

static struct exec_variables text[TEXTS];
static char *installed[ENTRIES_MAX + 3];
static unsigned next_text;

static uint32_t users, busy;
static bool extended;	/* `installed` may be in `environ`, or its entries in a copy */
static char **before;	/* what `environ` was; NULL: none */
static size_t capacity; /* entries that fit there */
static uint32_t number; /* log entry of the shell whose ticket is in the variables */

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

static void publish(char **to)
{
	__atomic_store_n(&environ, to, __ATOMIC_RELEASE);
}

/* Another thread may legitimately have changed the environment meanwhile: in place, so that the change is in our array, or in
 * another one, which contains our entries: a larger one, or (glibc 2.41 and newer) the one from before, which had room. */
static void restore(void)
{
	char **now = environ, **to = now == installed ? before : now;
	size_t n = 0;

	for (size_t i = 0; now != NULL && now[i] != NULL; i++) {
		/* If another thread replaced one of our entries, there is one entry more than fits. */
		if (!shell_environment_has(now[i]) && (now != installed || n < capacity))
			to[n++] = now[i];
	}
	if (to != NULL)
		to[n] = NULL;
	publish(to);
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
static bool install(const struct exec_variables *ours)
{
	char **now = environ;
	size_t count = 0, n = 0;

	for (; now != NULL && now[count] != NULL; count++)
		n += !shell_environment_has(now[count]);
	if (n > ENTRIES_MAX)
		return false;
	before = now;
	capacity = n;
	installed[n + 2] = NULL;
	installed[n + 1] = (char *)(uintptr_t)ours->handover;
	installed[n] = (char *)(uintptr_t)ours->preload;
	while (count-- > 0) {
		if (!shell_environment_has(now[count]))
			installed[--n] = now[count];
	}
	publish(installed);
	return true;
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

/* Which of several shells takes which ticket is not known: they get none, and none is waited for. */
static void share(struct exec_variables *ours, uint32_t its)
{
	live_ticket_write(ours->handover + sizeof EXEC_HANDOVER - 1, (struct live_ticket){ 0 });
	process_log_retract(number);
	process_log_retract(its);
}

static bool extend(struct exec_variables *ours, uint32_t its)
{
	__atomic_add_fetch(&users, 1, __ATOMIC_SEQ_CST);
	if (!hold()) {
		leave();
		return false;
	}
	if (__atomic_load_n(&users, __ATOMIC_SEQ_CST) > 1)
		share(ours, its);
	bool done = extended && environ == installed ? replace(ours) : install(ours);

	extended |= done;
	number = its;
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
	bool added;

	start.number = exec_begin_shell(ours, &added);
	if (!added)
		return start;
	start.extended = extend(ours, start.number);
	if (!start.extended) {
		process_log_retract(start.number);
		start.number = exec_announce(MISSED_busy, "/bin/sh", false);
	}
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
	if (extended)
		restore();
}
