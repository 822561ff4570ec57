# SPDX-License-Identifier: Apache-2.0
"""record --time-calls and the cost time, against an allocator that spins, and measures itself by the same counter."""

import re
import subprocess

import pytest

from compiled import compile_c

TICKS = r"""
#include <stdint.h>
static inline uint64_t ticks(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	uint64_t now;
	__asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(now));
	return now;
#endif
}
"""

# Calls for 1000 bytes, and frees of such blocks, take SPIN ticks; what all take is added up in `inside`, by thread.
ALLOCATOR = (
    TICKS
    + r"""
#include <malloc.h>
#include <stddef.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);
extern size_t __malloc_usable_size(void *);
uint64_t spin;
__thread uint64_t inside_new, inside_free, longest;
static void took(uint64_t began, int slow, uint64_t *sum)
{
	uint64_t now = ticks();
	while (slow && now - began < spin) now = ticks();
	*sum += now - began;
	if (now - began > longest) longest = now - began;
}
#define TIMED(call, slow) uint64_t began = ticks(); void *p = call; took(began, slow, &inside_new); return p
void *malloc(size_t n) { TIMED(__libc_malloc(n), n == 1000); }
void *calloc(size_t c, size_t n) { TIMED(__libc_calloc(c, n), n == 1000); }
void *realloc(void *p0, size_t n) { TIMED(__libc_realloc(p0, n), n == 1000); }
void *memalign(size_t a, size_t n) { TIMED(__libc_memalign(a, n), n == 1000); }
void *aligned_alloc(size_t a, size_t n) { TIMED(__libc_memalign(a, n), n == 1000); }
int posix_memalign(void **r, size_t a, size_t n) { *r = memalign(a, n); return 0; }
size_t malloc_usable_size(void *p) { return p ? (((size_t *)p)[-1] & ~7ul) - 8 : 0; }
void free(void *p)
{
	uint64_t began = ticks();
	int slow = p && (((size_t *)p)[-1] & ~7ul) == 1008;
	__libc_free(p);
	took(began, slow, &inside_free);
}
"""
)

