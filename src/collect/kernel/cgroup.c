/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/PID/cgroup has the path of the group, mountinfo the location of its files. A limit applies to everything below it, so
 * every group up to the mount is read, and the one with the least free memory counts. The usage of a group includes the page
 * cache; its inactive part is reclaimed before anything else and does not count as used.
 *
 * Only version 2 has pressure (PSI) per group; without it, the machine's pressure is used.
 *
 * Owns two mounts, read once; a group is looked up on each call, because processes move.
 */
#include "collect/kernel/cgroup.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "collect/kernel/procfs.h"
#include "util/cleanup.h"
#include "util/files.h"

/* Version 1 uses a very large number for "no limit". */
#define NO_LIMIT (1ull << 60)
enum { FIELDS_MAX = 32 };

/* The file and field names of the two versions. */
struct names {
	const char *limit, *usage, *droppable, *events;
};
static const struct names first_names = { "memory.limit_in_bytes", "memory.usage_in_bytes",
					  "\ntotal_inactive_file ", "memory.oom_control" };
static const struct names second_names = { "memory.max", "memory.current", "\ninactive_file ",
					   "memory.events.local" };

static bool has_word(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = list; *at; at += at[0] == ',') {
		size_t part = strcspn(at, ",");

		if (part == length && strncmp(at, word, length) == 0)
			return true;
		at += part;
	}
	return false;
}

static void take_mount(struct cgroup_mount *mount, const char *at, const char *root)
{
	if (mount->at)
		return;
	mount->at = strdup(at);
	mount->root = strdup(root);
}

/* "id parent dev ROOT AT options [optional] - TYPE source SUPER" */
static void take_line(struct cgroups *cgroups, char *line)
{
	char *fields[FIELDS_MAX], *rest = line, *word;
	size_t count = 0, dash = 0;

	while (count < FIELDS_MAX && (word = strsep(&rest, " ")) != NULL) {
		if (count > 5 && dash == 0 && strcmp(word, "-") == 0)
			dash = count;
		fields[count++] = word;
	}
	if (dash == 0 || dash + 3 >= count)
		return;
	if (strcmp(fields[dash + 1], "cgroup2") == 0)
		take_mount(&cgroups->second, fields[4], fields[3]);
	else if (strcmp(fields[dash + 1], "cgroup") == 0 && has_word(fields[dash + 3], "memory"))
		take_mount(&cgroups->first, fields[4], fields[3]);
}

static void read_mounts(struct cgroups *cgroups, const char *prefix, const char *process)
{
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *text = NULL;
	char *rest, *line;

	if (asprintf(&path, "%s/proc/%s/mountinfo", prefix, process) < 0) {
		path = NULL;
		return;
	}
	text = procfs_text(path);
	for (rest = text; rest && (line = strsep(&rest, "\n")) != NULL;)
		take_line(cgroups, line);
}

void cgroups_init(struct cgroups *cgroups, const char *prefix)
{
	*cgroups = (struct cgroups){ .prefix = prefix };
	read_mounts(cgroups, prefix, "self");
}

void cgroups_release(struct cgroups *cgroups)
{
	free(cgroups->first.at);
	free(cgroups->first.root);
	free(cgroups->second.at);
	free(cgroups->second.root);
	*cgroups = (struct cgroups){ 0 };
}

/* The process' group, from lines "number:controllers:path"; points into `text`, NULL if there is none. */
static char *find_group(char *text, const char *controller)
{
	char *line;

	while (text && (line = strsep(&text, "\n")) != NULL) {
		char *controllers = strchr(line, ':');
		char *path = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		controllers++;
		if (controller ? has_word(controllers, controller)
			       : controllers[0] == '\0' && strncmp(line, "0:", 2) == 0)
			return path;
	}
	return NULL;
}

static uint64_t read_number(const char *folder, const char *name)
{
	AUTO_FREE char *path = path_join(folder, name);
	AUTO_FREE char *text = path ? procfs_text(path) : NULL;

	/* "max" is not a number: no limit. */
	return text && text[0] >= '0' && text[0] <= '9' ? strtoull(text, NULL, 10) : UINT64_MAX;
}

