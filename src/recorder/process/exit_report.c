/* SPDX-License-Identifier: Apache-2.0 */
/* The report at exit. The program must not notice it: neither its waits, nor its SIGCHLD handler, nor its descriptors.
 *
 * So there are two processes. The first, the watcher, is a fork with exit signal 0: wait and waitpid see only children whose exit signal
 * is SIGCHLD, and its end sends no signal. It must not exec, since exec makes the exit signal SIGCHLD. It has its own descriptors, and
 * all signals blocked, so that no handler of the program runs in it. It copies the profile to a memfd (Yama forbids a process to read
 * the memory of its parent), starts the second one, which execs heapgauge, and ends that if it takes too long.
 *
 * heapgauge is where it was installed or built together with this library, never in PATH: docs/security.md.
 *
 * Owns: copies of the variables, made at start-up: the program may overwrite its environment. */
#include "recorder/process/exit_report.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "recorder/memory.h"
#include "recorder/process/exec.h"
#include "recorder/sys.h"
#include "recorder/text.h"
#include "recorder/unwind/modules.h"

#ifndef SYS_close_range	    /* glibc 2.31 has not even the number */
#define SYS_close_range 436 /* on all processors */
#endif

enum {
	EXIT_REPORT_SECONDS = 30,
	GRACE_SECONDS = 2, /* of the watcher, to end a heapgauge that took too long */
	POLL_NS = 2000000,
	PATH_BYTES = 4 << 10,
	SENTENCE_BYTES = 512,
	SIGSET_BYTES = 8,
	AT_CWD = -100,
	CANNOT_EXEC = 127,
	FILE_MODE = 0666,  /* before the umask */
	CLOSE_MOST = 1024, /* without close_range */
	FAR_FD = 60,	   /* descriptors from here on are far from the program's own */
};

bool exit_report_wanted;

static struct {
	char report[PATH_BYTES];  /* file; "" = none or stderr */
	char output[PATH_BYTES];  /* "" = none */
	char folder[PATH_BYTES];  /* working directory at the start */
	char library[PATH_BYTES]; /* the recorder; "" = it is part of the program */
	bool on_stderr;
	bool too_long;		 /* a variable did not fit */
	struct stat stderr_then; /* st_ino 0: it was closed */
	struct stat root;	 /* directory, at the start */
} asked;
static PROCESS_STATE long stderr_kept; /* a duplicate */

/* ---- at the start ---- */

static void keep(char *to, const char *text)
{
	if (__builtin_strlen(text) < PATH_BYTES)
		text_append(to, 0, PATH_BYTES, text);
	else
		asked.too_long = true;
}

static bool same_text(const char *a, const char *b)
{
	for (; *a && *a == *b; a++)
		b++;
	return *a == *b;
}

/* Many programs close stderr before our destructor runs, such as all of GNU coreutils. */
static void keep_stderr(void)
{
	static const int numbers[] = { 1000, 250, FAR_FD, 3 };

	stderr_kept = -EBADF;
	sys_call3(SYS_fstat, 2, (long)&asked.stderr_then, 0);
	for (size_t i = 0; i < ARRAY_SIZE(numbers) && asked.on_stderr; i++) {
		stderr_kept = sys_call3(SYS_fcntl, 2, F_DUPFD_CLOEXEC, numbers[i]);
		if (!sys_failed(stderr_kept))
			break;
	}
}

void exit_report_start(void)
{
	const char *report = exec_variable(LIVE_ENV_REPORT),
		   *output = exec_variable(LIVE_ENV_OUTPUT);

	if (report[0] == 0 && output[0] == 0)
		return;
	asked.on_stderr = same_text(report, "stderr");
	if (!asked.on_stderr)
		keep(asked.report, report);
	keep(asked.output, output);
	if (!modules_is_linked_in())
		keep(asked.library, modules_file_of(&asked));
	sys_call3(SYS_getcwd, (long)asked.folder, PATH_BYTES, 0);
	sys_stat("/", &asked.root);
	keep_stderr();
	exit_report_wanted = true;
}

/* Whether the descriptor is what stderr was at the start: a program may have closed it, and got the number again for a file of its
 * own. */
static bool is_stderr(long fd)
{
	struct stat now = { 0 };

	return !sys_failed(sys_call3(SYS_fstat, fd, (long)&now, 0)) &&
	       exec_is_same_file(&asked.stderr_then, &now);
}

