# SPDX-License-Identifier: Apache-2.0
"""heapgauge record --wrap: malloc-like functions in shared modules, recorded as pools without recompiling."""

import os
import pathlib
import shutil
import subprocess

import pytest

from compiled import WAIT_SECONDS, compile_c, losses

LIBRARY = """
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
/* Blocks with a header in front, so that the pool's are not malloc's. */
void *my_malloc(size_t n) { char *p = malloc(n + 64); return p ? p + 64 : p; }
void my_free(void *p) { if (p) free((char *)p - 64); }
void *my_calloc(size_t n, size_t m) { void *p = my_malloc(n * m); return p ? memset(p, 0, n * m) : p; }
void *my_realloc(void *p, size_t n)
{
    char *q;
    if (n > 1u << 30) { errno = ENOMEM; return NULL; }
    q = realloc(p ? (char *)p - 64 : NULL, n + 64);
    return q ? q + 64 : q;
}
void *my_memalign(size_t a, size_t n) { char *p = malloc(n + a + 64); return (void *)(((size_t)p + 64 + a) & -a); }
int my_posix_memalign(void **r, size_t a, size_t n) { *r = my_memalign(a, n); return *r ? 0 : ENOMEM; }
char *my_strdup(const char *s) { char *p = my_malloc(strlen(s) + 1); return strcpy(p, s); }
"""
HEADER = """
#include <stddef.h>
void *my_malloc(size_t); void my_free(void *); void *my_calloc(size_t, size_t); void *my_realloc(void *, size_t);
void *my_memalign(size_t, size_t); int my_posix_memalign(void **, size_t, size_t); char *my_strdup(const char *);
"""
PROGRAM = (
    HEADER
    + """
#include <errno.h>
#include <stdio.h>
static void *volatile kept[32];
__attribute__((noinline)) static void work(void)
{
    void *p;
    for (int i = 0; i < 10; i++) kept[i] = my_malloc(100 + i);   /* 1045 */
    for (int i = 0; i < 5; i++) my_free(kept[i]);                /* -510 */
    kept[10] = my_calloc(10, 30);                                /* 300 */
    kept[11] = my_realloc(NULL, 50);                             /* 50 */
    kept[11] = my_realloc(kept[11], 5000);                       /* -50 +5000 */
    kept[12] = my_memalign(256, 700);
    my_posix_memalign(&p, 64, 800); kept[13] = p;
    kept[14] = my_strdup("twelve bytes");                        /* 13 */
    my_free(NULL);
}
int main(void) { work(); return 0; }
"""
)
# What work() does: calls, bytes, frees, live bytes, live blocks.
TRUTH = (16, 1045 + 300 + 50 + 5000 + 700 + 800 + 13, 6, 1045 - 510 + 300 + 5000 + 700 + 800 + 13, 10)
BINDING = {"now": ["-Wl,-z,now"], "lazy": ["-Wl,-z,lazy"], "noplt": ["-fno-plt", "-Wl,-z,now"], "nopie": ["-no-pie"]}


def library(folder, name="libmy", text=LIBRARY, *flags):
    (folder / f"{name}.c").write_text(text)
    subprocess.run(
        ["gcc", "-g", "-O1", "-w", "-shared", "-fPIC", "-Wl,--no-as-needed", *flags, folder / f"{name}.c", "-o", folder / f"{name}.so"],
        check=True,
        timeout=WAIT_SECONDS,
    )
    return folder / f"{name}.so"


def pools_of(report_json, path):
    return {row["pool"]: row for row in report_json(path, "pools")["pools"]}


def numbers(row):
    return tuple(row[key] for key in ("calls", "total_bytes", "frees", "live_bytes", "live_blocks"))


def against(made):
    """Flags to link with a library."""
    return ["-Wl,--no-as-needed", str(made), f"-Wl,-rpath,{made.parent}"]


def linked(folder, text, *flags, of=LIBRARY):
    return compile_c(folder, "program", text, *flags, *against(library(folder, "libmy", of)))


@pytest.mark.parametrize("binding", BINDING)
def test_a_prefix_wraps_all_of_its_functions(scratch, record, report_json, binding):
    program = linked(scratch, PROGRAM, *BINDING[binding])
    run = record([program], "--wrap-prefix", "my_")
    assert run.returncode == 0
    pools = pools_of(report_json, run.path)
    assert {name: numbers(row) for name, row in pools.items()} == {"my_": TRUTH}
    assert not losses(report_json(run.path)["processes"][0])
    sites = report_json(run.path, "sites", "--kind", "pool", "--cost", "total")["sites"]
    assert {site["stack"][0]["function"] for site in sites} == {"work"}
    assert sum(site["realloc"]["calls"] for site in sites) == 1
    # What they take from malloc stays what it is.
    heap = report_json(run.path, "sites", "--kind", "heap", "--cost", "total", "--focus", "^work")["sites"]
    assert sum(site["calls"] for site in heap) == 16
    assert sum(site["total_bytes"] for site in heap) > TRUTH[1]


