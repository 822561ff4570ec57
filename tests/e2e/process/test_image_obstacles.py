# SPDX-License-Identifier: Apache-2.0
"""Processes of which an image is hard to take: memory that does not arrive, small stacks, tracers, namespaces. They all go on."""

import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess

import pytest

from compiled import WAIT_SECONDS, wait_for
from paused import compile_c, needs_copies

# Pages that nobody provides. Each thread goes on only if it is not stopped; the program then ends with 0.
MISSING = r"""
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static char page_of_data[3 * 4096] __attribute__((aligned(4096)));
static void *volatile held;
static volatile bool done, is_registered;
static volatile unsigned long turns;
static int uffd;

static void say_ready() { puts("ready"); fflush(stdout); }
static int open_uffd(unsigned long features)
{
	uffdio_api api = {};
	uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	api.api = UFFD_API;
	api.features = features;
	return uffd < 0 || ioctl(uffd, UFFDIO_API, &api) < 0 ? -1 : 0;
}
static int take_pages(void *at, size_t bytes)
{
	uffdio_register range = {};
	range.range.start = (uintptr_t)at;
	range.range.len = bytes;
	range.mode = UFFDIO_REGISTER_MODE_MISSING;
	madvise(at, bytes, MADV_DONTNEED);
	return ioctl(uffd, UFFDIO_REGISTER, &range);
}
static long call(long number, long a, long b, long c)
{
#ifdef __aarch64__
	register long which __asm__("x8") = number, first __asm__("x0") = a, second __asm__("x1") = b, third __asm__("x2") = c;
	__asm__ volatile("svc #0" : "+r"(first) : "r"(which), "r"(second), "r"(third) : "memory");
	return first;
#else
	__asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return number;
#endif
}
/* Waits with nothing below its stack: the page under that of the stack pointer is missing. */
static void *wait_on_stack(void *stack)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	uffdio_register range = {};
	range.range.start = (uintptr_t)stack;
	range.range.len = ((here - 1024) & ~4095ul) - (uintptr_t)stack;
	range.mode = UFFDIO_REGISTER_MODE_MISSING;
	call(SYS_madvise, (long)range.range.start, (long)range.range.len, MADV_DONTNEED);
	if (call(SYS_ioctl, uffd, (long)UFFDIO_REGISTER, (long)&range) < 0) abort();
	is_registered = true;
	char byte;
	call(SYS_read, 0, (long)&byte, 1);
	call(SYS_ioctl, uffd, (long)UFFDIO_UNREGISTER, (long)&range.range);
	done = true;
	return nullptr;
}
static void *monitor(void *)
{
	uffd_msg message;
	say_ready();
	while (read(uffd, &message, sizeof message) > 0) {}
	return nullptr;
}
static void *turn(void *) { while (!done) { turns++; usleep(1000); } return nullptr; }

int main(int, char **argv)
{
	pthread_t thread, turner;
	bool is_fork = strcmp(argv[1], "fork") == 0;
	held = malloc(4321);
	if (open_uffd(is_fork ? UFFD_FEATURE_EVENT_FORK : 0) < 0) { say_ready(); return 77; }
	pthread_create(&turner, nullptr, turn, nullptr);
	if (strcmp(argv[1], "code") == 0) {
		void *code = mmap((void *)0x10000000, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); // before all other code
		if (take_pages(code, 4096) < 0) return 1;
	} else if (strcmp(argv[1], "data") == 0) {
		page_of_data[0] = page_of_data[8192] = 1;
		if (take_pages(page_of_data + 4096, 4096) < 0) return 1;
	} else if (strcmp(argv[1], "module") == 0) { /* as the first page of a file, where a module has its headers */
		int fd = memfd_create("module", 0);
		if (ftruncate(fd, 8192) < 0) return 1;
		void *module = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
		if (take_pages(module, 8192) < 0 || mprotect(module, 8192, PROT_READ) < 0) return 1;
	} else if (is_fork) {
		if (take_pages(page_of_data, 4096) < 0) return 1;
		pthread_create(&thread, nullptr, monitor, nullptr);
	} else {
		pthread_attr_t attributes;
		void *stack = mmap(nullptr, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		pthread_attr_init(&attributes);
		pthread_attr_setstack(&attributes, stack, 1 << 18);
		pthread_create(&thread, &attributes, wait_on_stack, stack);
		while (!is_registered) usleep(1000);
		say_ready();
		pthread_join(thread, nullptr);
	}
	if (!is_fork && !done) say_ready();
	while (!done && getchar() != EOF) {}
	unsigned long before = turns;
	done = false;
	while (!is_fork && strcmp(argv[1], "stack") != 0 && turns < before + 10) usleep(1000);
	done = true;
	pthread_join(turner, nullptr);
	_exit(0);
}
"""


