/* SPDX-License-Identifier: Apache-2.0 */
/* Creates the profile and describes the process in it. With a collector it is a memfd, sealed against any change of size before
 * anyone else sees it. If that cannot be sent (no free descriptor, full queue, a limit on files), it is a file in the collector's
 * folder, or memory whose address the collector gets. A process that records itself has a file in HEAPGAUGE_DIR, or memory. A
 * folder is used only if it is on a tmpfs, whose pages are allocated on demand and need no writeback, and if the kernel can report
 * a full file system without a signal (sys_populate).
 *
 * SIGKILL at any point: before the hand-over the memory ends with the process, and its parent's log shows that it started; after it
 * a queued descriptor, or the file, holds everything.
 *
 * Owns: the file's name, and the part of the description that forks reuse. */
#include "recorder/process/profile.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/checked.h"
#include "base/hash.h"
#include "recorder/process/exec.h"
#include "recorder/hooks/hook.h"
#include "recorder/process/handover.h"
#include "recorder/libc/libc.h"
#include "recorder/memory.h"
#include "recorder/process/self_budget.h"
#include "recorder/process/settings.h"
#include "recorder/sys.h"
#include "recorder/text.h"

enum {
	FILE_BYTES = LIVE_FOLDER_BYTES + 128,
	NAME_BYTES = 48,
	FILE_TRIES = 64,
	FILE_MODE = 0600,
	AT_CWD = -100,
	TMPFS = 0x01021994,
};
#define FOLDER_MIN_BYTES (8ull << 20)
#define NS_PER_S 1000000000ull

static PROCESS_STATE char file[FILE_BYTES]; /* file of this process' profile; "" = none */
static PROCESS_STATE const struct thread_state
	*ending;			   /* the first thread that waits at the exit */
static PROCESS_STATE int has_waited;	   /* 1: it goes on */
static PROCESS_STATE struct live_own self; /* filled in once; a forked child changes what differs */

static uint64_t clock_ns(int clock)
{
	struct timespec now = { 0 };

	sys_call3(SYS_clock_gettime, clock, (long)&now, 0);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* ---- texts ---- */

/* The program's arguments, where the kernel put them. */
static char **arguments(void)
{
	return (char **)(libc_argument_count() + 1);
}

/* Appends the last path component of argv[0], made safe for a file name. */
static size_t append_program(char *to, size_t at, size_t room)
{
	const char *name = arguments()[0] != NULL ? arguments()[0] : "", *end = name;
	size_t limit = MIN(room, at + NAME_BYTES);

	for (; *end; end++) {
		if (*end == '/' && end[1])
			name = end + 1;
	}
	for (; *name && at + 1 < limit; name++) {
		bool plain = (*name >= '0' && *name <= '9') || (*name >= 'A' && *name <= 'Z') ||
			     (*name >= 'a' && *name <= 'z') || *name == '-' || *name == '_';

		to[at++] = plain ? *name : '_';
	}
	to[at] = 0;
	return at;
}

static void name_file(uint64_t seconds)
{
	size_t at = text_append(file, 0, FILE_BYTES, settings.folder);

	at = text_append(file, at, FILE_BYTES, "/" LIVE_FILE_PREFIX);
	at = append_program(file, at, FILE_BYTES);
	at = text_append(file, at, FILE_BYTES, ".");
	at = text_append_number(file, at, FILE_BYTES, (uint64_t)sys_getpid());
	at = text_append(file, at, FILE_BYTES, ".");
	at = text_append_number(file, at, FILE_BYTES, seconds);
	text_append(file, at, FILE_BYTES, LIVE_FILE_SUFFIX);
}

/* ---- description of the process ---- */

/* The rank + 1; 0: none. */
static uint32_t rank_of_environment(void)
{
	static const struct {
		const char *name, *only_with;
	} variables[] = { LIVE_RANK_VARIABLES };

	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		const char *value = exec_variable(variables[i].name), *at = value;
		uint64_t rank = 0;

		for (; *at >= '0' && *at <= '9' && rank < INT32_MAX; at++)
			rank = rank * 10 + (uint64_t)(*at - '0');
		if (at > value && *at == 0 && rank < INT32_MAX &&
		    (variables[i].only_with == NULL || exec_variable(variables[i].only_with)[0]))
			return (uint32_t)rank + 1;
	}
	return 0;
}

