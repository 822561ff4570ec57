# SPDX-License-Identifier: Apache-2.0
"""Allocators that no package has, built from crates, and programs in three languages that count their own calls.

What is built stays in a folder of the build under test, each under a name that has a hash of what it was built from: a second run builds
nothing. cargo needs the network the first time, and some minutes for each jemalloc."""

import hashlib
import pathlib
import shutil
import subprocess

LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
BUILD_SECONDS = 3600

# One source for C and C++. The last block is held for as long as the collector needs to see memory that is in no block.
C = """
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef PREFIX
#define JOINED(prefix, name) prefix##name
#define NAME(prefix, name) JOINED(prefix, name)
#define malloc NAME(PREFIX, malloc)
#define calloc NAME(PREFIX, calloc)
#define realloc NAME(PREFIX, realloc)
#define posix_memalign NAME(PREFIX, posix_memalign)
#define free NAME(PREFIX, free)
#ifdef __cplusplus
extern "C" {
#endif
void *malloc(size_t), *calloc(size_t, size_t), *realloc(void *, size_t);
void free(void *);
int posix_memalign(void **, size_t, size_t);
#ifdef __cplusplus
}
#endif
#endif
enum { THREADS = 4, ROUNDS = 3000, HELD = 64 << 20 };
struct truth { unsigned long calls, bytes, frees, reallocs, rounded; };
#define NOINLINE __attribute__((noinline))
static NOINLINE void *work_take(struct truth *t, unsigned i, size_t n)
{
	void *block = NULL;
	t->calls++;
	t->bytes += n;
#ifdef OPERATORS
	if (i % 2)
		return i % 4 == 1 ? (void *)new char[n] : ::operator new(n);
#endif
	switch (i % 6) {
	case 0:
		t->rounded += (64 - n % 64) % 64;
		return posix_memalign(&block, 64, n) == 0 ? block : NULL;
	case 2:
		return calloc(1, n);
	default:
		return malloc(n);
	}
}
static NOINLINE void work_give(struct truth *t, unsigned i, void *block)
{
	t->frees += block != NULL;
#ifdef OPERATORS
	if (i % 2) {
		if (i % 4 == 1)
			delete[] (char *)block;
		else
			::operator delete(block);
		return;
	}
#endif
	(void)i;
	free(block);
}
static NOINLINE void *work_resize(struct truth *t, void *block, size_t n)
{
	t->calls++;
	t->bytes += n;
	t->reallocs += block != NULL;
	t->frees += block != NULL;
	return realloc(block, n);
}
static void *work(void *result)
{
	struct truth t = { 0, 0, 0, 0, 0 };
	for (unsigned i = 0; i < ROUNDS; i++) {
		void *block = work_take(&t, i, 1 + i * 7 % 4000), *grows = NULL;
		memset(block, 1, 1 + i * 7 % 4000);
		if (i % 8 == 0)
			for (unsigned n = 0; n < 8; n++)
				grows = work_resize(&t, grows, n == 5 ? 100 : 100 + n * n * 300);
		work_give(&t, 0, grows);
		if (i % 50)
			work_give(&t, i, block);
	}
	*(struct truth *)result = t;
	return NULL;
}
int main(int argc, char **argv)
{
	struct truth each[THREADS], sum = { 0, 0, 0, 0, 0 };
	pthread_t thread[THREADS];
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, work, &each[i]);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		sum.calls += each[i].calls;
		sum.bytes += each[i].bytes;
		sum.frees += each[i].frees;
		sum.reallocs += each[i].reallocs;
		sum.rounded += each[i].rounded;
	}
	if (argc > 1) {
		memset(work_take(&sum, 0, HELD), 1, HELD);
		usleep(600 * 1000);
	}
	printf("TRUTH calls=%lu bytes=%lu frees=%lu reallocs=%lu rounded=%lu\\n", sum.calls, sum.bytes, sum.frees, sum.reallocs,
	       sum.rounded);
	return argv == NULL;
}
"""

