/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order matters, since the caller may be killed between any two steps, and the kernel then lets the thread run with what it has:
 *   1. write the signal frame below the red zone, where the program has nothing;
 *   2. set all registers at once: from here on the frame heals the thread;
 *   3. block all signals, which the frame undoes;
 *   4. the calls;
 *   5. stop where the kernel restarts calls (PTRACE_EVENT_STOP: not at the exit of a call), restore the mask, then the registers;
 *   6. restore the bytes below the stack.
 *
 * A thread inside a restartable sequence (rseq) is not used: the kernel would forget that it must be aborted. Nor is one whose system calls
 * a seccomp filter or the program itself (syscall user dispatch, known since Linux 6.4) decides about: it could be killed. The program may
 * have begun that after clone_prepare, and in some threads only.
 * Owned by the thread that traces the process. Invariant: orig_rax is -1 while registers are changed, so that nothing is restarted.
 */
#include "collect/trace/remote_call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collect/kernel/procfs.h"
#include "util/cleanup.h"

bool remote_has_filter(pid_t tid)
{
	AUTO_FREE char *status = procfs_file(tid, "status", NULL);
	const char *line = status ? strstr(status, "\nSeccomp:") : NULL;

	return line && strtol(line + sizeof "\nSeccomp:" - 1, NULL, 10) != 0;
}

#ifdef __x86_64__

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/checked.h"
#include "collect/trace/stop.h"
#include "collect/kernel/map_line.h"
#include "format/live/live.h"
#include "util/clock.h"

enum {
	RED_ZONE = 128,
	FRAME_BYTES = 1024, /* return address, context */
	VECTORS_MAX = 16 << 10,
	CODE_MAX = 64 << 20, /* of a mapping that is searched */
	SEARCH_BYTES = 1 << 20,
	PATTERN_MAX = 9,
	CODE_64_BIT = 0x33, /* code segment */
	CALL_BYTES = 2,	    /* of the instruction `syscall` */
	ERESTART_FIRST = 512,
	ERESTART_BLOCK = 516,
	/* linux/asm: of the context in a signal frame, and of the vector registers there */
	CONTEXT_FLAGS = 1 | 2 | 4, /* UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS */
	INVALID_STACK = 0x7f, /* flags with which the kernel leaves the signal stack as it is */
	XSTATE_INFO = 464,
	TRACE_GET_RSEQ = 0x420f,
	TRACE_GET_USER_DISPATCH = 0x4211,
	RSEQ_SECTION = 8, /* offset of rseq_cs */
};
#define CALL_NS (2 * NS_PER_S)

/* What is written below the stack; the return address is where the stack pointer points. */
struct frame {
	uint64_t return_address;
	ucontext_t context;
};
_Static_assert(sizeof(struct frame) <= FRAME_BYTES, "space below the stack");
_Static_assert(RED_ZONE + 2 * FRAME_BYTES + VECTORS_MAX + 2 * 64 <= REMOTE_STACK_BYTES,
	       "what callers reserve");

/* linux/asm/sigcontext.h: struct _fpx_sw_bytes */
struct vectors_info {
	uint32_t magic, total_bytes;
	uint64_t features;
	uint32_t bytes, padding[7];
};

struct remote_thread {
	pid_t tid;
	int memory;
	struct remote_code code;
	struct user_regs_struct saved;
	uint64_t mask;
	uint64_t at; /* of `below` in the process */
	size_t bytes;
	char *below; /* what was there */
};

/* ---- memory ---- */

/* Through /proc/PID/mem: unlike process_vm_readv it does not wait for a page that a userfaultfd shall provide, but fails. It also ignores
 * the protection of pages, so the caller knows that they may be written. */
static int memory_open(pid_t pid, int flags)
{
	return open(procfs_path(pid, "mem").text, flags | O_CLOEXEC);
}

static bool read_at(int memory, uint64_t at, void *to, size_t bytes)
{
	return pread(memory, to, bytes, (off_t)at) == (ssize_t)bytes;
}

static bool write_at(int memory, uint64_t at, const void *from, size_t bytes)
{
	return pwrite(memory, from, bytes, (off_t)at) == (ssize_t)bytes;
}

/* ---- code ---- */