void exit_report_forked(void)
{
	/* A lower number may be the program's own by now. */
	if (exit_report_wanted && sys_may(SYS_ALL | SYS_REPORT) && stderr_kept >= FAR_FD &&
	    is_stderr(stderr_kept))
		sys_close((int)stderr_kept);
	stderr_kept = -EBADF;
}

/* ---- in the watcher ---- */

static __attribute__((noreturn)) void leave(void)
{
	for (;;)
		sys_call3(SYS_exit_group, 0, 0, 0);
}

/* Writes "heapgauge: no report of process PID: WHAT PATH WHY", the last two if they are not NULL, where stderr leads now. */
static void complain(const char *what, const char *path, const char *why, long error)
{
	char text[SENTENCE_BYTES];
	size_t at = text_append(text, 0, sizeof text - 1, "heapgauge: no report of process ");

	at = text_append_number(text, at, sizeof text - 1, memory.head->pid);
	at = text_append(text, at, sizeof text - 1, ": ");
	at = text_append(text, at, sizeof text - 1, what);
	at = text_append(text, at, sizeof text - 1, path != NULL ? path : "");
	at = text_append(text, at, sizeof text - 1, why != NULL ? why : "");
	if (error < 0) {
		at = text_append(text, at, sizeof text - 1, " (errno ");
		at = text_append_number(text, at, sizeof text - 1, (uint64_t)-error);
		at = text_append(text, at, sizeof text - 1, ")");
	}
	text[at++] = '\n';
	sys_call3(SYS_write, 2, (long)text, (long)at);
}

static long open_at(const char *path, int flags)
{
	return sys_call6(SYS_openat, AT_CWD, (long)path, flags | O_NOCTTY, FILE_MODE, 0, 0);
}

static void close_others(void)
{
	if (!sys_failed(sys_call3(SYS_close_range, 3, ~0u, 0)))
		return;
	for (int fd = 3; fd < CLOSE_MOST; fd++)
		sys_close(fd);
}

/* Moves it to 2. False: the program has closed both. */
static bool restore_stderr(void)
{
	if (is_stderr(2))
		return true;
	return is_stderr(stderr_kept) && !sys_failed(sys_call3(SYS_dup3, stderr_kept, 2, 0));
}

/* After chroot, pivot_root or setns, our paths lead to what a stranger may have made: the report's, and that of the command, even if it
 * were root's, since its interpreter and libraries need not be. */
static bool has_left_root(void)
{
	struct stat now = { 0 };

	return !sys_stat("/", &now) || !exec_is_same_file(&asked.root, &now);
}

/* In a name, %p is the pid, as in `record -o`. */
static void expand_pid(const char *pattern, char to[static PATH_BYTES])
{
	size_t at = 0;

	for (; *pattern && at + 1 < PATH_BYTES; pattern++) {
		if (pattern[0] == '%' && pattern[1] == 'p') {
			at = text_append_number(to, at, PATH_BYTES, memory.head->pid);
			pattern++;
		} else {
			to[at++] = *pattern;
		}
	}
	to[at] = 0;
}

/* Opens the file for the report, and empties it; but not one that the program writes to itself, as "/dev/stderr" may be: there the
 * report follows what the program wrote. */
static long open_report(const char *path)
{
	long fd = open_at(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC);
	struct stat file = { 0 }, own = { 0 };

	if (sys_failed(fd) || sys_failed(sys_call3(SYS_fstat, fd, (long)&file, 0)) ||
	    !S_ISREG(file.st_mode))
		return fd;
	for (long of_program = 1; of_program <= 2; of_program++)
		if (!sys_failed(sys_call3(SYS_fstat, of_program, (long)&own, 0)) &&
		    exec_is_same_file(&file, &own))
			return of_program;
	sys_call3(SYS_ftruncate, fd, 0, 0);
	return fd;
}