/* True if the rank is in a list like "0-0;3-5;". A process without a rank may start some that have one. */
static bool rank_is_wanted(uint32_t rank)
{
	const char *at = settings.ranks;

	if (*at == 0 || rank == 0)
		return true;
	while (*at) {
		uint64_t number[2] = { 0, 0 };

		for (int i = 0; i < 2; i++) {
			for (; *at >= '0' && *at <= '9'; at++)
				number[i] = number[i] * 10 + (uint64_t)(*at - '0');
			at += *at != 0;
		}
		if (rank - 1 >= number[0] && rank - 1 <= number[1])
			return true;
	}
	return false;
}

/* Fills in what does not change in forks. */
static void describe_program(void)
{
	static struct utsname name; /* too large for the program's stack */
	size_t at = 0;

	if (!sys_failed(sys_call3(SYS_uname, (long)&name, 0, 0)))
		text_append(self.host, 0, sizeof self.host, name.nodename);
	sys_readlink("/proc/self/exe", self.exe, sizeof self.exe - 1);
	for (char **word = arguments(); *word != NULL; word++) {
		if (word != arguments())
			at = text_append(self.command, at, sizeof self.command, " ");
		at = text_append(self.command, at, sizeof self.command, *word);
	}
	self.rank = rank_of_environment();
	self.secret = settings.secret;
	self_budget_group(&self);
}

/* The inode, or 0 if unknown. A forked child may be in another namespace than its parent. */
static uint64_t pid_namespace(void)
{
	struct stat space = { 0 };

	return sys_stat("/proc/self/ns/pid", &space) ? space.st_ino : 0;
}

static void describe(bool forked, struct live_ticket ticket)
{
	uint64_t random = self.id; /* the parent's */

	if (!forked) {
		const void *seed = (const void *)sys_auxiliary(AT_RANDOM);

		describe_program();
		if (seed != NULL)
			__builtin_memcpy(&random, seed, sizeof random);
	}
	self.started_real_ns = clock_ns(CLOCK_REALTIME);
	self.ppid = (uint32_t)sys_call3(SYS_getppid, 0, 0, 0);
	self.pid_namespace = pid_namespace();
	self.begin = forked ? LIVE_BEGIN_FORK : LIVE_BEGIN_START;
	self.ticket = ticket;
	/* No two processes of a machine have the same time and pid. */
	self.id = hash_mix(random ^ clock_ns(CLOCK_MONOTONIC) ^ (uint64_t)sys_getpid() << 40) | 1;
}

/* ---- memory ---- */

static uint64_t limit_of(int resource)
{
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };

	sys_call6(SYS_prlimit64, 0, resource, 0, (long)&limit, 0, 0);
	return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : (uint64_t)limit.rlim_cur;
}

/* Maps as much as possible, since it is sparse, followed by the control page. fd -1: anonymous memory. */
static void *map_memory(int fd, uint64_t *ret_total)
{
	uint64_t address_limit = limit_of(RLIMIT_AS), file_limit = limit_of(RLIMIT_FSIZE);
	uint64_t total = settings.total_bytes != 0 ? settings.total_bytes : LIVE_TOTAL_DEFAULT;

	if (address_limit != UINT64_MAX)
		total = MAX(MIN(total, address_limit / MEMORY_LIMIT_PART), LIVE_TOTAL_MIN);
	/* Exceeding the limit would raise a signal. */
	if (fd >= 0 && file_limit != UINT64_MAX)
		total = MIN(total, saturating_sub(file_limit, LIVE_PAGE));
	for (; total >= LIVE_TOTAL_MIN; total /= 4) {
		total &= ~(uint64_t)(LIVE_REGION_ALIGN - 1);
		if (fd >= 0 &&
		    sys_failed(sys_call3(SYS_ftruncate, fd, (long)(total + LIVE_PAGE), 0)))
			continue;
		long at =
			sys_mmap(NULL, total + LIVE_PAGE, PROT_NONE,
				 MAP_SHARED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);

		if (!sys_failed(at)) {
			*ret_total = total;
			return (void *)at;
		}
	}
	return NULL;
}

/* Only pages of a file can fail. */
static bool open_pages(void *at, uint64_t bytes, bool is_file)
{
	return !sys_failed(sys_mprotect(at, bytes, PROT_READ | PROT_WRITE)) &&
	       (!is_file || sys_populate(at, bytes));
}