struct pattern {
	char bytes[9];
	size_t count;
};
static const struct pattern syscall_return = { { 0x0f, 0x05, (char)0xc3 }, 3 };
static const struct pattern signal_returns[] = {
	{ { 0x48, (char)0xc7, (char)0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 }, 9 }, /* glibc */
	{ { (char)0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 }, 7 },
};

static void find_in(struct remote_code *code, uint64_t start, const char *bytes, size_t count)
{
	const char *found = memmem(bytes, count, syscall_return.bytes, syscall_return.count);

	if (found && !code->syscall_return)
		code->syscall_return = start + (uint64_t)(found - bytes);
	for (size_t i = 0; i < ARRAY_SIZE(signal_returns) && !code->signal_return; i++) {
		found = memmem(bytes, count, signal_returns[i].bytes, signal_returns[i].count);
		if (found)
			code->signal_return = start + (uint64_t)(found - bytes);
	}
}

/* A page that cannot be read is left out. */
static void search(int memory, const struct map_line *map, char *buffer, struct remote_code *code)
{
	uint64_t end = map->start + MIN(map->end - map->start, (uint64_t)CODE_MAX);

	for (uint64_t at = map->start;
	     at < end && !(code->syscall_return && code->signal_return);) {
		ssize_t got =
			pread(memory, buffer, MIN(end - at, (uint64_t)SEARCH_BYTES), (off_t)at);

		if (got <= 0) {
			at = (at / LIVE_PAGE + 1) * LIVE_PAGE;
			continue;
		}
		find_in(code, at, buffer, (size_t)got);
		/* Patterns may lie across the border of two pieces. */
		at += (uint64_t)(got > PATTERN_MAX && at + (uint64_t)got < end ? got - PATTERN_MAX
									       : got);
	}
}

int remote_code_find(pid_t pid, struct remote_code *ret, struct error *error)
{
	AUTO_FREE char *text = procfs_file(pid, "maps", NULL);
	AUTO_FREE char *buffer = malloc(SEARCH_BYTES);
	AUTO_CLOSE int memory = memory_open(pid, O_RDONLY);
	const char *at = text;
	struct map_line map;

	*ret = (struct remote_code){ 0 };
	while (text && buffer && map_line_next(&at, &map))
		if (strncmp(map.permissions, "r-xp", 4) == 0)
			search(memory, &map, buffer, ret);
	return ret->syscall_return && ret->signal_return
		       ? 0
		       : error_set(error, "it has no code that makes a system call and returns");
}

static bool is_at(int memory, uint64_t at, const struct pattern *pattern)
{
	char bytes[sizeof pattern->bytes];

	return read_at(memory, at, bytes, pattern->count) &&
	       memcmp(bytes, pattern->bytes, pattern->count) == 0;
}

/* It may have executed another program since. */
static bool has_code(int memory, const struct remote_code *code)
{
	return is_at(memory, code->syscall_return, &syscall_return) &&
	       (is_at(memory, code->signal_return, &signal_returns[0]) ||
		is_at(memory, code->signal_return, &signal_returns[1]));
}

/* ---- registers ---- */

static bool get_registers(pid_t tid, struct user_regs_struct *ret)
{
	struct iovec vector = { ret, sizeof *ret };

	return ptrace(PTRACE_GETREGSET, tid, (void *)(intptr_t)NT_PRSTATUS, &vector) == 0 &&
	       vector.iov_len == sizeof *ret;
}

static bool set_registers(pid_t tid, const struct user_regs_struct *registers)
{
	struct user_regs_struct copy = *registers;
	struct iovec vector = { &copy, sizeof copy };

	return ptrace(PTRACE_SETREGSET, tid, (void *)(intptr_t)NT_PRSTATUS, &vector) == 0;
}

/* struct ptrace_rseq_configuration */
struct rseq_area {
	uint64_t at;
	uint32_t bytes, signature, flags, padding;
};

static bool is_in_sequence(int memory, pid_t tid)
{
	struct rseq_area area = { 0 };
	uint64_t section;

	if (ptrace((enum __ptrace_request)TRACE_GET_RSEQ, tid, (void *)sizeof area, &area) < 0 ||
	    area.at == 0)
		return false; /* the thread has registered none, or the kernel is too old to ask */
	return !read_at(memory, area.at + RSEQ_SECTION, &section, sizeof section) || section != 0;
}

