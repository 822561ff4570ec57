# SPDX-License-Identifier: Apache-2.0
"""The views of sites, sizes and threads, of programs that know what they did."""

import csv
import ctypes
import io
import re
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c

MS = 1_000_000


@pytest.fixture(scope="session")
def recorded(heapgauge, target, tmp_path_factory):
    """recorded("t_name") is the recording of that target and what it printed; made once."""
    runs = {}

    def run(name):
        if name not in runs:
            path = tmp_path_factory.mktemp("views") / f"{name}.hg"
            done = subprocess.run(
                [heapgauge, "record", "-q", "-o", path, "--", target(name)],
                check=True, capture_output=True, text=True, timeout=WAIT_SECONDS,
            )
            runs[name] = path, done.stdout
        return runs[name]

    return run


def expected(stdout, site):
    """What the target says of a site: {word: number}."""
    line = re.search(rf"^EXPECT site={site} .*$", stdout, re.M).group()
    return {word: int(number) for word, number in re.findall(r"([\w.:-]+)=(\d+)(?= |$)", line)}


def own(result, function):
    """The rows whose innermost own frame is the function."""
    rows = []
    for row in result["sites"]:
        mine = [f["function"] for f in row["stack"] if "/targets/" in (f["module"] or "")]
        if mine and mine[0] == function:
            rows.append(row)
    assert rows, f"no site of {function}"
    return rows


def total(rows, column):
    return sum(row[column] for row in rows)


def test_leaks_have_their_blocks_and_their_age(recorded, report_json):
    path, stdout = recorded("t_leaks_of_two_ages")
    leaks = report_json(path, "leaks")
    early, late = own(leaks, "take_early"), own(leaks, "take_late")
    for rows, site in (early, "take_early"), (late, "take_late"):
        truth = expected(stdout, site)
        assert total(rows, "not_freed_bytes") == truth["live_bytes"]
        assert total(rows, "not_freed_blocks") == truth["live_blocks"]
        assert sum(bar["count"] for row in rows for bar in row["ages"]) == truth["live_blocks"]
        assert {row["state"] for row in rows} == {"not freed at exit"}
    # 550 ms lie between them; ages are powers of two of milliseconds.
    assert all(row["median_age_ns"] >= 512 * MS for row in early)
    assert all(row["median_age_ns"] <= row["max_age_ns"] for row in early + late)
    assert min(r["max_age_ns"] for r in early) > max(r["max_age_ns"] for r in late)
    # The clock is the collector's, which may be late where it has no CPU.
    assert min(r["first_seen_ns"] for r in late) - max(r["first_seen_ns"] for r in early) >= 400 * MS
    assert leaks["shown"] == leaks["total"] == total(leaks["sites"], "not_freed_bytes")


def test_suppressed_leaks_are_counted_apart(recorded, report_json, scratch):
    path, stdout = recorded("t_leaks_of_two_ages")
    (scratch / "known").write_text("# fine\nleak:take_ear\n")
    leaks = report_json(path, "leaks", "--suppressions", str(scratch / "known"))
    early, late = expected(stdout, "take_early"), expected(stdout, "take_late")
    assert leaks["suppressed"] == early["live_bytes"]
    assert leaks["shown"] == leaks["total"] - early["live_bytes"] >= late["live_bytes"]
    assert not [r for r in leaks["sites"] if any(f["function"] == "take_early" for f in r["stack"])]


def test_temporary_lists_the_temporary_ones_alone(recorded, report_json):
    path, stdout = recorded("t_temporary_blocks")
    result = report_json(path, "temporary")
    for site in "take_brief", "take_nested":
        assert total(own(result, site), "temporary_calls") == expected(stdout, site)["temporary"]
    assert not [r for r in result["sites"] if any(f["function"] == "take_and_give" for f in r["stack"])]
    assert result["cost"] == "temporary" and result["shown"] == total(result["sites"], "temporary_calls")


def test_reallocs_are_counted_as_the_program_saw_them(recorded, report_json):
    path, stdout = recorded("t_realloc_rules")
    result = report_json(path, "reallocs")
    truth, rows = expected(stdout, "grow"), own(result, "grow")
    for name in "calls", "moved_calls", "grown_calls", "shrunk_calls", "old_bytes", "new_bytes":
        assert sum(row["realloc"][name] for row in rows) == truth[f"realloc.{name}"]
    assert all(row["realloc"]["calls"] for row in result["sites"])
    assert result["shown"] == total(result["sites"], "copied_bytes")
    assert [r["copied_bytes"] for r in result["sites"]] == sorted((r["copied_bytes"] for r in result["sites"]), reverse=True)


