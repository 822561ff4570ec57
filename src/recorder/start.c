/* SPDX-License-Identifier: Apache-2.0 */
/* The hand-over: connect to the collector's socket, say hello, receive two descriptors one after the other, map each,
 * close everything. Afterwards the recorder holds no descriptor. Anything that fails leaves the recorder off and the
 * target untouched; that this process was to be recorded was announced before it began (starts.h). Where no collector is
 * named, the process makes a profile of its own (own.h).
 *
 * Runs once, from the first hook that is called, perhaps before any constructor: raw system calls only. */
#include "recorder/start.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "recorder/allocator.h"
#include "recorder/dial.h"
#include "recorder/exec.h"
#include "recorder/hook.h"
#include "recorder/labels.h"
#include "recorder/maps.h"
#include "recorder/marks.h"
#include "recorder/own.h"
#include "recorder/pace.h"
#include "recorder/pools.h"
#include "recorder/rules.h"
#include "recorder/sampled.h"
#include "recorder/starts.h"
#include "recorder/stats.h"
#include "recorder/sys.h"
#include "recorder/tags.h"
#include "recorder/wraps.h"

enum { PATIENCE_MS = 5000, CONNECT_TRIES = 200, TRY_AGAIN_MS = 5 };

static const uint64_t no_token = ~0ull; /* no thread has it */
const volatile uint64_t *fork_token = &no_token;
bool start_was_forked;

void start_failed(void)
{
	fork_token = &no_token;
	sample_start(true); /* no block is recorded */
}

static void pause_ms(int ms)
{
	sys_call3(SYS_poll, 0, 0, ms);
}

/* -1, or the connected socket. *ret_refused: nobody listens by that name here. */
static int connect_socket(const struct sockaddr_un *address, size_t bytes, bool *ret_refused)
{
	long fd = sys_call3(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*ret_refused = false;
	if (sys_failed(fd))
		return -1;
	for (int i = 0; i < CONNECT_TRIES; i++) {
		long ret = sys_call3(SYS_connect, fd, (long)address,
				     (long)(offsetof(struct sockaddr_un, sun_path) + bytes));

		if (!sys_failed(ret))
			return (int)fd;
		*ret_refused = ret == -ECONNREFUSED;
		if (ret != -EAGAIN && ret != -EINTR) /* EAGAIN: many connect at once */
			break;
		pause_ms(TRY_AGAIN_MS);
	}
	sys_close((int)fd);
	return -1;
}

/* "@PATH": the abstract socket of that name, which belongs to a network name space; in another one, the file. */
static int connect_to(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t bytes = 0;
	bool refused;

	while (name[bytes] && name[bytes] != ',' && bytes < sizeof address.sun_path - 1) {
		address.sun_path[bytes] = name[bytes];
		bytes++;
	}
	if (address.sun_path[0] != '@')
		return connect_socket(&address, bytes + 1, &refused);
	address.sun_path[0] = 0;
	int fd = connect_socket(&address, bytes, &refused);

	if (fd >= 0 || !refused)
		return fd;
	for (size_t i = 0; i < bytes; i++)
		address.sun_path[i] = address.sun_path[i + 1];
	return connect_socket(&address, bytes, &refused);
}

static uint64_t monotonic_ns(void)
{
	struct timespec now = { 0 };

	sys_call3(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool say_hello(int fd, bool forked, uint64_t ticket)
{
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };
	struct live_hello hello = { .pid = (uint32_t)sys_getpid(),
				    .ppid = (uint32_t)sys_call3(SYS_getppid, 0, 0, 0),
				    .reason = forked ? LIVE_HELLO_FORK : LIVE_HELLO_START,
				    .start_mono_ns = monotonic_ns(),
				    .ticket = ticket };

	sys_call6(SYS_prlimit64, 0, RLIMIT_AS, 0, (long)&limit, 0, 0);
	hello.address_limit = limit.rlim_cur == RLIM_INFINITY ? ~0ull : (uint64_t)limit.rlim_cur;
	__builtin_memcpy(hello.magic, LIVE_HELLO_MAGIC, sizeof hello.magic);
	return sys_call6(SYS_sendto, fd, (long)&hello, sizeof hello, MSG_NOSIGNAL, 0, 0) ==
	       sizeof hello;
}

static bool wait_readable(int fd)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	uint64_t until_ns = monotonic_ns() + PATIENCE_MS * 1000000ull;
	long ready;

	do
		ready = sys_call3(SYS_poll, (long)&wait, 1, PATIENCE_MS);
	while (ready == -EINTR && monotonic_ns() < until_ns);
	return ready == 1;
}

/* One answer and its descriptor; -1: none came. ret_bytes: how large the profile is. */
static int hear_welcome(int fd, uint64_t *ret_bytes)
{
	struct live_welcome welcome = { 0 };
	struct iovec part = { &welcome, sizeof welcome };
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof control.bytes };
	int got = -1;

	if (!wait_readable(fd))
		return -1;
	long bytes = sys_call3(SYS_recvmsg, fd, (long)&message, MSG_CMSG_CLOEXEC);

	if (sys_failed(bytes))
		return -1;
	const struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	if (head != NULL && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof got))
		__builtin_memcpy(&got, CMSG_DATA(head), sizeof got);
	*ret_bytes = welcome.total_bytes;
	if (got >= 0 &&
	    (bytes != sizeof welcome ||
	     __builtin_memcmp(welcome.magic, LIVE_HELLO_MAGIC, sizeof welcome.magic) != 0)) {
		sys_close(got);
		return -1;
	}
	return got;
}