/* struct ptrace_sud_config */
struct user_dispatch {
	uint64_t mode, selector, start, bytes;
};

static bool has_free_calls(pid_t tid)
{
	struct user_dispatch dispatch = { 0 };

	ptrace((enum __ptrace_request)TRACE_GET_USER_DISPATCH, tid, (void *)sizeof dispatch,
	       &dispatch);
	return dispatch.mode == 0 && !remote_has_filter(tid);
}

/* ---- signal frames ---- */

static void put_registers(const struct user_regs_struct *r, gregset_t to)
{
	to[REG_R8] = (greg_t)r->r8;
	to[REG_R9] = (greg_t)r->r9;
	to[REG_R10] = (greg_t)r->r10;
	to[REG_R11] = (greg_t)r->r11;
	to[REG_R12] = (greg_t)r->r12;
	to[REG_R13] = (greg_t)r->r13;
	to[REG_R14] = (greg_t)r->r14;
	to[REG_R15] = (greg_t)r->r15;
	to[REG_RDI] = (greg_t)r->rdi;
	to[REG_RSI] = (greg_t)r->rsi;
	to[REG_RBP] = (greg_t)r->rbp;
	to[REG_RBX] = (greg_t)r->rbx;
	to[REG_RDX] = (greg_t)r->rdx;
	to[REG_RAX] = (greg_t)r->rax;
	to[REG_RCX] = (greg_t)r->rcx;
	to[REG_RSP] = (greg_t)r->rsp;
	to[REG_RIP] = (greg_t)r->rip;
	to[REG_EFL] = (greg_t)r->eflags;
	to[REG_CSGSFS] = (greg_t)((r->cs & 0xffff) | (r->gs & 0xffff) << 16 |
				  (r->fs & 0xffff) << 32 | (r->ss & 0xffff) << 48);
}

static struct frame make_frame(const struct remote_thread *t,
			       const struct user_regs_struct *registers, uint64_t mask,
			       uint64_t vectors_at)
{
	struct frame frame = { .return_address = t->code.signal_return };

	frame.context.uc_flags = CONTEXT_FLAGS;
	frame.context.uc_stack.ss_flags = INVALID_STACK;
	put_registers(registers, frame.context.uc_mcontext.gregs);
	frame.context.uc_mcontext.fpregs = (fpregset_t)(uintptr_t)vectors_at;
	memcpy(&frame.context.uc_sigmask, &mask, sizeof mask);
	return frame;
}

/* The registers with which a thread continues that was interrupted in a call: as the kernel restarts it. */
static struct user_regs_struct restarted(const struct user_regs_struct *saved)
{
	struct user_regs_struct r = *saved;
	int64_t code = -(int64_t)r.rax;

	if ((int64_t)r.orig_rax < 0 || code < ERESTART_FIRST || code > ERESTART_BLOCK)
		return r;
	r.rax = code == ERESTART_BLOCK ? SYS_restart_syscall : r.orig_rax;
	r.rip -= CALL_BYTES;
	return r;
}

/* Turns what ptrace returns into what a signal frame has: 64 bytes tell its size. Returns its size there; 0: it cannot be read. */
static size_t read_vectors(pid_t tid, char to[static VECTORS_MAX + sizeof(uint32_t)])
{
	static const uint32_t last = 0x46505845; /* FP_XSTATE_MAGIC2 */
	struct iovec vector = { to, VECTORS_MAX };
	struct vectors_info info = { .magic = 0x46505853 }; /* FP_XSTATE_MAGIC1 */

	if (ptrace(PTRACE_GETREGSET, tid, (void *)(intptr_t)NT_X86_XSTATE, &vector) < 0 ||
	    vector.iov_len < XSTATE_INFO + sizeof info || vector.iov_len == VECTORS_MAX)
		return 0;
	memcpy(&info.features, to + XSTATE_INFO, sizeof info.features); /* XCR0 */
	info.bytes = (uint32_t)vector.iov_len;
	info.total_bytes = info.bytes + (uint32_t)sizeof last;
	memcpy(to + XSTATE_INFO, &info, sizeof info);
	memcpy(to + vector.iov_len, &last, sizeof last);
	return vector.iov_len + sizeof last;
}

static uint64_t healing_stack(const struct remote_thread *t)
{
	return t->at;
}

