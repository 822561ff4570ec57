/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads /proc. No state; allocates only the texts that it returns, and reading RSS on every tick costs one system call. Any
 * thread.
 */
#include "collect/kernel/procfs.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/files.h"

/* The kernel allows a million mappings, each of which takes some 750 bytes of smaps. */
enum { FILE_LIMIT_BYTES = 1 << 30 };

struct procfs_path procfs_path(pid_t pid, const char *name)
{
	struct procfs_path path;

	snprintf(path.text, sizeof path.text, "/proc/%d/%s", (int)pid, name);
	return path;
}

pid_t procfs_next(DIR *folder)
{
	const struct dirent *entry;
	pid_t pid = 0;

	while (folder && pid <= 0 && (entry = readdir(folder)))
		pid = (pid_t)strtol(entry->d_name, NULL, 10);
	return pid;
}

static char *read_text(const char *path, size_t *ret_bytes)
{
	AUTO(buffer_release) struct buffer text = BUFFER_INIT;

	if (file_read(path, FILE_LIMIT_BYTES, &text, NULL) < 0)
		return NULL;
	*ret_bytes = text.size;
	return buffer_take_string(&text);
}

char *procfs_text(const char *path)
{
	size_t bytes;

	return read_text(path, &bytes);
}

char *procfs_file(pid_t pid, const char *name, size_t *ret_bytes)
{
	size_t bytes;

	return read_text(procfs_path(pid, name).text, ret_bytes ? ret_bytes : &bytes);
}

char *procfs_command(pid_t pid)
{
	size_t bytes = 0;
	char *text = procfs_file(pid, "cmdline", &bytes);

	if (!text)
		return strdup("");
	while (bytes > 0 && text[bytes - 1] == '\0')
		bytes--;
	for (size_t i = 0; i < bytes; i++) {
		if (text[i] == '\0')
			text[i] = ' ';
	}
	return text;
}

char *procfs_exe(pid_t pid)
{
	char target[4096];
	ssize_t length = readlink(procfs_path(pid, "exe").text, target, sizeof target);

	return strndup(target, length > 0 ? (size_t)length : 0);
}

bool procfs_exe_is(pid_t pid, const struct stat *file)
{
	struct stat st;

	return stat(procfs_path(pid, "exe").text, &st) == 0 && st.st_dev == file->st_dev &&
	       st.st_ino == file->st_ino;
}

size_t procfs_small(const char *path, char *text, size_t room)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, room - 1);

	text[got > 0 ? got : 0] = '\0';
	return got > 0 ? (size_t)got : 0;
}

/* A line in kB of /proc/meminfo or /proc/PID/status, in bytes; 0 = it is not there. */
static uint64_t field_bytes(const char *text, const char *field)
{
	const char *at = strstr(text, field);

	return at ? strtoull(at + strlen(field), NULL, 10) * 1024 : 0;
}

struct procfs_system procfs_system(void)
{
	char text[1024];

	procfs_small("/proc/meminfo", text, sizeof text);
	uint64_t swap = field_bytes(text, "\nSwapTotal:"),
		 unused = field_bytes(text, "\nSwapFree:");

	return (struct procfs_system){ .total_bytes = field_bytes(text, "MemTotal:"),
				       .available_bytes = field_bytes(text, "\nMemAvailable:"),
				       .cached_bytes = field_bytes(text, "\nCached:"),
				       .swapped_bytes = saturating_sub(swap, unused) };
}

uint64_t procfs_free_memory(void)
{
	return procfs_system().available_bytes;
}

/* /proc/PID/stat from its third field on: "state ppid ...". NULL if it cannot be read. */
static const char *read_stat(pid_t pid, char *text, size_t room)
{
	const char *after;

	if (procfs_small(procfs_path(pid, "stat").text, text, room) == 0)
		return NULL;
	/* "pid (name) state": the name may contain anything, including parentheses. */
	after = strrchr(text, ')');
	return after && strlen(after) >= 4 ? after + 2 : NULL;
}

pid_t procfs_parent(pid_t pid)
{
	char text[1024];
	const char *fields = read_stat(pid, text, sizeof text);

	return fields ? (pid_t)strtol(fields + 2, NULL, 10) : 0;
}

uint64_t procfs_stat_field(pid_t pid, int field)
{
	enum { STATE_FIELD = 3 };
	char text[1024];
	const char *at = read_stat(pid, text, sizeof text);

	for (int i = STATE_FIELD; at && i < field; i++)
		at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL;
	return at ? strtoull(at, NULL, 10) : UINT64_MAX;
}

uint64_t procfs_started_ticks(pid_t pid)
{
	return procfs_stat_field(pid, 22);
}

bool procfs_started_after(pid_t pid, uint64_t mono_ns)
{
	const uint64_t tick_ns = NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t boot_ns = clock_read_ns(CLOCK_BOOTTIME) - clock_monotonic_ns() + mono_ns;
	uint64_t ticks = procfs_started_ticks(pid);

	return ticks == UINT64_MAX || ticks * tick_ns > boot_ns + 2 * tick_ns;
}

