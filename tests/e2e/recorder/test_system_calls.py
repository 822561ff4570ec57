# SPDX-License-Identifier: Apache-2.0
"""The system calls of the recorder are those that docs/security.md lists: compared with the sources and with strace, and enforced by a
filter from outside, which the recorder does not see. The same for what Docker forbids by default."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from alone import folder_on_tmpfs, preloaded
from compiled import WAIT_SECONDS, compile_c

ROOT = pathlib.Path(__file__).parents[3]
RECORDER = ROOT / "src" / "recorder"
HEADER = pathlib.Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
MODES = {
    "exact": ["--mode", "exact"],
    "tags": ["--mode", "tags"],
    "sample": ["--mode", "sample", "--interval", "4K", "--budget", "50%"],
    "dormant": ["--start", "dormant"],
    "more": ["--time-calls=2", "--free-sites", "--core"],
}

# Threads, labels, mappings, libraries, snapshots; a child that does the same, and a program that it becomes.
PROGRAM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "heapgauge/heapgauge.h"
static void *volatile kept[100000];
static unsigned kept_count;
static void *work(void *name)
{
	for (unsigned i = 0; i < 2000; i++) {
		HG_LABEL("thread", name);
		kept[__atomic_fetch_add(&kept_count, 1, __ATOMIC_RELAXED)] = malloc(i * 37 % 3000);
	}
	return NULL;
}
static void works(void)
{
	pthread_t thread[4];
	kept[kept_count++] = malloc(1); /* begins a child's profile, so that no thread does without it meanwhile */
	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, work, "abcd" + i);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	munmap(mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1 << 20);
	dlclose(dlopen("libm.so.6", RTLD_NOW));
	hg_snapshot("here");
}
int main(int argc, char **argv)
{
	int status;
	works();
	if (argc > 1)
		return puts("done") < 0;
	pid_t child = fork();
	if (child == 0) {
		works();
		execl("/proc/self/exe", argv[0], "again", NULL);
	}
	return waitpid(child, &status, 0) != child || status;
}
"""

# launcher ANSWER NUMBER... -- PROGRAM...: allows these system calls; 0 kills for others, else they fail with that error. clone3 always
# fails with ENOSYS if it is not allowed, as in Docker's profile, so that libc uses clone. It calls the kernel without libc, where the
# recorder would see the filter.
LAUNCHER = r"""
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
static long call(long number, long a, long b, long c)
{
	register long d __asm__("r10") = 0, e __asm__("r8") = 0;
	__asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c), "r"(d), "r"(e) : "rcx", "r11", "memory");
	return number;
}
int main(int argc, char **argv)
{
	static struct sock_filter code[2000] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0) };
	unsigned short n = 1;
	int answer = atoi(argv[1]);
	for (argv += 2; strcmp(*argv, "--") != 0; argv++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, atoi(*argv), 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer ? SECCOMP_RET_ERRNO | answer : SECCOMP_RET_KILL_PROCESS);
	struct sock_fprog program = { n, code };
	if (getenv("PRELOAD_AFTERWARDS"))
		setenv("LD_PRELOAD", getenv("PRELOAD_AFTERWARDS"), 1);
	if (call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0) || call(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (long)&program))
		return 90;
	execv(argv[1], argv + 1);
	return 91;
}
"""

# What Docker's default profile does not allow on x86-64 without capabilities, of the calls that Linux 6.1 has.
NOT_IN_DOCKER = set(
    "_sysctl acct add_key afs_syscall bpf chroot clock_settime clone3 create_module delete_module fanotify_init finit_module fsconfig fsmount "
    "fsopen fspick get_kernel_syms get_mempolicy getpmsg init_module io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp "
    "kexec_file_load kexec_load keyctl lookup_dcookie mbind migrate_pages mount mount_setattr move_mount move_pages nfsservctl "
    "open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root process_madvise putpmsg query_module quotactl quotactl_fd reboot "
    "request_key security set_mempolicy set_mempolicy_home_node setdomainname sethostname setns settimeofday swapoff swapon sysfs syslog "
    "tuxcall umount2 unshare uselib userfaultfd ustat vhangup vserver".split()
)

needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
needs_numbers = pytest.mark.skipif(not HEADER.exists(), reason="needs the kernel's header for x86-64")


def documented():
    text = (ROOT / "docs" / "security.md").read_text().split("## Hardened systems")[1].split("There are no others")[0]
    return set(re.findall(r"`([a-z_0-9]+)`", "".join(line for line in text.splitlines() if line.startswith("| "))))


def numbers(names):
    known = dict(re.findall(r"#define __NR_(\w+) (\d+)", HEADER.read_text()))
    return sorted({int(known[name]) for name in names})


@pytest.fixture
def program(scratch):
    return compile_c(scratch, "program", PROGRAM, f"-I{ROOT / 'include'}", "-pthread")


@pytest.fixture
def launcher(scratch):
    return compile_c(scratch, "launcher", LAUNCHER)


def traced(log):
    return {name for file in log.parent.glob(log.name + ".*") for name in re.findall(r"^(\w+)\(", file.read_text(), re.M)}


def strace(log):
    return ["strace", "-ff", "-qq", "-s", "0", "-o", log]


@pytest.fixture
def bare(program, scratch, clean_env):
    """What the program calls by itself."""
    done = subprocess.run([*strace(scratch / "bare"), program], env=clean_env, check=False, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    return traced(scratch / "bare")


def test_the_list_is_what_a_filter_is_evaluated_for():
    sources = [RECORDER / "process" / "seccomp_filter.c", RECORDER / "arch" / "x86_64" / "arch.h"]
    asked = {name for source in sources for name in re.findall(r"\bSYS_([a-z]\w+), (?:SYS_(?!HOLD)|group)", source.read_text())}
    assert documented() == asked
    made = {
        name
        for file in RECORDER.rglob("*.[ch]")
        if file.parent.name not in ("checks", "aarch64")
        for name in re.findall(r"\bSYS_([a-z]\w+)", file.read_text())
    }
    assert made - asked == {"seccomp", "write", "exit_group", "nanosleep", "rt_sigtimedwait"}  # seccomp: the program's


@needs_strace
@pytest.mark.parametrize("mode", MODES)
def test_no_other_calls_are_made(mode, program, bare, record, scratch):
    run = record([*strace(scratch / "recorded"), program], *MODES[mode])
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
    added = traced(scratch / "recorded") - bare
    assert {"memfd_create", "sendmsg"} <= added <= documented()


@needs_strace
def test_waiting_for_an_image_takes_two_more(program, bare, record, scratch):
    """A traced process has none, but waits for the answer."""
    run = record([*strace(scratch / "recorded"), program], "--image")
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
    added = traced(scratch / "recorded") - bare
    waits = {"nanosleep", "rt_sigtimedwait"}
    assert {"memfd_create"} | waits <= added <= documented() | waits


@needs_strace
def test_no_other_calls_are_made_by_a_program_that_records_itself(program, bare, scratch, clean_env, build):
    with folder_on_tmpfs() as folder:
        settings = [f"-E{name}={value}" for name, value in preloaded(build, {}, folder).items()]
        done = subprocess.run([*strace(scratch / "recorded"), *settings, program], env=clean_env, check=False, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    added = traced(scratch / "recorded") - bare
    assert {"fchmod", "unlink"} <= added <= documented()


@needs_strace
@needs_numbers
@pytest.mark.parametrize("mode", MODES)
def test_a_filter_that_kills_for_any_other_call_kills_nobody(mode, program, launcher, bare, record, report_json):
    allowed = [str(n) for n in numbers(bare | documented())]
    run = record([launcher, "0", *allowed, "--", program], *MODES[mode])
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
    calls = [p["calls"] for p in report_json(run.path)["processes"]]
    assert (len(calls) if mode == "dormant" else sum(n > 8000 for n in calls)) >= 3


@needs_strace
@needs_numbers
def test_a_filter_that_kills_does_not_kill_a_program_that_records_itself(program, launcher, bare, report_json, clean_env, build):
    allowed = [str(n) for n in numbers(bare | documented())]
    with folder_on_tmpfs() as folder:
        env = preloaded(build, clean_env, folder, HEAPGAUGE_KEEP="1")
        env["PRELOAD_AFTERWARDS"] = env.pop("LD_PRELOAD")
        done = subprocess.run([launcher, "0", *allowed, "--", program], env=env, check=False, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
        assert [report_json(live)["processes"][0]["calls"] > 8000 for live in folder.glob("*.live")] == [True] * 3


@needs_strace
@needs_numbers
def test_the_filter_kills(program, launcher, bare, clean_env, build):
    """It does so for a call that the recorder needs: the tests above can fail."""
    allowed = [str(n) for n in numbers((bare | documented()) - {"gettid"})]
    env = preloaded(build, clean_env, None, HEAPGAUGE_MODE="exact")
    env["PRELOAD_AFTERWARDS"] = env.pop("LD_PRELOAD")
    done = subprocess.run([launcher, "0", *allowed, "--", program], env=env, check=False, capture_output=True)
    assert done.returncode == -31  # SIGSYS


@needs_numbers
def test_what_docker_forbids_is_not_needed(program, launcher, heapgauge, report_json, scratch, clean_env):
    """Command, recorder and program; record and report."""
    every = set(re.findall(r"#define __NR_(\w+)", HEADER.read_text()))
    assert not documented() & NOT_IN_DOCKER and NOT_IN_DOCKER - every <= {"set_mempolicy_home_node", "quotactl_fd"}
    under = [launcher, "1", *[str(n) for n in numbers(every - NOT_IN_DOCKER)], "--", heapgauge]
    path = scratch / "run.hg"

    def run(*arguments):
        return subprocess.run([*under, *arguments], env=clean_env, check=False, capture_output=True, text=True, timeout=WAIT_SECONDS)

    recorded = run("record", "-q", "-o", path, program)
    assert (recorded.returncode, recorded.stdout, recorded.stderr) == (0, "done\n", "")
    report = run("report", path, "--view", "sites", "--cost", "total")
    assert report.returncode == 0 and "work" in report.stdout, report.stderr
    assert run("list").returncode == 0
    assert [p["calls"] > 8000 for p in report_json(path)["processes"]] == [True] * 3


def copy_with_libraries(files, root):
    """Files, and what the loader needs for them, at the same paths below root."""
    for file in map(str, files):
        listed = subprocess.run(["ldd", file], capture_output=True, text=True, check=False).stdout
        for path in {file, *re.findall(r"(/\S+\.so\S*)", listed)}:
            to = root / path.lstrip("/")
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)


@pytest.mark.skipif(os.environ.get("HEAPGAUGE_LONG") != "1" or not shutil.which("podman"), reason="long form, needs podman")
def test_a_container_with_the_default_profile(program, heapgauge, build, report_json, scratch, clean_env):
    root = scratch / "root"
    for folder in ("proc", "dev", "sys", "tmp", "etc"):
        (root / folder).mkdir(parents=True)
    copy_with_libraries([program, "/bin/sh", heapgauge, pathlib.Path(build) / "libheapgauge.so", "/lib/x86_64-linux-gnu/libm.so.6"], root)
    limits = ["--ulimit=nofile=1000:1000", "--ulimit=nproc=1000:1000"]  # its defaults may be more than we have
    container = ["podman", "--runtime", "runc", "--cgroup-manager", "cgroupfs", "run", "--rm", "--network", "none", *limits, "--rootfs", root, "/bin/sh", "-c"]

    def run(command):
        return subprocess.run([*container, command], env=clean_env, check=False, capture_output=True, text=True, timeout=WAIT_SECONDS)

    tried = run("exit 7")
    if tried.returncode != 7:
        pytest.skip(f"no container runs here: {tried.stderr}")
    filtered = "while read name value; do [ $name = Seccomp: ] && echo $value; done < /proc/self/status"
    done = run(f"{filtered}; {heapgauge} record -q -o /tmp/run.hg {program} && {heapgauge} report /tmp/run.hg --view sites --cost total")
    assert done.returncode == 0 and done.stdout.startswith("2\ndone\n") and "work" in done.stdout, done.stderr
    assert [p["calls"] > 8000 for p in report_json(root / "tmp" / "run.hg")["processes"]] == [True] * 3


STRICT = r"""
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
__attribute__((noinline)) static void *deep(int n) { void *volatile p = n > 0 ? deep(n - 1) : malloc(24); return p; }
int main(void) {
    deep(3);
    syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
    for (int i = 0; i < 1000; i++) deep(i % 500);
    syscall(SYS_exit, 7);
}
"""


def test_strict_mode_by_way_of_syscall_kills_nobody(record, scratch):
    program = compile_c(scratch, "strict", STRICT)
    assert subprocess.run([program], check=False).returncode == record([program]).returncode == 7


FILTERS = r"""
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
static void *volatile kept[100000];
static void filter(unsigned number, unsigned answer)
{
    struct sock_filter answers[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, answer),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { 4, answers };
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}
int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        filter(SYS_rt_sigprocmask, SECCOMP_RET_KILL_PROCESS);
        filter(SYS_mprotect, SECCOMP_RET_KILL_PROCESS);
    } else {
        filter(SYS_mprotect, SECCOMP_RET_ERRNO | 0);
    }
    for (int i = 0; i < 100000; i++) kept[i] = malloc((size_t)i % 3000);
    return 7;
}
"""


@pytest.mark.parametrize("second", [[], ["second"]], ids=["success of a call that was not made", "a filter that an earlier one hides"])
def test_filters_that_lie_or_hide_kill_nobody(record, scratch, second):
    program = compile_c(scratch, "filters", FILTERS)
    assert subprocess.run([program, *second], check=False).returncode == record([program, *second]).returncode == 7


DISPATCH = r"""
#define _GNU_SOURCE
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
static volatile char blocks;
static volatile int taken;
static unsigned long start, bytes;
static void *volatile kept[20000];
static void on_call(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    taken++;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = 0;
}
static int find_libc(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    for (int i = 0; strstr(info->dlpi_name, "/libc.so") && i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X)
            start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, bytes = info->dlpi_phdr[i].p_memsz;
    return 0;
}
int main(int argc, char **argv)
{
    struct sigaction action = { .sa_sigaction = on_call, .sa_flags = SA_SIGINFO };
    (void)argv;
    dl_iterate_phdr(find_libc, NULL);
    sigaction(SIGSYS, &action, NULL);
    if (argc > 1 ? syscall(SYS_prctl, 59, 1, start, bytes, &blocks) : prctl(59, 1, start, bytes, &blocks)) return 77;
    blocks = 1;
    for (int i = 0; i < 20000; i++) kept[i] = malloc((size_t)i % 5000 + 1);
    blocks = 0;
    return taken > 0;
}
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the handler is for x86-64")
@pytest.mark.parametrize("how", [[], ["syscall"]], ids=["prctl", "syscall"])
def test_a_program_that_handles_system_calls_gets_none_of_ours(record, scratch, how):
    """Syscall user dispatch, with the C library's code left out."""
    program = compile_c(scratch, "dispatch", DISPATCH)
    bare = subprocess.run([program, *how], check=False).returncode
    if bare == 77:
        pytest.skip("the kernel has no syscall user dispatch")
    assert bare == record([program, *how]).returncode == 0