RUST = """
use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ALLOCATOR as Inner;
struct Counting;
static CALLS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static FREES: AtomicU64 = AtomicU64::new(0);
fn took(bytes: usize) { CALLS.fetch_add(1, Relaxed); BYTES.fetch_add(bytes as u64, Relaxed); }
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, l: Layout) -> *mut u8 { took(l.size()); Inner.alloc(l) }
    unsafe fn alloc_zeroed(&self, l: Layout) -> *mut u8 { took(l.size()); Inner.alloc_zeroed(l) }
    unsafe fn dealloc(&self, p: *mut u8, l: Layout) { FREES.fetch_add(1, Relaxed); Inner.dealloc(p, l) }
    unsafe fn realloc(&self, p: *mut u8, l: Layout, n: usize) -> *mut u8 { took(n); FREES.fetch_add(1, Relaxed); Inner.realloc(p, l, n) }
}
#[global_allocator]
static ALLOCATOR: Counting = Counting;
#[repr(align(256))]
struct Aligned(#[allow(dead_code)] [u8; 700]);
fn rows(n: usize) -> Vec<Vec<u8>> { (0..n).map(|i| if i % 3 == 0 { vec![0u8; i % 5000] } else { vec![1u8; 10 + i % 300] }).collect() }
fn main() {
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(|| (0..20).map(|_| rows(1000).len()).sum::<usize>())).collect();
    let n: usize = threads.into_iter().map(|t| t.join().unwrap()).sum();
    let mut grows: Vec<u64> = Vec::new();
    for i in 0..300000 { grows.push(i); }
    let aligned: Vec<Box<Aligned>> = (0..100).map(|i| Box::new(Aligned([i as u8; 700]))).collect();
    std::mem::forget(rows(100));
    if std::env::args().count() > 1 {
        std::mem::forget(vec![1u8; 64 << 20]);
        std::thread::sleep(std::time::Duration::from_millis(600));
    }
    eprintln!("{} {} {}", n, grows.len(), aligned.len());
    let (calls, bytes, frees) = (CALLS.load(Relaxed), BYTES.load(Relaxed), FREES.load(Relaxed));
    drop(grows);
    drop(aligned);
    println!("TRUTH calls={} bytes={} frees={}", calls, bytes, frees + 102);
}
"""

MANIFEST = """
[package]
name = "program"
version = "0.1.0"
edition = "2021"
[dependencies]
{name} = {{ version = "={version}", features = [{features}] }}
[profile.release]
debug = true
[workspace]
"""

# Two HTTP servers that answer "/?n=N" with N lines, and "/quit" with how many such requests there were, on the port of their first argument.
SERVICES = """
[package]
name = "services"
version = "0.1.0"
edition = "2021"
[dependencies]
axum = "=0.8.9"
tokio = { version = "=1.54.1", features = ["rt-multi-thread", "macros", "net"] }
tiny_http = "=0.12.0"
tikv-jemallocator = "=0.7.0"
[profile.release]
debug = true
[workspace]
"""
ANSWER = """
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
static REQUESTS: AtomicU64 = AtomicU64::new(0);
fn answer(n: usize) -> String {
    REQUESTS.fetch_add(1, Relaxed);
    let lines: Vec<String> = (0..n).map(|i| format!("line {} of {}", i, n)).collect();
    lines.join(";")
}
fn quit() -> ! {
    println!("REQUESTS {}", REQUESTS.load(Relaxed));
    std::process::exit(0)
}
"""
AXUM = """
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let port: u16 = std::env::args().nth(1).unwrap().parse().unwrap();
    let work = |axum::extract::RawQuery(q): axum::extract::RawQuery| async move { answer(q.unwrap()[2..].parse().unwrap()) };
    let app = axum::Router::new()
        .route("/", axum::routing::get(work))
        .route("/quit", axum::routing::get(|| async { quit() as () }));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    axum::serve(listener, app).await.unwrap();
}
"""
TINY = """
fn main() {
    let port: u16 = std::env::args().nth(1).unwrap().parse().unwrap();
    let server = std::sync::Arc::new(tiny_http::Server::http(("127.0.0.1", port)).unwrap());
    let threads: Vec<_> = (0..2).map(|_| { let server = server.clone(); std::thread::spawn(move || {
        for request in server.incoming_requests() {
            if request.url() == "/quit" { quit(); }
            let text = answer(request.url()[4..].parse().unwrap());
            request.respond(tiny_http::Response::from_string(text)).unwrap();
        }
    }) }).collect();
    for t in threads { t.join().unwrap(); }
}
"""