def test_names_and_pools_of_their_own(scratch, record, report_json):
    program = linked(scratch, PROGRAM)
    run = record(
        [program], "--wrap", "small=malloc:my_malloc,free:my_free", "--wrap", "calloc:my_calloc", "--wrap", "strdup:my_strdup"
    )
    pools = pools_of(report_json, run.path)
    assert numbers(pools["small"])[:3] == (10, 1045, 5)
    assert numbers(pools["my_calloc"]) == (1, 300, 0, 300, 1)
    assert numbers(pools["my_strdup"]) == (1, 13, 0, 13, 1)


PLUGIN = HEADER + "__attribute__((constructor)) static void begin(void) { my_malloc(1000); }\nvoid go(void) { my_free(my_malloc(10)); }\n"
OPENER = """
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    for (int i = 0; i < 3; i++) {
        void *plugin = dlopen(argv[1], RTLD_%s | RTLD_LOCAL);
        void (*go)(void) = plugin ? (void (*)(void))dlsym(plugin, "go") : 0;
        if (!go) { puts(dlerror()); return 1; }
        go();
        dlclose(plugin);
    }
    return 0;
}
"""


@pytest.mark.parametrize("mode", ["NOW", "LAZY"])
def test_a_plugin_is_wrapped_before_its_constructors_run(scratch, record, report_json, mode):
    made = library(scratch)
    plugin = library(scratch, "plugin", PLUGIN, *against(made), "-Wl,-z,lazy")
    program = compile_c(scratch, "opener", OPENER % mode, "-ldl")
    run = record([program, plugin], "--wrap-prefix", "my_")
    assert (run.returncode, run.stdout) == (0, "")
    assert numbers(pools_of(report_json, run.path)["my_"]) == (6, 3030, 3, 3000, 3)
    assert not losses(report_json(run.path)["processes"][0])


TWIN = "#include <stdlib.h>\nvoid *my_malloc(size_t n) { return (char *)malloc(n + %d) + %d; }\nvoid my_free(void *p) { free((char *)p - %d); }\n"
TWIN_USER = HEADER + "void go(void) { my_free(my_malloc(%d)); }\n"


def test_each_object_reaches_the_function_that_is_its_own(scratch, record, report_json):
    """Two plugins with a my_malloc of their own: one's blocks must never come to the other's my_free."""
    text = OPENER.replace("i < 3", "i < 2").replace("argv[1]", "argv[1 + i]") % "LAZY"
    text = text.replace("dlclose(plugin);", "")
    plugins = [library(scratch, f"twin{n}", TWIN % (n, n, n) + TWIN_USER % n) for n in (160, 320)]
    run = record([compile_c(scratch, "opener", text, "-ldl"), *plugins], "--wrap-prefix", "my_")
    assert (run.returncode, run.stdout) == (0, "")
    # Of the second, whose calls the loader has not bound yet, nobody can say which definition it will be: it is left alone.
    calls = numbers(pools_of(report_json, run.path)["my_"])[0]
    assert calls in (1, 2)
    bound = [library(scratch, f"bound{n}", TWIN % (n, n, n) + TWIN_USER % n, "-Wl,-z,now") for n in (160, 320)]
    run = record([scratch / "opener", *bound], "--wrap-prefix", "my_")
    assert (run.returncode, run.stdout) == (0, "")
    assert numbers(pools_of(report_json, run.path)["my_"]) == (2, 480, 2, 0, 0)


def test_a_table_of_functions(scratch, record, report_json):
    text = (
        HEADER
        + """
static const struct { void *(*take)(size_t); void (*give)(void *); } *volatile table, ours = { my_malloc, my_free };
static void *volatile kept;
int main(void) { table = &ours; kept = table->take(77); table->give(table->take(33)); return my_malloc != ours.take; }
"""
    )
    run = record([linked(scratch, text)], "--wrap-prefix", "my_")
    assert run.returncode == 0
    assert numbers(pools_of(report_json, run.path)["my_"]) == (2, 110, 1, 77, 1)


THREADS = (
    HEADER
    + """
#include <pthread.h>
static void *volatile last[8][100];
static void *take(void *n) { for (int i = 0; i < 10000; i++) { void *p = my_malloc(10); if (i < 100) last[(long)n][i] = p; else my_free(p); } return 0; }
static void *give(void *n) { for (int i = 0; i < 100; i++) my_free(last[((long)n + 1) % 8][i]); return 0; }
static void all(void *(*f)(void *)) { pthread_t t[8]; for (long i = 0; i < 8; i++) pthread_create(&t[i], 0, f, (void *)i); for (int i = 0; i < 8; i++) pthread_join(t[i], 0); }
int main(void) { all(take); all(give); return 0; }
"""
)


def test_threads(scratch, record, report_json):
    run = record([linked(scratch, THREADS, "-pthread")], "--wrap-prefix", "my_")
    assert run.returncode == 0
    assert numbers(pools_of(report_json, run.path)["my_"]) == (80000, 800000, 80000, 0, 0)
    assert not losses(report_json(run.path)["processes"][0])


