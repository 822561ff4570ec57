/* SPDX-License-Identifier: Apache-2.0 */
/* The environment between programs: see exec.h.
 *
 * Owns: copies of our two variables, made at start-up, and the slots' exec areas. A program gets the variables only if its file
 * shows that the recorder can run in it (base/elf.h): a loader that cannot load the recorder complains on stderr or ends the
 * program. Files are read with raw system calls, because this also runs in a vfork child. */
#include "recorder/process/exec.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/elf.h"
#include "base/privilege.h"
#include "recorder/libc/libc.h"
#include "recorder/memory.h"
#include "recorder/process/process_log.h"
#include "recorder/process/shell_environment.h"
#include "recorder/sys.h"
#include "recorder/text.h"

#define PRELOAD EXEC_PRELOAD
#define HANDOVER EXEC_HANDOVER
#define TRACE "LD_TRACE_LOADED_OBJECTS="
#define DISABLE LIVE_ENV_DISABLE "="

enum {
	PATH_MAX_ = 4 << 10,
	HANDOVER_BYTES = EXEC_HANDOVER_BYTES,
	SCRIPTS_MAX = 4,
	AT_CWD = -100,
	FORKED_BYTES = 64 * 1024,
};

static char
	own_preload[PATH_MAX_ +
		    sizeof PRELOAD]; /* "LD_PRELOAD=/path/libheapgauge.so"; empty = do not follow */
static char
	own_handover[HANDOVER_BYTES]; /* "HEAPGAUGE_HANDOVER=TICKET,SETTINGS", the ticket all 0 */
static struct stat own_file;	      /* the recorder, at start-up; st_ino 0: not known */

static size_t length(const char *text)
{
	size_t n = 0;

	while (text[n])
		n++;
	return n;
}

/* Before libc is initialized, the environment follows the arguments, where the kernel put it. Never NULL, unlike `environ` after
 * clearenv. */
static char **environment(void)
{
	const uintptr_t *argument_count = libc_argument_count();

	return environ != NULL ? environ : (char **)(argument_count + 1 + *argument_count + 1);
}

static bool disables(const char *entry)
{
	return text_begins(entry, DISABLE) && live_is_disabled(entry + sizeof DISABLE - 1);
}

bool exec_is_disabled(void)
{
	for (char **entry = environment(); *entry != NULL; entry++) {
		if (disables(*entry))
			return true;
	}
	return false;
}

/* Returns the value of the first entry of that name, as getenv does; `otherwise` if there is none. */
static const char *variable_or(const char *name, const char *otherwise)
{
	size_t bytes = length(name);

	for (char **entry = environment(); *entry != NULL; entry++) {
		if (text_begins(*entry, name) && (*entry)[bytes] == '=')
			return *entry + bytes + 1;
	}
	return otherwise;
}

const char *exec_variable(const char *name)
{
	return variable_or(name, "");
}

/* The value of the hidden variable, hidden or not; NULL: none. */
static char *handover_value(void)
{
	if (own_handover[0] != 0)
		return own_handover + sizeof HANDOVER - 1;
	for (char **entry = environment(); *entry != NULL; entry++) {
		if (text_begins(*entry, HANDOVER))
			return *entry + sizeof HANDOVER - 1;
	}
	return NULL;
}

const char *exec_handover(void)
{
	const char *value = handover_value();
	struct live_ticket ticket;

	if (value == NULL)
		return NULL;
	/* A value that is not ours has no settings either. */
	return live_ticket_read(value, &ticket) && value[LIVE_TICKET_TEXT] == ','
		       ? value + LIVE_TICKET_TEXT + 1
		       : "";
}

/* Stores the first path of "LD_PRELOAD=a:b". */
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

static bool keep_handover(const char *entry)
{
	size_t n = length(entry);

	if (n >= sizeof own_handover)
		return false;
	__builtin_memcpy(own_handover, entry, n + 1);
	return true;
}

struct live_ticket exec_take_ticket(void)
{
	static const struct live_ticket none;
	struct live_ticket ticket = none;
	char *value = handover_value();

	/* Clear it: a program that inherits our variables unchanged is another one. */
	if (value != NULL && live_ticket_read(value, &ticket))
		live_ticket_write(value, none);
	return ticket;
}

/* Returns true if another user cannot have put the file where the recorder was: it is the recorder, or it belongs to root, to us or
 * to the owner of the recorder. */