uint64_t remote_exit_stack(const struct remote_thread *thread)
{
	return thread->at + FRAME_BYTES;
}

/* Below the stack: the frame that heals the thread, the one that ends its copy, and the vector registers, aligned. */
static bool write_frames(struct remote_thread *t)
{
	AUTO_FREE char *bytes = calloc(1, 2 * FRAME_BYTES + VECTORS_MAX + sizeof(uint32_t));
	AUTO_FREE char *below = NULL;
	struct user_regs_struct healed = restarted(&t->saved), ends = t->saved;
	size_t vectors = bytes ? read_vectors(t->tid, bytes + 2 * FRAME_BYTES) : 0;

	if (vectors == 0)
		return false;
	t->bytes = 2 * FRAME_BYTES + vectors;
	t->at = (t->saved.rsp - RED_ZONE - t->bytes) & ~UINT64_C(63);
	ends.rax = SYS_exit_group;
	ends.rdi = REMOTE_EXIT_STATUS;
	ends.rip = t->code.syscall_return;
	ends.rsp = remote_exit_stack(t);
	struct frame heals = make_frame(t, &healed, t->mask, t->at + 2 * FRAME_BYTES);
	struct frame exits = make_frame(t, &ends, UINT64_MAX, 0);

	memcpy(bytes, &heals, sizeof heals);
	memcpy(bytes + FRAME_BYTES, &exits, sizeof exits);
	below = malloc(t->bytes);
	if (!below || !read_at(t->memory, t->at, below, t->bytes) ||
	    !write_at(t->memory, t->at, bytes, t->bytes))
		return false;
	t->below = TAKE(below);
	return true;
}

/* ---- calls ---- */

static bool get_mask(pid_t tid, uint64_t *ret)
{
	return ptrace(PTRACE_GETSIGMASK, tid, (void *)sizeof *ret, ret) == 0;
}

static bool set_mask(pid_t tid, uint64_t mask)
{
	return ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof mask, &mask) == 0;
}

static bool prepare_call(const struct remote_thread *t, const uint64_t words[static 7])
{
	struct user_regs_struct r = t->saved;

	r.orig_rax = UINT64_MAX;
	r.rip = t->code.syscall_return;
	r.rsp = healing_stack(t);
	r.rax = words[0];
	r.rdi = words[1];
	r.rsi = words[2];
	r.rdx = words[3];
	r.r10 = words[4];
	r.r8 = words[5];
	r.r9 = words[6];
	return set_registers(t->tid, &r);
}

struct remote_thread *remote_begin(pid_t pid, pid_t tid, const struct remote_code *code,
				   struct error *error)
{
	static const uint64_t nothing[7] = { SYS_getpid };
	struct remote_thread *t = calloc(1, sizeof *t);

	if (!t) {
		error_set(error, "out of memory");
		return NULL;
	}
	t->tid = tid;
	t->code = *code;
	t->memory = memory_open(pid, O_RDWR);
	if (t->memory < 0 || !has_code(t->memory, code))
		error_set(error, "the memory of thread %d cannot be read", tid);
	else if (!get_registers(tid, &t->saved) || t->saved.cs != CODE_64_BIT ||
		 !get_mask(tid, &t->mask))
		error_set(error, "the registers of thread %d cannot be read", tid);
	else if (is_in_sequence(t->memory, tid))
		error_set(error, "thread %d is in a restartable sequence", tid);
	else if (!has_free_calls(tid))
		error_set(error, "the program filters or handles system calls of thread %d", tid);
	else if (!write_frames(t))
		error_set(error, "thread %d has no space below its stack", tid);
	else if (!prepare_call(t, nothing) || !set_mask(tid, UINT64_MAX))
		error_set(error, "the registers of thread %d cannot be changed", tid);
	else
		return t;
	remote_end(t);
	return NULL;
}

struct stop_kind {
	int event; /* PTRACE_EVENT_STOP and others; 0 = none */
	int signal; /* that is delivered when the thread continues: SIGSTOP, which cannot be blocked */
};

