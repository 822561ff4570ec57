/* SPDX-License-Identifier: Apache-2.0 */
/* See chaos.h. Its own system calls bypass the checks: a lock may be held, which is the point.
 *
 * Only calls that a kernel may reject are rejected, with the error it would return. Excluded are calls that do not fail (getpid,
 * close, a wake-up, the probe of a page), and unmapping, without which a program that limits its address space would really have
 * less of it. */
#include "recorder/checks/chaos.h"

#include <errno.h>
#include <time.h>

#include "base/hash.h"
#include "recorder/process/exec.h"
#include "recorder/sys.h"

struct chaos chaos;
struct chaos_schedule chaos_schedule[CHAOS_KINDS];
static uint64_t seed;
static uint32_t threads; /* threads that have used it */
static bool is_sealed;
static __thread uint64_t random_state;

static uint32_t next_random(void)
{
	if (random_state == 0)
		random_state =
			hash_mix(seed ^ (uint64_t)__atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED)
						<< 32) |
			1;
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 32);
}

static bool happens(uint32_t rate)
{
	return rate != 0 && next_random() % 65536 < rate;
}

static bool is_scheduled(enum chaos_kind kind)
{
	struct chaos_schedule *turn = &chaos_schedule[kind];
	uint64_t left = __atomic_load_n(&turn->left, __ATOMIC_RELAXED);

	if (LIKELY(left == 0))
		return false;
	if (left > 1 || !turn->all)
		__atomic_store_n(&turn->left, left - 1, __ATOMIC_RELAXED);
	return left == 1;
}

void chaos_start(void)
{
	static const uint32_t often[] = { 0, 64, 1024, 8192 }, seldom[] = { 0, 32, 256, 2048 };
	const char *digit = exec_variable("HEAPGAUGE_CHAOS");

	for (; *digit >= '0' && *digit <= '9'; digit++)
		seed = seed * 10 + (uint64_t)(*digit - '0');
	if (seed == 0)
		return;
	uint64_t hash = hash_mix(seed);

	chaos = (struct chaos){ .delay = often[hash & 3],
				.busy = often[hash >> 2 & 3],
				.lock = often[hash >> 4 & 3],
				.call = seldom[hash >> 6 & 3],
				.pages = often[hash >> 8 & 3] };
}

void chaos_seccomp(void)
{
	__atomic_store_n(&is_sealed, true, __ATOMIC_RELAXED);
}

/* Most delays are short; some yield the CPU. */
void chaos_delay(void)
{
	enum { SPINS = 1 << 12, NS_MOST = 1 << 16 };

	if (!happens(chaos.delay))
		return;
	uint32_t how = next_random();
	const struct timespec time = { .tv_nsec = how / 8 % NS_MOST };

	if (how % 8 > 1 || __atomic_load_n(&is_sealed, __ATOMIC_RELAXED)) {
		for (uint32_t i = how / 8 % SPINS; i > 0; i--)
			arch_pause();
	} else if (how % 8 == 1) {
		arch_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
	} else {
		arch_syscall(SYS_nanosleep, (long)&time, 0, 0, 0, 0, 0);
	}
}

bool chaos_makes_busy(void)
{
	chaos_delay();
	return happens(chaos.busy) || chaos_schedule[CHAOS_LOCK].left != 0;
}

bool chaos_refuses_lock(void)
{
	return happens(chaos.lock) || is_scheduled(CHAOS_LOCK);
}

bool chaos_refuses_pages(void)
{
	chaos_delay();
	return happens(chaos.pages) || is_scheduled(CHAOS_PAGES);
}

/* The error with which the kernel might reject the call; 0: it never does. */
static long error_of(long number)
{
	switch (number) {
	case SYS_mmap:
	case SYS_mprotect:
	case SYS_madvise:
	case SYS_memfd_create:
		return -ENOMEM;
	case SYS_openat:
	case SYS_socket:
		return -EMFILE;
	case SYS_connect:
	case SYS_sendmsg:
		return -EAGAIN;
	case SYS_ftruncate:
	case SYS_fcntl:
	case SYS_fchmod:
	case SYS_statfs:
	case SYS_fstatfs:
	case SYS_newfstatat:
	case SYS_fstat:
	case ARCH_SYS_READLINK:
	case SYS_getsockopt:
	case SYS_prctl:
	case SYS_read:
	case SYS_tgkill:
	case SYS_uname:
		return -EPERM;
	default:
		return 0;
	}
}

long chaos_refuses_call(long number)
{
	chaos_delay();
	long error = error_of(number);

	return error != 0 && (happens(chaos.call) || is_scheduled(CHAOS_CALL)) ? error : 0;
}
