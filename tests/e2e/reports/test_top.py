# SPDX-License-Identifier: Apache-2.0
"""heapgauge top, in a real terminal, beside what `report --pid` says of the same process."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading

import pytest

from compiled import WAIT_SECONDS, compile_c
from running import again, compile_keeper, keeping
from tmux import Tmux

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="needs tmux")

# Two functions that hold and free different amounts, in two threads. Tells its pid and waits.
TWO = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
void *volatile kept;
__attribute__((noinline)) void small(void) { for (int i = 0; i < 500; i++) kept = malloc(24); __asm__(""); }
__attribute__((noinline)) void large(void) { for (int i = 0; i < 10; i++) { void *block = malloc(100000); kept = malloc(16); kept = realloc(block, 200000); } __asm__(""); }
__attribute__((noinline)) void brief(void) { for (int i = 0; i < 2000; i++) { kept = malloc(40); free(kept); } __asm__(""); }
static void *thread(void *none) { pthread_setname_np(pthread_self(), "worker"); small(); brief(); pause(); return none; }
int main(void)
{
	char word[24], byte;
	pthread_t id;
	alarm(900);
	large();
	pthread_create(&id, NULL, thread, NULL);
	usleep(100000);
	write(1, word, (unsigned long)sprintf(word, "%d\n", getpid()));
	read(0, &byte, 1);
	_exit(0);
}
"""


@pytest.fixture
def start(heapgauge, scratch, clean_env):
    """start(program): it runs, recorded, and waits."""
    return lambda program, name="run": keeping(
        [heapgauge, "record", "-q", "-o", scratch / f"{name}.hg", "--", program], clean_env
    )


@pytest.fixture
def keeper(start, scratch):
    with start(compile_keeper(scratch)) as run:
        yield run


@pytest.fixture
def two(start, scratch):
    with start(compile_c(scratch, "two", TWO, "-pthread")) as run:
        yield run


@pytest.fixture
def top(heapgauge, clean_env):
    return lambda *words, **size: Tmux([heapgauge, "top", *map(str, words)], clean_env, **size)


@pytest.fixture
def report(heapgauge, clean_env):
    def run(pid, *options):
        done = subprocess.run(
            [heapgauge, "report", "--pid", str(pid), "--format", "json", *options],
            env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=True,
        )
        return json.loads(done.stdout)

    return run


def number(text):
    return int(text.replace(",", ""))


def head(lines):
    """The numbers above the pane."""
    text = "\n".join(lines[:4])
    found = {
        name: re.search(pattern, text)
        for name, pattern in {
            "live_bytes": r"live +([\d,]+) B",
            "peak_bytes": r"peak ([\d,]+) B",
            "live_blocks": r"([\d,]+) blocks",
            "rss_bytes": r"RSS +([\d,]+) B",
            "recorder_bytes": r"recorder ([\d,]+) B",
            "threads": r"threads ([\d,]+)",
        }.items()
    }
    assert all(found.values()), lines
    return {name: number(match[1]) for name, match in found.items()}


def rows(lines):
    """The rows of the pane as (cost, rest of the line)."""
    start = next(i for i, line in enumerate(lines) if line.rstrip().endswith("SITE")) + 1
    found = (re.match(r" +([\d,]+)(?: B|/s)? +(.*)", line) for line in lines[start:-1])
    return [(number(match[1]), match[2].rstrip()) for match in found if match]


def test_totals_are_those_of_the_report(two, top, report):
    process = report(two.target)["processes"][0]
    with top(two.target, "--bytes") as screen:
        shown = head(screen.until_shown("large"))
        assert shown["live_bytes"] == process["not_freed_bytes"] >= 10 * 200000 + 500 * 24
        assert (shown["peak_bytes"], shown["live_blocks"]) == (process["peak_bytes"], process["not_freed_blocks"])
        assert (shown["recorder_bytes"], shown["threads"]) == (process["recorder_bytes"], 2)
        assert shown["rss_bytes"] > 2_000_000
        assert re.match(rf" heapgauge top  {two.target}  exact  [\d.]+ m?s  /.*", screen.screen()[0])