def test_lifetimes_tell_short_from_long(recorded, report_json):
    path, _ = recorded("t_histograms")
    result = report_json(path, "lifetimes")
    held = own(result, "take_and_hold")
    assert total(held, "frees") == 100 and total(held, "short_lived_frees") == 0
    assert all(256 * MS <= row["median_lifetime_ns"] <= 4096 * MS for row in held)
    assert all(128 * MS < row["mean_lifetime_ns"] <= row["max_lifetime_ns"] for row in held)
    assert all(128 * MS <= row["min_lifetime_ns"] <= row["mean_lifetime_ns"] for row in held)
    assert all(row["smallest_bytes"] == row["largest_bytes"] == 200 and row["operations"] == 200 for row in held)
    few = own(result, "take_few_sizes")
    assert all(row["smallest_bytes"] == 24 and row["largest_bytes"] == 70000 and row["min_lifetime_ns"] == 0 for row in few)
    # More than eight sizes, from 1 to 4000: the bounds of their classes.
    many = own(result, "take_many_sizes")
    assert all(row["smallest_bytes"] == 1 and row["largest_bytes"] == 4095 for row in many) and total(many, "operations") == 8000
    assert total(many, "short_lived_frees") >= 3900  # freed at once; the clock may tick in between
    # Most blocks that lived briefly come first.
    brief = [row["short_lived_frees"] for row in result["sites"]]
    assert brief == sorted(brief, reverse=True)


