# SPDX-License-Identifier: Apache-2.0
"""Every mode turned to every other, by the program and from outside: the numbers stay right."""

import json
import subprocess

import pytest

from alone import preloaded
from compiled import WAIT_SECONDS, compile_c, losses, wait_for
from reading import with_frames
from test_attach import attach, mode_of  # noqa: F401 (fixtures)
from test_control import INCLUDE

MODES = {"dormant": 0, "tags": 1, "sample": 2, "exact": 3}
NO_STACK = "[stack not recorded: mode or size limit]"
BLOCKS, SIZE = 10, 300  # more than the interval: a sample of every one of them, which stands for itself
INTERVAL = 256

# Each step allocates BLOCKS under a tag of its own, after it has ended most of the step before's: five by itself, two by
# another thread, one by a realloc; two stay. The first word of a line is 't' to turn the dial to the second, or 's' for a step.
PROGRAM = r"""
#include <heapgauge/heapgauge.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
enum { BLOCKS = 10 };
static void *block[64][BLOCKS + 1];
static void *other(void *before) { void **b = before; free(b[5]); free(b[6]); return NULL; }
__attribute__((noinline)) static void *take(size_t size) { void *p = malloc(size); __asm__ volatile("" : "+r"(p)); return p; }
/* So much that a thread that lets everything pass looks at the dial. */
__attribute__((noinline)) static void settle(void) { HG_SCOPE("settle"); free(take(2 << 20)); free(take(2 << 20)); }
static void step(int n)
{
	char name[16];
	pthread_t thread;
	settle();
	sprintf(name, "step %d", n);
	HG_SCOPE_NAME(name);
	for (int i = 0; i < BLOCKS; i++)
		block[n][i] = take(300 + n);
	if (n == 0)
		return;
	for (int i = 0; i < 5; i++)
		free(block[n - 1][i]);
	{ hg_context here = hg_context_get(); hg_context_set((hg_context){ 0 });
	  pthread_create(&thread, NULL, other, block[n - 1]);
	  hg_context_set(here); }
	pthread_join(thread, NULL);
	block[n][BLOCKS] = realloc(block[n - 1][7], 1000 + n);
}
int main(void)
{
	static char in[64], out[64];
	int word;
	setvbuf(stdin, in, _IOFBF, sizeof in);
	setvbuf(stdout, out, _IOFBF, sizeof out);
	alarm(900);
	for (int n = 0; (word = getchar()) != EOF && word != 'q';) {
		if (word == 't')
			hg_mode((enum hg_mode)(getchar() - '0'));
		if (word == 's')
			step(n++);
		printf("%d\n", getpid());
		fflush(stdout);
	}
	return 0;
}
"""


def euler():
    """A walk over the modes that makes every turn once."""
    left = {mode: [other for other in MODES if other != mode] for mode in MODES}
    path, walk = ["exact"], []
    while path:
        if left[path[-1]]:
            path.append(left[path[-1]].pop())
        else:
            walk.append(path.pop())
    assert len(set(zip(walk, walk[1:]))) == 12
    return walk[::-1]


def expected(modes):
    """By step: (calls, bytes, frees, freed bytes), of what the mode says is recorded."""
    rows = {}
    for n, mode in enumerate(modes):
        if mode == "dormant":
            continue
        calls, bytes_, ended = BLOCKS, BLOCKS * (SIZE + n), 8 if n + 1 < len(modes) else 0
        if n > 0:  # the realloc
            calls, bytes_ = calls + 1, bytes_ + 1000 + n
        rows[f"step {n}"] = (calls, bytes_, ended, ended * (SIZE + n))
    return rows


def numbers(sites):
    rows, stacks = {}, {}
    for site in sites:
        before = rows.get(site["tag"], (0, 0, 0, 0))
        keys = ("calls", "total_bytes", "frees", "freed_bytes")
        rows[site["tag"]] = tuple(b + site[key] for b, key in zip(before, keys))
        stacks.setdefault(site["tag"], set()).add(site["stack"][0]["function"])
    return rows, stacks