static bool is_trusted(const struct stat *file)
{
	bool known = own_file.st_ino != 0;

	if (known && file->st_ino == own_file.st_ino && file->st_dev == own_file.st_dev)
		return true; /* even if a user namespace hides the owner */
	return S_ISREG(file->st_mode) &&
	       (file->st_uid == 0 || file->st_uid == (uint32_t)sys_call3(SYS_geteuid, 0, 0, 0) ||
		(known && file->st_uid == own_file.st_uid));
}

/* Called after two entries were removed. The auxiliary vector must still directly follow the environment, for programs that look
 * for it there, and stay at its address, for those that know it. So it is shifted down by these two words, the size of one entry,
 * and its first entry is repeated at its end. */
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
	char **start = environment();
	char **end = start;

	while (*end != NULL)
		end++;
	/* As the collector put them; any other arrangement is not ours and stays. */
	if (end - start < 2 || !text_begins(end[-2], PRELOAD) || !text_begins(end[-1], HANDOVER) ||
	    !keep_preload(end[-2]) || !keep_handover(end[-1])) {
		own_preload[0] = 0;
		return;
	}
	end[-2] = NULL;
	sys_stat(own_preload + sizeof PRELOAD - 1, &own_file);
	if ((uintptr_t)start > (uintptr_t)libc_argument_count()) /* the kernel's, not a copy */
		move_auxiliary(end);
}

/* Memory that grows to the largest request and is reused. */
static char *area_of(char **area, size_t *have, size_t bytes)
{
	if (*have < bytes) {
		size_t size = memory_pages(bytes);
		char *larger = memory_scratch(size);

		if (larger == NULL)
			return NULL;
		*area = larger;
		*have = size;
	}
	return *area;
}

/* In a forked child before it has a profile: private memory, and no other thread. */
static char *forked_area(size_t bytes)
{
	static char area[FORKED_BYTES] __attribute__((aligned(16)));

	return bytes <= sizeof area ? area : NULL;
}

char **exec_arguments(struct slot *slot, size_t bytes)
{
	return (char **)(void *)area_of(&slot->arguments_area, &slot->arguments_bytes, bytes);
}

/* True if the file's privileges are ignored. */
static bool ignores_privileges(int fd)
{
	enum { NOSUID = 2 };
	struct statfs facts = { 0 };

	sys_call3(SYS_fstatfs, fd, (long)&facts, 0);
	return facts.f_flags & NOSUID || sys_call3(SYS_prctl, PR_GET_NO_NEW_PRIVS, 0, 0) == 1;
}

/* ld.so does not preload the recorder into privileged programs. */
static bool is_privileged(int fd, const struct stat *status)
{
	struct privilege_facts facts = {
		.uid = (uint32_t)sys_call3(SYS_getuid, 0, 0, 0),
		.euid = (uint32_t)sys_call3(SYS_geteuid, 0, 0, 0),
		.gid = (uint32_t)sys_call3(SYS_getgid, 0, 0, 0),
		.egid = (uint32_t)sys_call3(SYS_getegid, 0, 0, 0),
		.mode = status->st_mode,
		.file_uid = status->st_uid,
		.file_gid = status->st_gid,
	};

	facts.capable = facts.uid != 0 &&
			sys_call6(SYS_fgetxattr, fd, (long)"security.capability", 0, 0, 0, 0) > 0;
	if (privilege_of(&facts) == PRIVILEGE_NONE)
		return false;
	facts.privileges_ignored = ignores_privileges(fd);
	return privilege_of(&facts) != PRIVILEGE_NONE;
}

enum { NOTHING_THERE = -1 }; /* no executable file: nothing will start */

static int reason_of(enum elf_verdict verdict)
{
	switch (verdict) {
	case ELF_FITS:
	case ELF_LOADER:
		return MISSED_unconnected; /* unless it reports */
	case ELF_OTHER_CLASS:
		return MISSED_other_class;
	case ELF_OTHER_MACHINE:
		return MISSED_other_machine;
	case ELF_STATIC:
		return MISSED_static;
	case ELF_OTHER_LIBC:
		return MISSED_other_libc;
	case ELF_SANITIZED:
		return MISSED_sanitized;
	case ELF_SCRIPT:
	case ELF_TEXT:
	case ELF_UNKNOWN:
		break;
	}
	return MISSED_unreadable;
}

/* A program's file. It is read and not mapped: another process may truncate it at any time. */
struct program_file {
	struct elf_source source;
	int fd;
	char *window; /* ELF_PART_MAX bytes, of which some hold the file from `at` on */
	uint64_t at;
	size_t have;
};