/* Leads descriptors 0, 1 and 2 to where heapgauge shall read and write. False: there is no place for the report. */
static bool redirect(void)
{
	static char path[PATH_BYTES];
	bool has_stderr = restore_stderr();
	long nothing, to = 2;

	close_others();
	do
		nothing = open_at("/dev/null", O_RDWR | O_CLOEXEC);
	while (nothing >= 0 && nothing < 3);
	sys_call3(SYS_dup3, nothing, 0, 0);
	if (!has_stderr)
		sys_call3(SYS_dup3, nothing, 2, 0);
	if (has_left_root()) {
		complain("it has changed its root directory", NULL, NULL, 0);
		return false;
	}
	sys_call3(SYS_chdir, (long)asked.folder, 0, 0);
	if (asked.report[0] != 0) {
		expand_pid(asked.report, path);
		to = open_report(path);
		if (sys_failed(to)) {
			complain("cannot write ", path, NULL, to);
			return false;
		}
		sys_call3(SYS_dup3, to, 2, 0);
	} else if (!asked.on_stderr) {
		to = nothing;
	} else if (!has_stderr && asked.output[0] == 0) {
		return false;
	}
	sys_call3(SYS_dup3, to, 1, 0);
	return true;
}

/* If there is no memory for the report, the kernel shall end the command; else the watcher, which reports that; not the program. */
static void set_oom_score(const char *score)
{
	long fd = open_at("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (sys_failed(fd))
		return;
	sys_call3(SYS_write, fd, (long)score, (long)__builtin_strlen(score));
	sys_close((int)fd);
}

static long write_at(long fd, const char *from, uint64_t bytes, uint64_t at)
{
	while (bytes > 0) {
		long wrote = sys_call6(SYS_pwrite64, fd, (long)from, (long)bytes, (long)at, 0, 0);

		if (sys_failed(wrote) || wrote == 0)
			return wrote;
		from += wrote;
		at += (uint64_t)wrote;
		bytes -= (uint64_t)wrote;
	}
	return 0;
}

/* A region may have grown since the fork: then the end is not readable here, and stays a hole, which readers expect. */
static long copy_profile(void)
{
	long fd = sys_call3(SYS_memfd_create, (long)"heapgauge-profile", 0, 0);

	if (sys_failed(fd))
		return fd;
	long ret = sys_call3(SYS_ftruncate, fd, (long)(memory.total_bytes + LIVE_PAGE), 0);

	for (int i = 0; i < LIVE_REGIONS && !sys_failed(ret); i++) {
		if (i != LIVE_SCRATCH)
			ret = write_at(fd, memory.region[i],
				       MIN(memory_opened(i), memory.kept_bytes[i]),
				       memory.head->region[i].at);
		if (ret == -EFAULT)
			ret = 0;
	}
	if (!sys_failed(ret))
		ret = write_at(fd, (const char *)memory.head, sizeof *memory.head, 0);
	if (!sys_failed(ret))
		ret = write_at(fd, (const char *)memory.control, LIVE_PAGE, memory.total_bytes);
	return sys_failed(ret) ? ret : fd;
}

static bool is_command(const char *path, const struct stat *library)
{
	struct stat file = { 0 };

	return sys_stat(path, &file) && exec_is_trusted(&file, library) &&
	       (file.st_mode & (S_IWOTH | S_IXUSR)) == S_IXUSR;
}

/* NULL: there is none. */
static const char *find_command(void)
{
	static const char *const places[] = { "heapgauge", "../../bin/heapgauge",
					      "../../../bin/heapgauge" };
	static char path[PATH_BYTES];
	struct stat library = { 0 };
	size_t folder = __builtin_strlen(asked.library);

	if (folder > 0)
		sys_stat(asked.library, &library);
	while (folder > 0 && asked.library[folder - 1] != '/')
		folder--;
	for (size_t i = 0; i < ARRAY_SIZE(places) && folder > 0; i++) {
		__builtin_memcpy(path, asked.library, folder);
		text_append(path, folder, sizeof path, places[i]);
		if (is_command(path, &library))
			return path;
	}
	text_append(path, 0, sizeof path, HEAPGAUGE_COMMAND);
	return is_command(path, &library) ? path : NULL;
}

/* The program's environment without our variables and the loader's, which were meant for the program. */
static char **environment(void)
{
	char **from = exec_environ();
	size_t count = 0, n = 0;

	while (from[count] != NULL)
		count++;
	long at = sys_mmap(NULL, memory_pages((count + 1) * sizeof *from), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (sys_failed(at))
		return NULL;
	for (size_t i = 0; i < count; i++) {
		if (!text_begins(from[i], "LD_") && !text_begins(from[i], "HEAPGAUGE_"))
			((char **)at)[n++] = from[i];
	}
	return (char **)at;
}

static __attribute__((noreturn)) void become_command(const char *command, long profile, char **envp)
{
	/* Of a program in the background, the report must not stop it, and its process group, where a terminal forbids output (tostop). */
	static const uint64_t blocked = 1ull << (SIGTTOU - 1);
	char source[48];
	size_t at = text_append(source, 0, sizeof source, "/proc/self/fd/");
	const char *words[] = { "heapgauge",  "at-exit",
				source,	      asked.output[0] != 0 ? "--output" : NULL,
				asked.output, NULL };

	text_append_number(source, at, sizeof source, (uint64_t)profile);
	set_oom_score("1000");
	sys_call6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&blocked, 0, SIGSET_BYTES, 0, 0);
	sys_call3(SYS_execve, (long)command, (long)words, (long)envp);
	for (;;)
		sys_call3(SYS_exit_group, CANNOT_EXEC, 0, 0);
}

/* Waits for a child. True if it has ended in time. */
static bool wait_for(long pid, int seconds, int flags, int *ret_status)
{
	const struct timespec pause = { .tv_nsec = POLL_NS };
	const int polls = (int)(seconds * (1000000000ull / POLL_NS));

	for (int i = 0; i < polls; i++) {
		long ended = sys_call6(SYS_wait4, pid, (long)ret_status, WNOHANG | flags, 0, 0, 0);

		if (ended == pid || (sys_failed(ended) && ended != -EINTR))
			return true;
		sys_call3(SYS_nanosleep, (long)&pause, 0, 0);
	}
	return false;
}

static void run_command(const char *command, long profile)
{
	char **envp = environment();
	int status = 0;
	long pid = envp != NULL ? sys_call6(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0) : -ENOMEM;

	if (pid == 0)
		become_command(command, profile, envp);
	if (sys_failed(pid)) {
		complain("cannot start ", command, NULL, pid);
		return;
	}
	if (!wait_for(pid, EXIT_REPORT_SECONDS, 0, &status)) {
		sys_call3(SYS_kill, pid, SIGKILL, 0);
		sys_call6(SYS_wait4, pid, 0, 0, 0, 0, 0);
		complain(command, " took more than 30 seconds and was ended", NULL, 0);
	} else if (WIFSIGNALED(status)) {
		complain(command, " was ended by a signal", NULL, 0);
	} else if (WEXITSTATUS(status) == CANNOT_EXEC) {
		complain("cannot execute ", command, NULL, 0);
	} /* any other failure it has explained itself */
}

static __attribute__((noreturn)) void watch(const char *profile_file)
{
	static const uint64_t by_default[4]; /* the kernel's struct sigaction: SIG_DFL */
	static const struct rlimit no_core;
	long profile;

	/* An ignored SIGCHLD would take the status of the command from us. */
	sys_call6(SYS_rt_sigaction, SIGCHLD, (long)by_default, 0, SIGSET_BYTES, 0, 0);
	sys_call6(SYS_prlimit64, 0, RLIMIT_CORE, (long)&no_core, 0, 0, 0);
	if (!redirect())
		leave();
	set_oom_score("300"); /* now that the root directory is known */
	const char *command = find_command();

	if (command == NULL) {
		complain("the command heapgauge is not beside the recorder ", asked.library,
			 ", nor is it " HEAPGAUGE_COMMAND, 0);
		leave();
	}
	profile = profile_file[0] != 0 ? open_at(profile_file, O_RDONLY) : copy_profile();
	if (asked.too_long)
		complain("HEAPGAUGE_REPORT or HEAPGAUGE_OUTPUT is too long", NULL, NULL, 0);
	else if (sys_failed(profile))
		complain("cannot copy its profile", NULL, NULL, profile);
	else
		run_command(command, profile);
	leave();
}

/* ---- at the exit ---- */

void exit_report_make(const char *profile)
{
	static const uint64_t all_signals = ~0ull;
	uint64_t mask = 0;
	int status;

	if (!sys_may(SYS_ALL | SYS_REPORT) ||
	    sys_failed(sys_call6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all_signals, (long)&mask,
				 SIGSET_BYTES, 0, 0)))
		return;
	long watcher = sys_call6(SYS_clone, 0, 0, 0, 0, 0, 0);

	if (watcher == 0)
		watch(profile);
	sys_call6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, SIGSET_BYTES, 0, 0);
	if (!sys_failed(watcher))
		wait_for(watcher, EXIT_REPORT_SECONDS + GRACE_SECONDS, __WCLONE, &status);
	else if (is_stderr(2))
		complain("cannot fork", NULL, NULL, watcher);
}