def check(modes, sites, process, by_program=False):
    rows, stacks = numbers([site for site in sites if (site["tag"] or "").startswith("step")])
    assert rows == expected(modes)
    for n, mode in enumerate(modes):
        if mode != "dormant":
            wanted = {NO_STACK} if mode == "tags" else {"take", "step"} if n > 0 else {"take"}
            assert stacks[f"step {n}"] == wanted, (n, mode)
    assert losses(process) == ({"turned_off": 3} if by_program else {})


@pytest.fixture
def program(scratch):
    return compile_c(scratch, "modes", PROGRAM, "-pthread", f"-I{INCLUDE}")


def test_every_turn_by_the_program(program, record, report_json, scratch):
    modes = euler()
    words = scratch / "words"
    words.write_text("".join(f"t{MODES[mode]}s" for mode in modes))
    with words.open() as stdin:
        run = record([program], "--mode", "sample", "--interval", str(INTERVAL), stdin=stdin)
    assert run.returncode == 0, run.stderr
    check(modes, report_json(run.path, "sites")["sites"], report_json(run.path)["processes"][0], by_program=True)


def test_every_turn_by_a_program_that_records_itself(program, build, clean_env, heapgauge):
    """The control page is its own: who reads it sees what the program said."""
    modes = euler()
    env = preloaded(build, clean_env, HEAPGAUGE_MODE="dormant", HEAPGAUGE_INTERVAL=str(INTERVAL))
    with talking(program, env) as say:
        for mode in modes:
            say(f"t{MODES[mode]}")
            say("s")
        check(modes, *read(heapgauge, clean_env, say.pid), by_program=True)


@pytest.mark.parametrize("first", MODES)
@pytest.mark.parametrize("then", ["exact", "tags", "sample"])
def test_every_turn_from_outside(first, then, program, build, clean_env, heapgauge, attach, mode_of):  # noqa: F811
    if first == then:
        pytest.skip("no turn")
    env = preloaded(build, clean_env, HEAPGAUGE_MODE=first, HEAPGAUGE_INTERVAL=str(INTERVAL))
    with talking(program, env) as say:
        say("s")
        options = ["--interval", str(INTERVAL)] if then == "sample" else []
        with attach(say.pid, "--mode", then, *options) as recorder:
            wait_for(lambda: mode_of(say.pid).split()[0] == then, "the dial")
            say("s")
        assert recorder.returncode == 0, recorder.err
        assert mode_of(say.pid).split()[0] == first
        say("s")
        check([first, then, first], *read(heapgauge, clean_env, say.pid))


def test_who_turns_last_is_followed(program, build, clean_env, attach, mode_of):  # noqa: F811
    with talking(program, preloaded(build, clean_env)) as say:
        say("t1")
        assert mode_of(say.pid) == "tags"
        with attach(say.pid, "--mode", "sample", "--interval", "64KiB"):
            wait_for(lambda: mode_of(say.pid) == "sample 64.0 KiB", "the dial")
            say("t0")
            assert mode_of(say.pid) == "dormant"