def tracer_of(pid):
    tasks = pathlib.Path(f"/proc/{pid}/task")
    return [line for task in tasks.iterdir() for line in (task / "status").read_text().splitlines()
            if line.startswith("TracerPid:") and line != "TracerPid:\t0"]


@pytest.fixture
def missing(paused, scratch):
    def start(kind):
        run = paused([compile_c(scratch, "missing", MISSING), kind])
        if run.collector.poll() == 77 or (kind and not pathlib.Path(f"/proc/{run.pid}/task").exists()):
            pytest.skip("no userfaultfd here")
        return run

    return start


@pytest.mark.parametrize("options", [[], ["--stop"]], ids=["clone", "stop"])
@pytest.mark.parametrize("kind", ["code", "data", "stack"])
def test_pages_that_do_not_arrive_are_not_needed(missing, kind, options):
    run = missing(kind)
    for _ in range(3):
        done, _ = run.image(*options)
        assert done.returncode == 0, done.stderr
        assert not tracer_of(run.pid)
    assert run.end() == 0, "all threads go on"


def test_a_process_is_let_go_when_a_read_hangs(missing):
    run = missing("module")
    done, path = run.image("--stop")
    assert done.returncode != 0 and not path.exists()
    assert done.stderr.count("\n") == 1 and "a page did not arrive within 5 seconds" in done.stderr
    wait_for(lambda: not tracer_of(run.pid), "the kernel to let it go")
    done, _ = run.image()
    assert done.returncode == 0, done.stderr
    assert run.end() == 0, "all threads go on"


def test_ctrl_c_ends_a_read_that_hangs(missing, heapgauge, clean_env, scratch):
    run = missing("module")
    with subprocess.Popen([heapgauge, "image", str(run.pid), "--stop", "-o", scratch / "interrupted.hg"], env=clean_env,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as image:
        wait_for(lambda: tracer_of(run.pid), "the stop")
        image.send_signal(signal.SIGINT)
        assert image.wait(WAIT_SECONDS) == -signal.SIGINT
    wait_for(lambda: not tracer_of(run.pid), "the kernel to let it go")
    assert run.end() == 0


def test_a_program_that_waits_for_events_of_forks_is_not_cloned(missing):
    """Its own thread takes note of each fork before that returns: it would wait for itself."""
    run = missing("fork")
    done, _ = run.image()
    assert done.returncode != 0 and "userfaultfd event at each fork" in done.stderr and "--stop" in done.stderr
    done, _ = run.image("--stop")
    assert done.returncode == 0, done.stderr
    assert run.end() == 0


MANY = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void **last;
int main()
{
	for (int i = 0; i < 1000000; i++) {
		void **next = (void **)malloc(40);
		*next = last;
		last = next;
	}
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF) {}
	execl("/bin/sleep", "sleep", "3", nullptr);
}
"""


def state_of(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def test_ctrl_z_does_not_leave_the_process_stopped(paused, heapgauge, clean_env, scratch):
    run = paused([compile_c(scratch, "many", MANY)])
    with subprocess.Popen([heapgauge, "image", str(run.pid), "--stop", "-o", scratch / "image.hg"], env=clean_env, stdout=subprocess.DEVNULL) as image:
        wait_for(lambda: tracer_of(run.pid), "the stop")
        image.send_signal(signal.SIGTSTP)
        try:
            wait_for(lambda: not tracer_of(run.pid), "the process to go on")
        finally:
            image.send_signal(signal.SIGCONT)
        assert image.wait(WAIT_SECONDS) == 0


@needs_copies
def test_a_process_that_executes_another_program_meanwhile_keeps_no_entry(paused, heapgauge, clean_env, scratch):
    run = paused([compile_c(scratch, "many", MANY)])
    children = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children")
    with subprocess.Popen([heapgauge, "image", str(run.pid), "-o", scratch / "image.hg"], env=clean_env, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as image:
        wait_for(children.read_text, "the copy")
        run.collector.stdin.close()
        wait_for(lambda: pathlib.Path(f"/proc/{run.pid}/comm").read_text() == "sleep\n", "the other program")
        assert children.read_text(), "the copy has ended too early"
        assert image.wait(WAIT_SECONDS) == 0, image.stderr.read()
    assert not children.read_text()
    assert run.collector.wait(WAIT_SECONDS) == 0


DIRECT = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
int main(int, char **argv)
{
	void *volatile block = malloc(10);
	bool is_open = open(argv[1], O_RDONLY | O_DIRECT) >= 0;
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF) {}
	free(block);
	return is_open ? 0 : 77;
}
"""


