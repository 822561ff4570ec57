# SPDX-License-Identifier: Apache-2.0
"""Programs that define malloc themselves: whatever they call ends in the same allocator as without us, in every mode.

R5: reallocarray of glibc calls realloc by its name, so that it reaches the program's; ours gave a block of glibc's.
"""

import pathlib
import subprocess

import pytest

import recorder
from compiled import WAIT_SECONDS, losses

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "targets" / "own_allocator.c"
LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
# Which of the family the program defines besides malloc, free, realloc and calloc.
SUBSETS = {
    "least": [],
    "reallocarray": ["-DOWN_REALLOCARRAY"],
    "aligned": ["-DOWN_ALIGNED"],
    "all": ["-DOWN_REALLOCARRAY", "-DOWN_ALIGNED"],
}
RECORD = {
    "exact": [],
    "tags": ["--mode", "tags"],
    "sample": ["--mode", "sample", "--interval", "256B"],
    "dormant": ["--start", "dormant"],
}
ALONE = {mode: {"HEAPGAUGE_MODE": mode} for mode in ("exact", "tags", "sample", "dormant")}


def run(argv, env):
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    return done.returncode, done.stdout, done.stderr


def compile_source(path, source, *flags):
    subprocess.run(["gcc", "-O1", "-w", "-fno-builtin", source, "-o", path, *flags], check=True, timeout=WAIT_SECONDS)
    return path


def runs_as_bare(program, build, record, clean_env):
    """Compares every mode, under record and preloaded, with the program alone."""
    bare = run([program], clean_env)
    library = str(recorder.library(build))
    for name, more in ALONE.items():
        assert run([program], clean_env | more | {"LD_PRELOAD": library}) == bare, f"preloaded, {name}"
    for name, options in RECORD.items():
        done = record([program], *options)
        assert (done.returncode, done.stdout) == bare[:2], f"record, {name}: {done.stderr}"
    return bare


@pytest.mark.parametrize("bound", ["lazily", "at once"])
@pytest.mark.parametrize("subset", SUBSETS)
def test_every_function_gives_the_same_allocators_block_as_without_us(subset, bound, build, record, clean_env, scratch):
    link = "-Wl,-z,now" if bound == "at once" else "-Wl,-z,lazy"
    program = compile_source(scratch / "program", SOURCE, "-pthread", link, *SUBSETS[subset])
    status, out, err = runs_as_bare(program, build, record, clean_env)
    assert (status, err) == (3, "") and out.count("reallocarray own\n") == 6 and "child 5\n" in out


def test_the_same_of_a_library_that_stands_before_the_recorder(build, clean_env, scratch):
    """R5: of two preloaded libraries the first one's malloc is the program's."""
    own = compile_source(scratch / "libown.so", SOURCE, "-shared", "-fPIC", "-pthread", "-Dmain=not_main")
    (scratch / "main.c").write_text(
        "#include <stdlib.h>\n#include <stdio.h>\n"
        'int main(void) { void *p = reallocarray(NULL, 5, 7); free(p); puts("done"); return 4; }\n'
    )
    main = compile_source(scratch / "main", scratch / "main.c", "-D_GNU_SOURCE")
    bare = run([main], clean_env | {"LD_PRELOAD": str(own)})
    assert bare == (4, "done\n", "")
    for more in ALONE.values():
        assert run([main], clean_env | more | {"LD_PRELOAD": f"{own}:{recorder.library(build)}"}) == bare


FAMILY = """
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void try(void *block, const char *name) { memset(block, 1, 10); free(block); puts(name); }
int main(void)
{
	void *aligned;
	char *text;
	try(malloc(10), "malloc");
	try(calloc(2, 5), "calloc");
	try(realloc(NULL, 10), "realloc");
	try(reallocarray(NULL, 5, 7), "reallocarray");
	try(reallocarray(malloc(1000), 5, 7000), "reallocarray");
	try(strdup("text text text"), "strdup");
	try(aligned_alloc(64, 64), "aligned_alloc");
	try(memalign(64, 64), "memalign");
	try(valloc(10), "valloc");
	if (posix_memalign(&aligned, 64, 10) == 0) try(aligned, "posix_memalign");
	if (asprintf(&text, "%20d", 5) > 0) try(text, "asprintf");
	return 5;
}
"""


