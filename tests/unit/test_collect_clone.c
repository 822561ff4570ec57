/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/* flags: -pthread */
/* Stopping and cloning a real process: its system calls go on, it sees no child, and it survives the death of whoever stopped it. */
#include "unit.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "collect/trace/clone.h"
#include "collect/trace/remote_call.h"
#include "collect/kernel/procfs.h"
#include "util/cleanup.h"

enum work { SLEEP, POLL, READ, FUTEX, EPOLL, URING, COMPUTE, WORKS };
static const char *const work_names[] = { "nanosleep",	"poll",		  "read",      "futex",
					  "epoll_wait", "io_uring_enter", "arithmetic" };

/* Counts the calls of the code under test, which is linked statically and so calls this one. */
static int ptrace_calls;
long ptrace(enum __ptrace_request request, ...)
{
	static long (*next)(enum __ptrace_request, ...);
	va_list arguments;

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "ptrace");
	va_start(arguments, request);
	pid_t pid = va_arg(arguments, pid_t);
	void *at = va_arg(arguments, void *), *data = va_arg(arguments, void *);

	va_end(arguments);
	__atomic_fetch_add(&ptrace_calls, 1, __ATOMIC_RELAXED);
	return next(request, pid, at, data);
}

/* Shared by the target and the test. */
struct board {
	uint64_t done[WORKS], wrong[WORKS];
	int last_error[WORKS];
	uint64_t children_seen, sigchlds, strangers, held_open;
	int stop, in_vfork;
	int yields; /* the child of the vfork ends after a millisecond while no thread is traced, so that another one follows */
};
static struct board *board;
static int pipes[3][2];
static uint64_t changing; /* by the target, in its own memory */
enum { WAIT_MS = 7 };

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define STORE(x, y) __atomic_store_n(&(x), (y), __ATOMIC_RELAXED)

/* A sum whose value depends on every vector register being kept. */
static bool compute(void)
{
	double a[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, sum = 0;

	for (int i = 0; i < 20000; i++)
		for (int j = 0; j < 8; j++) {
			a[j] = a[j] * 1.0000001 + 0.5;
			sum += a[j];
		}
	static double expected;

	if (expected == 0)
		expected = sum;
	return sum == expected;
}

/* Reads a byte by io_uring; without it, as may be forbidden, does nothing. */
static bool read_by_ring(void)
{
	static struct io_uring_params setup;
	static struct io_uring_sqe *entries;
	static char *rings;
	static int fd = -1;
	char byte;

	if (fd < 0) {
		fd = (int)syscall(SYS_io_uring_setup, 1, &setup);
		if (fd < 0)
			return usleep(1000) == 0;
		rings = mmap(NULL,
			     setup.cq_off.cqes + setup.cq_entries * sizeof(struct io_uring_cqe),
			     PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQ_RING);
		entries = mmap(NULL, sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			       IORING_OFF_SQES);
	}
	entries[0] = (struct io_uring_sqe){
		.opcode = IORING_OP_READ, .fd = pipes[2][0], .addr = (uintptr_t)&byte, .len = 1
	};
	__atomic_fetch_add((uint32_t *)(void *)(rings + setup.sq_off.tail), 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, fd, 1, 0, 0, NULL, 0) != 1)
		return false;
	bool waited = syscall(SYS_io_uring_enter, fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 0;
	uint32_t *done = (uint32_t *)(void *)(rings + setup.cq_off.head),
		 *most = (uint32_t *)(void *)(rings + setup.cq_off.tail);

	while (LOAD(*most) == *done) /* `byte` must be there until then */
		usleep(100);
	__atomic_store_n(done, *done + 1, __ATOMIC_RELEASE);
	return waited;
}

static bool work_once(enum work work, int epoll)
{
	const struct timespec some = { .tv_nsec = WAIT_MS * 1000000 };
	static uint32_t word;
	struct epoll_event event;
	char byte;

	switch (work) {
	case SLEEP:
		return nanosleep(&some, NULL) == 0;
	case POLL:
		return poll(NULL, 0, WAIT_MS) == 0;
	case READ:
		return read(pipes[0][0], &byte, 1) == 1;
	case FUTEX:
		return syscall(SYS_futex, &word, FUTEX_WAIT, 0, &some, NULL, 0) < 0 &&
		       errno == ETIMEDOUT;
	case EPOLL:
		return epoll_wait(epoll, &event, 1, -1) == 1 && read(pipes[1][0], &byte, 1) == 1;
	case URING:
		return read_by_ring();
	default:
		return compute();
	}
}

static void *worker(void *argument)
{
	enum work work = (enum work)(intptr_t)argument;
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(0);

	epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[1][0], &event);
	while (!LOAD(board->stop)) {
		errno = 0;
		if (work_once(work, epoll)) {
			__atomic_fetch_add(&board->done[work], 1, __ATOMIC_RELAXED);
		} else {
			board->last_error[work] = errno;
			__atomic_fetch_add(&board->wrong[work], 1, __ATOMIC_RELAXED);
		}
	}
	return NULL;
}

