/* SPDX-License-Identifier: Apache-2.0 */
/* The environment between programs: see exec.h.
 *
 * Owns: copies of our two variables, made at start-up, and the slots' exec areas. A program is given the variables only
 * if its file says that the recorder can live in it (base/elf.h): a loader that cannot load the recorder complains on
 * stderr or ends the program. Files are looked at with raw system calls: this also runs in a vfork's child. */
#include "recorder/exec.h"

#include <elf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/elf.h"
#include "recorder/sys.h"

#define PRELOAD "LD_PRELOAD="
#define SOCKET LIVE_ENV_SOCKET "="
#define TRACE "LD_TRACE_LOADED_OBJECTS="

enum {
	PATH_MAX_ = 4096,
	SOCKET_MAX = 160,
	SCRIPTS_MAX = 4,
	AT_CWD = -100,
	READ_QUIETLY = 02004400, /* O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY */
	FORKED_BYTES = 64 * 1024,
};

extern void *__libc_stack_end; /* ld.so's: where the kernel put argc */

static char
	own_preload[PATH_MAX_ +
		    sizeof PRELOAD]; /* "LD_PRELOAD=/path/libheapgauge.so"; empty = do not follow */
static char own_socket[SOCKET_MAX];

static bool begins(const char *text, const char *with)
{
	while (*with && *text == *with) {
		text++;
		with++;
	}
	return *with == 0;
}

static size_t length(const char *text)
{
	size_t n = 0;

	while (text[n])
		n++;
	return n;
}

/* Before libc has been initialised the environment stands above the arguments, where the kernel put it. */
char **exec_environ(void)
{
	const uintptr_t *argument_count = __libc_stack_end;

	return environ != NULL ? environ : (char **)(argument_count + 1 + *argument_count + 1);
}

const char *exec_socket(void)
{
	if (own_socket[0] != 0)
		return own_socket + sizeof SOCKET - 1;
	for (char **entry = exec_environ(); *entry != NULL; entry++) {
		if (begins(*entry, SOCKET))
			return *entry + sizeof SOCKET - 1;
	}
	return NULL;
}

/* Keeps the first path of "LD_PRELOAD=a:b". */
static bool keep_preload(const char *entry)
{
	size_t n = 0;

	for (; entry[n] && (n < sizeof PRELOAD || entry[n] != ':'); n++) {
		if (n == sizeof own_preload - 1)
			return false;
		own_preload[n] = entry[n];
	}
	own_preload[n] = 0;
	return true;
}

static bool keep_socket(const char *entry)
{
	size_t n = length(entry);

	if (n >= sizeof own_socket)
		return false;
	__builtin_memcpy(own_socket, entry, n + 1);
	return true;
}

/* Two entries less: what stands behind the environment, the auxiliary vector, must still stand right behind it for
 * programs that look for it there, and stay where it was for those that have its address. It moves down by the two
 * words, which are one of its entries, and its first entry comes again at its end. */
static void move_auxiliary(char **old_end)
{
	Elf64_auxv_t *vector = (Elf64_auxv_t *)(void *)(old_end + 1);
	Elf64_auxv_t first = vector[0];
	size_t n = 0;

	for (; vector[n].a_type != AT_NULL; n++)
		vector[(ptrdiff_t)n - 1] = vector[n];
	vector[(ptrdiff_t)n - 1] = first;
}

void exec_hide(void)
{
	char **start = exec_environ();
	char **end = start;

	while (*end != NULL)
		end++;
	/* As the collector put them; anything else is somebody else's doing and stays. */
	if (end - start < 2 || !begins(end[-2], PRELOAD) || !begins(end[-1], SOCKET) ||
	    !keep_preload(end[-2]) || !keep_socket(end[-1])) {
		own_preload[0] = 0;
		return;
	}
	end[-2] = NULL;
	if ((uintptr_t)start > (uintptr_t)__libc_stack_end) /* the kernel's, not a copy */
		move_auxiliary(end);
}

/* Memory that grows with the largest request and is used again for the next. */
static char *area_of(char **area, size_t *have, size_t bytes)
{
	if (*have < bytes) {
		size_t size = (bytes + LIVE_PAGE - 1) & ~(size_t)(LIVE_PAGE - 1);
		char *larger = memory_scratch(size);

		if (larger == NULL)
			return NULL;
		*area = larger;
		*have = size;
	}
	return *area;
}

/* In a fork's child, before it has a profile: memory of its own, and no other thread. */
static char *forked_area(size_t bytes)
{
	static char area[FORKED_BYTES] __attribute__((aligned(16)));

	return bytes <= sizeof area ? area : NULL;
}

char **exec_arguments(struct slot *slot, size_t bytes)
{
	return (char **)(void *)area_of(&slot->arguments_area, &slot->arguments_bytes, bytes);
}

/* Privileged programs are not given the recorder by ld.so; those of root, started by root, are not privileged. */
static bool is_privileged(int fd, const struct stat *status)
{
	if (sys_call3(SYS_geteuid, 0, 0, 0) == 0)
		return false;
	return status->st_mode & (S_ISUID | S_ISGID) ||
	       sys_call6(SYS_fgetxattr, fd, (long)"security.capability", 0, 0, 0, 0) > 0;
}