@pytest.mark.parametrize("archive", ["libjemalloc.a", "libtcmalloc_minimal.a"])
def test_an_allocator_that_is_linked_in_statically_gets_every_call(archive, build, record, clean_env, scratch):
    """R5"""
    if not (LIBRARIES / archive).exists():
        pytest.skip(f"{archive} is not here")
    (scratch / "family.c").write_text(FAMILY)
    program = compile_source(
        scratch / "family", scratch / "family.c", LIBRARIES / archive, "-ldl", "-lm", "-lpthread", "-lstdc++"
    )
    status, out, _ = runs_as_bare(program, build, record, clean_env)
    assert status == 5 and out.endswith("asprintf\n")


# As snmalloc: the first malloc of a thread asks libc to call it when the thread ends, for which libc calls calloc.
AT_THREAD_EXIT = """
#define _GNU_SOURCE
#include <stddef.h>
#include <string.h>
static char arena[1 << 20];
static size_t used;
static __thread int known;
extern void *__dso_handle;
int __cxa_thread_atexit_impl(void (*)(void *), void *, void *);
static void at_end(void *unused) { known = 0; }
void *malloc(size_t size)
{
	if (!known) {
		known = 1;
		__cxa_thread_atexit_impl(at_end, NULL, &__dso_handle);
	}
	return arena + __atomic_fetch_add(&used, (size + 31) / 16 * 16, __ATOMIC_RELAXED);
}
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *block, size_t size)
{
	char *moved = malloc(size);
	for (size_t i = 0; block != NULL && i < size && moved + i < arena + sizeof arena; i++)
		moved[i] = ((char *)block)[i];
	return moved;
}
void free(void *block) {}
"""
# As mimalloc 3: these do not call malloc by its name.
COPIES = """
static char *copy(const char *text, size_t size)
{
	char *block = arena + __atomic_fetch_add(&used, (size + 32) / 16 * 16, __ATOMIC_RELAXED);
	for (size_t i = 0; i < size; i++)
		block[i] = text[i];
	block[size] = 0;
	return block;
}
char *strdup(const char *text) { return copy(text, strlen(text)); }
char *strndup(const char *text, size_t most) { return copy(text, strnlen(text, most)); }
"""
THREADS = """
#include <pthread.h>
#include <stdlib.h>
static void *work(void *block) { free(malloc(100)); return NULL; }
int main(void)
{
	pthread_t thread;
	for (int i = 0; i < 4; i++) {
		pthread_create(&thread, NULL, work, NULL);
		pthread_join(thread, NULL);
	}
	return 0;
}
"""


def test_what_libc_allocates_inside_of_the_allocator_is_no_unknown_block_when_it_frees_it(record, report_json, scratch):
    (scratch / "own.c").write_text(AT_THREAD_EXIT)
    (scratch / "main.c").write_text(THREADS)
    own = compile_source(scratch / "libown.so", scratch / "own.c", "-shared", "-fPIC")
    main = compile_source(scratch / "main", scratch / "main.c", "-pthread", "-Wl,--no-as-needed", own)
    done = record([main], env={"LD_LIBRARY_PATH": str(scratch)})
    assert done.returncode == 0, done.stderr
    [process] = report_json(done.path)["processes"]
    assert losses(process) == {} and process["frees"] >= 4


DUPLICATES = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
int main(void)
{
	for (int i = 0; i < 100; i++) {
		char *a = strdup("twelve chars"), *b = strndup("twelve chars", 6);
		if (i == 7) printf("%s %s\\n", a, b);
		free(a);
		if (i % 2) free(b);
	}
	return 0;
}
"""


@pytest.mark.parametrize("bound", ["lazily", "at once"])
@pytest.mark.parametrize("copies", ["the allocator's", "libc's"])
def test_strdup_is_recorded_whoever_defines_it(copies, bound, record, report_json, scratch):
    (scratch / "own.c").write_text(AT_THREAD_EXIT + (COPIES if copies == "the allocator's" else ""))
    (scratch / "main.c").write_text(DUPLICATES)
    own = compile_source(scratch / "libown.so", scratch / "own.c", "-shared", "-fPIC")
    link = "-Wl,-z,now" if bound == "at once" else "-Wl,-z,lazy"
    main = compile_source(scratch / "main", scratch / "main.c", "-g", link, "-Wl,--no-as-needed", own)
    done = record([main], env={"LD_LIBRARY_PATH": str(scratch)})
    assert done.returncode == 0 and done.stdout == "twelve chars twelve\n", done.stderr
    assert losses(report_json(done.path)["processes"][0]) == {}
    sites = [s for s in report_json(done.path, "sites")["sites"] if s["calls"] == 100]
    assert sorted((s["total_bytes"], s["frees"], s["stack"][1]["function"]) for s in sites) == [(700, 50, "main"), (1300, 100, "main")]