def usable_size(size):
    """What glibc really gives: asked of it, here."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.malloc_usable_size.argtypes = libc.free.argtypes = [ctypes.c_void_p]
    libc.malloc_usable_size.restype = ctypes.c_size_t
    block = libc.malloc(size)
    usable = libc.malloc_usable_size(block)
    libc.free(block)
    return usable


def test_sizes_are_exact_and_so_is_their_rounding(recorded, report_json):
    path, _ = recorded("t_temporary_blocks")
    sizes = report_json(path, "sizes")
    rows = {row["low_bytes"]: row for row in sizes["sizes"] if row["exact"]}
    assert rows[32]["calls"] == 1000 and rows[32]["total_bytes"] == 32000
    assert rows[48]["calls"] == 20
    for size in 32, 48, 64, 128:
        assert rows[size]["internal_fragmentation_calls"] == rows[size]["calls"]
        assert rows[size]["mean_internal_fragmentation_bytes"] == usable_size(size) - size
    sites = report_json(path, "sites", "--kind", "heap")["sites"]
    assert sizes["calls"] == total(sizes["sizes"], "calls") == total(sites, "calls")
    assert sizes["total_bytes"] == total(sizes["sizes"], "total_bytes") == total(sites, "total_bytes")
    assert sizes["internal_fragmentation_bytes"] == total(sites, "internal_fragmentation_bytes")


def test_many_sizes_are_classes_that_add_up(recorded, report_json):
    path, _ = recorded("t_histograms")
    few = report_json(path, "sizes", "--focus", "^take_few_sizes$")["sizes"]
    assert sorted((row["low_bytes"], row["calls"]) for row in few) == [(n, 60) for n in (24, 100, 1000, 4096, 70000)]
    assert all(row["mean_internal_fragmentation_bytes"] is None for row in few)  # one site: what each of them wastes is not known
    sizes = report_json(path, "sizes", "--focus", "^take_many_sizes$")["sizes"]
    assert not any(row["exact"] for row in sizes if row["low_bytes"] > 3)
    assert total(sizes, "calls") == 4000
    assert total(sizes, "total_bytes") == 4000 * 4001 // 2
    for row in sizes:  # sizes 1 to 4000, each once
        truth = range(row["low_bytes"], min(row["high_bytes"], 4000) + 1)
        assert row["calls"] == len(truth)
        assert abs(row["total_bytes"] - sum(truth)) <= 0.1 * sum(truth) + 2


def test_threads_free_what_others_took(recorded, report_json):
    path, stdout = recorded("t_threads_cross_free")
    result = report_json(path, "threads")
    threads = result["threads"]
    assert len(threads) == result["thread_count"] == 7
    producers = [t for t in threads if t["calls"] == 20000]
    consumers = [t for t in threads if t["freed_for_others_blocks"]]
    assert len(producers) == len(consumers) == 3
    made = expected(stdout, "produce")
    assert sum(t["freed_by_others_blocks"] for t in producers) == made["frees"] == result["cross_thread_freed_blocks"]
    assert sum(t["freed_by_others_bytes"] for t in producers) == made["freed_bytes"] == result["cross_thread_freed_bytes"]
    assert sum(t["live_bytes"] for t in producers) == made["live_bytes"]
    slots = {t["slot"] for t in producers}
    for thread in consumers:
        assert {int(slot) for slot in thread["freed_by_owner"]} <= slots
        assert sum(o["blocks"] for o in thread["freed_by_owner"].values()) == thread["freed_for_others_blocks"]
        assert thread["live_bytes"] == 0
    process = report_json(path, "summary")["processes"][0]
    assert total(threads, "calls") == process["calls"]
    assert total(threads, "live_bytes") == process["not_freed_bytes"]


def test_one_thread_alone(recorded, report_json):
    path, _ = recorded("t_threads_cross_free")
    producer = next(t for t in report_json(path, "threads")["threads"] if t["calls"] == 20000)
    sites = report_json(path, "sites", "--thread", str(producer["tid"]), "--cost", "calls")
    assert sites["shown"] == total(sites["sites"], "calls") == 20000
    (row,) = own(sites, "produce")
    assert sum(bar["count"] for bar in row["sizes"]) == 20000
    grouped = report_json(path, "functions", "--by", "thread", "--cost", "total")["threads"]
    assert sum(t["total_bytes"] for t in grouped) == report_json(path, "threads")["total_bytes"]


VIEWS = ["sites", "leaks", "peak", "temporary", "lifetimes", "reallocs", "sizes", "threads"]


@pytest.mark.parametrize("view", VIEWS)
def test_text_json_and_csv_say_the_same(view, recorded, heapgauge, report_json):
    path, _ = recorded("t_threads_cross_free")
    result = report_json(path, view)
    rows = result["sizes" if view == "sizes" else "threads" if view == "threads" else "sites"]
    done = subprocess.run([heapgauge, "report", path, "--view", view, "--format", "csv"],
                          check=True, capture_output=True, text=True, timeout=WAIT_SECONDS)
    table = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(table) == len(rows) > 0
    for line, row in zip(table, rows):
        assert list(line) == list(row)
        for key, value in row.items():
            if type(value) is int:
                assert line[key] == str(value)
            elif value is None:
                assert line[key] == ""
    text = subprocess.run([heapgauge, "report", path, "--view", view, "--bytes", "--limit", "1000"],
                          check=True, capture_output=True, text=True, timeout=WAIT_SECONDS).stdout
    column = {"sites": "peak_bytes", "leaks": "not_freed_bytes", "peak": "peak_bytes", "temporary": "temporary_calls",
              "lifetimes": "short_lived_frees", "reallocs": "copied_bytes", "sizes": "calls", "threads": "total_bytes"}[view]
    for row in rows:
        assert f"{row[column]:,}" in text
    assert len([line for line in text.splitlines() if re.match(r"  \S|  +\d", line)]) >= len(rows)


def test_one_clock(record, heapgauge, clean_env, scratch):
    """N18: the summary told the time of the peak since the start of the process, the timeline since that of the recording."""
    source = "#include <stdlib.h>\n#include <unistd.h>\nint main(void) { void *volatile p; usleep(150000); p = malloc(5000000); usleep(50000); free(p); }\n"
    run = record([compile_c(scratch, "late", source)])

    def said(view, pattern):
        argv = [heapgauge, "report", run.path, "--view", view]
        text = subprocess.run(argv, env=clean_env, capture_output=True, text=True, check=True, timeout=WAIT_SECONDS).stdout
        return re.search(pattern, text).group(1)

    at = said("summary", r"peak .* at ([\d.]+ m?s)")
    assert said("peak", r"at the peak, ([\d.]+ m?s)") == at
    assert said("timeline", r"peak .* at ([\d.]+ m?s)") == at


KEEPS_SOME = """
#include <stdlib.h>
#include <unistd.h>
void *volatile kept;
__attribute__((noinline)) void *take(size_t n) { return kept = malloc(n); }
__attribute__((noinline)) void *take_all(size_t n) { return kept = malloc(n); }
__attribute__((noinline)) void *outer(size_t n) { void *p = take(n); kept = malloc(10); return p; }
int main(int argc, char **argv)
{
    for (int i = 0; i < 90; i++)
        free(take(10));
    for (int i = 0; i < 10; i++)
        outer(1000);
    for (int i = 0; i < 7; i++)
        free(take_all(64));
    if (argc > 1) {
        usleep(700000);
        outer(500);
        usleep(700000);
    }
    _exit(0);
}
"""


@pytest.fixture(scope="module")
def keeps_some(tmp_path_factory):
    return compile_c(tmp_path_factory.mktemp("keeps"), "keeps", KEEPS_SOME)


def test_n19_what_holds_nothing_is_freed(record, report_json, keeps_some):
    """N19: the state of every site of an ended process was "leaked", at 0 B too."""
    path = record([keeps_some]).path
    states = {(row["not_freed_blocks"] > 0, row["state"]) for row in report_json(path, "sites")["sites"]}
    assert states == {(True, "not freed at exit"), (False, "freed")}


def test_n19_the_mean_size_is_of_the_blocks_that_are_left(record, report_json, heapgauge, keeps_some):
    """N19: ninety of a hundred blocks were small and are gone."""
    path = record([keeps_some]).path
    rows = report_json(path, "leaks")["sites"]
    assert {row["mean_not_freed_bytes"] for row in rows} == {1000, 10}
    for row in rows:
        assert row["mean_not_freed_bytes"] * row["not_freed_blocks"] == row["not_freed_bytes"]


def test_n19_function_rows_are_inclusive_throughout(record, report_json, keeps_some):
    """N19: bytes were of a function and all that it calls, calls and blocks of itself."""
    path = record([keeps_some]).path
    rows = {row["function"]: row for row in report_json(path, "functions", "--cost", "total")["functions"]}
    assert (rows["outer"]["total_bytes"], rows["outer"]["calls"], rows["outer"]["self_calls"]) == (10 * 1010, 20, 10)
    assert rows["main"]["calls"] == 90 + 20 + 7 and rows["main"]["self_calls"] == rows["main"]["self"] == 0
    left = {row["function"]: row for row in report_json(path, "functions", "--cost", "leaked")["functions"]}
    assert (left["outer"]["live_bytes"], left["outer"]["live_blocks"], left["outer"]["self_live_blocks"]) == (10 * 1010, 20, 10)


def test_n19_no_two_columns_have_one_name(record, heapgauge, keeps_some):
    """N19: --minus had two columns LIVE."""
    path = record([keeps_some, "slowly"]).path
    ask = {"stdout": subprocess.PIPE, "text": True, "check": True}
    command = [heapgauge, "report", path]
    text = subprocess.run([*command, "--at", "time:1.2s", "--minus", "time:100ms", "--view", "sites"], **ask).stdout
    titles = re.split(r"  +", text.splitlines()[2].strip())
    assert len(titles) == len(set(titles)) and "CHANGE" in titles
    leaks = subprocess.run([*command, "--view", "leaks"], **ask).stdout
    assert "HALF OLDER" in leaks and " not freed " in leaks.splitlines()[0] and leaks.splitlines()[0].endswith("at exit")


def test_n19_the_age_of_the_first_block_is_known(record, report_json, keeps_some):
    """N19: where nothing was freed the oldest block is the first; else its age is told by a class, which is a power of two."""
    (row,) = [
        row for row in report_json(record([keeps_some, "slowly"]).path, "leaks")["sites"] if row["not_freed_bytes"] == 100
    ]
    assert row["frees"] == 0 and row["max_age_ns"] >= 1400 * MS


def test_unfreed_memory_is_not_called_leaked(record, heapgauge, keeps_some):
    """Until it is known what the program can reach: in no view, and in no help."""
    path = record([keeps_some]).path
    ask = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    texts = [subprocess.run([heapgauge, "report", path, "--view", view], **ask).stdout for view in ("summary", "leaks", "sites", "peak")]
    texts += [subprocess.run([heapgauge, "help", command], **ask).stdout for command in ("report", "check", "diff", "export")]
    texts += [subprocess.run([heapgauge, "check", path, "--max-leaked", "0"], **ask).stdout]
    names = r"--max-leaked(-blocks)?|max-leaked|--view leaks|--cost leaked|-c leaked|leaks\.\w+|LeakSanitizer|^ *leak(s|ed)  .*|leak(s|ed),$|leak(s|ed), "
    for text in texts:
        said = re.sub(names, "", text, flags=re.M)
        assert not re.search(r"leak", said, re.I), re.search(r".*leak.*", said, re.I).group()


RESERVES = """
#include <sys/mman.h>
int main(void) {
    for (int i = 0; i < 140000; i++) {
        void *p = mmap(0, 1ul << 46, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED || munmap(p, 1ul << 46)) return 3;
    }
}
"""


def test_totals_of_mappings_do_not_wrap(scratch, record, report_json):
    """It reserves 8.5 EiB in all, which is more than a signed number holds."""
    run = record([compile_c(scratch, "reserves", RESERVES)])
    assert run.returncode == 0, run.stderr
    result = report_json(run.path, "sites", "--cost", "total", "--kind", "mmap")
    assert result["sites"][0]["total_bytes"] == 140000 << 46
    assert result["shown"] == (1 << 63) - 1
    (row,) = [row for row in report_json(run.path, "functions", "--cost", "total", "--kind", "mmap")["functions"] if row["function"] == "main"]
    assert row["self"] == (1 << 63) - 1
