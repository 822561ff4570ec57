/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PTRACE_SEIZE and PTRACE_INTERRUPT: unlike PTRACE_ATTACH they send no signal. A thread in a system call leaves it with a code such as
 * ERESTART_RESTARTBLOCK, and the kernel restarts it when the thread goes on, as after SIGSTOP and SIGCONT. A few calls report EINTR after
 * any stop (signal(7)): those that wait without a timeout are turned into a code that the kernel restarts.
 *
 * A thread in an uninterruptible sleep (state D: disk, network file system, the child of a vfork) does not stop before that ends. So
 * such a sleep is waited for before the first thread is interrupted, and no thread is stopped in vain if it does not end. A thread that
 * falls asleep later delays the others for 2 seconds at most.
 *
 * Threads start others while they are being stopped: the list is read again until it has nothing new. A thread that does not stop in
 * time cannot be let go by PTRACE_DETACH, which needs a stop: the kernel does so when the tracing thread ends.
 *
 * Invariant: a thread in `threads` is in a PTRACE_EVENT_STOP until stop_resume.
 */
#include "collect/trace/stop.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "collect/trace/registers.h"
#include "collect/kernel/procfs.h"
#include "collect/kernel/recorded_processes.h"
#include "util/cleanup.h"
#include "util/clock.h"

enum {
	VECTOR_WORDS_MAX = 2048, /* of the vector registers */
	POLL_NS = 50000,
	SLEEP_POLL_NS = 2000000,
	WRONG_PASSES_MAX = 100,
};
#define STOP_NS (2 * NS_PER_S)

bool stop_wait(pid_t tid, uint64_t deadline_ns, int *ret_status)
{
	const struct timespec pause = { .tv_nsec = POLL_NS };

	for (;;) {
		siginfo_t info = { 0 };

		/* Its end is left to its parent, which may be another thread of this process. */
		if (waitid(P_PID, (id_t)tid, &info,
			   WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) == 0 &&
		    (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED ||
		     info.si_code == CLD_DUMPED)) {
			*ret_status = 0;
			return true;
		}
		pid_t got = waitpid(tid, ret_status, __WALL | WNOHANG);

		if (got == tid)
			return true;
		if (got < 0 && errno != EINTR) {
			*ret_status = 0; /* as if it had exited */
			return true;
		}
		if (clock_monotonic_ns() > deadline_ns)
			return false;
		nanosleep(&pause, NULL);
	}
}

/* ---- registers ---- */

static size_t read_registers(pid_t tid, int set, void *to, size_t bytes)
{
	struct iovec vector = { to, bytes };

	return ptrace(PTRACE_GETREGSET, tid, (void *)(intptr_t)set, &vector) < 0 ? 0
										 : vector.iov_len;
}

#ifdef __x86_64__
#ifndef SYS_epoll_pwait2 /* glibc 2.31 does not have it */
#define SYS_epoll_pwait2 441
#endif

enum {
	KERNEL_ERESTARTNOHAND = 514,
	URING_HAS_ARGUMENT = 1 << 3, /* IORING_ENTER_EXT_ARG: a struct of which this is a word */
	URING_TIMEOUT_AT = 16,
	URING_IS_REGISTERED = 1 << 6, /* IORING_ENTER_EXT_ARG_REG: it is elsewhere */
};

static bool has_uring_timeout(pid_t tid, const struct user_regs_struct *r)
{
	if (!(r->r10 & URING_HAS_ARGUMENT))
		return false;
	errno = 0;
	return r->r10 & URING_IS_REGISTERED ||
	       ptrace(PTRACE_PEEKDATA, tid, (void *)(r->r8 + URING_TIMEOUT_AT), NULL) != 0 ||
	       errno != 0;
}

/* Whether the call waits for ever, and the kernel reports EINTR after a stop although no handler ran. */
static bool is_endless(pid_t tid, const struct user_regs_struct *r)
{
	switch (r->orig_rax) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
		return (int32_t)r->r10 < 0;
	case SYS_epoll_pwait2:
	case SYS_semtimedop:
		return r->r10 == 0;
	case SYS_semop:
		return true;
	case SYS_rt_sigtimedwait:
		return r->rdx == 0;
	case SYS_io_getevents:
		return r->r8 == 0;
	case SYS_io_uring_enter: /* reports EINTR only if it has submitted nothing */
		return !has_uring_timeout(tid, r);
	default:
		return false;
	}
}

/* With this code the kernel restarts the call, and if a handler must run first, reports EINTR. */
static void restart_endless_call(pid_t tid)
{
	struct user_regs_struct registers;
	struct iovec vector = { &registers, sizeof registers };

	if (read_registers(tid, NT_PRSTATUS, &registers, sizeof registers) != sizeof registers ||
	    (int64_t)registers.rax != -EINTR || !is_endless(tid, &registers))
		return;
	registers.rax = (uint64_t)-KERNEL_ERESTARTNOHAND;
	ptrace(PTRACE_SETREGSET, tid, (void *)(intptr_t)NT_PRSTATUS, &vector);
}
#else
static void restart_endless_call(pid_t tid)
{
	(void)tid;
}
#endif