ORDERS = {
    "L": ("live", "live_bytes"),
    "P": ("peak", "live_bytes"),
    "B": ("blocks", "live_blocks"),
    "C": ("calls", "calls"),
    "T": ("total", "total_bytes"),
    "Y": ("temporary", "temporary_calls"),
    "M": ("max", "max_bytes"),
    "W": ("waste", "internal_fragmentation_bytes"),
    "R": ("realloc", "copied_bytes"),
}


def test_sites_by_any_cost_are_those_of_the_report(two, top, report):
    with top(two.target, "--bytes", "--no-symbols") as screen:
        screen.until_shown("SITE")
        for key, (cost, name) in ORDERS.items():
            sites = report(two.target, "--no-symbols", "--view", "sites", "--kind", "heap", "--cost", cost)["sites"]
            expected = [site[name] if name in site else site["realloc"]["moved_bytes"] for site in sites]
            assert expected[0] > 0 and len(set(expected)) > 1
            screen.press(key)
            screen.until(
                lambda x, cost=cost, expected=expected: x[4].split()[:3] == ["sites", "by", cost]
                and [cost for cost, _ in rows(x)] == expected,
                f"{expected} by {cost}",
            )


def test_the_numbers_move_with_the_process(keeper, top, report):
    with top(keeper.target, "--bytes", "--every", "0.2") as screen:
        lines = screen.until_shown("180,000 B")
        assert re.search(r"180,000 B +100\.0 % +900 +0/s +0 B/s +keep \(keeper\.c:\d+\) < main", "\n".join(lines))
        again(keeper)
        lines = screen.until_shown("360,000 B")
        process = report(keeper.target)["processes"][0]
        assert head(lines)["live_blocks"] == process["not_freed_blocks"] == 1800
        assert head(lines)["peak_bytes"] == process["peak_bytes"] == 380000
        screen.until(lambda lines: " 0/s" in lines[3], "the rate to go back to nothing")


@pytest.fixture
def alone(heapgauge, clean_env, scratch):
    """alone(program): records it where it is the only process but for heapgauge; yields the command that enters there."""

    @contextlib.contextmanager
    def run(program):
        inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", heapgauge, "record", "-q", "-o", scratch / "alone.hg"]
        with subprocess.Popen([*inside, program], env=clean_env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout.readline()
                threading.Thread(target=process.stdout.read, daemon=True).start()
                first = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0]
                yield ["nsenter", "--pid", "--mount", "--target", first]
            finally:
                process.kill()

    return run


def test_rates_of_a_process_that_works(target, heapgauge, clean_env, alone):
    with alone(target("kill_me")) as enter:
        with Tmux([*enter, heapgauge, "top", "--every", "0.2"], clean_env) as screen:  # the only one: it need not be named
            screen.until_shown("SITE")
            screen.press("N")
            lines = screen.until(
                lambda lines: "by now" in lines[4] and any(re.search(r"[1-9][\d.]* [kM]/s", x) for x in lines[6:-1]), "a rate"
            )
            assert re.search(r"calls +[\d.]+ [kM]/s", lines[3]), "and the sum of them above"
            assert re.search(r"[▁▂▃▄▅▆▇█]{2}", screen.until(lambda x: re.search("[▁▂▃▄▅▆▇█]{2}", x[3]), "a chart")[3])
            screen.press("q")
            assert screen.until_ended() == 0


def test_a_filter(two, top):
    with top(two.target, "--bytes") as screen:
        assert len(rows(screen.until_shown("large"))) >= 3
        screen.press("/", "sma", "Enter")
        lines = screen.until(lambda x: "only /sma/" in x[4] and "OF SHOWN" in x[5], "the filter")
        assert [cost for cost, _ in rows(lines)] == [500 * 24]
        assert "100.0 %" in rows(lines)[0][1]
        screen.press("/", "C-u", "no_such_function", "Enter")
        screen.until(lambda x: "no_such_function" in x[4] and rows_or_none(x) == [], "nothing that fits")
        screen.press("/", "C-u", "(", "Enter")
        screen.until(lambda x: x[-1].startswith("! '('"), "that this is not a regular expression")
        screen.press("/", "C-u", "Enter")
        screen.until(lambda x: "only" not in x[4] and len(rows_or_none(x)) >= 3, "all of them again")