static void on_child(int number)
{
	(void)number;
	__atomic_fetch_add(&board->sigchlds, 1, __ATOMIC_RELAXED);
}

/* Sees clones of any kind: in this test none. */
static void *wait_for_any(void *unused)
{
	while (!LOAD(board->stop)) {
		if (waitpid(-1, NULL, __WALL) > 0)
			__atomic_fetch_add(&board->strangers, 1, __ATOMIC_RELAXED);
		usleep(1000);
	}
	return unused;
}

/* Whether somebody else has the end of a pipe that is closed here. */
static bool is_held_open(const int ends[2])
{
	char byte;

	close(ends[1]);
	bool held = read(ends[0], &byte, 1) != 0;

	close(ends[0]);
	return held;
}

static void run_target(void)
{
	pthread_t threads[WORKS], waiter;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nothing behind */
	signal(SIGCHLD, on_child);
	if (pipe(pipes[0]) < 0 || pipe(pipes[1]) < 0 || pipe(pipes[2]) < 0)
		_exit(1);
	for (intptr_t i = 0; i < WORKS; i++)
		pthread_create(&threads[i], NULL, worker, (void *)i);
	pthread_create(&waiter, NULL, wait_for_any, NULL);
	while (!LOAD(board->stop)) {
		int ends[2];

		if (pipe2(ends, O_NONBLOCK) < 0)
			_exit(1);
		/* ECHILD: it has no children that a program waits for. */
		if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
			board->children_seen++;
		STORE(changing, changing + 1);
		usleep(2000);
		board->held_open += is_held_open(ends);
		if (write(pipes[0][1], "x", 1) != 1 || write(pipes[1][1], "x", 1) != 1 ||
		    write(pipes[2][1], "x", 1) != 1)
			_exit(2);
	}
	_exit(0);
}

static void wait_for_progress(void)
{
	uint64_t before[WORKS];

	memcpy(before, board->done, sizeof before);
	for (int tries = 0; tries < 1000; tries++) {
		bool all = true;

		usleep(5000);
		for (int i = 0; i < WORKS; i++)
			all = all && LOAD(board->done[i]) > before[i] + 1;
		if (all)
			return;
	}
	fail_msg("a thread of the target does not go on");
}

static pid_t start_target(void)
{
	board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	assert_true(board != MAP_FAILED);
	pid_t pid = fork();

	if (pid == 0)
		run_target();
	wait_for_progress();
	return pid;
}

