/* SPDX-License-Identifier: Apache-2.0 */
/* The profile of a process that nobody collects. The folder is used only if it is on a tmpfs, whose pages come and stay by
 * themselves, and if the kernel can say "no room" without a signal (MADV_POPULATE_WRITE). Otherwise, and where a limit of
 * the process forbids files of that size, memory does; and the head says why.
 *
 * The control page lies behind the profile in the same memory and is written here: what a collector would say once, and
 * the clock, which moves when something slow is done anyway (own_tick). The time is the kernel's coarse one, taken from the
 * vdso: no system call, no time-stamp counter, which a program may have been forbidden.
 *
 * Owns: the settings of the environment, read once; the file's name; own_clock. */
#include "recorder/own.h"

#include <errno.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/checked.h"
#include "format/wraps.h"
#include "recorder/exec.h"
#include "recorder/lookup.h"
#include "recorder/memory.h"
#include "recorder/room.h"
#include "recorder/sample.h"
#include "recorder/sys.h"

enum {
	DIR_BYTES = 256,
	FILE_BYTES = DIR_BYTES + 128,
	NAME_BYTES = 48,
	MILLIONTHS_OF_PERCENT = 10000,
	FILE_TRIES = 64,
	FILE_MODE = 0600,
	FILE_FLAGS = 02 | 0100 | 0200 | 0400000 | 02000000, /* RDWR CREAT EXCL NOFOLLOW CLOEXEC */
	AT_CWD = -100,
	TMPFS = 0x01021994,
	MEMFD_FLAGS = 1 | 2,	   /* CLOEXEC, ALLOW_SEALING */
	ADD_SEALS = 1033,	   /* fcntl */
	SEALS = 1 | 2 | 4,	   /* SEAL, SHRINK, GROW */
	SHARE_OF_FOLDER = 10,	   /* of what is free there: others need some, too */
	STOPPED_MS = 250,	   /* as the collector has it */
	STOPPED_OPERATIONS = 1000, /* that were given a wrong time */
};
#define FOLDER_MIN_BYTES (8ull << 20)
#define NS_PER_MS 1000000u

bool own_clock;
static struct live_control *control;
static char file[FILE_BYTES]; /* of this process' profile; "" = none */

typedef int clock_fn(clockid_t, struct timespec *);
static clock_fn *coarse_clock;

/* ---- settings ---- */

static struct {
	char dir[DIR_BYTES];
	uint64_t budget_bytes; /* 0 = not said */
	uint32_t cpu_millionths;
	uint64_t interval; /* of samples */
	uint32_t depth;
	char wraps[WRAPS_TEXT_MAX + 1];
	uint32_t mode; /* enum live_mode */
	bool keep;     /* the file, whatever the end */
} settings;

/* "64MiB", "64M", "65536": as the command line takes it, but for fractions. 0: not understood. */
static uint64_t size_of(const char *text)
{
	static const char units[] = "KMGT";
	uint64_t value = 0;

	for (; *text >= '0' && *text <= '9' && value < 1ull << 40; text++)
		value = value * 10 + (uint64_t)(*text - '0');
	for (unsigned i = 0; units[i]; i++) {
		if ((*text & ~32) == units[i])
			return value << 10 * (i + 1);
	}
	return *text == 0 || *text == ',' ? value : 0;
}

/* "16MiB", "0.5%", or both with a comma between them. */
static void take_budget(const char *text)
{
	while (*text) {
		uint64_t millionths = 0, unit = MILLIONTHS_OF_PERCENT;
		const char *at = text;

		for (; *at >= '0' && *at <= '9' && millionths < 1u << 30; at++)
			millionths =
				millionths * 10 + (uint64_t)(*at - '0') * MILLIONTHS_OF_PERCENT;
		if (*at == '.')
			at++;
		for (; *at >= '0' && *at <= '9'; at++)
			millionths += (uint64_t)(*at - '0') * (unit /= 10);
		if (*at == '%')
			settings.cpu_millionths = (uint32_t)MIN(millionths, (uint64_t)UINT32_MAX);
		else
			settings.budget_bytes = size_of(text);
		while (*at && *at != ',')
			at++;
		text = *at ? at + 1 : at;
	}
}

