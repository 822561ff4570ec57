#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads and unloads libraries hundreds of times in every mode and with every allocator, and compares each library's bytes with the truth.

    tests/e2e/unloading/rounds.py [--rounds 200] [--root DIR | --musl] [--only WORD]

Tests the build in HEAPGAUGE_BUILD (default: build/release). --root runs the programs in another system (needs root, and gcc, python3,
libpam-modules, libjemalloc-dev and libgoogle-perftools-dev there). --musl runs programs of musl, which unloads nothing: dl and dl2. --only selects programs whose name contains WORD.
The truth is printed by the program, or else the exact recording of the same program. Exit status: 0 if no program crashed and every
library's bytes are exact, or within three standard errors if sampled.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("HEAPGAUGE_BUILD", ROOT / "build" / "release")).resolve()
HEAPGAUGE = BUILD / "heapgauge"
WAIT_SECONDS = 900
BLOCKS, BYTES = 500, 40_000

# Only the frame size and the amount of code differ.
LIBRARY = r"""
#include <stdlib.h>
#include <string.h>
#ifdef FILL
__asm__(".text\n.fill 1000000, 1, 0x90\n");
#endif
__attribute__((noipa)) void *inner(size_t bytes)
{
    volatile char room[ROOM];
    room[bytes & 15] = 1;
    void *block = malloc(bytes);
    memset(block, room[bytes & 15], 100);
    return block;
}
__attribute__((noipa)) void outer(int blocks, size_t bytes)
{
    for (int i = 0; i < blocks; i++) { void *block = inner(bytes); free(block); }
}
"""

# host ROUNDS WAIT KIND LIBRARY...
HOST = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <iconv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char in[100000], out[200000];
static unsigned long visits[8];
static void *open_library(const char *name)
{
    void *library = dlopen(name, RTLD_NOW);
    if (library == NULL) { puts(dlerror()); exit(2); }
    return library;
}
static void visit(const char *name, int number)
{
    char path[64];
    snprintf(path, sizeof path, "./lib%s.so", name);
    void *library = open_library(path);
    void (*outer)(int, size_t) = dlsym(library, "outer");
    outer(BLOCKS, BYTES);
    visits[number]++;
    dlclose(library);
}
static void visit_codec(int kind)
{
    static const char *const names[] = { "libz.so.1", "libbz2.so.1.0", "libzstd.so.1", "liblzma.so.5", "libsqlite3.so.0" };
    void *library = open_library(names[kind]);
    unsigned long n = sizeof out;
    if (kind == 0)
        ((int (*)(void *, unsigned long *, const void *, unsigned long))dlsym(library, "compress"))(out, &n, in, sizeof in);
    else if (kind == 1)
        ((int (*)(char *, unsigned *, char *, unsigned, int, int, int))dlsym(library, "BZ2_bzBuffToBuffCompress"))(out, (unsigned *)&n, in, sizeof in, 9, 0, 30);
    else if (kind == 2)
        ((size_t (*)(void *, size_t, const void *, size_t, int))dlsym(library, "ZSTD_compress"))(out, n, in, sizeof in, 3);
    else if (kind == 3) {
        size_t at = 0;
        ((int (*)(unsigned, int, void *, const void *, size_t, void *, size_t *, size_t))dlsym(library, "lzma_easy_buffer_encode"))(0, 4, NULL, in, sizeof in, out, &at, n);
    } else {
        void *base;
        ((int (*)(const char *, void **))dlsym(library, "sqlite3_open"))(":memory:", &base);
        ((int (*)(void *, const char *, void *, void *, void *))dlsym(library, "sqlite3_exec"))(base, "create table t(a);"
            "with recursive c(x) as (select 1 union all select x+1 from c where x<300) insert into t select zeroblob(200) from c", 0, 0, 0);
        ((int (*)(void *))dlsym(library, "sqlite3_close"))(base);
        ((int (*)(void))dlsym(library, "sqlite3_shutdown"))();
    }
    dlclose(library);
}
static void visit_iconv(int number)
{
    static const char *const names[] = { "SHIFT_JIS", "EUC-KR", "BIG5", "KOI8-R", "UTF-7", "ISO-2022-JP", "CP1252", "GB18030" };
    char *from = in, *to = out;
    size_t left = 200, room = sizeof out;
    iconv_t converter = iconv_open(names[number % 8], "UTF-8");
    if (converter == (iconv_t)-1) return;
    iconv(converter, &from, &left, &to, &room);
    iconv_close(converter);
}
int main(int count, char **arguments)
{
    int rounds = atoi(arguments[1]);
    srand(1);
    for (size_t i = 0; i < sizeof in; i++) in[i] = (char)('a' + rand() % 20);
    if (arguments[2][0] == '1') { puts("waiting"); fflush(stdout); while (getchar() != '\n') ; }
    void *volatile block = malloc(8 << 20); /* a dormant thread rereads the mode after a MiB */
    free(block);
    for (int i = 0; i < rounds; i++) {
        if (strcmp(arguments[3], "codec") == 0)
            visit_codec(rand() % 5);
        else if (strcmp(arguments[3], "iconv") == 0)
            visit_iconv(rand());
        else
            for (int k = 4; k < count; k++) visit(arguments[k], k - 4);
    }
    for (int k = 4; k < count; k++) printf("truth lib%s.so %lu\n", arguments[k], visits[k - 4] * BLOCKS * BYTES);
    puts("done");
    return 0;
}
"""

PAM = r"""
import ctypes, os, sys
pam, libc = ctypes.CDLL("libpam.so.0"), ctypes.CDLL(None)
libc.malloc.restype = libc.calloc.restype = libc.strdup.restype = ctypes.c_void_p
libc.strdup.argtypes, libc.free.argtypes = [ctypes.c_char_p], [ctypes.c_void_p]
ANSWER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)
class Conversation(ctypes.Structure):
    _fields_ = [("answer", ANSWER), ("data", ctypes.c_void_p)]