static const char *read_program(struct elf_source *source, uint64_t at, size_t bytes)
{
	enum { READ_MIN = 4 << 10 };
	struct program_file *file = (struct program_file *)source;

	if (at >= file->at && at - file->at <= file->have && bytes <= file->have - (at - file->at))
		return file->window + (at - file->at);
	file->at = at;
	file->have = 0;
	while (file->have < bytes) {
		long got = sys_call6(SYS_pread64, file->fd, (long)(file->window + file->have),
				     (long)(MAX(bytes, (size_t)READ_MIN) - file->have),
				     (long)(at + file->have), 0, 0);

		if (got == -EINTR)
			continue;
		if (sys_failed(got) || got == 0)
			return NULL;
		file->have += (size_t)got;
	}
	return file->window;
}

/* Copies the interpreter of a script; "" if there is none. */
static void copy_interpreter(const struct elf_judgement *judgement, const char *text_shell,
			     char ret[static 256])
{
	ret[0] = 0;
	if (judgement->verdict == ELF_TEXT) {
		text_append(ret, 0, 256, text_shell);
	} else if (judgement->verdict == ELF_SCRIPT && judgement->path_bytes < 256) {
		__builtin_memcpy(ret, judgement->path, judgement->path_bytes);
		ret[judgement->path_bytes] = 0;
	}
}

/* Returns why the open file cannot be recorded, as reason_of. ret_next: the interpreter of a script, "" if none. text_shell: that of a
 * script that does not name one. status: memory for the file's status, because the stack may be small. */