static uint64_t read_field(const char *folder, const char *name, const char *field,
			   uint64_t otherwise)
{
	AUTO_FREE char *path = path_join(folder, name);
	AUTO_FREE char *text = path ? procfs_text(path) : NULL;
	const char *at = text ? strstr(text, field) : NULL;

	return at ? strtoull(at + strlen(field), NULL, 10) : otherwise;
}

static uint64_t headroom_of(const struct cgroup_memory *memory)
{
	return memory->limit_bytes ? saturating_sub(memory->limit_bytes, memory->usage_bytes)
				   : UINT64_MAX;
}

static struct cgroup_memory read_folder(const char *folder, const struct names *names)
{
	struct cgroup_memory memory = { read_number(folder, names->limit),
					read_number(folder, names->usage) };

	if (memory.limit_bytes >= NO_LIMIT || memory.usage_bytes >= NO_LIMIT)
		return (struct cgroup_memory){ 0 };
	memory.usage_bytes = saturating_sub(memory.usage_bytes,
					    read_field(folder, "memory.stat", names->droppable, 0));
	return memory;
}

/* The group's folder, from its path and the part of the tree that is mounted; NULL if it is not in that part, as the group of
 * another container is not. */
static char *folder_of(const char *prefix, const struct cgroup_mount *mount, const char *group)
{
	size_t root = mount->root && strcmp(mount->root, "/") != 0 ? strlen(mount->root) : 0;
	char *folder = NULL;

	if (!mount->at || !mount->root)
		return NULL;
	if (strcmp(group, "/") == 0) /* a container sees its group as the root */
		group = "";
	else if (strncmp(group, mount->root, root) == 0 &&
		 (group[root] == '/' || group[root] == '\0'))
		group += root;
	else
		return NULL;
	if (strstr(group, "/.."))
		return NULL;
	if (asprintf(&folder, "%s%s%s", prefix, mount->at, group) < 0)
		return NULL;
	return folder;
}

/* False if the group is not mounted here. */
static bool read_tree(const struct cgroups *cgroups, const struct cgroup_mount *mount,
		      const char *group, const struct names *names, struct cgroup_memory *ret)
{
	AUTO_FREE char *folder = folder_of(cgroups->prefix, mount, group);
	size_t top = strlen(cgroups->prefix) + (mount->at ? strlen(mount->at) : 0);

	if (!folder)
		return false;
	for (;;) {
		struct cgroup_memory memory = read_folder(folder, names);
		char *slash = strrchr(folder, '/');

		if (headroom_of(&memory) < headroom_of(ret))
			*ret = memory;
		if (!slash || (size_t)(slash - folder) < top)
			return true;
		*slash = '\0';
	}
}

/* If version 1 has the memory controller, version 2 does not. */
static bool read_memory(const struct cgroups *cgroups, const char *groups,
			struct cgroup_memory *ret)
{
	AUTO_FREE char *first = strdup(groups);
	AUTO_FREE char *second = strdup(groups);
	const char *group = find_group(first, "memory");

	if (group)
		return read_tree(cgroups, &cgroups->first, group, &first_names, ret);
	group = find_group(second, NULL);
	return group && read_tree(cgroups, &cgroups->second, group, &second_names, ret);
}

/* Replaces the mount point by a path that leads to the same folder whatever the process does to its mounts. The process is
 * untrusted: only a control group's file system is taken. */
static int pin_mount(struct cgroup_mount *mount, const char *root)
{
	AUTO_FREE char *path = NULL;
	struct statfs fs;
	int fd;

	if (!mount->at || asprintf(&path, "%s%s", root, mount->at) < 0) {
		path = NULL;
		return -1;
	}
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	free(mount->at);
	mount->at = NULL;
	if (fd >= 0 && fstatfs(fd, &fs) == 0 &&
	    (fs.f_type == CGROUP_SUPER_MAGIC || fs.f_type == CGROUP2_SUPER_MAGIC) &&
	    asprintf(&mount->at, "/proc/self/fd/%d", fd) < 0)
		mount->at = NULL;
	return fd;
}