static void end_target(pid_t pid, uint64_t interruptions_allowed)
{
	int status;

	wait_for_progress();
	for (int i = 0; i < WORKS; i++) {
		if (board->wrong[i] > interruptions_allowed)
			fail_msg("%s failed %llu times: errno %d", work_names[i],
				 (unsigned long long)board->wrong[i], board->last_error[i]);
		if (board->wrong[i] && board->last_error[i] != EINTR)
			fail_msg("%s: errno %d", work_names[i], board->last_error[i]);
	}
	assert_int_equal(board->children_seen, 0);
	assert_int_equal(board->sigchlds, 0);
	assert_int_equal(board->held_open, 0);
	STORE(board->stop, 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	munmap(board, sizeof *board);
}

/* ---- */

static void stops_interrupt_no_call(void **state)
{
	pid_t pid = start_target();

	(void)state;
	for (int i = 0; i < 100; i++) {
		struct stopped stopped;
		struct error error = ERROR_INIT;

		if (stop_all(pid, &stopped, &error) < 0)
			fail_msg("%s", error.message);
		assert_int_equal(stopped.threads.count, WORKS + 2);
		assert_true(stop_resume(&stopped) > 0);
		usleep(3000);
	}
	end_target(pid, 0);
}

static int count_traced(pid_t pid)
{
	AUTO_CLOSE_FOLDER DIR *folder = opendir(procfs_path(pid, "task").text);
	int count = 0;

	for (pid_t tid; folder && (tid = procfs_next(folder)) != 0;) {
		char path[64];

		snprintf(path, sizeof path, "task/%d/status", tid);
		AUTO_FREE char *text = procfs_file(pid, path, NULL);

		count += text && !strstr(text, "\nTracerPid:\t0\n");
	}
	return count;
}

static int run_child(void *unused)
{
	const struct timespec some = { .tv_nsec = 1000000 };

	(void)unused;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	STORE(board->in_vfork, 1);
	do
		nanosleep(&some, NULL);
	while (!LOAD(board->stop) && !(LOAD(board->yields) && count_traced(getppid()) == 0));
	_exit(0);
}

/* As in a vfork: a thread that waits for such a child cannot be stopped. */
static void *wait_for_child(void *unused)
{
	static char stack[64 << 10];

	(void)unused;
	while (!LOAD(board->stop)) {
		clone(run_child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
	STORE(board->done[READ], 1);
	return NULL;
}

static void *count_up(void *counter)
{
	while (!LOAD(board->done[READ])) {
		usleep(1000);
		__atomic_fetch_add((uint64_t *)counter, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* The kernel lists threads in the order of their birth: some before the one that cannot be stopped, some after it. */
static void run_vfork_target(void)
{
	pthread_t threads[3];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pthread_create(&threads[0], NULL, count_up, &board->done[SLEEP]);
	pthread_create(&threads[1], NULL, wait_for_child, NULL);
	pthread_create(&threads[2], NULL, count_up, &board->done[POLL]);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	_exit(0);
}

static bool goes_on(const uint64_t *counter)
{
	uint64_t before = LOAD(*counter);

	for (int i = 0; i < 5000 && LOAD(*counter) < before + 10; i++)
		usleep(1000);
	return LOAD(*counter) >= before + 10;
}

/* In a thread of its own, as stop.h demands. */
struct failure {
	pid_t pid;
	struct error error;
	int status;
	bool others_go_on;
};

static void *fail_to_stop(void *argument)
{
	struct failure *failure = argument;
	struct stopped stopped;

	failure->status = stop_all(failure->pid, &stopped, &failure->error);
	if (failure->status == 0)
		stop_resume(&stopped);
	failure->others_go_on = goes_on(&board->done[SLEEP]) && goes_on(&board->done[POLL]);
	return NULL;
}

static struct failure start_vfork_target(int yields)
{
	board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	assert_true(board != MAP_FAILED);
	board->yields = yields;
	struct failure failure = { fork(), ERROR_INIT, 0, false };

	if (failure.pid == 0)
		run_vfork_target();
	for (int i = 0; i < 5000 && (!LOAD(board->in_vfork) || !LOAD(board->done[SLEEP]) ||
				     !LOAD(board->done[POLL]));
	     i++)
		usleep(1000);
	return failure;
}

static void stop_in_a_thread(struct failure *failure)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, fail_to_stop, failure), 0);
	pthread_join(thread, NULL);
}

static void end_vfork_target(const struct failure *failure)
{
	int status;

	assert_int_equal(failure->status, -1);
	assert_non_null(strstr(failure->error.message, "vfork"));
	assert_true(failure->others_go_on);
	for (int i = 0; i < 1000 && count_traced(failure->pid) > 0; i++)
		usleep(1000);
	assert_int_equal(count_traced(failure->pid), 0);
	STORE(board->stop, 1);
	assert_int_equal(waitpid(failure->pid, &status, 0), failure->pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	munmap(board, sizeof *board);
}

static void a_thread_that_cannot_be_stopped_is_found_before_any_is_stopped(void **state)
{
	struct failure failure = start_vfork_target(0);
	int before = LOAD(ptrace_calls);

	(void)state;
	stop_in_a_thread(&failure);
	assert_int_equal(LOAD(ptrace_calls), before);
	end_vfork_target(&failure);
}

/* Its waits are short until the first thread is traced: only then does one last. */
static void a_thread_that_cannot_be_stopped_any_more_leaves_none_stopped(void **state)
{
	struct failure failure = start_vfork_target(1);
	int before = 0;

	(void)state;

	/* It may be stopped between two waits. */
	for (int i = 0; i < 1000 && failure.status == 0; i++) {
		before = LOAD(ptrace_calls);
		stop_in_a_thread(&failure);
	}
	assert_true(LOAD(ptrace_calls) > before);
	end_vfork_target(&failure);
}

#ifdef __x86_64__
static int count_children(pid_t pid)
{
	char path[64];
	AUTO_FREE char *text = NULL;
	int count = 0;

	snprintf(path, sizeof path, "task/%d/children", pid);
	text = procfs_file(pid, path, NULL);
	for (const char *at = text; at && *at; at++)
		count += *at == ' ';
	return count;
}

static uint64_t read_changing(pid_t pid)
{
	uint64_t value;
	struct iovec to = { &value, sizeof value }, from = { &changing, sizeof changing };

	assert_int_equal(process_vm_readv(pid, &to, 1, &from, 1, 0), sizeof value);
	return value;
}

static void clones_keep_the_moment_and_leave_nothing(void **state)
{
	pid_t pid = start_target();

	(void)state;
	for (int i = 0; i < 60; i++) {
		struct stopped stopped;
		struct process_clone copy = { 0 };
		struct error error = ERROR_INIT;

		if (clone_prepare(pid, &copy, &error) < 0 || stop_all(pid, &stopped, &error) < 0 ||
		    clone_make(&stopped, &copy, &error) < 0)
			fail_msg("%s", error.message);
		stop_resume(&stopped);
		uint64_t then = read_changing(copy.pid);

		usleep(4000);
		assert_int_equal(read_changing(copy.pid), then);
		while (read_changing(pid) == then)
			usleep(1000);
		if (clone_end(&copy, &error) < 0)
			fail_msg("%s", error.message);
		assert_int_equal(count_children(pid), 0);
	}
	assert_int_equal(board->strangers, 0);
	end_target(pid, 0);
}

/* How far whoever clones it gets before it is killed. */
enum step { CHANGED, CLONED, RESUMED, STEPS };

static void clone_and_die(pid_t pid, enum step step)
{
	struct stopped stopped;
	struct process_clone copy;
	struct error error = ERROR_INIT;
	int64_t result = 0;
	pid_t child = 0;

	if (clone_prepare(pid, &copy, &error) < 0 || stop_all(pid, &stopped, &error) < 0)
		_exit(3);
	if (step == RESUMED) {
		if (clone_make(&stopped, &copy, &error) < 0)
			_exit(4);
		stop_resume(&stopped);
		_exit(0);
	}
	/* Every thread: also the one that calculates. */
	for (size_t i = 0; i < stopped.threads.count; i++) {
		struct remote_thread *thread =
			remote_begin(pid, stopped.threads.at[i].tid, &copy.code, &error);

		if (!thread)
			continue;
		const uint64_t words[7] = { SYS_clone, CLONE_FILES, remote_exit_stack(thread) };

		if (step == CLONED &&
		    (remote_call(thread, words, &result, &child, &error) < 0 || result <= 0))
			_exit(6);
	}
	_exit(0);
}

/* Leaves a copy that is killed with us, or if it `ends_itself` not. */
static void leave_copy(pid_t pid, bool ends_itself)
{
	struct stopped stopped;
	struct process_clone copy;
	struct error error = ERROR_INIT;

	if (clone_prepare(pid, &copy, &error) < 0 || stop_all(pid, &stopped, &error) < 0 ||
	    clone_make(&stopped, &copy, &error) < 0)
		_exit(3);
	if (ends_itself)
		ptrace(PTRACE_SETOPTIONS, copy.pid, 0, 0); /* without PTRACE_O_EXITKILL */
	stop_resume(&stopped);
	_exit(0);
}

/* Children without an exit signal, as a copy is, for which the program has not waited yet: one was killed, the other has ended. */
static void run_parent(void)
{
	pid_t own[2];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		own[i] = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
		if (own[i] == 0 && i == 0)
			kill(getpid(), SIGKILL);
		if (own[i] == 0)
			_exit(0);
	}
	STORE(board->in_vfork, 1);
	while (!LOAD(board->stop))
		usleep(1000);
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (waitpid(own[i], NULL, __WALL) != own[i])
			_exit(1);
	_exit(waitpid(-1, NULL, __WALL | WNOHANG) == -1 && errno == ECHILD ? 0 : 2);
}

static size_t count_leftovers(pid_t pid)
{
	leftover_list list = { 0 };

	assert_true(leftovers_find(pid, &list));
	size_t count = list.count;

	vector_release(&list);
	return count;
}

static void zombies_of_killed_tracers_are_collected_and_no_others(void **state)
{
	enum { LEFT = 6 };
	struct process_clone copy = { 0 };
	struct error error = ERROR_INIT;
	struct stopped stopped;
	int status;

	(void)state;
	board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	assert_true(board != MAP_FAILED);
	pid_t pid = fork();

	if (pid == 0)
		run_parent();
	while (!LOAD(board->in_vfork))
		usleep(1000);
	for (int i = 0; i < LEFT; i++) {
		pid_t tracer = fork();

		if (tracer == 0)
			leave_copy(pid, i % 2);
		assert_int_equal(waitpid(tracer, &status, 0), tracer);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	while (count_leftovers(pid) < LEFT)
		usleep(1000);
	if (clone_prepare(pid, &copy, &error) < 0 || stop_all(pid, &stopped, &error) < 0 ||
	    clone_make(&stopped, &copy, &error) < 0)
		fail_msg("%s", error.message);
	stop_resume(&stopped);
	if (clone_end(&copy, &error) < 0)
		fail_msg("%s", error.message);
	assert_int_equal(copy.collected, LEFT);
	assert_int_equal(count_children(pid), 2);
	STORE(board->stop, 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	munmap(board, sizeof *board);
}

static void the_target_survives_whoever_stopped_it(void **state)
{
	(void)state;
	for (enum step step = 0; step < STEPS; step++) {
		pid_t pid = start_target();

		for (int i = 0; i < 10; i++) {
			int status;
			pid_t tracer = fork();

			if (tracer == 0)
				clone_and_die(pid, step);
			assert_int_equal(waitpid(tracer, &status, 0), tracer);
			assert_true(WIFEXITED(status));
			assert_int_equal(WEXITSTATUS(status), 0);
			usleep(2000);
		}
		/* Whoever dies in a remote call does not restart the call that it interrupted, if that has a timeout. */
		end_target(pid, step == RESUMED ? 0 : 10);
	}
}

static void the_target_survives_kills_at_random_moments(void **state)
{
	pid_t pid = start_target();
	uint64_t random = 4711;

	(void)state;
	for (int i = 0; i < 100; i++) {
		pid_t tracer = fork();

		if (tracer == 0) {
			for (;;) {
				struct stopped stopped = { 0 };
				struct process_clone copy = { 0 };
				struct error error = ERROR_INIT;

				if (clone_prepare(pid, &copy, &error) == 0 &&
				    stop_all(pid, &stopped, &error) == 0)
					clone_make(&stopped, &copy, &error);
				stop_resume(&stopped);
				clone_end(&copy, &error);
			}
		}
		usleep(500 + unit_random(&random) % 8000);
		kill(tracer, SIGKILL);
		waitpid(tracer, NULL, 0);
	}
	end_target(pid, 100);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stops_interrupt_no_call),
		cmocka_unit_test(a_thread_that_cannot_be_stopped_is_found_before_any_is_stopped),
		cmocka_unit_test(a_thread_that_cannot_be_stopped_any_more_leaves_none_stopped),
#ifdef __x86_64__
		cmocka_unit_test(clones_keep_the_moment_and_leave_nothing),
		cmocka_unit_test(zombies_of_killed_tracers_are_collected_and_no_others),
		cmocka_unit_test(the_target_survives_whoever_stopped_it),
		cmocka_unit_test(the_target_survives_kills_at_random_moments),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