/* What the file at path is; for a script, ret_next gets its interpreter. */
static enum elf_verdict judge(const char *path, char ret_next[static 256])
{
	struct elf_judgement judgement = { .verdict = ELF_UNKNOWN };
	struct stat status = { 0 };

	/* Opening anything but a file may wait, or do something. */
	if (sys_failed(sys_call6(SYS_newfstatat, AT_CWD, (long)path, (long)&status, 0, 0, 0)) ||
	    !S_ISREG(status.st_mode))
		return ELF_UNKNOWN;
	long fd = sys_call6(SYS_openat, AT_CWD, (long)path, READ_QUIETLY, 0, 0, 0);

	if (sys_failed(fd))
		return ELF_UNKNOWN;
	if (!sys_failed(sys_call3(SYS_fstat, fd, (long)&status, 0)) && S_ISREG(status.st_mode) &&
	    !is_privileged((int)fd, &status)) {
		size_t bytes = (size_t)status.st_size;
		long at = sys_mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, (int)fd, 0);

		if (!sys_failed(at)) {
			judgement = elf_judge((const void *)at, bytes);
			if (judgement.verdict == ELF_SCRIPT && judgement.path_bytes < 256) {
				__builtin_memcpy(ret_next, judgement.path, judgement.path_bytes);
				ret_next[judgement.path_bytes] = 0;
			} else if (judgement.verdict == ELF_SCRIPT) {
				judgement.verdict = ELF_UNKNOWN;
			}
			sys_munmap((void *)at, bytes);
		}
	}
	sys_close((int)fd);
	return judgement.verdict;
}

static bool can_record(const char *path)
{
	char interpreter[256];
	enum elf_verdict verdict = judge(path, interpreter);

	for (int i = 0; i < SCRIPTS_MAX && verdict == ELF_SCRIPT; i++)
		verdict = judge(interpreter, interpreter);
	return verdict == ELF_FITS || verdict == ELF_LOADER;
}

/* The first file of that name in PATH that may be executed, written to `to`. */
static const char *search_path(const char *name, char *to)
{
	const char *path = "/bin:/usr/bin";
	size_t name_bytes = length(name);

	for (const char *at = name; *at; at++) {
		if (*at == '/')
			return name;
	}
	for (char **entry = exec_environ(); *entry != NULL; entry++) {
		if (begins(*entry, "PATH="))
			path = *entry + 5;
	}
	while (*path) {
		size_t n = 0;

		while (path[n] && path[n] != ':')
			n++;
		if (n + name_bytes + 2 < PATH_MAX_) {
			__builtin_memcpy(to, path, n);
			to[n] = '/';
			__builtin_memcpy(to + n + (n > 0), name, name_bytes + 1);
			if (!sys_failed(sys_call3(SYS_access, (long)to, X_OK, 0)))
				return to;
		}
		path += n + (path[n] == ':');
	}
	return NULL;
}

/* Whether this environment asks for something in which the recorder has no place; ret_before: its own LD_PRELOAD. */
static bool wants_none(char *const *envp, size_t *ret_count, const char **ret_before)
{
	bool none = false;
	size_t n = 0;

	*ret_before = NULL;
	for (; envp[n] != NULL; n++) {
		if (begins(envp[n], TRACE) || begins(envp[n], SOCKET))
			none = true; /* ldd, or another collector's */
		else if (begins(envp[n], PRELOAD))
			*ret_before = envp[n] + sizeof PRELOAD - 1;
	}
	*ret_count = n;
	return none;
}

char *const *exec_environment(struct slot *slot, const char *path, bool search, char *const *envp)
{
	const char *before;
	size_t count;

	if (own_preload[0] == 0 || !memory.control->follow_exec || envp == NULL ||
	    wants_none(envp, &count, &before))
		return envp;
	size_t before_bytes = before != NULL ? length(before) : 0;
	size_t own_bytes = length(own_preload);
	size_t need = PATH_MAX_ + (count + 3) * sizeof(char *) + own_bytes + before_bytes + 2;
	char *area = slot != NULL ? area_of(&slot->exec_area, &slot->exec_bytes, need)
				  : forked_area(need);

	if (area == NULL || path == NULL)
		return envp;
	path = search ? search_path(path, area) : path;
	/* A chroot, or another user: a recorder that cannot be opened is complained of on stderr. */
	if (path == NULL || !can_record(path) ||
	    sys_failed(sys_call3(SYS_access, (long)(own_preload + sizeof PRELOAD - 1), R_OK, 0)))
		return envp;
	char **entries = (char **)(void *)(area + PATH_MAX_);
	char *preload = (char *)(entries + count + 3);

	__builtin_memcpy(entries, envp, count * sizeof *entries);
	__builtin_memcpy(preload, own_preload, own_bytes + 1);
	if (before_bytes > 0) {
		preload[own_bytes] = ':';
		__builtin_memcpy(preload + own_bytes + 1, before, before_bytes + 1);
	}
	entries[count] = preload;
	entries[count + 1] = own_socket;
	entries[count + 2] = NULL;
	return entries;
}