class talking:
    """The program, told to do things one by one."""

    def __init__(self, program, env):
        self.run = subprocess.Popen([program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        self.pid = self("x")
        return self

    def __call__(self, words):
        self.run.stdin.write(words)
        self.run.stdin.flush()
        return int(self.run.stdout.readline())

    def __exit__(self, *_):
        self.run.stdin.close()
        self.run.stdout.close()
        assert self.run.wait(WAIT_SECONDS) == 0


def read(heapgauge, env, pid):
    """What the process holds: (sites, its row)."""

    def ask(view):
        argv = [heapgauge, "report", "--pid", str(pid), "--view", view, "--format", "json"]
        return with_frames(json.loads(subprocess.run(argv, env=env, capture_output=True, check=True).stdout))

    return ask("sites")["sites"], ask("summary")["processes"][0]


# Four threads take, grow and free blocks, also each other's, while one turns the dial and another reads the numbers.
STORM = r"""
#include <heapgauge/heapgauge.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
enum { THREADS = 4, PLACES = 512, ROUNDS = 60000 };
static void *place[PLACES];
static int done;
static unsigned next(unsigned *seed) { return *seed = *seed * 1664525u + 1013904223u; }
static void swap(void *block, unsigned n) { free(__atomic_exchange_n(&place[n % PLACES], block, __ATOMIC_ACQ_REL)); }
static void *churn(void *number)
{
	unsigned seed = (unsigned)(long)number;
	char text[16];
	for (int i = 0; i < ROUNDS; i++) {
		unsigned n = next(&seed) >> 8;
		snprintf(text, sizeof text, "%u", n % 40);
		HG_SCOPE("work");
		HG_LABEL("n", text);
		void *block = n % 3 ? malloc(n % 2000) : calloc(1, n % 300);
		if (n % 5 == 0) block = realloc(block, n % 4000 + 1);
		if (n % 97 == 0) { hg_stop(HG_THREAD); swap(malloc(n % 100), n / 7); hg_start(HG_THREAD); }
		swap(block, n);
	}
	return NULL;
}
static void *turn(void *unused)
{
	static struct hg_site_stats top[8];
	unsigned seed = 99;
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
		unsigned n = next(&seed) >> 8;
		struct hg_stats all;
		hg_mode((enum hg_mode)(n % 4));
		if (n % 11 == 0) { hg_stop(HG_PROCESS); hg_start(HG_PROCESS); }
		if (n % 13 == 0) hg_stacks(n % 200, n % 2 ? SIZE_MAX : 1000);
		if (n % 17 == 0) hg_snapshot("storm");
		if (n % 7 == 0 && hg_stats(&all) && all.heap.live_bytes > (1u << 30)) _exit(3);
		if (n % 19 == 0) hg_sites(top, 8, HG_BY_LIVE_BYTES);
		usleep(200);
	}
	return unused;
}
static void on_signal(int unused) { HG_SCOPE("signal"); hg_label("from", "signal"); hg_mode(HG_TAGS); hg_snapshot("signal"); }
int main(void)
{
	pthread_t thread[THREADS], turner;
	struct hg_stats all;
	signal(SIGALRM, on_signal);
	ualarm(3000, 3000);
	pthread_create(&turner, NULL, turn, NULL);
	for (long i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, churn, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
	__atomic_store_n(&done, 1, __ATOMIC_RELEASE);
	pthread_join(turner, NULL);
	ualarm(0, 0);
	hg_mode(HG_DORMANT);
	if (fork() == 0) _exit(hg_stats(&all) && all.mode == HG_DORMANT && all.heap.calls == 0 ? 0 : 4);
	int status;
	wait(&status);
	for (int i = 0; i < PLACES; i++) free(place[i]);
	return hg_is_recorded() ? WEXITSTATUS(status) : 0;
}
"""


@pytest.mark.parametrize("allocator", ["glibc", "jemalloc"])
def test_a_storm_of_turns_loses_no_block(allocator, scratch, record, report_json):
    program = compile_c(scratch, "storm", STORM, "-pthread", f"-I{INCLUDE}")
    env = {"LD_PRELOAD": "libjemalloc.so.2"} if allocator == "jemalloc" else {}
    run = record([program], "--mode", "sample", "--interval", "4KiB", env=env)
    assert run.returncode == 0, run.stderr
    parent = max(report_json(run.path, "processes")["processes"], key=lambda process: process["calls"])
    sites = [s for s in report_json(run.path, "sites", "--cost", "total")["sites"] if (s["tag"] or "").startswith("work")]
    assert sum(site["calls"] for site in sites) > 1000
    # Whatever was recorded has ended: by whomever, in whatever mode.
    assert {(site["not_freed_bytes"], site["not_freed_blocks"]) for site in sites} == {(0, 0)}
    assert all(site["frees"] == site["calls"] for site in sites)
    lost = losses(parent)
    assert set(lost) <= {"reentrant_calls", "late_snapshots", "turned_off"}, lost
