# SPDX-License-Identifier: Apache-2.0
"""bundle --redact: what no view of the copy may contain, and what reports of it still say."""

import os
import pathlib
import platform
import re
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c
from test_bundle import JIT

INCLUDE = pathlib.Path(__file__).resolve().parents[3] / "include"
# Every text that it puts into a recording contains one of SECRETS.
PROGRAM = r"""
#include <heapgauge/heapgauge.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *volatile blocks[200];
__attribute__((noinline)) void wombat_function(void) { for (int i = 0; i < 100; i++) blocks[i] = malloc(300); __asm__(""); }
int main(int argc, char **argv)
{
	pthread_setname_np(pthread_self(), "wombat_thread");
	{ HG_SCOPE("wombat_tag"); wombat_function(); }
	hg_label("wombat_key", "secret_value");
	blocks[150] = strdup(argv[1]);
	hg_snapshot("wombat_mark");
	usleep(300000); /* so that the name of the thread is read */
	return 0;
}
"""
# An allocator of the project: it is loaded first, and libc's does the work.
ALLOCATOR = r"""
#include <stddef.h>
void *__libc_malloc(size_t); void __libc_free(void *); void *__libc_calloc(size_t, size_t); void *__libc_realloc(void *, size_t);
void *malloc(size_t n) { return __libc_malloc(n); }
void free(void *p) { __libc_free(p); }
void *calloc(size_t n, size_t m) { return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }
"""
PRIVATE = ["secret_argument", "secret_folder", "secret_value", platform.node()]
NAMES = ["wombat_function", "wombat_thread", "wombat_tag", "wombat_key", "wombat_mark", "wombat_program"]


@pytest.fixture
def recorded(scratch, record):
    folder = scratch / "secret_folder"
    folder.mkdir()
    program = compile_c(folder, "wombat_program", PROGRAM, "-D_GNU_SOURCE", "-pthread", f"-I{INCLUDE}")
    return record([program, "secret_argument"], "--on", "rss>99%")


@pytest.fixture
def redact(heapgauge, clean_env, scratch):
    def redact(path, *options):
        argv = [heapgauge, "bundle", path, "-o", scratch / "shared.hg", *options]
        return subprocess.run(argv, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)

    return redact


def everything(heapgauge, env, path):
    """All texts of the recording: what views print, with the names in the file only."""
    texts = []
    for view in ("summary", "sites", "tags", "threads", "modules", "processes", "snapshots", "health", "memory"):
        argv = [heapgauge, "report", path, "--view", view, "--format", "json", "--limit", "1000", "--no-cache"]
        texts.append(subprocess.run(argv, env=env, capture_output=True, text=True, check=True, timeout=WAIT_SECONDS).stdout)
    # Keys are ours: a host may be called vm, as in vm_bytes.
    return re.sub(r'"[a-z_]+":', "", "\n".join(texts)).replace(str(path), "")


@pytest.mark.parametrize("what, gone, stays", [("private", PRIVATE, NAMES[:3]), ("names", PRIVATE + NAMES, [])])
def test_what_is_redacted_is_in_no_view(what, gone, stays, recorded, redact, heapgauge, clean_env, scratch, report_json):
    before = everything(heapgauge, clean_env, recorded.path)
    # The test would prove nothing about a text that is not in the original.
    assert [word for word in PRIVATE + NAMES if word not in before] == []
    done = redact(recorded.path, "--redact", what)
    assert done.returncode == 0, done.stderr
    assert "remain" in done.stderr
    after = everything(heapgauge, clean_env, scratch / "shared.hg")
    assert [word for word in gone if word in after] == []
    assert [word for word in stays if word not in after] == []
    old, new = report_json(recorded.path, "sites"), report_json(scratch / "shared.hg", "sites")
    assert [(s["pid"], s["site"], s["calls"], s["total_bytes"], s["peak_bytes"]) for s in new["sites"]] == [
        (s["pid"], s["site"], s["calls"], s["total_bytes"], s["peak_bytes"]) for s in old["sites"]
    ]
    assert new["run"]["host"] == "redacted" and new["run"]["options"] == ""


def test_a_name_is_the_same_number_everywhere_and_libraries_keep_theirs(recorded, redact, scratch, report_json):
    assert redact(recorded.path, "--redact", "names").returncode == 0
    old, new = report_json(recorded.path, "sites"), report_json(scratch / "shared.hg", "sites")
    pairs = {
        (a["function"], b["function"])
        for one, two in zip(old["sites"], new["sites"], strict=True)
        for a, b in zip(one["stack"], two["stack"], strict=True)
    }
    assert len({a for a, _ in pairs}) == len({b for _, b in pairs}) == len(pairs)
    shown = dict(pairs)
    assert shown["wombat_function"].startswith("function") and shown["main"].startswith("function")
    assert any(a == b and "strdup" in a for a, b in pairs)


TAGS = """
#include <heapgauge/heapgauge.h>
#include <stdlib.h>
static void *volatile kept;
static void work(void) { HG_SCOPE("wombat_same"); HG_LABEL("tenant", "secret_same"); kept = malloc(100); }
int main(void)
{
	{ HG_SCOPE("wombat_one"); work(); }
	{ HG_SCOPE("wombat_two"); work(); }
	{ HG_LABEL("wombat_key", "secret_one"); work(); }
	return 0;
}
"""