@ANSWER
def answer(count, messages, replies, data):
    replies[0] = libc.calloc(count, 16)
    return 0
conversation = Conversation(answer, None)
services = sorted(name for name in os.listdir("/etc/pam.d") if not name.startswith("common"))
if sys.argv[2] == "1":
    print("waiting", flush=True)
    sys.stdin.readline()
libc.free(libc.malloc(8 << 20))
for i in range(int(sys.argv[1])):
    handle = ctypes.c_void_p()
    service = services[i % len(services)].encode()
    if pam.pam_start(service, b"root", ctypes.byref(conversation), ctypes.byref(handle)) == 0:
        pam.pam_acct_mgmt(handle, 0)
        pam.pam_end(handle, 0)
print("done")
"""

EXTENSION = r"""
#include <Python.h>
static PyObject *work(PyObject *self, PyObject *arguments)
{
    for (int i = 0; i < BLOCKS; i++) { void *volatile block = PyMem_RawMalloc(BYTES); PyMem_RawFree(block); }
    Py_RETURN_NONE;
}
static PyMethodDef methods[] = { { "work", work, METH_NOARGS, NULL }, { NULL } };
static PyModuleDef_Slot slots[] = { { 0, NULL } };
static struct PyModuleDef module = { PyModuleDef_HEAD_INIT, NAME_TEXT, NULL, 0, methods, slots };
PyMODINIT_FUNC INIT(void) { return PyModuleDef_Init(&module); }
"""

PYTHON = r"""
import _ctypes, ctypes, gc, importlib.util, sys
if sys.argv[2] == "1":
    print("waiting", flush=True)
    sys.stdin.readline()
bytearray(8 << 20)
truth = {}
for i in range(int(sys.argv[1])):
    name = f"extension_{i % 2}"
    specification = importlib.util.spec_from_file_location(name, f"./{name}.so")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    module.work()
    truth[name] = truth.get(name, 0) + BLOCKS * BYTES
    del module, specification
    gc.collect()
    handle = ctypes.CDLL(f"./{name}.so")._handle
    _ctypes.dlclose(handle)
    _ctypes.dlclose(handle)
for name in truth:
    print("truth", name + ".so", truth[name])
