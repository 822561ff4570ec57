/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the free memory from /proc and /sys/fs/cgroup and derives the budget (format/live/live_budget.h). Files are expected at
 * their usual paths; a missing one means no limit.
 *
 * Owns its buffers. The texts come from the kernel. */
#include "recorder/process/self_budget.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "recorder/sys.h"

#define NO_LIMIT (1ull << 60) /* cgroup v1 writes a very large number */
enum { TEXT_BYTES = 4 << 10, PATH_BYTES = 512, AT_CWD = -100 };

static char text[TEXT_BYTES];
static char path[PATH_BYTES];

/* The file names in cgroup v1 and v2. */
struct names {
	const char *mount, *limit, *usage, *events, *killed;
};
static const struct names first = { "/sys/fs/cgroup/memory", "/memory.limit_in_bytes",
				    "/memory.usage_in_bytes", "/memory.oom_control",
				    "\noom_kill " };
static const struct names second = { "/sys/fs/cgroup", "/memory.max", "/memory.current",
				     "/memory.events.local", "\noom_kill " };

/* Reads the start of a file; "" if unreadable. */
static const char *read_text(const char *name)
{
	long fd = sys_call6(SYS_openat, AT_CWD, (long)name, SYS_READ_QUIETLY, 0, 0, 0);
	long got = sys_failed(fd) ? 0 : sys_call3(SYS_read, fd, (long)text, TEXT_BYTES - 1);

	if (!sys_failed(fd))
		sys_close((int)fd);
	text[sys_failed(got) ? 0 : got] = 0;
	return text;
}

static size_t append(size_t at, const char *word, size_t bytes)
{
	if (at + bytes >= PATH_BYTES)
		return PATH_BYTES; /* too long: stays so */
	__builtin_memcpy(path + at, word, bytes);
	path[at + bytes] = 0;
	return at + bytes;
}

/* Reads the file "mount group file"; "" if missing. */
static const char *read_group(const struct names *names, const char *group, size_t group_bytes,
			      const char *file)
{
	size_t at = append(0, names->mount, __builtin_strlen(names->mount));

	at = append(at, group, group_bytes);
	at = append(at, file, __builtin_strlen(file));
	return at < PATH_BYTES ? read_text(path) : "";
}

/* "max" is not a number. */
static uint64_t number_at(const char *at, uint64_t otherwise)
{
	uint64_t value = 0;

	while (*at == ' ' || *at == '\t')
		at++;
	if (*at < '0' || *at > '9')
		return otherwise;
	for (; *at >= '0' && *at <= '9' && value < NO_LIMIT; at++)
		value = value * 10 + (uint64_t)(*at - '0');
	return value;
}

/* Finds the first occurrence of a word; NULL: none. */
static const char *find(const char *in, const char *word)
{
	size_t bytes = __builtin_strlen(word);

	for (; *in; in++) {
		size_t n = 0;

		while (n < bytes && in[n] == word[n])
			n++;
		if (n == bytes)
			return in;
	}
	return NULL;
}

uint64_t self_budget_number(const char *in, const char *field, uint64_t otherwise)
{
	const char *at = find(in, field);

	return at != NULL ? number_at(at + __builtin_strlen(field), otherwise) : otherwise;
}

/* Memory left below the tightest limit of the group and its ancestors; UINT64_MAX: no limit. */
static uint64_t room_below(const struct names *names, const char *group, struct live_own *own)
{
	size_t bytes = __builtin_strlen(group);
	uint64_t tightest = UINT64_MAX;

	for (;;) {
		uint64_t limit = number_at(read_group(names, group, bytes, names->limit), NO_LIMIT);
		uint64_t usage = number_at(read_group(names, group, bytes, names->usage), NO_LIMIT);

		if (limit < NO_LIMIT && usage < NO_LIMIT &&
		    saturating_sub(limit, usage) < tightest) {
			tightest = saturating_sub(limit, usage);
			own->cgroup_limit_bytes = limit;
		}
		if (bytes == 0)
			return tightest;
		while (bytes > 0 && group[--bytes] != '/')
			;
	}
}

/* Copies the path after `mark` to own->cgroup; false: no such line. */
static bool take_group(const char *lines, const char *mark, struct live_own *own)
{
	const char *at = find(lines, mark);
	size_t n = 0;

	if (at == NULL)
		return false;
	at += __builtin_strlen(mark);
	while (at[n] && at[n] != '\n' && n < sizeof own->cgroup - 1) {
		own->cgroup[n] = at[n];
		n++;
	}
	own->cgroup[n] = 0;
	/* "/" is the mount itself; a group outside our namespace cannot be found. */
	if (n == 1 || find(own->cgroup, "/..") != NULL)
		own->cgroup[0] = 0;
	return true;
}

/* If v1 has the memory controller, v2 does not. */
static const struct names *find_group(struct live_own *own)
{
	const char *lines = read_text("/proc/self/cgroup");

	if (take_group(lines, ":memory:", own))
		return &first;
	return take_group(lines, "0::", own) ? &second : NULL;
}

void self_budget_group(struct live_own *own)
{
	own->oom_kills = UINT64_MAX;
	(void)find_group(own);
}

static uint64_t cgroup_headroom(struct live_own *own)
{
	const struct names *names = find_group(own);
	uint64_t room = names != NULL ? room_below(names, own->cgroup, own) : UINT64_MAX;

	if (own->cgroup_limit_bytes == 0 && names == &first &&
	    take_group(read_text("/proc/self/cgroup"), "0::", own)) {
		names = &second;
		room = room_below(names, own->cgroup, own);
	}
	if (own->cgroup_limit_bytes != 0)
		own->oom_kills =
			self_budget_number(read_group(names, own->cgroup,
						      __builtin_strlen(own->cgroup), names->events),
					   names->killed, UINT64_MAX);
	return room;
}

struct live_budget self_budget_find(struct live_own *own)
{
	uint64_t free_kib = self_budget_number(read_text("/proc/meminfo"), "MemAvailable:", 0);

	return live_budget_default(free_kib * 1024, cgroup_headroom(own), 0);
}