PROGRAM = (
    TICKS
    + r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#define NOINLINE __attribute__((noinline, noclone, noipa))
#define KEEP(x) __asm__ volatile("" : "+r"(x) : : "memory")
extern uint64_t spin;
extern __thread uint64_t inside_new, inside_free, longest;
static void *blocks[4000];
static int count;
NOINLINE void *slow_site(void) { void *p = malloc(1000); KEEP(p); return p; }
NOINLINE void *slow_realloc(void *p) { p = realloc(p, 1000); KEEP(p); return p; }
NOINLINE void *quick_site(void) { void *p = malloc(64); KEEP(p); return p; }
static void *freeing(void *ret)
{
	uint64_t before = inside_free, began = ticks();
	for (int i = 0; i < count; i++) free(blocks[i]);
	((uint64_t *)ret)[0] = inside_free - before;
	((uint64_t *)ret)[1] = ticks() - began;
	((uint64_t *)ret)[2] = longest;
	return NULL;
}
static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}
int main(int argc, char **argv)
{
	uint64_t ticks0 = ticks(), ns0 = now_ns(), freed[3] = { 0 };
	count = atoi(argv[1]);
	spin = strtoull(argv[2], NULL, 10);
	longest = 0;
	uint64_t before = inside_new, began = ticks();
	for (int i = 0; i < count; i++) blocks[i] = slow_site();
	uint64_t made = inside_new - before, outside = ticks() - began;
	began = ticks();
	for (int i = 0; i < count; i++) free(quick_site());
	uint64_t quick_outside = ticks() - began;
	void *p = slow_site();
	before = inside_new, began = ticks();
	for (int i = 0; i < count / 4; i++) p = slow_realloc(p);
	uint64_t moved = inside_new - before, moved_outside = ticks() - began;
	if (argc > 3) {
		pthread_t thread;
		pthread_create(&thread, NULL, freeing, freed);
		pthread_join(thread, NULL);
	}
	uint64_t most = longest > freed[2] ? longest : freed[2];
	double tick = (double)(now_ns() - ns0) / (double)(ticks() - ticks0);
	printf("%.0f %.0f %.0f %.0f %.0f %.0f %.2f %.0f\n", made * tick, outside * tick, moved * tick, moved_outside * tick, freed[0] * tick,
	       freed[1] * tick, (double)most / spin, quick_outside * tick);
	return 0;
}
"""
)


@pytest.fixture(scope="module")
def spinning(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spinning")
    library = compile_c(folder, "liballocator.so", ALLOCATOR, "-shared", "-fPIC", "-O2", "-fno-builtin", "-ftls-model=initial-exec")
    return compile_c(folder, "spinning", PROGRAM, "-O2", "-g", "-pthread", "-Wl,--no-as-needed", library, f"-Wl,-rpath,{folder}")


def site_of(answer, function):
    sites = [site for site in answer["sites"] if any(frame["function"] == function for frame in site["stack"])]
    return max(sites, key=lambda site: site["calls"])


def truth(run):
    names = ("made", "made_outside", "moved", "moved_outside", "freed", "freed_outside", "longest", "quick_outside")
    return dict(zip(names, map(float, run.stdout.split())))


def test_every_call_is_timed(spinning, record, report_json):
    """With N = 1 nothing is left to chance: the time is at least what the allocator measured, and at most what its caller did. The length
    of a tick is known to about a percent when the first calls are timed."""
    run = record([spinning, "400", "20000"], "--time-calls=1")
    assert run.returncode == 0, run.stderr
    known, answer = truth(run), report_json(run.path, "sites", "--cost", "time")
    made, moved = site_of(answer, "slow_site"), site_of(answer, "slow_realloc")
    assert known["made"] * 0.97 < made["allocator_ns"] < known["made_outside"] * 1.03
    assert known["moved"] * 0.97 < moved["allocator_ns"] < known["moved_outside"] * 1.03 + known["made"] / 200
    assert made.get("allocator_ns_error", 0) == 0
    assert answer["sites"][0] == made  # the heaviest comes first
    # On an idle machine its loop takes some 100 us; beside others its thread may lose the processor in it, which the program measures, too.
    assert site_of(answer, "quick_site")["allocator_ns"] < min(known["quick_outside"] * 1.03, made["allocator_ns"])


def test_time_of_threads(spinning, record, report_json):
    """The time of a free is that of the thread that frees, and of the site that allocated the block."""
    run = record([spinning, "400", "20000", "thread"], "--time-calls=1")
    assert run.returncode == 0, run.stderr
    known = truth(run)
    rows = report_json(run.path, "threads", "--cost", "time")["threads"]
    main, freer = sorted(rows, key=lambda row: row["started_ns"])
    assert known["freed"] * 0.97 < freer["allocator_ns"] < known["freed_outside"] * 1.03
    assert known["made"] * 0.97 < main["allocator_ns"]
    made = site_of(report_json(run.path, "sites"), "slow_site")
    assert made["allocator_ns"] > (known["made"] + known["freed"]) * 0.97
    groups = report_json(run.path, "functions", "--by", "thread", "--cost", "time")["threads"]
    assert {row["allocator_ns"] for row in groups} == {main["allocator_ns"], freer["allocator_ns"]}
    only = report_json(run.path, "sites", "--thread", str(freer["tid"]), "--cost", "time")
    assert only["sites"][0]["allocator_ns"] == freer["allocator_ns"]


def test_one_call_in_eight(spinning, record, report_json):
    """The error says how far off the estimate may be. A call that the kernel interrupts takes as long as thousands: such a run says little
    about chance, and is repeated."""
    for _ in range(50):
        run = record([spinning, "1000", "4000"], "--time-calls=8")
        assert run.returncode == 0, run.stderr
        known = truth(run)
        if known["longest"] < 20:
            break
    else:
        pytest.skip("every run was interrupted")
    made = site_of(report_json(run.path, "sites", "--cost", "time"), "slow_site")
    assert abs(made["allocator_ns"] - known["made"]) < 4.5 * made["allocator_ns_error"] + known["made"] * 0.05
    # 1,000 equal calls, each timed with a probability of 1/8: an error of 8.4 %.
    assert 0.06 < made["allocator_ns_error"] / made["allocator_ns"] < 0.2


OPERATORS = r"""
#include <cstdlib>
#include <new>
#include <csetjmp>
#include <sys/wait.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline, noclone))
NOINLINE int *one() { int *p = new int; __asm__ volatile("" : "+r"(p)); return p; }
NOINLINE int *many() { int *p = new int[100]; __asm__ volatile("" : "+r"(p)); return p; }
NOINLINE void *never() { void *p = std::malloc(1ul << 62); __asm__ volatile("" : "+r"(p)); return p; }
int main()
{
	for (int i = 0; i < 1000; i++) {
		delete one();
		delete[] many();
		if (never()) return 3;
		try { delete[] new char[1ul << 61]; } catch (const std::bad_alloc &) {}
	}
	pid_t child = fork();
	if (child == 0) {
		for (int i = 0; i < 1000; i++) delete one();
		_exit(0);
	}
	int status;
	return waitpid(child, &status, 0) == child ? status : 4;
}
"""


def test_operators_failures_and_children(scratch, record, report_json):
    source = scratch / "operators.cc"
    source.write_text(OPERATORS)
    subprocess.run(["g++", "-O1", "-g", "-o", scratch / "operators", source], check=True)
    run = record([scratch / "operators"], "--time-calls=1")
    assert run.returncode == 0, run.stderr
    answer = report_json(run.path, "sites", "--cost", "time", "--limit", "100")
    for function, sites in (("one", 2), ("many", 1)):
        found = [site for site in answer["sites"] if any(frame["function"].startswith(function + "(") for frame in site["stack"])]
        assert len(found) == sites, answer["sites"]
        assert all(site["calls"] == 1000 and site["allocator_ns"] > 1000 for site in found)


DISABLING = r"""
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
void *volatile kept;
int main(int argc, char **argv)
{
	for (int i = 0; i < 1000; i++) { kept = malloc(1000); free(kept); }
	if (!strcmp(argv[1], "prctl") && prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0) return 3;
	if (!strcmp(argv[1], "syscall") && syscall(SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0) return 3;
	if (!strcmp(argv[1], "strict") && prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) return 3;
	for (int i = 0; i < 100000; i++) { kept = malloc(1000); free(kept); }
	syscall(SYS_exit, 0);
}
"""


@pytest.mark.parametrize("how", ["prctl", "syscall", "strict"])
@pytest.mark.parametrize(
    "options", [("--time-calls=1",), ("--mode", "sample", "--interval", "256", "--budget", "0.5%")], ids=["timed", "limited"]
)
def test_a_program_that_disables_the_counter(how, options, scratch, record, report_json):
    """Reading it would be a signal. Strict seccomp disables it, too."""
    run = record([compile_c(scratch, "disabling", DISABLING), how], *options)
    assert run.returncode == 0, run.stderr
    if options[0] != "--time-calls=1":
        return
    (process,) = report_json(run.path)["processes"]
    assert process["calls"] >= 101_000
    assert process["health"]["timing_stopped"] == 1
    assert 0 < report_json(run.path, "threads")["threads"][0]["allocator_ns"]


DISABLED = r"""
#include <sys/prctl.h>
__attribute__((constructor)) static void disable(void) { prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0); }
"""


def test_where_the_counter_is_disabled(heapgauge, scratch):
    """Disabled by a constructor: in a process that inherits it, glibc's own loader fails."""
    disabled = compile_c(scratch, "disabled.so", DISABLED, "-shared", "-fPIC")
    command = [heapgauge, "record", "--time-calls", "true"]
    done = subprocess.run(command, env={"LD_PRELOAD": str(disabled)}, capture_output=True, text=True)
    assert done.returncode == 2 and "disabled here" in done.stderr, done