LEFT = (
    HEADER
    + """
#include <setjmp.h>
jmp_buf back;
static void *volatile kept;
__attribute__((noinline)) static void deeper(int n) { volatile char room[200]; room[0] = n; if (n) deeper(n - 1); else kept = my_malloc(8); }
int main(void)
{
    for (int i = 0; i < 10; i++)
        if (setjmp(back) == 0)
            my_calloc((size_t)-1, i);
        else
            deeper(i);
    return 0;
}
"""
)


def test_a_call_that_was_left_by_longjmp_is_over(scratch, record, report_json):
    text = LIBRARY.replace(
        "void *my_calloc(size_t n, size_t m) {",
        "#include <setjmp.h>\nextern jmp_buf back;\nvoid *my_calloc(size_t n, size_t m) { if (n == (size_t)-1) longjmp(back, 1);",
    )
    run = record([linked(scratch, LEFT, "-rdynamic", of=text)], "--wrap-prefix", "my_")
    assert run.returncode == 0
    assert numbers(pools_of(report_json, run.path)["my_"]) == (10, 80, 0, 80, 10)


def test_a_failed_realloc_keeps_the_block(scratch, record, report_json):
    text = HEADER + "int main(void) { char *p = my_malloc(100); return my_realloc(p, 1ul << 40) != 0; }\n"
    run = record([linked(scratch, text)], "--wrap-prefix", "my_")
    assert run.returncode == 0
    row = pools_of(report_json, run.path)["my_"]
    assert (row["live_bytes"], row["live_blocks"]) == (100, 1)


def test_functions_that_cannot_be_reached_are_told(scratch, record, report_json):
    """In the executable itself calls go straight to the function."""
    run = record([compile_c(scratch, "inside", LIBRARY + PROGRAM)], "--wrap-prefix", "my_", "--wrap", "malloc:nowhere")
    assert run.returncode == 0
    assert report_json(run.path, "pools")["pools"] == []
    assert losses(report_json(run.path)["processes"][0]) == {"unreached_wraps": 2}


def test_a_library_calls_back_what_the_executable_exports(scratch, record, report_json):
    user = library(scratch, "user", HEADER + "void use(void) { my_free(my_malloc(123)); }\n")
    text = LIBRARY + "void use(void);\nint main(void) { use(); return 0; }\n"
    program = compile_c(scratch, "exports", text, "-rdynamic", *against(user))
    run = record([program], "--wrap-prefix", "my_")
    assert numbers(pools_of(report_json, run.path)["my_"]) == (1, 123, 1, 0, 0)


FORKS = HEADER + "#include <unistd.h>\n#include <sys/wait.h>\nint main(void) { void *p = my_malloc(10); if (fork() == 0) { my_free(p); my_malloc(20); _exit(0); } wait(0); return 0; }\n"


def test_a_forks_child_is_wrapped_too(scratch, record, report_json):
    run = record([linked(scratch, FORKS)], "--wrap-prefix", "my_")
    rows = sorted(numbers(row) for row in report_json(run.path, "pools")["pools"])
    assert rows == [(1, 10, 0, 10, 1), (1, 20, 0, 20, 1)]


@pytest.mark.parametrize("how", ["preloaded", "linked in"])
def test_a_program_that_records_itself(scratch, build, clean_env, report_json, how):
    """By the environment alone."""
    extra = ["-Wl,-u,heapgauge_linked", str(build / "libheapgauge.a")] if how == "linked in" else []
    program = linked(scratch, PROGRAM, *extra)
    folder = pathlib.Path("/dev/shm") / f"heapgauge-{os.getpid()}-{scratch.name}"
    folder.mkdir()
    env = clean_env | {"HEAPGAUGE_DIR": str(folder), "HEAPGAUGE_KEEP": "1", "HEAPGAUGE_WRAP": "mine=my_*"}
    if how == "preloaded":
        env["LD_PRELOAD"] = str(build / "libheapgauge.so")
    try:
        subprocess.run([program], env=env, check=True, timeout=WAIT_SECONDS)
        (live,) = folder.glob("*.live")
        assert numbers(pools_of(report_json, live)["mine"]) == TRUTH
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--wrap", "malloc"], "--wrap takes KIND:FUNCTION pairs"),
        (["--wrap", "grab:my_alloc"], "--wrap takes KIND:FUNCTION pairs"),
        (["--wrap", "malloc:a,"], "--wrap takes KIND:FUNCTION pairs"),
        (["--wrap", "malloc:malloc"], "malloc is already recorded"),
        (["--wrap-prefix", "a*"], "--wrap-prefix takes a prefix"),
        (["--wrap-prefix", ""], "--wrap-prefix takes a prefix"),
        (["--wrap", "malloc:" + "x" * 3000], "bytes of names"),
        (["--wrap-prefix", "a", "--pid", "1"], "--wrap-prefix cannot be combined with --pid"),
    ],
)
def test_what_cannot_be_understood_is_refused(heapgauge, scratch, options, why):
    tail = [] if "--pid" in options else ["--", "true"]
    done = subprocess.run([heapgauge, "record", *options, *tail], cwd=scratch, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.returncode != 0
    assert why in done.stderr