static int judge_open(int fd, struct stat *status, const char *text_shell,
		      char ret_next[static 256])
{
	ret_next[0] = 0;
	if (sys_failed(sys_call3(SYS_fstat, fd, (long)status, 0)) || !S_ISREG(status->st_mode))
		return MISSED_unreadable;
	long window = sys_mmap(NULL, ELF_PART_MAX, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (sys_failed(window))
		return MISSED_unreadable;
	struct program_file file = {
		.source = { (uint64_t)status->st_size, read_program },
		.fd = fd,
		.window = (char *)window,
	};
	struct elf_judgement judgement = elf_judge_source(&file.source);

	copy_interpreter(&judgement, text_shell, ret_next);
	sys_munmap((void *)window, ELF_PART_MAX);
	/* The privileges of a script do not count. */
	if (ret_next[0] == 0 && is_privileged(fd, status))
		return MISSED_privileged;
	return reason_of(judgement.verdict);
}

static int judge(const char *path, const char *text_shell, char ret_next[static 256])
{
	struct stat status = { 0 };

	/* Opening anything but a regular file may block or have side effects. */
	if (!sys_stat(path, &status) || !S_ISREG(status.st_mode))
		return NOTHING_THERE;
	long fd = sys_call6(SYS_openat, AT_CWD, (long)path, SYS_READ_QUIETLY, 0, 0, 0);

	if (sys_failed(fd)) {
		ret_next[0] = 0;
		return MISSED_unreadable;
	}
	int reason = judge_open((int)fd, &status, text_shell, ret_next);

	sys_close((int)fd);
	return reason;
}

/* Returns MISSED_unconnected if the program can be recorded. text_shell: what the caller uses for a text that the kernel refuses to
 * execute; "" = nothing. */
static int judge_program(const char *path, const char *text_shell)
{
	const char *recorder = own_preload + sizeof PRELOAD - 1;
	struct stat file = { 0 };
	char interpreter[256];
	int reason = judge(path, text_shell, interpreter);

	for (int i = 0; i < SCRIPTS_MAX && reason != NOTHING_THERE && interpreter[0] != 0; i++)
		reason = judge(interpreter, text_shell, interpreter);
	/* In a chroot, or as another user: ld.so complains on stderr if it cannot open the recorder, and executes what a stranger put in its
	 * place. */
	if (reason == MISSED_unconnected && (sys_failed(sys_access(recorder, R_OK)) ||
					     !sys_stat(recorder, &file) || !is_trusted(&file)))
		reason = MISSED_recorder;
	return reason;
}

/* Writes the file that the first entry of a list of directories leads to, "" if it does not fit. An empty entry is the working
 * directory. Returns the rest of the list; NULL: this was the last entry. */
static const char *next_candidate(const char *list, const char *name, char to[static PATH_MAX_])
{
	size_t n = 0, name_bytes = length(name);

	while (list[n] && list[n] != ':')
		n++;
	to[0] = 0;
	if (n + name_bytes + 2 < PATH_MAX_) {
		__builtin_memcpy(to, list, n);
		to[n] = '/';
		__builtin_memcpy(to + n + (n > 0), name, name_bytes + 1);
	}
	return list[n] == ':' ? list + n + 1 : NULL;
}

/* As judge_program, for what execvp would start. *name: its file, which may be in `to`. */
static int judge_search(const char **name, const char *text_shell, char to[static PATH_MAX_])
{
	const char *list = variable_or("PATH", libc_default_path());
	int reason = NOTHING_THERE;

	for (const char *at = *name; *at; at++) {
		if (*at == '/')
			return judge_program(*name, text_shell);
	}
	/* libc also goes on if the file is a directory, or if the interpreter of a script is missing. */
	while (**name != 0 && list != NULL && reason == NOTHING_THERE) {
		list = next_candidate(list, *name, to);
		if (to[0] != 0 && !sys_failed(sys_access(to, X_OK)))
			reason = judge_program(to, text_shell);
	}
	*name = to;
	return reason;
}

/* What exec has to know of an environment. */
struct environment {
	size_t count; /* entries */
	bool none; /* has a setting that excludes the recorder: ldd, another collector, or disabled */
	bool extended;	     /* has our variables, added for a shell: they are not the program's */
	bool sanitized;	     /* preloads a sanitizer, which must be loaded first */
	const char *preload; /* its own LD_PRELOAD; NULL: none */
};

/* What is unreadable is the kernel's to refuse. page: the last one that was found readable. */
static bool is_readable(const void *at, uintptr_t *page)
{
	uintptr_t own = (uintptr_t)at & ~(uintptr_t)(ARCH_PAGE - 1);

	if (own != *page && sys_may(SYS_PROBE) && !sys_readable(own))
		return false;
	*page = own;
	return true;
}

/* As much of a variable as its name is compared with. */
static bool is_readable_text(const char *text, uintptr_t *page)
{
	enum { COMPARED = 32 };
	size_t room = ARCH_PAGE - (uintptr_t)text % ARCH_PAGE;

	if (!is_readable(text, page))
		return false;
	for (size_t i = 0; i < room; i++) {
		if (i == COMPARED || text[i] == 0)
			return true;
	}
	return is_readable(text + room, page);
}

static bool names_sanitizer(const char *preload)
{
	for (; *preload; preload++) {
		if (text_begins(preload, "libasan.so") || text_begins(preload, "libtsan.so") ||
		    text_begins(preload, "libhwasan.so") || text_begins(preload, "libclang_rt."))
			return true;
	}
	return false;
}

static struct environment look_at(char *const *envp)
{
	struct environment ret = { 0 };
	uintptr_t entries_page = UINTPTR_MAX, text_page = UINTPTR_MAX;

	for (; envp != NULL; ret.count++) {
		if (!is_readable(&envp[ret.count], &entries_page))
			return (struct environment){ .none = true };
		const char *entry = envp[ret.count];

		if (entry == NULL)
			break;
		if (!is_readable_text(entry, &text_page))
			return (struct environment){ .none = true };
		if (shell_environment_has(entry))
			ret.extended = true;
		else if (text_begins(entry, TRACE) || text_begins(entry, HANDOVER) ||
			 disables(entry))
			ret.none = true;
		else if (text_begins(entry, PRELOAD))
			ret.preload = entry + sizeof PRELOAD - 1;
	}
	ret.sanitized = ret.preload != NULL && names_sanitizer(ret.preload);
	return ret;
}

static size_t preload_bytes(const struct environment *environment)
{
	return length(own_preload) + 1 +
	       (environment->preload != NULL ? length(environment->preload) : 0) + 1;
}

/* Writes our two variables. No byte changes in between where they are the same as before: several shells may share a text, which another
 * thread's execve may be reading. */
static void write_variables(char *handover, char *preload, const struct environment *environment,
			    struct live_ticket ticket)
{
	const char *before = environment->preload;
	size_t own_bytes = length(own_preload);

	__builtin_memcpy(handover, own_handover, length(own_handover) + 1);
	live_ticket_write(handover + sizeof HANDOVER - 1, ticket);
	__builtin_memcpy(preload, own_preload, own_bytes);
	if (before != NULL && before[0] != 0) {
		preload[own_bytes] = ':';
		__builtin_memcpy(preload + own_bytes + 1, before, length(before) + 1);
	} else {
		preload[own_bytes] = 0;
	}
}

/* The program's own entries and, for a program that can be recorded, our variables, in an area laid out as in exec_begin. */
static char *const *pass(char *area, char *const *envp, const struct environment *environment,
			 bool recorded, uint32_t number)
{
	char **entries = (char **)(void *)(area + PATH_MAX_);
	char *handover = (char *)(entries + environment->count + 3);
	char *preload = handover + HANDOVER_BYTES;
	size_t n = 0;

	for (size_t i = 0; i < environment->count; i++) {
		if (!shell_environment_has(envp[i]))
			entries[n++] = envp[i];
	}
	if (recorded) {
		write_variables(handover, preload, environment, process_log_ticket(number));
		entries[n++] = preload;
		entries[n++] = handover;
	}
	entries[n] = NULL;
	return entries;
}

static bool follows(void)
{
	return own_preload[0] != 0 && memory.head != NULL && memory.control->follow_exec;
}

uint32_t exec_announce(enum missed_reason reason, const char *path, bool becomes)
{
	return follows() ? process_log_publish(reason, path, becomes) : 0;
}

/* Returns why a program is not recorded, as judge_program, which has returned `reason`. */
static int judge_start(int reason, const struct environment *environment, bool has_room)
{
	if (reason == MISSED_unconnected && environment->sanitized)
		reason = MISSED_sanitized;
	return reason != NOTHING_THERE && !has_room ? MISSED_busy : reason;
}

static uint32_t log_start(int reason, const char *path, bool becomes)
{
	return reason != NOTHING_THERE
		       ? process_log_publish((enum missed_reason)reason, path, becomes)
		       : 0;
}

/* Leaves out the variables of a shell that another thread starts. Without a slot, the copy is mapped. */
static void pass_plain(struct exec_start *start, char *const *envp,
		       const struct environment *environment, char *area)
{
	if (!environment->extended)
		return;
	if (area == NULL && sys_may(SYS_OTHERS)) {
		size_t bytes = PATH_MAX_ + (environment->count + 3) * sizeof(char *);
		long at = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0);

		if (!sys_failed(at)) {
			start->copy = area = (char *)at;
			start->copy_bytes = bytes;
		}
	}
	if (area != NULL)
		start->envp = pass(area, envp, environment, false, 0);
}