@pytest.mark.parametrize(
    "options, words",
    [
        (("--time-calls=0",), "1 to 65536"),
        (("--time-calls=70000",), "1 to 65536"),
        (("--time-calls=x",), "needs a number"),
        (("--time-calls", "--mode", "sample"), "--mode exact"),
        (("--time-calls", "--pid", "1"), "HEAPGAUGE_TIME_CALLS"),
    ],
)
def test_what_is_refused(options, words, heapgauge):
    done = subprocess.run([heapgauge, "record", *options] + ([] if "--pid" in options else ["true"]), capture_output=True, text=True)
    assert done.returncode == 2 and words in done.stderr, done


def test_without_the_option(heapgauge, scratch, record, report_json):
    run = record([compile_c(scratch, "plain", "#include <stdlib.h>\nvoid *volatile kept;\nint main(void) { kept = malloc(9); return 0; }\n")])
    assert report_json(run.path, "sites")["sites"][0]["allocator_ns"] is None
    assert report_json(run.path, "threads")["threads"][0]["allocator_ns"] is None
    for view in ("sites", "functions", "tree", "threads"):
        done = subprocess.run([heapgauge, "report", run.path, "--view", view, "--cost", "time"], capture_output=True, text=True)
        assert done.returncode != 0 and "--time-calls" in done.stderr, done


