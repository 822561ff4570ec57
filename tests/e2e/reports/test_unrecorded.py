# SPDX-License-Identifier: Apache-2.0
"""Memory that does not pass the recorder: how much it is, why, and what to do about it.

C1: an allocator inside a library. C2, R6: calls of libc's malloc past the recorder. C5: sbrk and the system call mmap. C7: runtimes
with a heap of their own. N3: what a fork's child has from its parent.
Every program takes 16 MiB from malloc and 48 MiB by its own way, and holds both for a while.
"""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

import pytest

from compiled import WAIT_SECONDS, compile_c

LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
SEEN, UNSEEN = 16 << 20, 48 << 20
HOLDS_MS = (700, 3000, 12000)

MAIN = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define FLAGS PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L
void *take(size_t n);
static char *fill(void *at, size_t n) { return memset(at, 1, n); }
TAKE
int main(void)
{
	char *seen = fill(malloc(16 << 20), 16 << 20);
	char *unseen = fill(take(48 << 20), 48 << 20);
	usleep(1000 * atoi(getenv("HOLD_MS")));
	return seen[5] + unseen[5] - 2;
}
"""

# mmap as an instruction, the number beside it as compilers have it.
INSTRUCTION = {
    "x86_64": """
	register long flags __asm__("r10") = MAP_PRIVATE | MAP_ANONYMOUS, fd __asm__("r8") = -1, at __asm__("r9") = 0;
	long got;
	__asm__ volatile("mov $9, %%eax\\n\\tsyscall" : "=a"(got)
		: "D"(0), "S"(n), "d"(3), "r"(flags), "r"(fd), "r"(at) : "rcx", "r11", "memory");
	return (void *)got;""",
    "aarch64": """
	register long got __asm__("x0") = 0, bytes __asm__("x1") = n, protection __asm__("x2") = 3;
	register long flags __asm__("x3") = MAP_PRIVATE | MAP_ANONYMOUS, fd __asm__("x4") = -1, at __asm__("x5") = 0;
	__asm__ volatile("mov x8, #222\\n\\tsvc #0" : "+r"(got)
		: "r"(bytes), "r"(protection), "r"(flags), "r"(fd), "r"(at) : "x8", "memory");
	return (void *)got;""",
}
# How the program takes it, what links it, what is named, and what is to be done.
WAYS = {
    "sbrk": ("void *__sbrk(intptr_t); void *take(size_t n) { return __sbrk(n); }", "allocates with sbrk", "mmap or malloc"),
    "syscall": (
        "void *take(size_t n) { return (void *)syscall(SYS_mmap, NULL, n, FLAGS); }",
        "maps memory by a direct system call",
        "call mmap()",
    ),
    "instruction": (
        "void *take(size_t n)\n{" + INSTRUCTION[platform.machine()] + "\n}",
        "maps memory by a direct system call",
        "call mmap()",
    ),
    "__libc_malloc": (
        "void *__libc_malloc(size_t); void *take(size_t n) { return __libc_malloc(n); }",
        "calls __libc_malloc",
        "call malloc instead",
    ),
    "dlsym": (
        """void *take(size_t n)
{
	void *(*f)(size_t) = (void *(*)(size_t))dlsym(dlopen("libc.so.6", RTLD_NOW), "malloc");
	return f(n);
}""",
        "looks up malloc in libc.so.6 with dlsym",
        "RTLD_DEFAULT",
    ),
}


def build_library(folder, name, source, *flags):
    text, path = folder / f"{name}.c", folder / f"{name}.so"
    text.write_text(source)
    words = ["gcc", "-shared", "-fPIC", "-O1", "-w", "-fno-builtin", text, "-o", path, *flags]
    subprocess.run(words, check=True, timeout=WAIT_SECONDS)
    return path


def build_main(folder, take, *flags, share=75):
    """A program that takes so many percent of its memory by its own way."""
    whole = (SEEN + UNSEEN) >> 10
    source = MAIN.replace("48 << 20", f"{whole * share // 100}L << 10").replace("16 << 20", f"{whole * (100 - share) // 100}L << 10")
    return compile_c(folder, "program", source.replace("TAKE", take), "-fno-builtin", "-Wl,--no-as-needed", *flags)


@pytest.fixture
def run_and_look(record, report_json):
    """The recording of a run. A busy machine looks at the program seldom: it is held until it was looked at when it had all of its memory,
    and so early that there was time to look at its libraries too, which comes after."""

    def run(argv, options=(), env=None):
        env = env or {}
        for hold_ms in HOLDS_MS:
            done = record([str(a) for a in argv], *options, timeout=WAIT_SECONDS, env=env | {"HOLD_MS": str(hold_ms)})
            assert done.returncode == 0, done.stderr
            looks = report_json(done.path, "memory")["memory"]
            processes = report_json(done.path)["processes"]
            most, end_ns = max(p["peak_rss_bytes"] for p in processes), max(p["duration_ns"] for p in processes)
            if any(look["rss_bytes"] > 0.98 * most and look["at_ns"] < end_ns - hold_ms * 1_000_000 / 4 for look in looks):
                break
        return done

    return run


@pytest.fixture
def note_of(heapgauge, run_and_look, report_json, clean_env):
    """The note that a run leaves, as (MiB, sentence); None: there is none."""

    def run(*argv, options=(), env=None):
        done = run_and_look(argv, options, env)
        notes = [n for n in report_json(done.path, "health")["health"] if n["name"] == "unexplained_memory"]
        warned = report_json(done.path)["warnings"].get("unexplained_memory")
        assert warned == (notes[0]["count"] if notes else None)
        # The summary has it too, and says that nothing is lost only where that is so.
        words = [heapgauge, "report", done.path]
        summary = subprocess.run(words, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=True).stdout
        assert ("memory that was not recorded" in summary) == bool(notes), summary
        assert not (notes and "nothing lost" in summary)
        if not notes:
            return None
        found = re.search(r"(\d+\.\d) (KiB|MiB|GiB), ", notes[0]["meaning"])
        return float(found[1]) * {"KiB": 1 / 1024, "MiB": 1, "GiB": 1024}[found[2]], notes[0]["meaning"]

    return run


def is_about_all_of_it(mib):
    return abs(mib - UNSEEN / (1 << 20)) < 0.05 * (SEEN + UNSEEN) / (1 << 20)


@pytest.mark.parametrize("way", WAYS)
def test_calls_past_the_recorder_are_named(way, note_of, scratch):
    """C2, C5, R6"""
    take, reason, remedy = WAYS[way]
    mib, text = note_of(build_main(scratch, take, "-ldl"))
    assert is_about_all_of_it(mib), text
    assert f"program {reason}" in text and remedy in text


PLUGIN = "#include <stdlib.h>\nvoid *library_take(size_t n) { return malloc(n); }\n"
OPENED = """void *take(size_t n)
{
	void *handle = HOW;
	void *(*f)(size_t) = (void *(*)(size_t))dlsym(handle, "library_take");
	return f(n);
}"""
NAMESPACES = {
    "deepbind": ('dlopen("PATH", RTLD_NOW | RTLD_DEEPBIND)', "RTLD_DEEPBIND"),
    "lazily": ('dlopen("PATH", RTLD_LAZY | RTLD_DEEPBIND)', "RTLD_DEEPBIND"),
    "dlmopen": ('dlmopen(LM_ID_NEWLM, "PATH", RTLD_NOW)', "dlmopen"),
}


@pytest.mark.parametrize("how", NAMESPACES)
def test_a_library_that_is_bound_past_the_recorder_is_named(how, note_of, scratch):
    """C2, R6"""
    opens, reason = NAMESPACES[how]
    library = build_library(scratch, "plugin", PLUGIN)
    mib, text = note_of(build_main(scratch, OPENED.replace("HOW", opens.replace("PATH", str(library))), "-ldl"))
    assert is_about_all_of_it(mib), text
    assert "plugin.so " in text and reason in text and "while recording" in text


# Libraries with an allocator of their own: by the names of its functions, or, stripped, by what it says.
MAPPING = """
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
const char *said = "WORDS";
EXPORT void *FUNCTION(size_t n) { return said ? mmap(NULL, n, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : NULL; }
__attribute__((visibility("default"))) void *take(size_t n) { return FUNCTION(n); }
"""
MADE = {
    "jemalloc with a prefix": ("mine_mallocx", "", "jemalloc inside", "system's malloc"),
    "jemalloc of Rust": ("_rjem_mallocx", "", "jemalloc inside", "tikv-jemallocator"),
    "mimalloc": ("mi_malloc", "", "mimalloc inside", "system's malloc"),
    "snmalloc": ("sn_rust_alloc", "", "snmalloc inside", "system's malloc"),
    "rpmalloc": ("rpmalloc", "", "rpmalloc inside", "system's malloc"),
    "dlmalloc": ("dlmalloc", "", "dlmalloc inside", "system's malloc"),
    "Arrow": ("mi_malloc", "ARROW_DEFAULT_MEMORY_POOL", "Apache Arrow's memory pool inside", "POOL=system"),
    "Java": ("JNI_CreateJavaVM", "", "the Java VM (libmade.so) keeps objects", "NativeMemoryTracking"),
    "V8": ("_ZN2v87Isolate3NewEv", "", "V8 (libmade.so) keeps objects", "--heap-prof"),
    "Haskell": ("hs_init_ghc", "", "the Haskell runtime", "+RTS"),
    "SBCL": ("gc_and_save", "", "SBCL (libmade.so)", "(room)"),
    "PHP": ("_emalloc", "", "PHP (libmade.so)", "USE_ZEND_ALLOC=0"),
    "LuaJIT": ("luaJIT_setmode", "", "LuaJIT (libmade.so)", "LUAJIT_USE_SYSMALLOC"),
    "Mono": ("mono_jit_init", "", "Mono (libmade.so)", "--profile=log"),
    "Guile": ("GC_malloc_atomic", "", "the Boehm collector", "GC_PRINT_STATS"),
}
WORDS = {
    "jemalloc": ("<jemalloc>: Error", "jemalloc inside"),
    "mimalloc": ("mimalloc: warning: no", "mimalloc inside"),
    "tcmalloc": ("tcmalloc.pageheap_unmapped_bytes", "tcmalloc inside"),
    "PHP": ("USE_ZEND_ALLOC", "PHP (libmade.so)"),
    "SBCL": ("SBCL_HOME", "SBCL (libmade.so)"),
}


def of_library(folder, function, words="", *flags, exports=True):
    source = MAPPING.replace("FUNCTION", function).replace("WORDS", words).replace("EXPORT", "" if exports else "static")
    build_library(folder, "libmade", source, "-fvisibility=hidden", *flags)
    return "", [folder / "libmade.so", f"-Wl,-rpath,{folder}"]


def build_with_library(folder, function, words, *flags, exports=True):
    take, links = of_library(folder, function, words, *flags, exports=exports)
    return build_main(folder, take, *links)


@pytest.mark.parametrize("name", MADE)
def test_an_allocator_or_a_runtime_in_a_library_is_named(name, note_of, scratch):
    """C1, C7"""
    function, words, reason, remedy = MADE[name]
    mib, text = note_of(build_with_library(scratch, function, words))
    assert is_about_all_of_it(mib), text
    assert reason in text and remedy in text


def test_a_library_that_is_found_by_a_link_is_named(note_of, scratch):
    """C1: the loader knows it by the link, the kernel by its place."""
    program = build_with_library(scratch, "mi_malloc", "")
    (scratch / "libmade.so").rename(scratch / "libmade.so.1.5")
    (scratch / "libmade.so").symlink_to("libmade.so.1.5")
    mib, text = note_of(program)
    assert is_about_all_of_it(mib) and "mimalloc inside libmade.so allocates" in text, text


@pytest.mark.parametrize("name", WORDS)
def test_it_is_named_if_the_library_is_stripped(name, note_of, scratch):
    """C1, C7"""
    words, reason = WORDS[name]
    mib, text = note_of(build_with_library(scratch, "unknown", words, "-s", exports=False))
    assert is_about_all_of_it(mib), text
    assert reason in text


@pytest.mark.parametrize("strip", ["", "-s"])
def test_a_real_jemalloc_in_a_library_is_named(strip, note_of, scratch):
    """C1"""
    archive = LIBRARIES / "libjemalloc_pic.a"
    if not archive.exists():
        pytest.skip(f"{archive} is not here")
    (scratch / "map").write_text("{ global: take; local: *; };")
    flags = [archive, f"-Wl,--version-script,{scratch / 'map'}", "-lstdc++", "-lm", "-lpthread", *filter(None, [strip])]
    build_library(scratch, "liballoc", "#include <stdlib.h>\nvoid *take(size_t n) { return malloc(n); }\n", *flags)
    mib, text = note_of(build_main(scratch, "", scratch / "liballoc.so", f"-Wl,-rpath,{scratch}"))
    assert is_about_all_of_it(mib), text
    assert "jemalloc inside liballoc.so allocates without" in text


# ---- how much it is, whatever the share ----


def opened(folder, how):
    library = build_library(folder, "plugin", PLUGIN)
    return OPENED.replace("HOW", NAMESPACES[how][0].replace("PATH", str(library))), ["-ldl"]


# Percent of the program's memory that pass the recorder, and the way.
SHARES = [
    (10, "syscall", lambda folder: (WAYS["syscall"][0], ["-ldl"])),
    (10, "__libc_malloc", lambda folder: (WAYS["__libc_malloc"][0], ["-ldl"])),
    (10, "deepbind", lambda folder: opened(folder, "deepbind")),
    (30, "sbrk", lambda folder: (WAYS["sbrk"][0], ["-ldl"])),
    (30, "dlsym", lambda folder: (WAYS["dlsym"][0], ["-ldl"])),
    (30, "mimalloc", lambda folder: of_library(folder, "mi_malloc")),
    (55, "instruction", lambda folder: (WAYS["instruction"][0], ["-ldl"])),
    (55, "dlmopen", lambda folder: opened(folder, "dlmopen")),
    (55, "Java", lambda folder: of_library(folder, "JNI_CreateJavaVM")),
    (95, "sbrk", lambda folder: (WAYS["sbrk"][0], ["-ldl"])),
    (95, "lazily", lambda folder: opened(folder, "lazily")),
    (95, "stripped jemalloc", lambda folder: of_library(folder, "unknown", WORDS["jemalloc"][0], "-s", exports=False)),
]


@pytest.mark.parametrize("share, way, make", SHARES, ids=[f"{share} % by {way}" for share, way, _ in SHARES])
def test_coverage_is_right_within_five_percent(share, way, make, run_and_look, report_json, heapgauge, clean_env, scratch):
    """C1, C2, C5, C7: what the summary says is explained, and what the note says is not, of twelve programs who know."""
    take, flags = make(scratch)
    done = run_and_look([build_main(scratch, take, *flags, share=share)])
    words = [heapgauge, "report", done.path]
    summary = subprocess.run(words, env=clean_env, capture_output=True, text=True, timeout=WAIT_SECONDS, check=True).stdout
    explained = re.search(r"^ *coverage +(only )?(\d+\.\d) % of the anonymous memory is explained", summary, re.M)
    assert explained and abs(float(explained[2]) - (100 - share)) <= 5, summary
    notes = [note["meaning"] for note in report_json(done.path, "health")["health"] if note["name"] == "unexplained_memory"]
    if share > 10:  # a tenth is where it begins to be told
        (text,) = notes
    for text in notes:
        stated = re.search(r"(\d+\.\d) MiB, (\d+\.\d) % of what program has, is in no recorded block", text)
        assert abs(float(stated[2]) - share) <= 5 and abs(float(stated[1]) - 0.64 * share) <= 0.05 * 64, text


def test_what_a_forks_child_has_from_its_parent_is_no_loss_of_its_own(note_of, scratch):
    """N3"""
    take = """void *take(size_t n)
{
	char *block = fill(malloc(n), n);
	usleep(300 * 1000);
	if (fork() == 0) {
		free(malloc(10));
		for (int i = 0; i < 7; i++) {
			usleep(100 * 1000);
			free(malloc(10));
		}
		_exit(block[7] - 1);
	}
	wait(NULL);
	return block;
}"""
    assert note_of(build_main(scratch, take)) is None


def test_pythons_arenas_are_named_and_seen_with_the_variable(note_of, record, heapgauge, scratch, clean_env):
    """C7: small objects of CPython."""
    script = scratch / "objects.py"
    script.write_text("import os, time\nkept = [float(i) for i in range(1500000)]\ntime.sleep(int(os.environ['HOLD_MS']) / 1000)\n")
    run = record([sys.executable, script], env={"HOLD_MS": "0"})
    text = subprocess.run([heapgauge, "report", run.path], env=clean_env, capture_output=True, text=True, check=True).stdout
    (mapped,) = re.findall(r"mapped .*; up to ([\d.]+) MiB for Python's objects: record --python domains shows them", text)
    assert float(mapped) > 24
    assert note_of(sys.executable, script) is None, "the arenas are recorded, as mappings"
    run = record([sys.executable, script], env={"HOLD_MS": "0", "PYTHONMALLOC": "malloc"})
    text = subprocess.run([heapgauge, "report", run.path], env=clean_env, capture_output=True, text=True, check=True).stdout
    assert "Python's objects" not in text


def test_go_is_named(note_of, scratch):
    """C7: its heap is mapped by the system call itself."""
    go = shutil.which("go") or "/usr/local/go/bin/go"
    if not pathlib.Path(go).exists():
        pytest.skip("no go here")
    (scratch / "main.go").write_text(
        'package main\nimport "C"\nimport ("os"; "runtime"; "strconv"; "time")\n'
        "func main() {\n\tkept := make([]byte, 48<<20)\n\tfor i := range kept { kept[i] = 1 }\n"
        "\tms, _ := strconv.Atoi(os.Getenv(\"HOLD_MS\"))\n\ttime.Sleep(time.Duration(ms) * time.Millisecond)\n\truntime.KeepAlive(kept)\n}\n"
    )
    # In the user's cache, where the runtime may be compiled already.
    env = os.environ | {"PATH": "/usr/bin:/bin:/usr/local/go/bin", "GO111MODULE": "off"}
    built = subprocess.run([go, "build", "-o", scratch / "main", scratch / "main.go"], env=env, capture_output=True, text=True)
    if built.returncode != 0:
        pytest.skip(f"go cannot build here: {built.stderr}")
    mib, text = note_of(scratch / "main")
    assert mib > 45 and "Go (main) keeps objects" in text and "go tool pprof" in text


# ---- no word where nothing is missing ----


def test_memory_that_is_explained_gets_no_word_whatever_is_loaded(note_of, scratch):
    """C1: a library that holds an allocator, and does not use it; and one that has the words of all."""
    words = " ".join(w for w, _ in WORDS.values())
    build_library(scratch, "libmade", MAPPING.replace("FUNCTION", "mi_malloc").replace("WORDS", words).replace("EXPORT", "").replace("take(", "never("))
    assert note_of(build_main(scratch, "void *take(size_t n) { return malloc(n); }", scratch / "libmade.so", f"-Wl,-rpath,{scratch}")) is None


@pytest.mark.parametrize(
    "take",
    [
        "void *take(size_t n) { return mmap(NULL, n, FLAGS); }",
        "static char zeroed[48 << 20]; void *take(size_t n) { return zeroed; }",
        """void *take(size_t n)
{
	char **all = malloc(n / 100 * sizeof *all);
	for (size_t i = 0; i < n / 100; i++)
		all[i] = fill(malloc(84), 84);
	for (size_t i = 0; i < n / 100; i += 1 + i % 3)
		free(all[i]);
	return mmap(NULL, n, FLAGS);
}""",
        """void *take(size_t n)
{
	for (int round = 0; round < 20; round++)
		for (size_t i = 1 << 20; i < n; i += i / 2)
			free(fill(malloc(i), i));
	return malloc(n);
}""",
    ],
    ids=["mmap", "static", "fragmented", "freed"],
)
def test_an_ordinary_program_gets_no_word(take, note_of, scratch):
    assert note_of(build_main(scratch, take)) is None


def test_memory_that_comes_and_goes_while_it_is_read_is_not_missing(record, report_json, heapgauge, scratch, clean_env):
    """Pages are read before records, and munmap and free remove a record before the memory is gone."""
    source = """
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
enum { BYTES = 16 << 20, ROUNDS = 60 };
static void *work(void *maps)
{
	for (int i = 0; i < ROUNDS; i++) {
		char *at = maps ? mmap(NULL, BYTES, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : malloc(BYTES);
		memset(at, 1, BYTES);
		if (maps)
			munmap(at, BYTES);
		else
			free(at);
	}
	return NULL;
}
int main(void)
{
	pthread_t all[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&all[i], NULL, work, i % 2 ? all : NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(all[i], NULL);
	return 0;
}
"""
    program = compile_c(scratch, "comes", source, "-fno-builtin", "-lpthread")
    env = clean_env | {"MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
    for _ in range(10):
        run = record([program], env={"MALLOC_MMAP_THRESHOLD_": str(1 << 20)})
        assert run.returncode == 0 and "unexplained_memory" not in report_json(run.path)["warnings"]
        for view in ("summary", "memory"):
            words = [heapgauge, "report", run.path, "--view", view]
            text = subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout
            assert "coverage   only" not in text and "coverage only" not in text, text


def test_a_recording_that_began_late_says_so(note_of, scratch, build):
    """What the program had before is not recorded; no library is blamed for it."""
    include = pathlib.Path(__file__).resolve().parents[3] / "include"
    take = """#include <heapgauge/heapgauge.h>
void *take(size_t n)
{
	char *block = fill(malloc(n), n);
	usleep(200 * 1000);
	hg_start(HG_PROCESS);
	for (int i = 0; i < 100; i++)
		free(malloc(100));
	return block;
}"""
    _, text = note_of(build_main(scratch, take, f"-I{include}", "-ldl"), options=["--start", "dormant"])
    assert "recording began when it had run for" in text and "record it from its start" in text


def test_of_a_dormant_recording_it_is_not_known_whose_the_memory_is(record, report_json, scratch, heapgauge, clean_env):
    """All of it was "held by the allocator", and "explained by what was recorded"."""
    take = "void *take(size_t n) { char *block = fill(malloc(n), n); usleep(300 * 1000); return block; }"
    run = record([build_main(scratch, take)], "--start", "dormant")
    sheets = report_json(run.path, "memory")["memory"]
    assert sheets and all(one["allocator_overhead_bytes"] is None and one["unrecorded_bytes"] is None for one in sheets)
    text = subprocess.run([heapgauge, "report", run.path], env=clean_env, capture_output=True, text=True, check=True).stdout
    assert "coverage   unknown: the recording does not say whose its memory was" in text


def test_an_allocator_that_is_called_by_its_own_names_is_named(note_of, scratch):
    """C1: the recorder forwards to its malloc, and does not see its mallocx."""
    if not (LIBRARIES / "libjemalloc.so.2").exists():
        pytest.skip("libjemalloc.so.2 is not here")
    take = "void *mallocx(size_t, int); void *take(size_t n) { return mallocx(n, 0); }"
    mib, text = note_of(build_main(scratch, take, LIBRARIES / "libjemalloc.so.2"))
    assert is_about_all_of_it(mib) and "program calls an allocator by its own names" in text, text


# ---- what nobody can tell ----


def test_of_a_process_that_ends_at_once_nothing_is_known(record, report_json, scratch):
    """C5: it was never looked at, so nothing is said of its memory."""
    source = "#include <stdlib.h>\nvoid *__libc_malloc(size_t);\nint main(void) { free(malloc(10)); return __libc_malloc(48 << 20) == NULL; }\n"
    run = record([compile_c(scratch, "short", source, "-fno-builtin")])
    assert run.returncode == 0 and "unexplained_memory" not in report_json(run.path)["warnings"]


GROWS_AT_THE_END = """
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void)
{
	char *volatile seen = memset(malloc(100000), 1, 100000);
	usleep(60000);
	char *unseen = (char *)syscall(SYS_mmap, 0, 60 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	_exit(seen[0] + unseen[0] - 1);
}
"""


def test_memory_that_grows_after_the_last_look_is_never_said_to_be_recorded(record, heapgauge, scratch, clean_env):
    run = record([compile_c(scratch, "late", GROWS_AT_THE_END)])
    assert run.returncode == 0, run.stderr
    text = subprocess.run([heapgauge, "report", run.path], env=clean_env, capture_output=True, text=True, check=True, timeout=WAIT_SECONDS).stdout
    # The last look was before, during or after.
    assert re.search(r"^  coverage +(only|unknown)", text, re.M) and "nothing lost" not in text, text
    for limit, status in ("1MiB", 2), ("1GiB", 0):
        done = subprocess.run([heapgauge, "check", run.path, "--max-peak", limit], env=clean_env, capture_output=True, text=True,
                              check=False, timeout=WAIT_SECONDS)
        assert done.returncode == status, done.stdout


def test_an_allocator_that_nobody_knows_is_seen_as_its_mappings(record, report_json, scratch):
    """C1"""
    run = record([build_with_library(scratch, "unknown", "nothing known")], env={"HOLD_MS": "300"})
    assert run.returncode == 0
    summary = report_json(run.path)
    assert "unexplained_memory" not in summary["warnings"] and summary["processes"][0]["mmap_peak_bytes"] >= UNSEEN


def test_a_block_that_is_freed_past_the_recorder_stays_live(record, report_json, scratch):
    """C2: false leaks."""
    source = "#include <stdlib.h>\nvoid __libc_free(void *);\nint main(void) { for (int i = 0; i < 10; i++) __libc_free(malloc(1000 + i)); return 0; }\n"
    run = record([compile_c(scratch, "frees", source, "-fno-builtin")])
    assert run.returncode == 0
    [process] = report_json(run.path)["processes"]
    assert process["not_freed_bytes"] >= 1000