# Upstream's, which brings a jemalloc 5.2.1; Debian's package has that of the system.
REDIS = "http://deb.debian.org/debian/pool/main/r/redis/redis_7.0.15.orig.tar.gz"
REDIS_SHA256 = "4b1dc4ee6d622a09fff9c6777191209750fb5e5a725ef78ea012d6eef4c22982"

# name: (crate, its version, its GlobalAlloc, the feature that gives its functions the names of libc's, the archive in its output)
JEMALLOC = ("tikv_jemallocator::Jemalloc", '"unprefixed_malloc_on_supported_platforms"', "lib/libjemalloc_pic.a")
CRATES = {
    "jemalloc-5.2.1": ("tikv-jemallocator", "0.4.3", *JEMALLOC),
    "jemalloc-5.3.0": ("tikv-jemallocator", "0.5.4", *JEMALLOC),
    "jemalloc-5.3.1": ("tikv-jemallocator", "0.7.0", *JEMALLOC),
    "mimalloc": ("mimalloc", "0.1.52", "mimalloc::MiMalloc", '"override"', "libmimalloc.a"),
    "snmalloc": ("snmalloc-rs", "0.7.6", "snmalloc_rs::SnMalloc", None, None),
}
PREFIXES = {"jemalloc-5.2.1": "_rjem_", "jemalloc-5.3.0": "_rjem_", "jemalloc-5.3.1": "_rjem_", "gperftools": "tc_", "mimalloc": "mi_", "snmalloc": "sn_"}


def run(*argv, **more):
    return subprocess.run([str(word) for word in argv], check=True, timeout=BUILD_SECONDS, **more)