/* ---- one thread ---- */

/* 1: it has stopped; 0: it has ended; -1: not in time. */
static int wait_for_stop(pid_t tid, uint64_t deadline_ns)
{
	int status;

	while (stop_wait(tid, deadline_ns, &status)) {
		if (!WIFSTOPPED(status))
			return 0;
		if (status >> 16 == PTRACE_EVENT_STOP) {
			/* At once: whatever becomes of us, it goes on with these registers. */
			restart_endless_call(tid);
			return 1;
		}
		/* A signal was about to be delivered: it is, and the stop follows. */
		ptrace(PTRACE_CONT, tid, 0, (void *)(intptr_t)WSTOPSIG(status));
	}
	return -1;
}

static int seize(pid_t tid)
{
	if (ptrace(PTRACE_SEIZE, tid, 0, (void *)(intptr_t)PTRACE_O_TRACESYSGOOD) < 0)
		return -1;
	/* Fails only if it is ending. */
	(void)ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	return 0;
}

static int keep_thread(struct stopped *s, pid_t tid, struct error *error)
{
	uint64_t vectors[VECTOR_WORDS_MAX], thread_pointer = 0;
	struct user_regs_struct registers;

	if (read_registers(tid, NT_PRSTATUS, &registers, sizeof registers) != sizeof registers) {
		ptrace(PTRACE_DETACH, tid, 0, 0);
		return error_set(
			error,
			"the registers of thread %d cannot be read: it may be a 32-bit program",
			tid);
	}
	size_t bytes = read_registers(tid, REGISTERS_VECTORS, vectors, sizeof vectors);

	read_registers(tid, NT_ARM_TLS, &thread_pointer, sizeof thread_pointer);
	/* If all of it is there, stop_resume lets the thread go. */
	if (registers_add(s, tid, &registers, thread_pointer, vectors, bytes / sizeof *vectors))
		return 0;
	ptrace(PTRACE_DETACH, tid, 0, 0);
	return error_set(error, "out of memory");
}

/* ---- sleeps that no signal ends ---- */

struct sleeper {
	pid_t tid;
	uint64_t switches; /* how often it has left the CPU: the same number means the same sleep */
};

static uint64_t status_number(const char *status, const char *field)
{
	const char *at = strstr(status, field);

	return at ? strtoull(at + strlen(field), NULL, 10) : 0;
}

static bool read_sleeper(pid_t pid, pid_t tid, struct sleeper *ret)
{
	char name[32];

	snprintf(name, sizeof name, "task/%d/status", tid);
	AUTO_FREE char *status = procfs_file(pid, name, NULL);

	if (!status || !strstr(status, "\nState:\tD"))
		return false;
	*ret = (struct sleeper){ tid,
				 status_number(status, "\nvoluntary_ctxt_switches:") +
					 status_number(status, "\nnonvoluntary_ctxt_switches:") };
	return true;
}

static bool still_sleeps(pid_t pid, const struct sleeper *before)
{
	struct sleeper now;

	return read_sleeper(pid, before->tid, &now) && now.switches == before->switches;
}

static int sleeps_on(pid_t tid, struct error *error)
{
	return error_set(
		error,
		"thread %d cannot be stopped: it has waited for 2 seconds for a device, or for the child of a vfork",
		tid);
}

/* Waits until the sleeps of this moment have ended. */
static int wait_for_sleepers(pid_t pid, uint64_t deadline_ns, struct error *error)
{
	const struct timespec pause = { .tv_nsec = SLEEP_POLL_NS };
	AUTO_CLOSE_FOLDER DIR *folder = opendir(procfs_path(pid, "task").text);
	VECTOR(struct sleeper) sleepers = { 0 };
	struct sleeper sleeper;
	int status = 0;

	for (pid_t tid; folder && (tid = procfs_next(folder)) != 0;)
		if (read_sleeper(pid, tid, &sleeper) && !vector_push(&sleepers, sleeper))
			status = error_set(error, "out of memory");
	while (status == 0 && sleepers.count > 0) {
		if (!still_sleeps(pid, &sleepers.at[sleepers.count - 1]))
			sleepers.count--;
		else if (clock_monotonic_ns() > deadline_ns)
			status = sleeps_on(sleepers.at[sleepers.count - 1].tid, error);
		else
			nanosleep(&pause, NULL);
	}
	vector_release(&sleepers);
	return status;
}

/* ---- all threads ---- */

static bool is_known(const struct stopped *s, const pid_t *pending, size_t count, pid_t tid)
{
	for (size_t i = 0; i < s->threads.count; i++)
		if (s->threads.at[i].tid == tid)
			return true;
	for (size_t i = 0; i < count; i++)
		if (pending[i] == tid)
			return true;
	return false;
}

