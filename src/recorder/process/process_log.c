/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of log entries in the profile's header: see process_log.h.
 *
 * Owns: head->starts and head->start. Writes are rare, but several writers may be active at once, even from several
 * processes: a child that has no profile yet writes to its parent's. Each takes its own number and the entry that
 * belongs to it. Invariant: an entry whose serial is n describes start number n. */
#include "recorder/process/process_log.h"

#include "recorder/memory.h"
#include "recorder/sys.h"

static struct live_start *entry_of(uint32_t number)
{
	return &memory.head->start[number % LIVE_STARTS];
}

/* The end of a path identifies a program better than its start. */
static void copy_path(struct live_start *entry, const char *path)
{
	size_t length = 0;

	while (path[length])
		length++;
	size_t bytes = MIN(length, (size_t)LIVE_START_PATH);

	__builtin_memcpy(entry->path, path + (length - bytes), bytes);
	entry->path_bytes = (uint32_t)bytes;
}

uint32_t process_log_publish(enum missed_reason reason, const char *path, bool becomes)
{
	if (memory.head == NULL)
		return 0;
	uint32_t number = (uint32_t)__atomic_add_fetch(&memory.head->starts, 1, __ATOMIC_ACQ_REL);
	struct live_start *entry = entry_of(number);

	__atomic_store_n(&entry->serial, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(
		__ATOMIC_RELEASE); /* a reader of what follows sees that it is being written */
	entry->reason = reason;
	entry->failed = 0;
	entry->pid = becomes && sys_may(SYS_THREADS) ? (uint32_t)sys_getpid() : 0;
	entry->path_bytes = 0;
	if (path != NULL)
		copy_path(entry, path);
	__atomic_store_n(&entry->serial, number, __ATOMIC_RELEASE);
	return number;
}

void process_log_retract(uint32_t number)
{
	if (number == 0 || memory.head == NULL)
		return;
	struct live_start *entry = entry_of(number);

	if (__atomic_load_n(&entry->serial, __ATOMIC_ACQUIRE) == number)
		__atomic_store_n(&entry->failed, 1, __ATOMIC_RELEASE);
}

struct live_ticket process_log_ticket(uint32_t number)
{
	return number != 0 && memory.head->own.id != 0
		       ? (struct live_ticket){ .profile = memory.head->own.id, .serial = number }
		       : (struct live_ticket){ 0 };
}
