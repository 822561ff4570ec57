/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps (module, address) to function, file, line and inlined calls.
 *
 * Data never depends on names: whatever cannot be opened, read or trusted gives a frame without a
 * function, which is shown as module+0x1234. A module is opened on first use; a frame is resolved at
 * most once. Not thread-safe.
 */
#ifndef SYMBOLS_SYMBOLIZER_H
#define SYMBOLS_SYMBOLIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ids.h"
#include "base/span.h"
#include "symbols/debug/debug_fetch.h"
#include "symbols/names/name_style.h"
#include "symbols/debug/perf_map.h"
#include "symbols/debug/variables.h"
#include "util/arena.h"

/* Within one symbolizer, equal texts are equal pointers. */
struct symbol_frame {
	const char *function; /* in the requested style; NULL: unknown */
	const char *full;     /* demangled; NULL: unknown */
	const char *linkage;  /* linkage name; NULL: unknown */
	/* "<r::Blob, alloc::alloc::Global>": what `full` shows as "<T,A>" for Rust's legacy mangling; NULL: none */
	const char *arguments;
	const char *file; /* NULL: unknown */
	uint32_t line;	  /* 0: unknown */
	bool inlined;	  /* into the next frame of the list */
};

/* Innermost first, at least one; lives as long as the symbolizer. */
struct symbol_list {
	const struct symbol_frame *at;
	size_t count;
};

/* The quality of a module's symbols, from worst to best. */
enum symbol_source {
	SYMBOLS_UNASKED, /* not opened yet */
	SYMBOLS_MISSING, /* there is no such file, or it is not readable as ELF */
	SYMBOLS_CHANGED, /* the file differs from the recorded one: refused */
	SYMBOLS_NONE,	 /* fully stripped */
	SYMBOLS_ELF,	 /* ELF symbols: functions only */
	SYMBOLS_DWARF,	 /* functions, lines, inlined calls */
	SYMBOLS_JIT,	 /* the map that a runtime wrote for perf */
};

struct symbol_module_state {
	const char *path;
	bool jit; /* JIT-compiled code instead of a module */
	enum symbol_source source;
	size_t frames;	/* looked up */
	size_t unnamed; /* of these, without a function */
};

struct symbolizer;

DEFINE_ID(symbol_module_id); /* a source of symbols; 0: none */

/* Zeroed: only the modules and the system's folders are used. */
struct symbolizer_options {
	enum name_style style;
	unsigned workers;	    /* threads for symbolizer_prepare; 0: one per CPU */
	const char *store_folder;   /* name cache; NULL: none */
	uint64_t store_limit_bytes; /* of that folder; 0: 512 MiB */
	struct debug_fetch_options fetch;
	const char *const *debug_folders; /* more folders like /usr/lib/debug, searched first */
	size_t debug_folder_count;
	const char *root; /* another root, searched for modules first; NULL: none */
};

/* `options` may be NULL, which means zeroed. NULL if out of memory. */
struct symbolizer *symbolizer_new(const struct symbolizer_options *options);
/* Also saves unsaved names. */
void symbolizer_free(struct symbolizer *symbolizer);

/* Writes new names to the cache. Returns the number of modules whose names could not be written. */
size_t symbolizer_save(struct symbolizer *symbolizer);

/*
 * Registers a file without opening it. The same path and build-id give the same id. An empty
 * build-id cannot be compared and is trusted. 0 if out of memory.
 */
symbol_module_id symbolizer_module(struct symbolizer *symbolizer, const char *path,
				   struct span build_id);

/*
 * Registers the JIT-compiled code of a process, which is in no file. Addresses are then those in the
 * memory of the process. Its map is /tmp/perf-PID.map, if it was written during that life. 0 if out
 * of memory.
 */
symbol_module_id symbolizer_jit(struct symbolizer *symbolizer, uint32_t pid,
				struct perf_map_life life);

/*
 * `address` is an ELF virtual address of the module: a return address, which the call precedes, or,
 * if exact, the instruction itself.
 */
struct symbol_list symbolizer_find(struct symbolizer *symbolizer, symbol_module_id module,
				   uint64_t address, bool exact);

/*
 * Adopts frames from elsewhere, with their linkage names, files and lines, and applies the style of this symbolizer; a frame with a
 * `function` keeps it unchanged. `count` is at least 1. Their origin is not recorded.
 */
struct symbol_list symbolizer_adopt(struct symbolizer *symbolizer,
				    const struct symbol_frame *frames, size_t count);

/* Looks up many frames at once, on several threads, so that later queries for them are answered immediately. */
struct symbol_request {
	symbol_module_id module;
	uint64_t address;
	bool exact;
};
void symbolizer_prepare(struct symbolizer *symbolizer, const struct symbol_request *requests,
			size_t count);

/* A variable, with its name in the requested style. */
struct symbol_variable {
	struct symbol_frame name; /* a variable in place of a function */
	uint64_t address, size;	  /* TLS: an offset in the thread's memory */
	enum variable_section section;
};
/* The writable variables of a module, TLS last, by address; in the arena. Returns their number, 0 if there are no symbols, or -1 if
 * out of memory. */
ptrdiff_t symbolizer_variables(struct symbolizer *symbolizer, symbol_module_id module,
			       struct arena *arena, struct symbol_variable **ret);

/* The worst problem with debuginfod servers. */
enum debug_fetch_trouble symbolizer_fetch_trouble(const struct symbolizer *symbolizer);

size_t symbolizer_module_count(const struct symbolizer *symbolizer);
/* Pre: 1 <= module <= symbolizer_module_count(). */
struct symbol_module_state symbolizer_module_state(const struct symbolizer *symbolizer,
						   symbol_module_id module);

#endif