static void fill_control(struct live_control *control, const struct live_budget *budget)
{
	__builtin_memcpy(control->magic, LIVE_CONTROL_MAGIC, sizeof control->magic);
	control->mode = (uint32_t)settings.mode;
	control->mode_on = (uint32_t)settings.mode_on;
	control->interval = settings.interval;
	control->depth_limit = (uint32_t)settings.depth_limit;
	control->cpu_millionths = (uint32_t)settings.cpu_millionths;
	control->exact_peak = (uint32_t)settings.exact_peak;
	control->follow_fork = (uint32_t)settings.follow_fork;
	control->follow_exec = (uint32_t)settings.follow_exec;
	control->at_exit = settings.hold_exit ? LIVE_EXIT_HELD : LIVE_EXIT_AT_ONCE;
	control->stack_least_bytes = settings.stack_least_bytes;
	control->stack_most_bytes = settings.stack_most_bytes;
	control->budget_bytes = budget->bytes;
	control->budget_limit_bytes = budget->limit_bytes;
	text_append((char *)control + LIVE_WRAPS_AT, 0, sizeof settings.wraps, settings.wraps);
}

static void fill_head(struct live_header *head, enum live_kept kept, int no_file)
{
	uint64_t depth = settings.depth_limit;

	head->own = self;
	head->own.kept = kept;
	head->own.no_file = (uint32_t)no_file;
	text_append(head->collector, 0, sizeof head->collector, settings.collector);
	head->pid = (uint32_t)sys_getpid();
	head->depth_limit = (uint32_t)MIN(MAX(depth, 1ull), (uint64_t)LIVE_DEPTH_MAX);
	head->started_mono_ns = clock_ns(CLOCK_MONOTONIC);
	head->opened_bytes = sizeof *head + LIVE_PAGE;
}

/* Creates an empty profile that describes the process. The caller still owns fd. */
static bool make_in(int fd, enum live_kept kept, const struct live_budget *budget, int no_file)
{
	uint64_t total = 0;
	char *at = map_memory(fd, &total);
	bool is_file = kept == LIVE_KEPT_FILE;

	if (at == NULL)
		return false;
	struct live_header *head = (struct live_header *)(void *)at;
	struct live_control *control = (struct live_control *)(void *)(at + total);

	sys_madvise(at, total + LIVE_PAGE, MADV_DONTDUMP);
	if ((fd >= 0 && !is_file &&
	     sys_failed(sys_call3(SYS_fcntl, fd, SYS_ADD_SEALS, SYS_SEALS))) ||
	    !open_pages(at, sizeof *head, is_file) || !open_pages(control, LIVE_PAGE, is_file) ||
	    live_header_init(head, total) < 0) {
		sys_munmap(at, total + LIVE_PAGE);
		return false;
	}
	memory_dump(head, sizeof *head);
	memory_dump(control, LIVE_PAGE);
	fill_control(control, budget);
	fill_head(head, kept, no_file);
	memory_use(head, control);
	return true;
}

static long make_memfd(void)
{
	static const char name[] = "heapgauge-profile";
	long fd = sys_call3(SYS_memfd_create, (long)name, SYS_MEMFD_FLAGS | SYS_MEMFD_NOEXEC, 0);

	/* Kernels before 6.3 do not know the flag. */
	return fd == -EINVAL ? sys_call3(SYS_memfd_create, (long)name, SYS_MEMFD_FLAGS, 0) : fd;
}

/* ---- files ---- */

/* statfs(2), the kernel's layout. */
struct folder_facts {
	long type, block_bytes, blocks, free_blocks, available_blocks, rest[15];
};

/* 0, or an errno; ret_room: how much of it we may use. */
static int look_at_folder(uint64_t *ret_room)
{
	struct folder_facts facts = { 0 };
	long ret = sys_call3(SYS_statfs, (long)settings.folder, (long)&facts, 0);

	if (settings.folder[0] != '/')
		return EINVAL;
	if (sys_failed(ret))
		return (int)-ret;
	if (facts.type != TMPFS)
		return EOPNOTSUPP;
	/* A tmpfs without a limit reports 0 blocks. */
	uint64_t room = facts.blocks == 0
				? UINT64_MAX
				: (uint64_t)facts.available_blocks * (uint64_t)facts.block_bytes;

	if (room < FOLDER_MIN_BYTES)
		return ENOSPC;
	*ret_room = room / LIVE_BUDGET_OF_FOLDER;
	return 0;
}