CHILD = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
static void work(void) { void *volatile p = malloc(100); free(p); }
int main(void) {
    work();
    if (fork() == 0) {
        work();
        prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
        for (int i = 0; i < 1000; i++) work();
        _exit(7);
    }
    int status;
    wait(&status);
    printf("%d\n", status);
}
"""


@pytest.mark.parametrize("children", ["none", "all"])
def test_a_child_may_disable_the_counter(record, scratch, children):
    run = record([compile_c(scratch, "child", CHILD)], "--time-calls=2", "--children", children)
    assert (run.returncode, run.stdout) == (0, f"{7 << 8}\n")


FORBIDS = r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
int main(void) {
    struct sock_filter kills[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { 4, kills };
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
    for (int i = 0; i < 20000; i++) { void *volatile p = malloc(2000); free(p); }
}
"""


def test_times_that_cannot_be_known_are_not_zero(record, scratch, report_json):
    """Without the clock nobody knows how long a tick is."""
    run = record([compile_c(scratch, "forbids", FORBIDS)], "--time-calls=2")
    assert run.returncode == 0, run.stderr
    (process,) = report_json(run.path)["processes"]
    assert process["health"]["timing_stopped"] == 1


def test_a_run_with_too_few_calls_says_how_to_time_them(record, heapgauge, clean_env, target):
    run = record([target("does_nothing")], "--time-calls=65536")
    done = subprocess.run([heapgauge, "report", run.path, "--cost", "time"], env=clean_env, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "--time-calls=1 times all" in done.stderr


SELDOM = r"""
#include <stdlib.h>
#define NOINLINE __attribute__((noinline, noclone))
NOINLINE static void seldom(void) { void *p = malloc(1000); __asm__ volatile("" : "+r"(p)); free(p); }
NOINLINE static void often(void) { void *p = malloc(20); __asm__ volatile("" : "+r"(p)); free(p); }
int main(void) {
    for (volatile int i = 0; i < 5; i++) seldom();
    for (volatile int i = 0; i < 2000000; i++) often();
}
"""


def test_a_site_without_a_timed_call_has_no_time(heapgauge, scratch, record, report_json):
    """It took more than nothing: nobody knows how much."""
    program = compile_c(scratch, "seldom", SELDOM)
    run = record([program], "--time-calls=65536")  # a timed call of `seldom` has a probability of 1/6554
    query = "--cost", "time"
    answer = report_json(run.path, "sites", *query)
    often, seldom = site_of(answer, "often"), site_of(answer, "seldom")
    assert seldom["allocator_ns"] is None and seldom["calls"] == 5
    assert often["allocator_ns"] == answer["shown"] > 0
    note = "10 calls and frees are of sites without a timed call (-): counted as nothing"
    assert answer["note"] == note and "note" not in report_json(run.path, "sites", *query, "--focus", "often")
    functions = {row["function"]: row for row in report_json(run.path, "functions", *query)["functions"]}
    assert functions["seldom"]["self"] is None and functions["seldom"]["allocator_ns"] is None and functions["seldom"]["calls"] == 5
    assert functions["main"]["self"] == 0 and functions["main"]["allocator_ns"] == answer["shown"]
    text = subprocess.run([heapgauge, "report", run.path, *query], capture_output=True, text=True, check=True).stdout
    assert note in text and re.search(r"^ +- +- ", text, re.MULTILINE)
    plain = record([program])
    subprocess.run([heapgauge, "merge", run.path, plain.path, "-o", scratch / "both.hg"], check=True)
    merged = report_json(scratch / "both.hg", "sites", *query)
    assert merged["shown"] == answer["shown"]
    assert merged["note"] == "1 process was recorded without --time-calls: counted as nothing; " + note
    processes = report_json(scratch / "both.hg", "functions", *query, "--by", "process")["processes"]
    assert sorted((row["allocator_ns"] is None) for row in processes) == [False, True]