pid_t procfs_own_pid(pid_t pid)
{
	static const char field[] = "\nNSpid:";
	AUTO_FREE char *status = procfs_file(pid, "status", NULL);
	const char *at = status ? strstr(status, field) : NULL;
	pid_t own = status ? pid : 0;

	/* One pid for each namespace, the innermost last. Kernels before 4.1 do not have it. */
	for (at = at ? at + sizeof field - 1 : ""; *at == '\t'; at += strcspn(at, "\t\n"))
		own = (pid_t)strtol(++at, NULL, 10);
	return own;
}

uint64_t procfs_pid_namespace(pid_t pid)
{
	struct stat space;

	return stat(procfs_path(pid, "ns/pid").text, &space) == 0 ? (uint64_t)space.st_ino : 0;
}

uint32_t procfs_user(pid_t pid)
{
	static const char field[] = "\nUid:\t"; /* real, effective, ... */
	AUTO_FREE char *status = procfs_file(pid, "status", NULL);
	const char *at = status ? strstr(status, field) : NULL;

	at = at ? strchr(at + sizeof field - 1, '\t') : NULL;
	return at ? (uint32_t)strtoul(at, NULL, 10) + 1 : 0;
}

/* "\nUid:\treal\teffective\tsaved\tof files": the first that is not 0. */
static bool least_id(const char *status, const char *field, uint32_t *ret)
{
	const char *at = strstr(status, field);

	*ret = 0;
	for (at = at ? at + strlen(field) : NULL; at && *ret == 0 && *at == '\t';
	     at += strcspn(at, "\t\n"))
		*ret = (uint32_t)strtoul(++at, NULL, 10);
	return at;
}

bool procfs_owner(pid_t pid, struct procfs_owner *ret)
{
	static const char field[] = "\nCapPrm:\t";
	AUTO_FREE char *status = procfs_file(pid, "status", NULL);
	const char *capabilities = status ? strstr(status, field) : NULL;

	ret->capabilities = capabilities ? strtoull(capabilities + sizeof field - 1, NULL, 16) : 0;
	return status && least_id(status, "\nUid:", &ret->uid) &&
	       least_id(status, "\nGid:", &ret->gid);
}

/* Whether we may read the exit status: otherwise the field is 0 (proc(5), "exit_code"). */
static bool may_see(pid_t pid)
{
	struct stat st;

	return geteuid() == 0 ||
	       (stat(procfs_path(pid, "").text, &st) == 0 && st.st_uid == geteuid());
}

bool procfs_zombie_status(pid_t pid, int *ret_status)
{
	char text[1024];
	const char *fields = read_stat(pid, text, sizeof text), *last;

	if (!fields || fields[0] != 'Z' || !may_see(pid))
		return false;
	last = strrchr(fields, ' ');
	if (!last)
		return false;
	*ret_status = (int)strtol(last, NULL, 10);
	return true;
}

int procfs_statm_open(pid_t pid)
{
	return open(procfs_path(pid, "statm").text, O_RDONLY | O_CLOEXEC);
}

struct procfs_statm procfs_statm(int statm_fd)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t vm_pages, rss_pages, file_pages;
	char text[128];
	ssize_t got = statm_fd < 0 ? -1 : pread(statm_fd, text, sizeof text - 1, 0);

	if (got <= 0)
		return (struct procfs_statm){ 0 };
	text[got] = '\0';
	if (sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64, &vm_pages, &rss_pages, &file_pages) !=
	    3)
		return (struct procfs_statm){ 0 };
	return (struct procfs_statm){ vm_pages * page_bytes, rss_pages * page_bytes,
				      file_pages * page_bytes };
}

uint64_t procfs_rss(int statm_fd)
{
	return procfs_statm(statm_fd).rss_bytes;
}

uint64_t procfs_peak_rss(pid_t pid)
{
	AUTO_FREE char *text = procfs_file(pid, "status", NULL);

	return text ? field_bytes(text, "\nVmHWM:") : 0;
}

uint64_t procfs_stack_pointer(pid_t pid, pid_t tid)
{
	char name[32], text[256];

	snprintf(name, sizeof name, "task/%d/syscall", (int)tid);
	procfs_small(procfs_path(pid, name).text, text, sizeof text);
	/* "running", or numbers, of which the last two are the stack pointer and the program counter. */
	char *last = strrchr(text, ' ');

	if (!last)
		return 0;
	*last = '\0';
	const char *before = strrchr(text, ' ');

	return before ? strtoull(before + 1, NULL, 16) : 0;
}

size_t procfs_thread_name(pid_t pid, pid_t tid, char name[16])
{
	char thread[32], text[32];
	size_t length;

	snprintf(thread, sizeof thread, "task/%d/comm", (int)tid);
	length = procfs_small(procfs_path(pid, thread).text, text, sizeof text);
	while (length > 0 && text[length - 1] == '\n')
		length--;
	length = length > 15 ? 15 : length;
	memset(name, 0, 16);
	memcpy(name, text, length);
	return length;
}