def test_direct_reads_are_not_lost(paused, scratch):
    program = compile_c(scratch, "direct", DIRECT)
    run = paused([program, program])
    done, _ = run.image()
    refused = "O_DIRECT" in done.stderr and "--stop" in done.stderr
    stopped, _ = run.image("--stop")
    status = run.end()
    if status == 77:
        pytest.skip("no O_DIRECT on this file system")
    is_old = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < (6, 5)
    assert status == stopped.returncode == 0 and refused == is_old and (done.returncode != 0) == is_old, done.stderr + stopped.stderr


COROUTINES = r"""
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
static char memory[65536] __attribute__((aligned(4096)));
static ucontext_t back, coroutine;
static void wait() { puts("ready"); fflush(stdout); while (getchar() != EOF) {} }
int main()
{
	void *volatile block = malloc(10);
	getcontext(&coroutine);
	coroutine.uc_stack.ss_sp = memory + 32768;
	coroutine.uc_stack.ss_size = 32768;
	coroutine.uc_link = &back;
	makecontext(&coroutine, wait, 0);
	swapcontext(&back, &coroutine);
	free(block);
}
"""


def test_without_a_stack_of_its_own_no_thread_is_used(paused, scratch):
    run = paused([compile_c(scratch, "coroutines", COROUTINES)])
    done, path = run.image()
    assert done.returncode != 0 and not path.exists()
    assert "no thread is on a stack of its own" in done.stderr and "--stop" in done.stderr
    done, _ = run.image("--stop")
    assert done.returncode == 0, done.stderr
    assert run.end() == 0


UNSHARED = r"""
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int, char **argv)
{
	void *volatile block = malloc(10);
	unshare(strtol(argv[1], nullptr, 16));
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF) {}
	int status = 1;
	pid_t child = fork();
	if (child == 0)
		_exit(getppid() == 0 ? getpid() != 1 : 0);
	wait(&status);
	free(block);
	return child < 0 || status != 0;
}
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make namespaces")
@pytest.mark.parametrize("space", ["20000000", "80"], ids=["pid", "time"])
def test_the_first_process_of_a_namespace_is_not_a_copy(paused, scratch, space):
    """It would be its init, and end it."""
    run = paused([compile_c(scratch, "unshared", UNSHARED), space])
    done, _ = run.image()
    assert done.returncode != 0 and "its next child begins a new namespace" in done.stderr, done.stderr
    done, _ = run.image("--stop")
    assert done.returncode == 0, done.stderr
    assert run.end() == 0


# One thread is a coroutine. The other one handles its system calls itself, or a filter kills it for clone.
UNFREE = r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
static char memory[65536] __attribute__((aligned(4096)));
static volatile char blocks;
static ucontext_t back, coroutine;
static volatile int begun;
static void wait_for_end()
{
	while (!begun) usleep(1000);
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF) {}
	_exit(0);
}
static void *be_coroutine(void *unused)
{
	getcontext(&coroutine);
	coroutine.uc_stack.ss_sp = memory + 32768;
	coroutine.uc_stack.ss_size = 32768;
	coroutine.uc_link = &back;
	makecontext(&coroutine, wait_for_end, 0);
	swapcontext(&back, &coroutine);
	return unused;
}
static void *be_filtered(void *unused)
{
	struct sock_filter kills[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, kills };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0)) _exit(1);
	begun = 1;
	for (;;) pause();
	return unused;
}
int main(int argc, char **argv)
{
	void *volatile block = malloc(10);
	pthread_t thread;
	pthread_create(&thread, NULL, argc > 1 ? be_filtered : be_coroutine, NULL);
	if (argc > 1) be_coroutine(block);
	if (prctl(59, 1, 0, 0, &blocks)) _exit(2); /* PR_SET_SYSCALL_USER_DISPATCH */
	blocks = 1;
	for (begun = 1;;) *(volatile char *)block = 1;
}
"""