/* 0, or an errno. */
static int make_file(struct live_budget budget)
{
	uint64_t folder_room = UINT64_MAX, seconds = self.started_real_ns / NS_PER_S;
	int why = look_at_folder(&folder_room);
	long fd = -EEXIST;

	if (why != 0)
		return why;
	if (limit_of(RLIMIT_FSIZE) < LIVE_TOTAL_MIN + LIVE_PAGE)
		return EFBIG;
	/* In containers, the same pids recur. */
	for (uint64_t i = 0; fd == -EEXIST && i < FILE_TRIES; i++) {
		name_file(seconds + i);
		fd = sys_call6(SYS_openat, AT_CWD, (long)file, SYS_MAKE_FILE, FILE_MODE, 0, 0);
	}
	if (sys_failed(fd)) {
		file[0] = 0;
		return (int)-fd;
	}
	sys_call3(SYS_fchmod, fd, FILE_MODE, 0); /* regardless of the umask */
	budget.bytes = MIN(budget.bytes, folder_room);
	budget.limit_bytes = MIN(budget.limit_bytes, folder_room);
	bool made = make_in((int)fd, LIVE_KEPT_FILE, &budget, 0);

	sys_close((int)fd);
	if (!made)
		profile_give_up();
	return made ? 0 : ENOMEM;
}

/* ---- with and without a collector ---- */

static bool make_for_collector(void)
{
	const struct live_budget budget = { settings.budget_bytes, settings.budget_limit_bytes };
	enum handover done = HANDOVER_BUSY;

	if (!rank_is_wanted(self.rank)) {
		handover_send(-1, NULL, self.ticket);
		return false;
	}
	long fd = make_memfd();

	if (!sys_failed(fd)) {
		bool made = make_in((int)fd, LIVE_KEPT_COLLECTOR, &budget, 0);

		if (made)
			done = handover_send((int)fd, NULL, self.ticket);
		sys_close((int)fd);
		if (done == HANDOVER_SENT)
			return true;
		if (made)
			memory_release();
	}
	/* Nobody would remove a file, so none is created. */
	if (done == HANDOVER_NOBODY)
		return false;
	if (make_file(budget) == 0)
		return true;
	if (!make_in(-1, LIVE_KEPT_MEMORY, &budget, 0))
		return false;
	if (handover_send(-1, memory.head, self.ticket) == HANDOVER_SENT)
		return true;
	memory_release();
	return false;
}

static bool make_self_hosted(void)
{
	struct live_budget budget = self_budget_find(&self);
	int no_file = 0;

	if (settings.budget_bytes != 0)
		budget = (struct live_budget){ settings.budget_bytes, settings.budget_limit_bytes };
	if (settings.folder[0] != 0) {
		no_file = make_file(budget);
		if (no_file == 0)
			return true;
	}
	long fd = make_memfd();
	bool made = !sys_failed(fd) && make_in((int)fd, LIVE_KEPT_MEMORY, &budget, no_file);

	if (!sys_failed(fd))
		sys_close((int)fd);
	return made || make_in(-1, LIVE_KEPT_MEMORY, &budget, no_file);
}

bool profile_make(bool forked, struct live_ticket ticket)
{
	file[0] = 0;
	ending = NULL;
	has_waited = 0;
	describe(forked, ticket);
	if (settings_of_collector)
		return make_for_collector();
	if (!make_self_hosted())
		return false;
	memory.head->health[HEALTH_unapplied_settings] = settings_unapplied;
	return true;
}

void profile_give_up(void)
{
	if (file[0] != 0)
		sys_unlink(file);
	file[0] = 0;
}

/* False in a vfork child, which shares our memory, and in a fork's child without a profile, which may be the first process of another
 * pid namespace as its parent is of its own. */
static bool is_ours_to_end(bool wanted)
{
	return wanted && memory.head != NULL && !hook_in_new_child() &&
	       sys_may(SYS_OTHERS | SYS_THREADS) && (uint32_t)sys_getpid() == memory.head->pid;
}

void profile_end(void)
{
	if (is_ours_to_end(file[0] != 0 && !settings_keep))
		profile_give_up();
}

/* Until the collector has taken an image. If it does not answer, or its clock stands still, it has ended. (Threads that go on may move
 * the clock, too.) */