def rows_or_none(lines):
    return rows(lines) if any(line.rstrip().endswith("SITE") for line in lines) else []


def test_other_views(two, top, report):
    with top(two.target, "--bytes") as screen:
        screen.until_shown("SITE")
        screen.press("t")
        lines = screen.until_shown("tree  by live")
        lines = screen.until(lambda x: any(re.search(r"[├└] ?.*large", line) for line in x), "the tree")
        assert re.search(r"99\.\d % +2,000,160 B +20 .*large", "\n".join(lines))
        screen.press("h")
        lines = screen.until(lambda x: any(re.search(rf"{two.target} +two ", line) for line in x), "the threads")
        of = {thread["name"]: thread for thread in report(two.target, "--view", "threads")["threads"]}
        line = next(line for line in lines if " worker " in line)
        assert of["worker"]["calls"] == 2500 and re.search(r" 2,500 .* 2,000 +12,000 B$", line)
        screen.press("Tab")
        screen.until(lambda x: x[4].startswith(" functions  by live") and any("small  two.c" in line for line in x), "functions")
        screen.press("BTab")
        screen.until(lambda x: x[4].startswith(" threads"), "back again")
        for key, word in (("z", "SIZE"), ("e", "recorder"), ("i", "MEAN LIFE"), ("y", "TYPE")):
            screen.press(key)
            screen.until(lambda x, word=word: any(word in line for line in x[5:]) and not x[-1].startswith("!"), word)
        screen.press("q")
        assert screen.until_ended() == 0


def test_pause_keeps_what_is_shown_and_lets_one_ask_about_it(keeper, top):
    with top(keeper.target, "--bytes", "--every", "0.1") as screen:
        screen.until_shown("180,000 B")
        screen.press("Space")
        screen.until(lambda lines: "PAUSED" in lines[0], "the pause")
        again(keeper)
        screen.press("C")
        lines = screen.until(lambda x: "by calls" in x[4] and rows_or_none(x) and rows(x)[0][0] < 5000, "another order")
        assert rows(lines)[0][0] == 1000 and head(lines)["live_bytes"] == 180000, "of the moment of the pause"
        screen.press("Space")
        lines = screen.until_shown("360,000 B")
        assert "PAUSED" not in lines[0]


def test_help_fits_the_screen_and_goes_away(keeper, top):
    with top(keeper.target, "--no-symbols") as screen:
        screen.until_shown("SITE")
        screen.press("?")
        lines = screen.until_shown("press any key to return")
        text = "\n".join(lines)
        for word in ("Space", "/ ", "q Ctrl-C quit", "threads", "tree", "growth", "realloc", "lifetime"):
            assert word in text
        assert max(map(len, lines)) <= 80
        screen.press("x")
        screen.until_shown("SITE")
        screen.press("?")
        screen.until_shown("press any key to return")
        screen.press("q")
        assert screen.until_ended() == 0


@pytest.mark.parametrize("before", [[], ["?"], ["/", "abc"], ["Space"], ["o"]])
def test_ctrl_c_always_ends_it(keeper, top, before):
    with top(keeper.target, "--no-symbols") as screen:
        screen.until_shown("SITE")
        for key in before:
            screen.press(key)
        screen.press("C-c")
        assert screen.until_ended() == 0


def test_the_terminal_is_as_it_was_before(keeper, heapgauge, clean_env):
    command = f"stty -a >before; {heapgauge} top --no-symbols {keeper.target}; stty -a >after; cmp before after && echo the same"
    folder = os.path.dirname(os.readlink(f"/proc/{keeper.target}/exe"))
    with Tmux(["sh", "-c", f"cd {folder}; echo first; {command}"], clean_env) as screen:
        screen.until_shown("SITE")
        screen.press("q")
        lines = screen.until_shown("the same")
        assert lines[0] == "first" and not any("SITE" in line for line in lines)