@pytest.mark.parametrize("what", ["private", "names"])
def test_a_tag_and_a_label_in_several_places(what, record, redact, scratch, heapgauge, clean_env, report_json):
    """They share one text."""
    run = record([compile_c(scratch, "tags", TAGS, f"-I{INCLUDE}")])
    assert run.returncode == 0 and redact(run.path, "--redact", what).returncode == 0
    after = everything(heapgauge, clean_env, scratch / "shared.hg")
    assert "secret" not in after and ("wombat" in after) == (what == "private")
    paths = [site["tag"].split("/") for site in report_json(scratch / "shared.hg", "sites")["sites"] if site["tag"]]
    assert len(paths) == 3 and all(path[1:] == paths[0][1:] for path in paths)
    assert len({part for path in paths for part in path}) == 5
    if what == "private":
        assert {path[0] for path in paths} == {"wombat_one", "wombat_two", "wombat_key=value2"} and paths[0][1:] == ["wombat_same", "tenant=value1"]


PACKAGED = """
mount -t tmpfs none /usr/games
cp "$1" /usr/games/wombat_program
"$2" record -q -o packaged.hg -- /usr/games/wombat_program secret_argument
"$2" bundle packaged.hg --redact names -o shared.hg
"$2" report packaged.hg --view sites
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to install a program")
def test_a_program_that_a_package_installed_is_the_program_all_the_same(recorded, heapgauge, clean_env, scratch):
    """By its path it could be the distribution's."""
    argv = ["unshare", "-m", "bash", "-ec", PACKAGED, "-", scratch / "secret_folder" / "wombat_program", heapgauge]
    done = subprocess.run(argv, env=clean_env, cwd=scratch, capture_output=True, text=True, check=True, timeout=WAIT_SECONDS)
    assert "wombat_function" in done.stdout
    assert "wombat" not in everything(heapgauge, clean_env, scratch / "shared.hg")


def test_mistakes_in_the_command(recorded, redact, heapgauge, clean_env, scratch):
    before = recorded.path.read_bytes()
    (scratch / "link.hg").symlink_to(recorded.path)
    for argv, message in (
        (["--redact", "names", recorded.path], "needs -o FILE"),
        (["--redact", "names", "-o", recorded.path, recorded.path], "this command reads that file; name another one"),
        (["--redact", "names", "-o", recorded.path, scratch / "link.hg"], "this command reads that file; name another one"),
        (["--redact", "all", "-o", "x.hg", recorded.path], "does not take 'all'"),
        (["--redact", "names", "--sources", "3", "-o", "x.hg", recorded.path], "cannot be combined with --sources"),
    ):
        done = subprocess.run([heapgauge, "bundle", *argv], env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS)
        assert done.returncode in (1, 2) and message in done.stderr, (done.returncode, done.stderr)
    assert recorded.path.read_bytes() == before


def test_code_of_a_runtime_keeps_its_name_without_the_path(redact, record, scratch, report_json):
    done = record([compile_c(scratch, "jit", JIT), "map"])
    (site,) = [s for s in report_json(done.path, "sites")["sites"] if s["sizes"][0]["low_bytes"] == 1234]
    path = pathlib.Path(f"/tmp/perf-{site['pid']}.map")
    try:
        assert redact(done.path, "--redact", "private").returncode == 0
    finally:
        path.unlink()
    (site,) = [s for s in report_json(scratch / "shared.hg", "sites")["sites"] if s["sizes"][0]["low_bytes"] == 1234]
    assert site["stack"][0]["function"].strip() == "LazyCompile:*hot"


def test_the_file_of_the_allocator_is_a_name(recorded, record, redact, scratch, heapgauge, clean_env, report_json):
    library = compile_c(recorded.path.parent, "libwombat_alloc.so", ALLOCATOR, "-shared", "-fPIC")
    program = scratch / "secret_folder" / "wombat_program"
    run = record([program, "secret_argument"], env={"LD_PRELOAD": str(library)})
    assert report_json(run.path)["processes"][0]["allocator"] == "libwombat_alloc.so"
    assert redact(run.path, "--redact", "names").returncode == 0
    assert "wombat" not in everything(heapgauge, clean_env, scratch / "shared.hg")
    assert report_json(scratch / "shared.hg")["processes"][0]["allocator"].startswith("module")
    assert redact(recorded.path, "--redact", "names").returncode == 0
    assert report_json(scratch / "shared.hg")["processes"][0]["allocator"] in ("glibc", "musl")


def test_a_tag_that_begins_like_a_pool_of_python_is_a_name(record, redact, scratch, heapgauge, clean_env):
    source = PROGRAM.replace('"wombat_tag"', '"python.wombat_tag"')
    run = record([compile_c(scratch, "wombat_program", source, "-D_GNU_SOURCE", "-pthread", f"-I{INCLUDE}"), "x"])
    assert redact(run.path, "--redact", "names").returncode == 0
    assert "wombat_tag" not in everything(heapgauge, clean_env, scratch / "shared.hg")