/* Maps what the next answer brings; NULL: nothing. The first one is the profile, of *ret_bytes. */
static void *receive(int fd, bool profile, uint64_t *ret_bytes)
{
	int got = hear_welcome(fd, ret_bytes);

	if (got < 0)
		return NULL;
	long at =
		profile ? sys_mmap(NULL, *ret_bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, got, 0)
			: sys_mmap(NULL, LIVE_PAGE, PROT_READ, MAP_SHARED, got, 0);

	sys_close(got);
	return sys_failed(at) ? NULL : (void *)at;
}

static bool open_head(struct live_header *head, uint64_t bytes)
{
	sys_madvise(head, bytes, MADV_DONTDUMP);
	if (sys_failed(sys_mprotect(head, sizeof *head, PROT_READ | PROT_WRITE)))
		return false;
	if (!sys_populate(head, sizeof *head))
		return false;
	head->opened_bytes = sizeof *head;
	return head->total_bytes == bytes && live_header_check(head, bytes) == NULL;
}

/* Takes what the collector gives. */
static bool map_profile(int fd)
{
	uint64_t bytes = 0, again = 0;
	struct live_header *head = receive(fd, true, &bytes);
	void *control = head != NULL ? receive(fd, false, &again) : NULL;

	if (control != NULL && open_head(head, bytes)) {
		memory_use(head, control);
		return true;
	}
	if (head != NULL)
		sys_munmap(head, bytes);
	if (control != NULL)
		sys_munmap(control, LIVE_PAGE);
	return false;
}

static bool hand_over(bool forked, uint64_t ticket)
{
	const char *name = exec_socket();
	int fd;

	if ((fd = connect_to(name)) < 0)
		return false;
	if (!forked)
		exec_hide();
	bool mapped = say_hello(fd, forked, ticket) && map_profile(fd);

	sys_close(fd);
	return mapped;
}

/* A word that a fork's child finds zeroed. */
static bool make_token(void)
{
	static uint64_t count;
	static uint64_t *word; /* the same page again in every generation of children */

	if (word == NULL) {
		long page = sys_mmap(NULL, LIVE_PAGE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (sys_failed(page))
			return false;
		if (sys_failed(sys_madvise((void *)page, LIVE_PAGE, SYS_WIPE_ON_FORK))) {
			sys_munmap((void *)page, LIVE_PAGE);
			return false;
		}
		word = (uint64_t *)page;
	}
	*word = ++count;
	fork_token = word;
	return true;
}

static void reset_all(void)
{
	rules_reset();
	sites_reset();
	slot_reset();
	account_reset();
	blocks_reset();
	sampled_reset();
	maps_reset();
	modules_reset();
	tags_reset();
	marks_reset();
	pools_reset();
	labels_reset();
	stats_reset();
}

/* The mapped profile becomes an empty one. */
static bool furnish(bool forked)
{
	uint32_t limit = memory.control->depth_limit;

	memory.head->depth_limit = MIN(MAX(limit, 1u), (uint32_t)LIVE_DEPTH_MAX);
	memory.head->pid = (uint32_t)sys_getpid();
	memory.head->started_mono_ns = monotonic_ns();
	memory.head->peak.state = 1 << 1 | 1; /* epoch 1, rising */
	start_was_forked = forked;
	dial_start();
	pace_start();
	stack_start();
	allocator_probe();
	return rules_start() && sites_start();
}

bool start_recording(bool forked)
{
	if (next.is_recorder || (forked && !memory.control->follow_fork))
		return false;
	struct tags_kept *kept = NULL;
	uint64_t ticket;

	if (forked && !sys_may(SYS_OTHERS)) {
		starts_announce(MISSED_sealed, NULL, false);
		return false; /* what is the parent's stays mapped: giving it back is a system call */
	}
	if (forked) {
		ticket = starts_ticket(starts_announce(MISSED_child, NULL, false));
		kept = tags_keep();
		memory_release(); /* the parent's: no hook is running in it, the only thread is here */
		reset_all();
	} else {
		ticket = exec_take_ticket();
		modules_start();
	}
	bool begun = exec_socket() != NULL ? hand_over(forked, ticket) : own_make(forked);

	if (begun && (!furnish(forked) || !make_token())) {
		own_give_up();
		memory_release();
		begun = false;
	}
	if (begun && forked)
		tags_take_back(kept);
	tags_drop(kept);
	if (begun && !forked)
		wraps_start();
	if (begun)
		__atomic_store_n(&memory.head->ready, 1, __ATOMIC_RELEASE);
	return begun;
}