print("done")
"""

LIBRARIES = "/usr/lib/x86_64-linux-gnu"
ALLOCATORS = {
    "glibc": [],
    "jemalloc": ["-Wl,--no-as-needed", "-ljemalloc"],
    "tcmalloc": ["-Wl,--no-as-needed", "-ltcmalloc_minimal"],
    "static jemalloc": ["-rdynamic", f"{LIBRARIES}/libjemalloc.a", "-lm", "-lstdc++", "-lpthread"],
    "static tcmalloc": ["-rdynamic", f"{LIBRARIES}/libtcmalloc_minimal.a", "-lm", "-lstdc++", "-lpthread"],
}
MODES = {
    "exact": ("exact", None, False),
    "4KiB": ("sample", "4KiB", False),
    "64KiB": ("sample", "64KiB", False),
    "default": ("sample", None, False),
    "attached exact": ("exact", None, True),
    "attached 64KiB": ("sample", "64KiB", True),
}


INTERVALS = {"4KiB": 4 << 10, "64KiB": 64 << 10, "default": 512 << 10, "attached 64KiB": 64 << 10}


class System:
    """Where the programs are compiled and run."""

    def __init__(self, root, musl):
        self.root, self.musl = root, musl
        self.compiler = ["musl-gcc", "-Wl,--eh-frame-hdr", "-w"] if musl else ["gcc", "-w"]
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="unloading-", dir=root / "tmp" if root else None))
        self.inside = pathlib.Path("/") / self.folder.relative_to(root) if root else self.folder
        self.profiles = self.folder / "profiles"
        self.profiles.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "none", self.profiles], check=True)
        shutil.copy(BUILD / "libheapgauge.so", self.folder)

    def close(self):
        subprocess.run(["umount", "--lazy", self.profiles], check=True)
        shutil.rmtree(self.folder)

    def argv(self, words, env=()):
        if self.root is None:
            return ["env", "-C", self.folder, *env, *map(str, words)]
        return ["chroot", self.root, "env", "-C", self.inside, *env, *map(str, words)]

    def compile(self, name, source, *flags):
        path = self.folder / (name + ".c")
        path.write_text(source)
        subprocess.run(self.argv([*self.compiler, "-g", "-O1", *flags, self.inside / path.name, "-o", name]), check=True)

    def write(self, name, text):
        (self.folder / name).write_text(text)


def prepare(system):
    both = [f"-DBLOCKS={BLOCKS}", f"-DBYTES={BYTES}ul"]
    for name, flags in {"alpha": ["-DROOM=48"], "beta": ["-DROOM=112"], "gamma": ["-DROOM=80"], "big": ["-DROOM=64", "-DFILL"]}.items():
        system.compile(f"lib{name}.so", LIBRARY, "-shared", "-fPIC", *flags)
    for name, flags in ALLOCATORS.items():
        if system.musl and name != "glibc":
            continue
        path = system.folder / "host.c"
        path.write_text(HOST)
        words = [*system.compiler, "-g", "-O1", *both, "host.c", "-o", "host-" + name.replace(" ", "-"), *flags, "-ldl"]
        subprocess.run(system.argv(words), check=True)
    if system.musl:
        return
    system.write("pam.py", PAM)
    system.write("python.py", PYTHON.replace("BLOCKS * BYTES", str(BLOCKS * BYTES)))
    include = subprocess.run(system.argv(["python3", "-c", "import sysconfig; print(sysconfig.get_paths()['include'])"]), capture_output=True, text=True, check=True).stdout.strip()
    for i in range(2):
        names = [f"-DNAME_TEXT=\"extension_{i}\"", f"-DINIT=PyInit_extension_{i}", f"-I{include}"]
        system.compile(f"extension_{i}.so", EXTENSION, "-shared", "-fPIC", *both, *names)


def programs():
    """name -> words before ROUNDS and WAIT, words after them, libraries that are unloaded"""
    found = {}
    for allocator in ALLOCATORS:
        host = "./host-" + allocator.replace(" ", "-")
        found[f"dl, {allocator}"] = ([host], ["libraries", "alpha", "beta", "gamma"], "lib(alpha|beta|gamma)")
        found[f"dl2, {allocator}"] = ([host], ["libraries", "big", "gamma"], "lib(big|gamma)")
        found[f"codec, {allocator}"] = ([host], ["codec"], "lib(z|bz2|zstd|lzma|sqlite3)[.]")
    found["iconv"] = (["./host-glibc"], ["iconv"], "[A-Z].*[.]so|lib(JIS|KSC|GB|CNS)")
    found["pam"] = (["python3", "pam.py"], [], "pam_|libpam")
    found["python"] = (["python3", "python.py"], [], "extension_")
    return found


def mode_of(pid):
    shown = subprocess.run([HEAPGAUGE, "list", "--format", "json"], stdout=subprocess.PIPE, check=False).stdout
    return next((row["mode"].split()[0] for row in json.loads(shown)["processes"] if row["pid"] == pid), None)


def run(system, words, rounds, mode):
    """(exit status, stdout, recording)"""
    kind, interval, attaches = MODES[mode]
    begin, rest, _ = words
    is_static = "static" in begin[0]
    for path in system.profiles.iterdir():
        path.unlink()
    own = [f"LD_PRELOAD={system.inside}/libheapgauge.so", f"HEAPGAUGE_DIR={system.inside}/profiles", "HEAPGAUGE_KEEP=1"]
    own.append(f"HEAPGAUGE_MODE={'dormant' if attaches else kind}")
    if interval and not attaches:
        own.append(f"HEAPGAUGE_INTERVAL={interval}")
    recording, recorder = system.folder / "run.hg", None
    program = [*begin, rounds, int(attaches), *rest]
    if is_static:
        argv = [HEAPGAUGE, "record", "-q", "-o", recording, "--mode", kind, *(["--interval", interval] if interval else []), "--", *map(str, program)]
    else:
        argv = system.argv(program, own)
    program = subprocess.Popen(argv, cwd=system.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if attaches:
        assert program.stdout.readline() == "waiting\n"
        recording.unlink(missing_ok=True)
        options = ["--mode", kind, *(["--interval", interval] if interval else [])]
        recorder = subprocess.Popen([HEAPGAUGE, "record", "-q", "-o", recording, "--pid", str(program.pid), *options])
        while mode_of(program.pid) != kind:
            assert recorder.poll() is None
            time.sleep(0.1)
    text = program.communicate("\n", timeout=WAIT_SECONDS)[0]
    if recorder:
        recorder.wait(WAIT_SECONDS)
    elif not is_static:
        (recording,) = system.profiles.glob(f"*.{program.pid}.*") if program.returncode == 0 else [None]
    return program.returncode, text, recording


RUNTIME = re.compile(r"(libc[.-]|ld-|libheapgauge|python3|libjemalloc|libtcmalloc|libm[.-])")


def bytes_of(recording):
    """library -> (bytes, bytes in sites of smaller blocks than SMALL, by size); "[stopped]" for stacks that end there."""
    shown = subprocess.run(
        [HEAPGAUGE, "report", recording, "--view", "sites", "--limit", "1000000", "--no-own", "--format", "json"], stdout=subprocess.PIPE, check=True
    ).stdout  # fmt: skip
    answer, sums = json.loads(shown), collections.defaultdict(lambda: [0, collections.Counter()])
    for site in answer["sites"]:
        frames = [answer["frames"][number] for number in site["stack"]]
        modules = [pathlib.PurePath(frame["module"] or "?").name for frame in frames]
        library = next((name for name in modules if not RUNTIME.match(name)), modules[0] if modules else "?")
        if any("stopped" in (frame["function"] or "") for frame in frames):
            library = "[stopped]"
        sums[library][0] += site["total_bytes"]
        for interval in INTERVALS.values():
            if site["calls"] and site["total_bytes"] / site["calls"] < interval:
                sums[library][1][interval] += site["total_bytes"]
    return sums


def compare(found, truth, small, interval):
    """Lines about libraries whose bytes are wrong. Blocks smaller than the interval are sampled with a variance of size times interval."""
    bad = []
    for name in sorted(set(truth) | set(found)):
        value, wanted = found.get(name, (0, None))[0], truth.get(name, 0)
        error = (small.get(name, (0, collections.Counter()))[1][interval] * interval) ** 0.5 if interval else 0
        if abs(value - wanted) > 3 * error:
            bad.append(f"{name}: {value} for {wanted}" + (f", {(value - wanted) / error:+.2f} errors" if error else ""))
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--root", type=pathlib.Path)
    parser.add_argument("--musl", action="store_true")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    system, failed = System(arguments.root and arguments.root.resolve(), arguments.musl), 0
    try:
        prepare(system)
        for name, words in programs().items():
            reference = None
            for mode in MODES:
                # An allocator inside the executable is recorded by hooks, which only a collector sets.
                if arguments.only not in name or ("static" in name and (system.root or "attached" in mode)):
                    continue
                if system.musl and name not in ("dl, glibc", "dl2, glibc"):
                    continue
                status, text, recording = run(system, words, arguments.rounds, mode)
                problems = [f"exit status {status}"] if status or "done" not in text else []
                if not problems:
                    found = bytes_of(recording)
                    printed = {library: int(size) for library, size in re.findall(r"truth (\S+) (\d+)", text)}
                    if mode == "exact":
                        reference = found
                    truth = printed or {library: value for library, (value, _) in reference.items()}
                    unloaded = re.compile(words[2] + r"|\[stopped")
                    seen, truth = ({name: value for name, value in all.items() if unloaded.match(name)} for all in (found, truth))
                    problems = compare(seen, truth, reference, INTERVALS.get(mode, 0))
                    problems += [] if truth else ["nothing was recorded"]
                failed += bool(problems)
                print(f"{'FAILED' if problems else 'ok    '} {name}: {mode}{': ' if problems else ''}{'; '.join(problems)}", flush=True)
    finally:
        system.close()
    print(f"{failed} failed")
    sys.exit(1 if failed else 0)


main()