class Builds:
    """What was built into a folder before is not built again."""

    def __init__(self, folder):
        self.folder = folder

    def make(self, name, inputs, build):
        """The folder that build(folder) filled from these inputs, now or before."""
        path = self.folder / f"{name}-{hashlib.sha256(repr(inputs).encode()).hexdigest()[:12]}"
        if not (path / "complete").exists():
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(parents=True)
            build(path)
            (path / "complete").touch()
        return path

    def crate(self, allocator, prefixed):
        """(the Rust program with the allocator of the crate, the archive of that)"""
        crate, version, name, plain, archive = CRATES[allocator]
        files = {
            "Cargo.toml": MANIFEST.format(name=crate, version=version, features="" if prefixed else plain),
            "src/main.rs": RUST.replace("use ALLOCATOR", f"use {name}"),
        }

        def build(path):
            (path / "src").mkdir()
            for file, text in files.items():
                (path / file).write_text(text)
            run("cargo", "build", "--release", "-q", "-j2", cwd=path)

        path = self.make(f"{allocator}-{'prefixed' if prefixed else 'plain'}-crate", files, build)
        found = list(path.glob(f"target/release/build/*-sys-*/out/{archive}")) if archive else []
        return path / "target/release/program", found[0] if found else None

    def services(self):
        """The folder of the programs `axum` and `tiny_http`, with the jemalloc that crate() has compiled."""
        files = {"Cargo.toml": SERVICES, "src/bin/axum.rs": ANSWER + AXUM, "src/bin/tiny_http.rs": ANSWER + TINY}
        target = self.crate("jemalloc-5.3.1", prefixed=True)[0].parents[1]

        def build(path):
            (path / "src/bin").mkdir(parents=True)
            for file, text in files.items():
                (path / file).write_text(text)
            run("cargo", "build", "--release", "-q", "-j2", "--target-dir", target, cwd=path)
            for name in ("axum", "tiny_http"):
                shutil.copy(target / "release" / name, path / name)

        return self.make("services", files, build)

    def redis(self):
        """The folder of redis-server and redis-benchmark, with the jemalloc that their sources bring."""

        def build(path):
            run("curl", "-sSfLo", path / "redis.tar.gz", REDIS)
            assert hashlib.sha256((path / "redis.tar.gz").read_bytes()).hexdigest() == REDIS_SHA256
            run("tar", "-xzf", path / "redis.tar.gz", "--strip-components=1", cwd=path)
            run("make", "-s", "-j2", "MALLOC=jemalloc", "redis-server", "redis-benchmark", cwd=path / "src", capture_output=True)

        return self.make("redis", REDIS_SHA256, build) / "src"

    def snmalloc(self, prefixed):
        """The crate has functions for Rust only; those for C are in the sources that it brings."""
        program, _ = self.crate("snmalloc", prefixed=True)
        home = pathlib.Path(run("cargo", "metadata", "--format-version=1", "--offline", cwd=program.parents[2], capture_output=True, text=True)
                            .stdout.partition("snmalloc-sys-0.7.6/Cargo.toml")[0].rpartition('"')[2]) / "snmalloc-sys-0.7.6/upstream/src/snmalloc/override"  # fmt: skip
        flags = ["-O2", "-std=c++20", "-mcx16", "-fPIC", "-DNDEBUG", "-DSNMALLOC_USE_WAIT_ON_ADDRESS=1", *(["-DSNMALLOC_STATIC_LIBRARY_PREFIX=sn_"] * prefixed)]
        sources = ["malloc.cc"] if prefixed else ["malloc.cc", "new.cc"]

        def build(path):
            for source in sources:
                run("g++", *flags, f"-I{home.parents[1]}", "-c", home / source, "-o", path / f"{source}.o")
            run("ar", "rc", path / "libsnmalloc.a", *path.glob("*.o"))

        return self.make(f"snmalloc-{'prefixed' if prefixed else 'plain'}", [flags, sources], build) / "libsnmalloc.a"

    def archive(self, allocator, prefixed):
        """The allocator to link in. gperftools' has both kinds of names."""
        if allocator == "gperftools":
            return LIBRARIES / "libtcmalloc_minimal.a"
        if allocator == "jemalloc-5.3.0" and not prefixed:
            return LIBRARIES / "libjemalloc_pic.a"
        return self.snmalloc(prefixed) if allocator == "snmalloc" else self.crate(allocator, prefixed)[1]

    def shared(self, allocator):
        packaged = {"gperftools": "libtcmalloc_minimal.so.4", "jemalloc-5.3.0": "libjemalloc.so.2", "mimalloc": "libmimalloc.so.?"}
        if allocator in packaged:
            return sorted(LIBRARIES.glob(packaged[allocator]))[0]
        name, archive = f"lib{allocator}.so", self.archive(allocator, prefixed=False)

        def build(path):
            run("g++", "-shared", "-o", path / name, f"-Wl,-soname,{name},--whole-archive", archive, "-Wl,--no-whole-archive", "-lpthread", "-ldl")

        return self.make(f"{allocator}-shared", str(archive), build) / name

    def program(self, name, language, libraries, *flags):
        """The counting program, linked with these."""
        libraries = [str(library) for library in libraries]
        if language == "rust":
            source, text = "main.rs", RUST.replace("use ALLOCATOR", "use std::alloc::System")
            # Options of the linker come behind libc, whose malloc would be taken.
            archives = [pathlib.Path(word) for word in libraries if word.endswith(".a")]
            libraries = [word for word in libraries if not word.endswith(".a")]
            first = [f"-lstatic:-bundle,+whole-archive={path.stem.removeprefix('lib')}" for path in archives]
            argv = ["rustc", "-O", "-g", "--edition=2021", *(f"-Lnative={path.parent}" for path in archives), *first, *(word if word.startswith("-C") else f"-Clink-arg={word}" for word in [*libraries, *flags])]
        else:
            source, text = ("main.c", C) if language == "c" else ("main.cc", C)
            argv = ["gcc"] if language == "c" else ["g++", "-std=c++17", *([] if any("-DPREFIX" in f for f in flags) else ["-DOPERATORS"])]
            argv += ["-O2", "-g", "-w", "-fno-builtin", "-pthread", *flags]

        def build(path):
            (path / source).write_text(text)
            run(*argv, path / source, *(libraries if language != "rust" else []), "-o", path / "program")

        return self.make(name, [argv, text, libraries], build) / "program"
