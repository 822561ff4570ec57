/* SPDX-License-Identifier: Apache-2.0 */
/* A filter is a classic BPF program over the number and arguments of a system call; it has no loops, and its result depends
 * on nothing else. So it can be evaluated in advance: we run it for each call that we may ever make, with the arguments that
 * we would pass. Addresses are made up: no filter can dereference one.
 *
 * No state. For a program that the kernel would reject, the result is arbitrary; then we only do without some calls. */
#include "recorder/process/seccomp_filter.h"

#include <linux/audit.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/compiler.h"
#include "recorder/sampling/countdown.h"
#include "recorder/sys.h"

struct question {
	uint16_t number;
	uint8_t group; /* enum sys_group */
	uint64_t argument[4];
};

#define ADDRESS 0x7f0000000000ull
#define SHARED (MAP_SHARED | MAP_NORESERVE)

static const struct question questions[] = {
	{ SYS_mprotect, SYS_MEMORY, { ADDRESS, 65536, PROT_READ | PROT_WRITE } },
	{ SYS_mprotect, SYS_MEMORY, { ADDRESS, ARCH_PAGE, PROT_READ } },
	{ SYS_madvise, SYS_MEMORY, { ADDRESS, 65536, SYS_POPULATE_WRITE } },
	{ SYS_rt_sigprocmask, SYS_PROBE, { ~0ull, ADDRESS, 0, 8 } },
	{ SYS_gettid, SYS_THREADS, { 0 } },
	{ SYS_getpid, SYS_THREADS, { 0 } },
	{ SYS_tgkill, SYS_THREADS, { 1000, 1000, 0 } },
	{ SYS_prctl, SYS_THREADS, { PR_GET_NAME, ADDRESS } },
	{ SYS_futex, SYS_WAIT, { ADDRESS, FUTEX_WAIT_PRIVATE, 1, ADDRESS } },
	{ SYS_futex, SYS_WAIT, { ADDRESS, FUTEX_WAKE_PRIVATE, 1 } },
	{ SYS_futex, SYS_WAIT, { ADDRESS, FUTEX_WAKE_OP_PRIVATE } },
	{ SYS_restart_syscall, SYS_WAIT, { 0 } }, /* by the kernel, if a stop cuts a wait short */
	{ SYS_process_vm_readv, SYS_READ, { 1000, ADDRESS, 1, ADDRESS } },
	/* reading a program, a limit, a library */
	{ SYS_newfstatat, SYS_OTHERS, { (uint64_t)-100, ADDRESS, ADDRESS } },
	{ SYS_openat, SYS_OTHERS, { (uint64_t)-100, ADDRESS, SYS_READ_QUIETLY } },
	{ SYS_fstat, SYS_OTHERS, { 3, ADDRESS } },
	{ SYS_getuid, SYS_OTHERS, { 0 } },
	{ SYS_geteuid, SYS_OTHERS, { 0 } },
	{ SYS_getgid, SYS_OTHERS, { 0 } },
	{ SYS_getegid, SYS_OTHERS, { 0 } },
	{ SYS_fstatfs, SYS_OTHERS, { 3, ADDRESS } },
	{ SYS_prctl, SYS_OTHERS, { PR_GET_NO_NEW_PRIVS } },
	{ SYS_fgetxattr, SYS_OTHERS, { 3, ADDRESS } },
	{ SYS_pread64, SYS_OTHERS, { 3, ADDRESS, 4 << 10, 0 } },
	{ SYS_munmap, SYS_OTHERS, { ADDRESS, 65536 } },
	{ SYS_close, SYS_OTHERS, { 3 } },
	ARCH_PATH_QUESTIONS(SYS_OTHERS, ADDRESS),
	/* start-up of a child, or of a program that inherits the filter */
	{ SYS_socket, SYS_OTHERS, { AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0 } },
	{ SYS_connect, SYS_OTHERS, { 3, ADDRESS, 50 } },
	{ SYS_getsockopt, SYS_OTHERS, { 3, SOL_SOCKET, SO_PEERCRED, ADDRESS } },
	{ SYS_sendmsg, SYS_OTHERS, { 3, ADDRESS, MSG_NOSIGNAL | MSG_DONTWAIT } },
	{ SYS_memfd_create, SYS_OTHERS, { ADDRESS, SYS_MEMFD_FLAGS | SYS_MEMFD_NOEXEC } },
	{ SYS_memfd_create, SYS_OTHERS, { ADDRESS, SYS_MEMFD_FLAGS } },
	{ SYS_ftruncate, SYS_OTHERS, { 3, 1ull << 36 } },
	{ SYS_fcntl, SYS_OTHERS, { 3, SYS_ADD_SEALS, SYS_SEALS } },
	{ SYS_statfs, SYS_OTHERS, { ADDRESS, ADDRESS } },
	{ SYS_openat, SYS_OTHERS, { (uint64_t)-100, ADDRESS, SYS_MAKE_FILE, 0600 } },
	{ SYS_fchmod, SYS_OTHERS, { 3, 0600 } },
	{ SYS_uname, SYS_OTHERS, { ADDRESS } },
	{ SYS_read, SYS_OTHERS, { 3, ADDRESS, 4095 } },
	{ SYS_clock_gettime, SYS_OTHERS, { 0, ADDRESS } },
	{ SYS_clock_gettime, SYS_OTHERS, { 1, ADDRESS } },
	{ SYS_clock_gettime, SYS_OTHERS, { 2, ADDRESS } },
	{ SYS_prctl, SYS_OTHERS, { PR_GET_TSC, ADDRESS } },
	{ SYS_getppid, SYS_OTHERS, { 0 } },
	{ SYS_prlimit64, SYS_OTHERS, { 0, RLIMIT_AS, 0, ADDRESS } },
	{ SYS_prlimit64, SYS_OTHERS, { 0, RLIMIT_FSIZE, 0, ADDRESS } },
	{ SYS_prlimit64, SYS_OTHERS, { 0, RLIMIT_STACK, 0, ADDRESS } },
	{ SYS_prlimit64, SYS_OTHERS, { 0, RLIMIT_MEMLOCK, 0, ADDRESS } },
	{ SYS_mmap, SYS_OTHERS, { 0, 1ull << 36, PROT_NONE, SHARED | MAP_ANONYMOUS } },
	{ SYS_mmap, SYS_OTHERS, { 0, 1ull << 36, PROT_NONE, SHARED } },
	{ SYS_mmap, SYS_OTHERS, { 0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS } },
	{ SYS_mmap,
	  SYS_OTHERS,
	  { ADDRESS, 65536, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE } },
	{ SYS_mmap,
	  SYS_OTHERS,
	  { 0, COUNTDOWN_BYTES, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE } },
	{ SYS_madvise, SYS_OTHERS, { ADDRESS, COUNTDOWN_BYTES, SYS_WIPE_ON_FORK } },
	{ SYS_madvise, SYS_OTHERS, { ADDRESS, ARCH_PAGE, MADV_DONTDUMP } },
	{ SYS_madvise, SYS_DUMP, { ADDRESS, 65536, MADV_DODUMP } },
	{ SYS_rt_sigprocmask, SYS_HOLD, { SIG_BLOCK, ADDRESS, ADDRESS, 8 } },
	{ SYS_rt_sigprocmask, SYS_HOLD, { SIG_SETMASK, ADDRESS, 0, 8 } },
	{ SYS_rt_sigtimedwait, SYS_HOLD, { ADDRESS, 0, ADDRESS, 8 } },
	{ SYS_nanosleep, SYS_HOLD, { ADDRESS } },
};

