/* SPDX-License-Identifier: Apache-2.0 */
/*
 * (module, address) -> function, file, line, and what was inlined there.
 *
 * Data never depends on names: whatever cannot be opened, read or trusted gives a frame without a
 * function, which is shown as module+0x1234. A module is opened when its first frame is asked for; a
 * frame is resolved once. One thread at a time.
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

/* Equal texts of one symbolizer are the same pointer. */
struct symbol_frame {
	const char *function; /* in the style that was asked for; NULL: unknown */
	const char *full;     /* demangled; NULL: unknown */
	const char *linkage;  /* as the linker has it; NULL: unknown */
	/* "<r::Blob, alloc::alloc::Global>": what `full` has as "<T,A>" in Rust's older mangling; NULL: nothing */
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

/* What a module could give, from worst to best. */
enum symbol_source {
	SYMBOLS_UNASKED, /* not opened yet */
	SYMBOLS_MISSING, /* there is no such file, or it cannot be read as ELF */
	SYMBOLS_CHANGED, /* the file is not the one that was recorded: refused */
	SYMBOLS_NONE,	 /* stripped of everything */
	SYMBOLS_ELF,	 /* functions only */
	SYMBOLS_DWARF,	 /* functions, lines, inlines */
	SYMBOLS_JIT,	 /* what the runtime wrote for perf */
};

struct symbol_module_state {
	const char *path;
	bool jit; /* not a module, but the code that a runtime made */
	enum symbol_source source;
	size_t frames;	/* asked for */
	size_t unnamed; /* of these, without a function */
};

struct symbolizer;

DEFINE_ID(symbol_module_id); /* a file to take names from; 0 = none */

/* Zeroed: what the modules and the system's folders have. */
struct symbolizer_options {
	enum name_style style;
	unsigned workers;	  /* threads for symbolizer_prepare; 0: as many as there are CPUs */
	const char *store_folder; /* where names are kept for the next time; NULL: nowhere */
	uint64_t store_limit_bytes; /* of that folder; 0: 512 MiB */
	struct debug_fetch_options fetch;
	const char *const *debug_folders; /* more folders like /usr/lib/debug, asked first */
	size_t debug_folder_count;
	const char *root; /* another root that paths of modules are tried below first; NULL: none */
};

/*
 * `options` may be NULL: zeroed. NULL if out of memory. Takes DEBUGINFOD_URLS out of this process' environment: libdwfl would ask
 * the network, and the environment is the only way to tell it not to.
 */
struct symbolizer *symbolizer_new(const struct symbolizer_options *options);
/* Saves what is not yet saved. */
void symbolizer_free(struct symbolizer *symbolizer);

/* Writes what was newly found to the store. Returns how many modules' names could not be written. */
size_t symbolizer_save(struct symbolizer *symbolizer);

/*
 * Names a file; does not open it. The same path and build-id give the same id. An empty build-id
 * cannot be compared and is trusted. 0 if out of memory.
 */
symbol_module_id symbolizer_module(struct symbolizer *symbolizer, const char *path,
				   struct span build_id);

/*
 * Names what is in no file: code that a runtime made in that process. Addresses are then those in the
 * memory of the process. Its map is /tmp/perf-PID.map, if it is of that life. 0 if out of memory.
 */
symbol_module_id symbolizer_jit(struct symbolizer *symbolizer, uint32_t pid,
				struct perf_map_life life);

/*
 * `address` is an ELF virtual address of the module: a return address, so that the call is just
 * before it, or, if exact, the instruction itself.
 */
struct symbol_list symbolizer_find(struct symbolizer *symbolizer, symbol_module_id module,
				   uint64_t address, bool exact);

/*
 * Frames that were found elsewhere, with their linkage names, files and lines, given the style of this
 * symbolizer. `count` is at least 1. Nothing is remembered of where they are from.
 */
struct symbol_list symbolizer_adopt(struct symbolizer *symbolizer,
				    const struct symbol_frame *frames, size_t count);

/* Finds many at once, by several threads: later questions about these are answered at once. */
struct symbol_request {
	symbol_module_id module;
	uint64_t address;
	bool exact;
};
void symbolizer_prepare(struct symbolizer *symbolizer, const struct symbol_request *requests,
			size_t count);

/* What went wrong when servers were asked. */
enum debug_fetch_trouble symbolizer_fetch_trouble(const struct symbolizer *symbolizer);

size_t symbolizer_module_count(const struct symbolizer *symbolizer);
/* Pre: 1 <= module <= symbolizer_module_count(). */
struct symbol_module_state symbolizer_module_state(const struct symbolizer *symbolizer,
						   symbol_module_id module);

#endif