/* By their first letters: no two are alike. */
static uint32_t mode_of(const char *name)
{
	switch (name[0]) {
	case 'd':
		return LIVE_MODE_DORMANT;
	case 't':
		return LIVE_MODE_TAGS;
	case 's':
		return LIVE_MODE_SAMPLE;
	default:
		return LIVE_MODE_EXACT;
	}
}

static const char *variable(const char *name)
{
	for (char **entry = exec_environ(); *entry != NULL; entry++) {
		size_t n = 0;

		while (name[n] && (*entry)[n] == name[n])
			n++;
		if (name[n] == 0 && (*entry)[n] == '=')
			return *entry + n + 1;
	}
	return "";
}

/* Once: the program may do with its environment what it likes. */
static void read_settings(void)
{
	const char *dir = variable(LIVE_ENV_DIR);
	uint64_t depth = size_of(variable(LIVE_ENV_DEPTH));

	take_budget(variable(LIVE_ENV_BUDGET));
	settings.mode = mode_of(variable(LIVE_ENV_MODE));
	settings.interval = size_of(variable(LIVE_ENV_INTERVAL));
	if (settings.interval < SAMPLE_INTERVAL_MIN || settings.interval > SAMPLE_INTERVAL_MAX)
		settings.interval = SAMPLE_INTERVAL_DEFAULT;
	settings.keep = variable(LIVE_ENV_KEEP)[0] == '1';
	settings.depth =
		(uint32_t)(depth >= 1 && depth <= LIVE_DEPTH_MAX ? depth : LIVE_DEPTH_DEFAULT);
	const char *wraps = variable(LIVE_ENV_WRAP);
	size_t wraps_bytes = __builtin_strlen(wraps), bytes = __builtin_strlen(dir);

	if (wraps_bytes <= WRAPS_TEXT_MAX)
		__builtin_memcpy(settings.wraps, wraps, wraps_bytes);

	if (bytes < DIR_BYTES)
		__builtin_memcpy(settings.dir, dir, bytes);
	else
		settings.dir[0] = '?'; /* no absolute path: it is not used, and that is said */
}

/* ---- the file's name ---- */

static size_t append_text(char *to, size_t at, size_t room, const char *text)
{
	for (; *text && at + 1 < room; text++)
		to[at++] = *text;
	to[at] = 0;
	return at;
}

static size_t append_number(char *to, size_t at, size_t room, uint64_t number)
{
	char digits[24];
	size_t n = sizeof digits - 1;

	digits[n] = 0;
	do
		digits[--n] = (char)('0' + number % 10);
	while ((number /= 10) != 0);
	return append_text(to, at, room, digits + n);
}

/* The program's arguments, as the kernel put them. */
extern void *__libc_stack_end;
static char **arguments(void)
{
	return (char **)((uintptr_t *)__libc_stack_end + 1);
}

/* What argv[0] says behind its last slash, as far as it makes a file's name. */
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
	size_t at = append_text(file, 0, FILE_BYTES, settings.dir);

	at = append_text(file, at, FILE_BYTES, "/" LIVE_FILE_PREFIX);
	at = append_program(file, at, FILE_BYTES);
	at = append_text(file, at, FILE_BYTES, ".");
	at = append_number(file, at, FILE_BYTES, (uint64_t)sys_getpid());
	at = append_text(file, at, FILE_BYTES, ".");
	at = append_number(file, at, FILE_BYTES, seconds);
	append_text(file, at, FILE_BYTES, LIVE_FILE_SUFFIX);
}

/* ---- memory ---- */

static uint64_t limit_of(int resource)
{
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };

	sys_call6(SYS_prlimit64, 0, resource, 0, (long)&limit, 0, 0);
	return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : (uint64_t)limit.rlim_cur;
}