static void wait_for_image(void)
{
	enum { POLL_NS = 2000000, POLLS_MAX = 4800, CLOCK_POLLS = 500 };
	const struct timespec pause = { .tv_nsec = POLL_NS };
	struct live_control *control = memory.control;
	uint64_t clock_ms = 0;

	__atomic_store_n(&control->at_exit, LIVE_EXIT_WAITING, __ATOMIC_RELEASE);
	for (int i = 0; i < POLLS_MAX; i++) {
		uint32_t state = __atomic_load_n(&control->at_exit, __ATOMIC_ACQUIRE);

		if (state != LIVE_EXIT_WAITING && state != LIVE_EXIT_TAKEN)
			return;
		if (i % CLOCK_POLLS == 0) {
			uint64_t now_ms = __atomic_load_n(&control->clock_ms, __ATOMIC_RELAXED);

			if (i > 0 && (now_ms == clock_ms || state == LIVE_EXIT_WAITING))
				return;
			clock_ms = now_ms;
		}
		sys_call3(SYS_nanosleep, (long)&pause, 0, 0);
	}
}

/* Of several threads the first one ends the process, as it does where nobody waits: the status is its. It has other things to do then, for
 * which it gets a second. */
static void wait_for_end(void)
{
	enum { POLL_NS = 2000000, POLLS_MAX = 21000, POLLS_AFTER = 500 };
	const struct timespec pause = { .tv_nsec = POLL_NS };

	for (int i = 0, after = 0; i < POLLS_MAX && after < POLLS_AFTER; i++) {
		after += __atomic_load_n(&has_waited, __ATOMIC_RELAXED);
		sys_call3(SYS_nanosleep, (long)&pause, 0, 0);
	}
}

/* While it waits here, the program has ended as far as it knows: a timer or the end of a child must not end it by a signal now, nor run a
 * handler among what was torn down. Signals that somebody sends work as before, also those by which runtimes stop their threads. */
enum { SIGSET_BYTES = 8 };
#define BIT(signal) (1ull << ((signal)-1))
static const uint64_t timers =
	BIT(SIGALRM) | BIT(SIGVTALRM) | BIT(SIGPROF) | BIT(SIGIO) | BIT(SIGURG) | BIT(SIGCHLD);
#undef BIT

/* Returns the signals that were blocked. */
static uint64_t block_timers(void)
{
	uint64_t before = timers;

	sys_call6(SYS_rt_sigprocmask, SIG_BLOCK, (long)&timers, (long)&before, SIGSET_BYTES, 0, 0);
	return before;
}

/* What else runs at exit finds them as they were. Those that came meanwhile are dropped: without us, the program would have ended
 * before. */
static void unblock_timers(uint64_t before)
{
	const struct timespec at_once = { 0 };
	uint64_t ours = timers & ~before;

	while (ours != 0 && !sys_failed(sys_call6(SYS_rt_sigtimedwait, (long)&ours, 0,
						  (long)&at_once, SIGSET_BYTES, 0, 0)))
		continue;
	sys_call6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, SIGSET_BYTES, 0, 0);
}

static bool waits_at_exit(void)
{
	return memory.head != NULL && sys_may(SYS_HOLD | SYS_WAIT) &&
	       __atomic_load_n(&memory.control->at_exit, __ATOMIC_RELAXED) != LIVE_EXIT_AT_ONCE;
}

void profile_exit(void)
{
	const struct thread_state *before = NULL;
	bool waits = is_ours_to_end(waits_at_exit());
	uint64_t blocked = waits ? block_timers() : 0;

	if (waits && __atomic_compare_exchange_n(&ending, &before, &thread_state, false,
						 __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
		if (__atomic_load_n(&memory.control->at_exit, __ATOMIC_RELAXED) == LIVE_EXIT_HELD)
			wait_for_image();
		__atomic_store_n(&has_waited, 1, __ATOMIC_RELAXED);
	} else if (waits && before != &thread_state) { /* not a signal handler of that thread */
		wait_for_end();
	}
	if (waits)
		unblock_timers(blocked);
	profile_end();
}

void profile_becomes(const char *path, bool search)
{
	enum { EXECUTABLE = 1 };

	if (file[0] != 0 && sys_may(SYS_OTHERS) &&
	    (search || !sys_failed(sys_access(path, EXECUTABLE))))
		profile_end();
}