/* Waits for the next stop. 1: at a call's entry or exit; 0: another one. */
static int next_stop(pid_t tid, struct stop_kind *ret, struct error *error)
{
	int status;

	if (!stop_wait(tid, clock_monotonic_ns() + CALL_NS, &status))
		return error_set(
			error, "the system call in thread %d did not return within 2 seconds", tid);
	if (!WIFSTOPPED(status))
		return error_set(error, "thread %d has ended", tid);
	bool is_call = WSTOPSIG(status) == (SIGTRAP | 0x80);

	ret->event = status >> 16;
	ret->signal = is_call || ret->event != 0 ? 0 : WSTOPSIG(status);
	return is_call;
}

/* The copy starts with a stop. From now on it ends with the caller; before, it would have ended itself. */
static bool take_child(const struct remote_thread *t, pid_t *ret_child)
{
	unsigned long child = 0;
	int status;

	if (ptrace(PTRACE_GETEVENTMSG, t->tid, 0, &child) < 0 || child == 0)
		return false;
	*ret_child = (pid_t)child;
	return stop_wait(*ret_child, clock_monotonic_ns() + CALL_NS, &status) &&
	       WIFSTOPPED(status) &&
	       ptrace(PTRACE_SETOPTIONS, *ret_child, 0, (void *)(intptr_t)PTRACE_O_EXITKILL) == 0;
}

int remote_call(struct remote_thread *t, const uint64_t words[static 7], int64_t *ret,
		pid_t *ret_child, struct error *error)
{
	long options = PTRACE_O_TRACESYSGOOD | (ret_child ? PTRACE_O_TRACECLONE : 0);
	struct user_regs_struct after;
	struct stop_kind kind = { 0 };

	if (!prepare_call(t, words) ||
	    ptrace(PTRACE_SETOPTIONS, t->tid, 0, (void *)(intptr_t)options) < 0)
		return error_errno(error, "cannot make a system call in thread %d", t->tid);
	for (int stops = 0; stops < 2;) {
		if (ptrace(PTRACE_SYSCALL, t->tid, 0, (void *)(intptr_t)kind.signal) < 0)
			return error_errno(error, "cannot continue thread %d", t->tid);
		int stop = next_stop(t->tid, &kind, error);

		if (stop < 0)
			return -1;
		stops += stop;
		if (kind.event == PTRACE_EVENT_CLONE && ret_child && !take_child(t, ret_child))
			return error_set(error, "the copy of the process did not stop");
	}
	if (!get_registers(t->tid, &after))
		return error_errno(error, "thread %d has ended", t->tid);
	*ret = (int64_t)after.rax;
	/* The kernel restarts interrupted calls only after a stop of this kind. */
	ptrace(PTRACE_SETOPTIONS, t->tid, 0, (void *)(intptr_t)PTRACE_O_TRACESYSGOOD);
	while (kind.event != PTRACE_EVENT_STOP)
		if (ptrace(PTRACE_INTERRUPT, t->tid, 0, 0) < 0 ||
		    ptrace(PTRACE_CONT, t->tid, 0, (void *)(intptr_t)kind.signal) < 0 ||
		    next_stop(t->tid, &kind, error) < 0)
			return -1;
	return 0;
}

bool remote_end(struct remote_thread *t)
{
	bool restored = true;

	/* As long as the thread has our registers it needs the frame. */
	if (t->below)
		restored = set_mask(t->tid, t->mask) && set_registers(t->tid, &t->saved) &&
			   write_at(t->memory, t->at, t->below, t->bytes);
	if (t->memory >= 0)
		close(t->memory);
	free(t->below);
	free(t);
	return restored;
}

#else

static int unsupported(struct error *error)
{
	return error_set(error, "only x86-64 processes can be cloned");
}

int remote_code_find(pid_t pid, struct remote_code *ret, struct error *error)
{
	(void)pid;
	(void)ret;
	return unsupported(error);
}

struct remote_thread *remote_begin(pid_t pid, pid_t tid, const struct remote_code *code,
				   struct error *error)
{
	(void)pid;
	(void)tid;
	(void)code;
	unsupported(error);
	return NULL;
}

int remote_call(struct remote_thread *thread, const uint64_t words[static 7], int64_t *ret,
		pid_t *ret_child, struct error *error)
{
	(void)thread;
	(void)words;
	(void)ret;
	(void)ret_child;
	return unsupported(error);
}

bool remote_end(struct remote_thread *thread)
{
	(void)thread;
	return true;
}

uint64_t remote_exit_stack(const struct remote_thread *thread)
{
	(void)thread;
	return 0;
}

#endif