@pytest.mark.parametrize("exported", [{}, {"COLUMNS": "80", "LINES": "24"}], ids=["", "exported size"])
def test_any_size_of_the_screen(keeper, top, exported, clean_env):
    """Also where the environment has the size that the terminal had once."""
    clean_env.update(exported)
    with top(keeper.target, "--bytes", "--no-symbols") as screen:
        screen.until_shown("SITE")
        for columns, lines in ((200, 50), (60, 12), (20, 6), (9, 2), (80, 24)):
            screen.resize(columns, lines)
            screen.until(lambda x, n=lines: len(x) <= n and x and "heapgauge"[: min(columns - 1, 9)] in x[0], f"{columns}x{lines}")
        lines = screen.until(lambda x: len(x) == 24 and "q quit" in x[-1] and rows_or_none(x), "all of it again")
        assert rows(lines)[0][0] == 180000
        screen.resize(5, 3)
        screen.press("q")
        screen.resize(80, 24)
        assert screen.until_ended() == 0


def test_a_process_that_ends_stays_on_the_screen(keeper, top):
    with top(keeper.target, "--bytes", "--every", "0.1") as screen:
        screen.until_shown("180,000 B")
        keeper.stdin.write("q")
        keeper.stdin.flush()
        lines = screen.until(lambda lines: re.match(r"! process \d+ does not exist", lines[-1]), "its end")
        assert head(lines)["live_bytes"] == 180000
        screen.press("t")
        screen.until(lambda x: any("keeper.c" in line for line in x), "it can still be looked at")
        screen.press("q")
        assert screen.until_ended() == 0


def test_one_of_several_is_chosen(start, scratch, top):
    program = compile_keeper(scratch)
    with start(program, "a") as one, start(program, "b") as other:
        again(other)
        with top("--bytes", "--no-symbols") as screen:
            for _ in range(20):  # again where another test's process came or went between looking and choosing
                lines = screen.until(lambda x: all(any(f"{run.target}  keeper" in y for y in x) for run in (one, other)), "both")
                at = [i for i, line in enumerate(lines) if re.match(r" +\d+ +\S+ +exact", line)]
                screen.press(*["Up"] * 20)
                screen.press(*["Down"] * next(i for i, line in enumerate(at) if f" {other.target}  keeper" in lines[line]))
                screen.press("Enter")
                lines = screen.until(lambda x: re.match(r" heapgauge top  \d+  ", x[0]), "the chosen one")
                if lines[0].startswith(f" heapgauge top  {other.target}  exact"):
                    break
                screen.press("o")
            # Waits for the number, too: the terminal may show the new title above the lines of the process before.
            screen.until(
                lambda x: x[0].startswith(f" heapgauge top  {other.target}  exact") and "live        360,000 B" in x[1],
                "its numbers",
            )
            screen.press("o")
            screen.until_shown("PROGRAM")
            screen.press("q")
            assert screen.until_ended() == 0


def test_what_cannot_be_looked_at(heapgauge, clean_env):
    done = subprocess.run([heapgauge, "top", "1"], env=clean_env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 1 and "needs a terminal" in done.stderr and "report --pid" in done.stderr
    for words, status, message in (
        ([os.getpid()], 1, "is not recorded"),
        ([4194000], 1, "process 4194000 does not exist"),
        (["x"], 2, "takes a process id"),
        (["1", "2"], 2, "one process at a time"),
        (["--every", "0"], 2, "0.1 to 3600"),
        (["--order", "lives"], 2, "live"),
    ):
        with Tmux([heapgauge, "top", *words], clean_env, columns=200) as screen:
            assert screen.until_ended() == status
            assert message in "\n".join(screen.screen())
    with Tmux(["env", "TERM=nonsense", heapgauge, "top"], clean_env, columns=200) as screen:
        assert screen.until_ended() == 1
        assert "TERM is nonsense" in "\n".join(screen.screen())