struct exec_start exec_begin_unrecorded(enum missed_reason reason, const char *path, bool becomes,
					char *const *envp)
{
	struct exec_start start = { .envp = envp, .number = exec_announce(reason, path, becomes) };

	if (follows()) {
		struct environment environment = look_at(envp);

		pass_plain(&start, envp, &environment, NULL);
	}
	return start;
}

struct exec_start exec_begin(struct slot *slot, const char *path, bool search, bool becomes,
			     char *const *envp)
{
	struct exec_start start = { .envp = envp };

	if (!follows())
		return start;
	struct environment environment = look_at(envp);

	/* The program will inherit the filter, and its recorder would not know about it. Its path may be any pointer, which
	 * cannot be checked now. */
	if (path != NULL && !environment.none && !sys_may(SYS_ALL))
		return exec_begin_unrecorded(MISSED_sealed, "", becomes, envp);
	/* Space for: a path, the entries, the hidden variable, the preload list. */
	size_t need = PATH_MAX_ + (environment.count + 3) * sizeof(char *) + HANDOVER_BYTES +
		      preload_bytes(&environment);
	char *area = slot != NULL ? area_of(&slot->exec_area, &slot->exec_bytes, need)
				  : forked_area(need);

	if (path != NULL && !environment.none) {
		const char *text_shell = search && becomes ? libc_text_shell() : "";
		int reason = search && area != NULL ? judge_search(&path, text_shell, area)
						    : judge_program(path, text_shell);

		reason = judge_start(reason, &environment, area != NULL);

		start.number = log_start(reason, path, becomes);
		start.recorded = reason == MISSED_unconnected;
	}
	if (start.recorded)
		start.envp = pass(area, envp, &environment, true, start.number);
	else
		pass_plain(&start, envp, &environment, area);
	return start;
}

void exec_end(const struct exec_start *start, bool failed)
{
	if (start->copy != NULL)
		sys_munmap(start->copy, start->copy_bytes);
	if (failed)
		process_log_retract(start->number);
}

bool exec_begin_shell(struct exec_variables *ret, uint32_t *ret_number)
{
	static const char shell[] = "/bin/sh";
	const struct live_ticket none = { 0 };
	int reason = MISSED_sealed;

	*ret_number = 0;
	if (!follows())
		return false;
	struct environment environment = look_at(environ);

	if (environment.none)
		return false;
	if (sys_may(SYS_ALL))
		reason = judge_start(judge_program(shell, ""), &environment,
				     preload_bytes(&environment) <= sizeof ret->preload);
	if (reason == MISSED_unconnected) {
		write_variables(ret->handover, ret->preload, &environment, none);
		return true;
	}
	*ret_number = log_start(reason, shell, false);
	return false;
}
