/* SPDX-License-Identifier: Apache-2.0 */
/* Why memory of a process may be in no recorded block: what a loaded file contains or does, with texts for the user. The numbers are
 * bits of unrecorded_row.found: a new row gets the next one, and a reader ignores unknown ones.
 *   X(name, class, title, remedy)
 * How titles and remedies are used depends on the class: see unrecorded_class. */
#ifndef FORMAT_UNRECORDED_H
#define FORMAT_UNRECORDED_H

#include <stdint.h>

enum unrecorded_class {
	UNRECORDED_ALLOCATOR, /* "TITLE inside FILE hands out memory without calling malloc" */
	UNRECORDED_RUNTIME,   /* "TITLE (FILE) keeps objects in a heap of its own" */
	UNRECORDED_BYPASS,    /* "FILE TITLE" */
};

#define UNRECORDED_SYSTEM_MALLOC                                                                   \
	"build it with the system's malloc, or with the allocator as a shared library that "       \
	"defines malloc"

#define UNRECORDED_JEMALLOC                                                                        \
	"inside a program, 5.2.0 to 5.3.1 is recorded if heapgauge record starts it directly and " \
	"it has symbols; otherwise build it with the system's malloc"

#define UNRECORDED_TCMALLOC                                                                        \
	"inside a program, that of gperftools is recorded if heapgauge record starts it directly " \
	"and it has symbols; otherwise build it with the system's malloc"

#define UNRECORDED_LIST(X)                                                                         \
	X(jemalloc, ALLOCATOR, "jemalloc", UNRECORDED_JEMALLOC)                                    \
	X(mimalloc, ALLOCATOR, "mimalloc", UNRECORDED_SYSTEM_MALLOC)                               \
	X(tcmalloc, ALLOCATOR, "tcmalloc", UNRECORDED_TCMALLOC)                                    \
	X(snmalloc, ALLOCATOR, "snmalloc", UNRECORDED_SYSTEM_MALLOC)                               \
	X(rpmalloc, ALLOCATOR, "rpmalloc", UNRECORDED_SYSTEM_MALLOC)                               \
	X(scudo, ALLOCATOR, "Scudo", UNRECORDED_SYSTEM_MALLOC)                                     \
	X(dlmalloc, ALLOCATOR, "dlmalloc", UNRECORDED_SYSTEM_MALLOC)                               \
	X(rust_jemalloc, ALLOCATOR, "jemalloc", UNRECORDED_JEMALLOC ", without tikv-jemallocator") \
	X(arrow, ALLOCATOR, "Apache Arrow's memory pool", "set ARROW_DEFAULT_MEMORY_POOL=system")  \
	X(jvm, RUNTIME, "the Java VM",                                                             \
	  "see -XX:NativeMemoryTracking=summary with jcmd PID VM.native_memory, and heap dumps "   \
	  "for objects")                                                                           \
	X(v8, RUNTIME, "V8", "use node --heap-prof, or heap snapshots of the inspector")           \
	X(go, RUNTIME, "Go", "use go tool pprof for Go's own heap")                                \
	X(ghc, RUNTIME, "the Haskell runtime", "run it with +RTS -hT, or build it with -prof")     \
	X(sbcl, RUNTIME, "SBCL", "use (room) and sb-sprof in :alloc mode")                         \
	X(php, RUNTIME, "PHP", "set USE_ZEND_ALLOC=0")                                             \
	X(luajit, RUNTIME, "LuaJIT", "build it with -DLUAJIT_USE_SYSMALLOC")                       \
	X(mono, RUNTIME, "Mono", "use mono --profile=log:heapshot")                                \
	X(boehm, RUNTIME, "the Boehm collector", "set GC_PRINT_STATS=1 for its own numbers")       \
	X(cpython, RUNTIME, "Python", "use record --python domains, or set PYTHONMALLOC=malloc")   \
	X(ocaml, RUNTIME, "OCaml", "use memtrace, or OCAMLRUNPARAM=v=0x400 for its own numbers")   \
	X(ruby, RUNTIME, "Ruby", "use ObjectSpace.dump_all for its objects")                       \
	X(dotnet, RUNTIME, ".NET", "use dotnet-gcdump or dotnet-trace")                            \
	X(libc_malloc, BYPASS, "calls __libc_malloc, which the recorder does not see",             \
	  "call malloc instead")                                                                   \
	X(dlsym_libc, BYPASS, "looks up malloc in libc.so.6 with dlsym, bypassing the recorder",   \
	  "call malloc by its name, or look it up with RTLD_DEFAULT")                              \
	X(dlmopen, BYPASS, "opens libraries with dlmopen, which have their own C library",         \
	  "use dlopen while recording")                                                            \
	X(sbrk, BYPASS, "allocates with sbrk", "use mmap or malloc, or report it as a pool")       \
	X(raw_mmap, BYPASS, "maps memory by a direct system call instead of mmap()",               \
	  "call mmap() while recording")                                                           \
	X(own_names, BYPASS,                                                                       \
	  "calls an allocator by its own names (mallocx, mi_malloc), bypassing the recorder",      \
	  "call malloc instead")                                                                   \
	X(deepbind, BYPASS, "is bound to libc's malloc, bypassing the recorder (RTLD_DEEPBIND)",   \
	  "open it without RTLD_DEEPBIND while recording")                                         \
	X(namespace, BYPASS, "runs in its own namespace, with its own libc (dlmopen)",             \
	  "open it with dlopen while recording")

enum unrecorded {
#define UNRECORDED_ENUM(name, class, title, remedy) UNRECORDED_##name,
	UNRECORDED_LIST(UNRECORDED_ENUM)
#undef UNRECORDED_ENUM
		UNRECORDED_COUNT,
};
_Static_assert(UNRECORDED_COUNT <= 64, "bits of one number");

#define UNRECORDED_BIT(name) (UINT64_C(1) << UNRECORDED_##name)

struct unrecorded_words {
	const char *name, *title, *remedy;
	enum unrecorded_class class;
};
extern const struct unrecorded_words unrecorded_words[UNRECORDED_COUNT];

/* The bits of a class. */
uint64_t unrecorded_of_class(enum unrecorded_class class);
/* The most specific findings of one file: an allocator itself uses sbrk, and a runtime contains an allocator. */
uint64_t unrecorded_most_specific(uint64_t found);

/* doc: chunk_unrecorded: a file that the process had loaded, and what in it may hide memory from the recorder. */
struct unrecorded_row {
	char *path;
	uint64_t found;	       /* bits of enum unrecorded */
	uint64_t zeroed_bytes; /* zero-initialized static data: anonymous, but not allocated */
};

enum { UNRECORDED_FILES_MAX = 4096 }; /* per process */
enum { UNRECORDED_SENTENCE_MAX = 256 };
/* "mimalloc inside libx.so hands out memory without calling malloc". `path` is that of the file; its folder is not shown. */
void unrecorded_format(enum unrecorded is, const char *path, char ret[UNRECORDED_SENTENCE_MAX]);
#endif