/* Sparse, so as large as can be mapped, with the control page behind it. fd -1: memory without a name. */
static void *map_memory(int fd, uint64_t *ret_total)
{
	uint64_t address_limit = limit_of(RLIMIT_AS), file_limit = limit_of(RLIMIT_FSIZE);
	uint64_t total = LIVE_TOTAL_DEFAULT;

	if (address_limit != UINT64_MAX)
		total = MAX(MIN(total, address_limit / 4), LIVE_TOTAL_MIN);
	/* To ask for more than that would be answered by a signal. */
	if (fd >= 0 && file_limit != UINT64_MAX)
		total = MIN(total, saturating_sub(file_limit, LIVE_PAGE));
	for (; total >= LIVE_TOTAL_MIN; total /= 4) {
		total &= ~(uint64_t)(LIVE_PAGE - 1);
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

static bool open_pages(void *at, uint64_t bytes, bool surely)
{
	if (sys_failed(sys_mprotect(at, bytes, PROT_READ | PROT_WRITE)))
		return false;
	/* An older kernel would say "no room" by a signal. */
	return surely ? !sys_failed(sys_madvise(at, bytes, SYS_POPULATE_WRITE))
		      : sys_populate(at, bytes);
}

/* Maps it and makes an empty profile there. fd is closed. */
static bool use(int fd, bool is_file)
{
	uint64_t total = 0;
	char *at = map_memory(fd, &total);

	if (fd >= 0 && !is_file)
		sys_call3(SYS_fcntl, fd, ADD_SEALS, SEALS);
	if (fd >= 0)
		sys_close(fd);
	if (at == NULL)
		return false;
	struct live_header *head = (struct live_header *)(void *)at;

	sys_madvise(at, total + LIVE_PAGE, MADV_DONTDUMP);
	if (!open_pages(at, sizeof *head, is_file) || !open_pages(at + total, LIVE_PAGE, is_file) ||
	    live_header_init(head, total) < 0) {
		sys_munmap(at, total + LIVE_PAGE);
		return false;
	}
	head->opened_bytes = sizeof *head + LIVE_PAGE;
	head->own.control_at = total;
	head->own.kept = is_file ? LIVE_KEPT_FILE : LIVE_KEPT_MEMORY;
	control = (struct live_control *)(void *)(at + total);
	memory_use(head, control);
	return true;
}

/* statfs(2), as the kernel writes it. */
struct folder_facts {
	long type, block_bytes, blocks, free_blocks, available_blocks, rest[15];
};

/* 0, or why not; ret_room: what may be taken of it. */
static int look_at_folder(uint64_t *ret_room)
{
	struct folder_facts facts = { 0 };
	long ret = sys_call3(SYS_statfs, (long)settings.dir, (long)&facts, 0);

	if (settings.dir[0] != '/')
		return EINVAL;
	if (sys_failed(ret))
		return (int)-ret;
	if (facts.type != TMPFS)
		return EOPNOTSUPP;
	/* A tmpfs without a limit says that it has no blocks. */
	uint64_t room = facts.blocks == 0
				? UINT64_MAX
				: (uint64_t)facts.available_blocks * (uint64_t)facts.block_bytes;

	if (room < FOLDER_MIN_BYTES)
		return ENOSPC;
	*ret_room = room / SHARE_OF_FOLDER;
	return 0;
}

/* 0, or why not. */
static int make_file(uint64_t seconds, uint64_t *ret_room)
{
	int why = look_at_folder(ret_room);
	long fd = -EEXIST;

	if (why != 0)
		return why;
	if (limit_of(RLIMIT_FSIZE) < LIVE_TOTAL_MIN + LIVE_PAGE)
		return EFBIG;
	/* In a container the numbers of processes are the same again and again. */
	for (uint64_t i = 0; fd == -EEXIST && i < FILE_TRIES; i++) {
		name_file(seconds + i);
		fd = sys_call6(SYS_openat, AT_CWD, (long)file, FILE_FLAGS, FILE_MODE, 0, 0);
	}
	if (sys_failed(fd)) {
		file[0] = 0;
		return (int)-fd;
	}
	sys_call3(SYS_fchmod, fd, FILE_MODE, 0); /* whatever the umask is */
	if (use((int)fd, true))
		return 0;
	own_give_up();
	return ENOMEM;
}

static bool make_memory(void)
{
	long fd = sys_call3(SYS_memfd_create, (long)"heapgauge-profile", MEMFD_FLAGS, 0);

	return (!sys_failed(fd) && use((int)fd, false)) || use(-1, false);
}

/* ---- what it says of itself ---- */

static void describe(struct live_own *own, uint64_t real_ns, int no_file)
{
	static struct utsname name; /* too large for somebody else's stack */
	size_t at = 0;

	own->started_real_ns = real_ns;
	own->no_file = (uint32_t)no_file;
	if (!sys_failed(sys_call3(SYS_uname, (long)&name, 0, 0)))
		append_text(own->host, 0, sizeof own->host, name.nodename);
	for (char **word = arguments(); *word != NULL; word++) {
		if (word != arguments())
			at = append_text(own->command, at, sizeof own->command, " ");
		at = append_text(own->command, at, sizeof own->command, *word);
	}
}

static void fill_control(struct room room, uint64_t folder_room)
{
	__builtin_memcpy(control->magic, LIVE_CONTROL_MAGIC, sizeof control->magic);
	control->mode = settings.mode;
	control->interval = settings.interval;
	control->depth_limit = settings.depth;
	control->cpu_millionths = settings.cpu_millionths;
	control->follow_fork = 1;
	append_text((char *)control + LIVE_WRAPS_AT, 0, sizeof settings.wraps, settings.wraps);
	control->budget_bytes = MIN(room.budget_bytes, folder_room);
	control->budget_limit_bytes = MIN(room.budget_limit_bytes, folder_room);
	if (settings.budget_bytes != 0)
		control->budget_bytes = control->budget_limit_bytes = settings.budget_bytes;
}

bool own_make(bool forked)
{
	uint64_t folder_room = UINT64_MAX;
	struct timespec now = { 0 };
	int no_file = 0;

	/* The environment of a privileged program is somebody else's. */
	if (getauxval(AT_SECURE) != 0)
		return false;
	if (!forked)
		read_settings();
	own_clock = false;
	file[0] = 0;
	sys_call3(SYS_clock_gettime, CLOCK_REALTIME, (long)&now, 0);
	if (settings.dir[0] != 0)
		no_file = make_file((uint64_t)now.tv_sec, &folder_room);
	if (file[0] == 0) {
		folder_room = UINT64_MAX;
		if (!make_memory())
			return false;
	}
	fill_control(room_find(&memory.head->own), folder_room);
	describe(&memory.head->own, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
		 no_file);
	coarse_clock = (clock_fn *)lookup_vdso("__vdso_clock_gettime");
	own_clock = coarse_clock != NULL;
	return true;
}

bool own_turn(uint32_t mode)
{
	if (memory.control != control)
		return false;
	__atomic_store_n(&control->mode, mode <= LIVE_MODE_EXACT ? mode : settings.mode,
			 __ATOMIC_RELEASE);
	return true;
}

void own_give_up(void)
{
	if (file[0] != 0)
		sys_call3(SYS_unlink, (long)file, 0, 0);
	file[0] = 0;
	own_clock = false;
}

void own_end(void)
{
	if (file[0] == 0 || settings.keep || memory.head == NULL || !sys_may(SYS_OTHERS) ||
	    !sys_may(SYS_THREADS) || (uint32_t)sys_getpid() != memory.head->pid)
		return;
	sys_call3(SYS_unlink, (long)file, 0, 0);
	file[0] = 0;
}

void own_becomes(const char *path, bool search)
{
	enum { EXECUTABLE = 1 };

	if (file[0] != 0 && sys_may(SYS_OTHERS) &&
	    (search || !sys_failed(sys_call3(SYS_access, (long)path, EXECUTABLE, 0))))
		own_end();
}

/* ---- the clock ---- */

/* It may stand still while nothing slow is done. Many operations meanwhile: their times are too short, which is said. */
static void note_gap(struct slot *slot, uint64_t gap_ms)
{
	uint64_t operations = slot->live->calls + slot->live->frees;

	if (gap_ms >= STOPPED_MS && operations - slot->operations_at_tick > STOPPED_OPERATIONS)
		__atomic_add_fetch(&memory.head->health[HEALTH_clock_stopped], gap_ms,
				   __ATOMIC_RELAXED);
	slot->operations_at_tick = operations;
}

NOINLINE void own_tick_slow(struct slot *slot)
{
	struct timespec now;

	if (coarse_clock(CLOCK_MONOTONIC_COARSE, &now) != 0)
		return;
	uint64_t ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	uint64_t ms = saturating_sub(ns, memory.head->started_mono_ns) / NS_PER_MS;
	uint32_t before = __atomic_load_n(&control->clock_ms, __ATOMIC_RELAXED);

	/* Another thread may have been faster, or somebody outside keeps a finer one: never back. */
	if (ms <= before)
		return;
	note_gap(slot, ms - before);
	__atomic_store_n(&control->clock_ms, (uint32_t)ms, __ATOMIC_RELAXED);
	__atomic_store_n(&control->birth_code, live_birth_code(ms), __ATOMIC_RELAXED);
}