/* In our namespace: 0 if none does, or one outside of it. */
static pid_t tracer_of(pid_t tid)
{
	AUTO_FREE char *status = procfs_file(tid, "status", NULL);
	const char *line = status ? strstr(status, "\nTracerPid:") : NULL;

	return line ? (pid_t)strtol(line + sizeof "\nTracerPid:" - 1, NULL, 10) : 0;
}

static int cannot_stop(pid_t pid, pid_t tid, struct error *error)
{
	int number = errno;
	pid_t tracer = tracer_of(tid);
	char name[16];

	if (number != EPERM)
		return error_errno(error, "cannot stop thread %d", tid);
	if (tracer == 0)
		return recorded_failed(pid, number, error);
	size_t length = procfs_thread_name(tracer, tracer, name);

	return error_set(
		error,
		"process %d may not be stopped, since process %d (%.*s) traces it, and only one can: detach or end that first",
		pid, tracer, (int)length, name);
}

/* The kernel refuses to trace it, with the same error as for lack of permission. */
static bool is_ending(pid_t pid, pid_t tid)
{
	char name[32];

	snprintf(name, sizeof name, "task/%d/stat", tid);
	AUTO_FREE char *text = procfs_file(pid, name, NULL);
	const char *end = text ? strrchr(text, ')') : NULL;

	return !end || strchr("ZX", end[1] ? end[2] : 0);
}

/* 1: it was interrupted; 0: it is ending; -1 with error set. */
static int seize_thread(pid_t pid, pid_t tid, struct error *error)
{
	if (seize(tid) == 0)
		return 1;
	int number = errno;

	/* An earlier attempt interrupted it, and it did not stop in time. */
	if (number == EPERM && tracer_of(tid) == gettid())
		return 1;
	if (number == ESRCH || is_ending(pid, tid))
		return 0;
	errno = number;
	return cannot_stop(pid, tid, error);
}

struct pass {
	VECTOR(pid_t) seized;
};

/* Interrupts the threads that are not stopped yet, so that all stop at the same time; then waits for each. Returns how many there were. */
static int stop_new(struct stopped *s, struct pass *pass, uint64_t deadline_ns, struct error *error)
{
	AUTO_CLOSE_FOLDER DIR *folder = opendir(procfs_path(s->pid, "task").text);
	int count = 0;

	if (!folder)
		return error_set(error, "process %d does not exist", s->pid);
	for (pid_t tid; (tid = procfs_next(folder)) != 0;) {
		if (is_known(s, pass->seized.at, pass->seized.count, tid))
			continue;
		if (!vector_reserve(&pass->seized, 1))
			return error_set(error, "out of memory");
		int seized = seize_thread(s->pid, tid, error);

		if (seized < 0)
			return -1;
		if (seized > 0)
			pass->seized.at[pass->seized.count++] = tid;
	}
	for (; pass->seized.count > 0; count++) {
		pid_t tid = pass->seized.at[--pass->seized.count];
		int stopped = wait_for_stop(tid, deadline_ns);

		if (stopped < 0)
			return sleeps_on(tid, error);
		if (stopped > 0 && keep_thread(s, tid, error) < 0)
			return -1;
	}
	return count;
}

/* After a failure: those that were interrupted and not waited for yet. */
static void resume_seized(const struct pass *pass, uint64_t deadline_ns)
{
	for (size_t i = 0; i < pass->seized.count; i++)
		if (wait_for_stop(pass->seized.at[i], deadline_ns) > 0)
			stop_thread_resume(pass->seized.at[i]);
}

int stop_all(pid_t pid, struct stopped *ret, struct error *error)
{
	struct pass pass = { 0 };
	int count = 1;

	*ret = (struct stopped){ 0 };
	if (wait_for_sleepers(pid, clock_monotonic_ns() + STOP_NS, error) < 0)
		return -1;
	uint64_t began_ns = clock_monotonic_ns();

	*ret = (struct stopped){ .pid = pid, .began_ns = began_ns };
	for (int i = 0; count > 0 && i < WRONG_PASSES_MAX; i++)
		count = stop_new(ret, &pass, began_ns + STOP_NS, error);
	resume_seized(&pass, began_ns + STOP_NS);
	vector_release(&pass.seized);
	if (count == 0 && ret->threads.count > 0)
		return 0;
	stop_resume(ret);
	return count < 0 ? -1 : error_set(error, "process %d has ended", pid);
}

uint64_t stop_resume(struct stopped *stopped)
{
	uint64_t began_ns = stopped->began_ns;

	for (size_t i = 0; i < stopped->threads.count; i++)
		stop_thread_resume(stopped->threads.at[i].tid);
	vector_release(&stopped->threads);
	vector_release(&stopped->words);
	*stopped = (struct stopped){ 0 };
	return began_ns ? clock_monotonic_ns() - began_ns : 0;
}

void stop_thread_resume(pid_t tid)
{
	ptrace(PTRACE_DETACH, tid, 0, 0);
}