struct machine {
	uint32_t a, x, memory[BPF_MEMWORDS];
};

static uint32_t load(const struct seccomp_data *data, uint32_t at)
{
	uint32_t word = 0;

	if (at % sizeof word == 0 && at < sizeof *data)
		__builtin_memcpy(&word, (const char *)data + at, sizeof word);
	return word;
}

static uint32_t compute(uint16_t code, uint32_t a, uint32_t by)
{
	switch (BPF_OP(code)) {
	case BPF_ADD:
		return a + by;
	case BPF_SUB:
		return a - by;
	case BPF_MUL:
		return a * by;
	case BPF_DIV:
		return a / by; /* not 0 */
	case BPF_AND:
		return a & by;
	case BPF_OR:
		return a | by;
	case BPF_XOR:
		return a ^ by;
	case BPF_LSH:
		return a << (by & 31);
	case BPF_RSH:
		return a >> (by & 31);
	default:
		return -a; /* BPF_NEG */
	}
}

static bool jumps(uint16_t code, uint32_t a, uint32_t by)
{
	switch (BPF_OP(code)) {
	case BPF_JEQ:
		return a == by;
	case BPF_JGT:
		return a > by;
	case BPF_JGE:
		return a >= by;
	default:
		return (a & by) != 0; /* BPF_JSET */
	}
}