@pytest.mark.parametrize("how", ["handles", "filters"])
def test_a_thread_whose_system_calls_are_not_free_is_not_used(paused, scratch, how):
    if how == "handles" and platform.machine() != "x86_64":
        pytest.skip("PR_SET_SYSCALL_USER_DISPATCH is of x86-64")
    if how == "handles" and tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < (6, 4):
        pytest.skip("the kernel does not say which thread does so")
    run = paused([compile_c(scratch, "unfree", UNFREE), *([how] if how == "filters" else [])])
    done, _ = run.image()
    assert done.returncode != 0 and "filters or handles system calls of thread" in done.stderr, done.stderr
    assert run.end() == 0


NO_MAIN = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_t first;
static void *wait(void *)
{
	pthread_join(first, nullptr);
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF) {}
	exit(0);
}
int main()
{
	pthread_t thread;
	first = pthread_self();
	free(malloc(10));
	pthread_create(&thread, nullptr, wait, nullptr);
	pthread_exit(nullptr);
}
"""


def test_the_end_of_the_main_thread_is_named(paused, scratch):
    run = paused([compile_c(scratch, "no_main", NO_MAIN)])
    done, _ = run.image()
    assert done.returncode != 0 and "its main thread has ended by pthread_exit" in done.stderr
    assert run.end() == 0


def test_the_tracer_is_named(paused, target):
    if not shutil.which("strace"):
        pytest.skip("no strace")
    run = paused([target("reach_truth")])
    with subprocess.Popen(["strace", "-qq", "-o", os.devnull, "-p", str(run.pid)]) as strace:
        wait_for(lambda: tracer_of(run.pid), "strace")
        done, _ = run.image("--stop")
        strace.send_signal(signal.SIGINT)
    assert done.returncode != 0 and f"process {strace.pid} (strace) traces it" in done.stderr
    done, _ = run.image()
    assert done.returncode == 0, done.stderr
    assert run.end() == 0


@pytest.mark.skipif(os.getuid() != 0, reason="needs another user")
def test_a_process_of_another_user_is_refused_with_the_reason(paused, target, heapgauge, clean_env):
    run = paused([target("reach_truth")])
    done = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", heapgauge, "image", str(run.pid), "-o", "/tmp/other.hg"],
                          env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert done.returncode != 0 and ("another user" in done.stderr or "ptrace_scope" in done.stderr), done.stderr
    assert run.end() == 0


@pytest.mark.parametrize("options", [[], ["--stop"]], ids=["clone", "stop"])
def test_namespaces_do_not_matter(paused, target, options):
    unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount", "--mount-proc"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no namespaces here")
    run = paused([*unshare, target("reach_truth")])
    children = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children")
    run.pid = int(wait_for(lambda: children.read_text().split(), "the program")[0])
    done, _ = run.image(*options)
    assert done.returncode == 0, done.stderr
    assert not pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().strip(), "no entry is left"
    run.end()
