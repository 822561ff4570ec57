/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses "Out of memory: Killed process 9120 (worker) total-vm:..." and "Memory cgroup out of memory: Killed process ...". The
 * pid in the log is that of the initial namespace; a process in a container is matched by its name and the time instead. A name
 * may be that of a sibling, so a process whose pid is known is matched by nothing else.
 *
 * Owns the list it returns. Any thread.
 */
#include "collect/kernel/oom.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "util/cleanup.h"

enum { RECORD_BYTES = 8192, NAME_MAX_ = 15 };
#define NS_PER_US 1000ull
/* Tolerances between the log's clock and the process' own. */
#define MARGIN_NS 5000000000ull
#define NAMESAKE_BEFORE_NS 1000000000ull
#define NAMESAKE_AFTER_NS 10000000000ull
/* The kernel's PROC_PID_INIT_INO. */
#define INITIAL_PID_NAMESPACE 0xeffffffcull

/* Returns the time of a record of /dev/kmsg. */
static uint64_t record_at_ns(const char *record)
{
	const char *stamp = strchr(record, ',');

	stamp = stamp ? strchr(stamp + 1, ',') : NULL;
	return stamp ? strtoull(stamp + 1, NULL, 10) * NS_PER_US : 0;
}

bool oom_parse(const char *record, struct oom_kill *ret)
{
	static const char killed[] = "ut of memory: Killed process ";
	const char *text = strchr(record, ';'), *at = text ? strstr(text, killed) : NULL;
	const char *stamp = strchr(record, ','), *name, *end;

	stamp = stamp ? strchr(stamp + 1, ',') : NULL;
	if (!at || !stamp || stamp > text)
		return false;
	*ret = (struct oom_kill){ .at_ns = record_at_ns(record),
				  .pid = (pid_t)strtol(at + sizeof killed - 1, NULL, 10),
				  .in_group = strncmp(text + 1, "Memory cgroup", 13) == 0 };
	name = strchr(at, '(');
	/* A name may contain parentheses itself. */
	end = name ? strstr(name, ") total-vm") : NULL;
	if (!end)
		end = name ? strchr(name, ')') : NULL;
	if (!end)
		return false;
	memcpy(ret->name, name + 1, MIN((size_t)(end - name - 1), (size_t)NAME_MAX_));
	return true;
}

void oom_log_read(struct oom_log *log)
{
	AUTO_CLOSE int fd = open("/dev/kmsg", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char record[RECORD_BYTES];
	struct oom_kill kill;

	*log = (struct oom_log){ .readable = fd >= 0, .since_ns = UINT64_MAX };
	while (fd >= 0) {
		ssize_t got = read(fd, record, sizeof record - 1);

		if (got < 0 && errno == EPIPE) {
			log->since_ns = UINT64_MAX;
			continue; /* overwritten meanwhile: read the next one */
		}
		if (got <= 0)
			break;
		record[got] = '\0';
		if (log->since_ns == UINT64_MAX)
			log->since_ns = record_at_ns(record);
		if (oom_parse(record, &kill))
			(void)vector_push(&log->kills, kill);
	}
}

void oom_log_release(struct oom_log *log)
{
	vector_release(&log->kills);
}

/* Another process of the same name may have been killed before or after: only kills near the time count. */
static bool fits(const struct oom_kill *kill, const struct oom_victim *victim)
{
	bool is_initial = victim->pid_namespace == INITIAL_PID_NAMESPACE;

	if (kill->pid == victim->pid && (is_initial || victim->pid_namespace == 0))
		return saturating_add(kill->at_ns, MARGIN_NS) >= victim->seen_ns;
	return !is_initial && strncmp(kill->name, victim->name, NAME_MAX_) == 0 &&
	       kill->at_ns >= victim->started_ns &&
	       saturating_add(kill->at_ns, NAMESAKE_BEFORE_NS) >= victim->seen_ns &&
	       kill->at_ns <= saturating_add(victim->seen_ns, NAMESAKE_AFTER_NS);
}

const struct oom_kill *oom_log_find(const struct oom_log *log, const struct oom_victim *victim)
{
	for (size_t i = 0; i < log->kills.count; i++)
		if (fits(&log->kills.at[i], victim))
			return &log->kills.at[i];
	return NULL;
}

bool oom_log_is_complete(const struct oom_log *log, const struct oom_victim *victim)
{
	return log->readable && log->since_ns <= victim->seen_ns &&
	       victim->pid_namespace == INITIAL_PID_NAMESPACE;
}