/* The value that a load yields. */
static uint32_t loaded(const struct machine *m, const struct sock_filter *at,
		       const struct seccomp_data *data)
{
	switch (BPF_MODE(at->code)) {
	case BPF_IMM:
		return at->k;
	case BPF_ABS:
		return load(data, at->k);
	case BPF_LEN:
		return sizeof *data;
	default:
		return m->memory[at->k % BPF_MEMWORDS];
	}
}

/* Returns the filter's result. The kernel rejects filters that run off their end. */
static uint32_t run_filter(const struct sock_fprog *program, const struct seccomp_data *data)
{
	struct machine m = { 0 };

	for (uint32_t pc = 0; pc < program->len; pc++) {
		const struct sock_filter *at = &program->filter[pc];
		uint32_t operand = BPF_SRC(at->code) == BPF_X ? m.x : at->k;

		switch (BPF_CLASS(at->code)) {
		case BPF_LD:
			m.a = loaded(&m, at, data);
			break;
		case BPF_LDX:
			m.x = loaded(&m, at, data);
			break;
		case BPF_ST:
			m.memory[at->k % BPF_MEMWORDS] = m.a;
			break;
		case BPF_STX:
			m.memory[at->k % BPF_MEMWORDS] = m.x;
			break;
		case BPF_ALU:
			if (BPF_OP(at->code) == BPF_DIV && operand == 0)
				return SECCOMP_RET_KILL_THREAD;
			m.a = compute(at->code, m.a, operand);
			break;
		case BPF_JMP:
			if (BPF_OP(at->code) == BPF_JA)
				pc = at->k < program->len ? pc + at->k : program->len;
			else
				pc += jumps(at->code, m.a, operand) ? at->jt : at->jf;
			break;
		case BPF_RET:
			return BPF_RVAL(at->code) == BPF_A ? m.a : at->k;
		default: /* BPF_MISC */
			if (BPF_MISCOP(at->code) == BPF_TAX)
				m.x = m.a;
			else
				m.a = m.x;
			break;
		}
	}
	return SECCOMP_RET_ALLOW;
}

/* Error 0 is worse than any other: success of a call that was not made. */
static bool is_harmless(uint32_t answer)
{
	uint32_t action = answer & SECCOMP_RET_ACTION_FULL;

	return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG ||
	       (action == SECCOMP_RET_ERRNO && (answer & SECCOMP_RET_DATA) != 0);
}

static bool is_readable(const void *at, size_t bytes)
{
	uintptr_t page = (uintptr_t)at & ~(uintptr_t)(ARCH_PAGE - 1);

	for (; page < (uintptr_t)at + bytes; page += ARCH_PAGE) {
		if (!sys_readable(page))
			return false;
	}
	return true;
}

unsigned filter_forbids(const struct sock_fprog *program)
{
	unsigned forbidden = 0;

	if (program == NULL)
		return 0;	 /* it only asks the kernel whether it knows filters */
	if (!sys_may(SYS_PROBE)) /* an earlier filter lets nobody look at this one */
		return SYS_ALL | SYS_HOLD | SYS_DUMP;
	if (!is_readable(program, sizeof *program) || program->len > BPF_MAXINSNS ||
	    !is_readable(program->filter, program->len * sizeof *program->filter))
		return 0; /* the kernel rejects it too */
	for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
		struct seccomp_data data = { .nr = questions[i].number,
					     .arch = ARCH_AUDIT,
					     .instruction_pointer =
						     (uintptr_t)__builtin_return_address(0) };

		for (size_t k = 0; k < ARRAY_SIZE(questions[i].argument); k++)
			data.args[k] = questions[i].argument[k];
		if (!is_harmless(run_filter(program, &data)))
			forbidden |= questions[i].group;
	}
	return forbidden;
}