/* By the mounts of the process: a container has its own group mounted. */
static void read_in_container(pid_t pid, const char *groups, struct cgroup_memory *ret)
{
	struct cgroups its = { .prefix = "" };
	char number[16];

	snprintf(number, sizeof number, "%d", (int)pid);
	read_mounts(&its, "", number);
	int pins[] = { pin_mount(&its.first, procfs_path(pid, "root").text),
		       pin_mount(&its.second, procfs_path(pid, "root").text) };

	read_memory(&its, groups, ret);
	cgroups_release(&its);
	for (size_t i = 0; i < ARRAY_SIZE(pins); i++)
		cleanup_close(&pins[i]);
}

struct cgroup_memory cgroups_memory(const struct cgroups *cgroups, pid_t pid)
{
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *text = NULL;
	struct cgroup_memory memory = { 0 };

	if (asprintf(&path, "%s/proc/%d/cgroup", cgroups->prefix, (int)pid) < 0) {
		path = NULL;
		return memory;
	}
	text = procfs_text(path);
	if (text && !read_memory(cgroups, text, &memory) && !cgroups->prefix[0])
		read_in_container(pid, text, &memory);
	return memory;
}

/* ---- pressure ---- */

/* "some avg10=1.53 avg60=0.87 avg300=0.20 total=1413529" */
static uint64_t average(const char *line, const char *name)
{
	const char *end = line ? strchrnul(line, '\n') : NULL;
	const char *at = line ? strstr(line, name) : NULL;

	if (!at || at > end)
		return 0;
	double percent = strtod(at + strlen(name), NULL);

	return percent > 0 && percent <= 100 ? (uint64_t)(percent * 100 + 0.5) : 0;
}

struct pressure pressure_parse(const char *text)
{
	const char *some = strstr(text, "some avg10="), *full = strstr(text, "full avg10=");

	return (struct pressure){ .some_10s = average(some, "avg10="),
				  .some_60s = average(some, "avg60="),
				  .some_300s = average(some, "avg300="),
				  .full_10s = average(full, "avg10="),
				  .full_60s = average(full, "avg60="),
				  .full_300s = average(full, "avg300="),
				  .known = some };
}

static struct pressure read_pressure(const char *path)
{
	AUTO_FREE char *text = procfs_text(path);

	return text ? pressure_parse(text) : (struct pressure){ 0 };
}

struct pressure cgroups_pressure_in(const struct cgroups *cgroups, const char *group)
{
	const struct cgroup_mount *mount = &cgroups->second;
	AUTO_FREE char *folder = folder_of(cgroups->prefix, mount, group);
	AUTO_FREE char *path = folder ? path_join(folder, "memory.pressure") : NULL;
	struct pressure pressure = path ? read_pressure(path) : (struct pressure){ 0 };

	pressure.of_group = pressure.known;
	return pressure;
}

struct pressure cgroups_pressure(const struct cgroups *cgroups, pid_t pid)
{
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *machine = NULL;
	AUTO_FREE char *text = NULL;
	struct pressure pressure = { 0 };

	if (asprintf(&path, "%s/proc/%d/cgroup", cgroups->prefix, (int)pid) < 0)
		path = NULL;
	if (asprintf(&machine, "%s/proc/pressure/memory", cgroups->prefix) < 0)
		machine = NULL;
	text = path && pid ? procfs_text(path) : NULL;
	const char *group = find_group(text, NULL);

	if (group)
		pressure = cgroups_pressure_in(cgroups, group);
	return pressure.known || !machine ? pressure : read_pressure(machine);
}

uint64_t cgroups_oom_kills(const struct cgroups *cgroups, const char *group)
{
	const struct cgroup_mount *mounts[] = { &cgroups->first, &cgroups->second };
	static const struct names *const names[] = { &first_names, &second_names };
	uint64_t kills = UINT64_MAX;

	for (size_t i = 0; i < ARRAY_SIZE(mounts) && kills == UINT64_MAX; i++) {
		AUTO_FREE char *folder = folder_of(cgroups->prefix, mounts[i], group);

		if (folder)
			kills = read_field(folder, names[i]->events, "\noom_kill ", UINT64_MAX);
	}
	return kills;
}
