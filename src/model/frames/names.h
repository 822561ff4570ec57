/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of a profile's frames, resolved on first use, so that a view pays only for the frames
 * it shows. Not thread-safe.
 *
 * Texts are interned: within one `struct names`, equal functions, files and modules are equal
 * pointers across all processes. Callers may group by pointer.
 */
#ifndef MODEL_FRAMES_NAMES_H
#define MODEL_FRAMES_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/profile.h"
#include "symbols/debug/debug_fetch.h"
#include "symbols/names/name_style.h"
#include "util/arena.h"

struct named_frame {
	/* In the requested style; never NULL: "libfoo.so+0x1c30" or a sentinel in brackets if unknown. */
	const char *function;
	const char *full; /* the same in the full style */
	/* Of a Rust function whose `full` name has placeholders for them: "<r::Blob, alloc::alloc::Global>"; or NULL. */
	const char *arguments;
	const char *file;     /* NULL: unknown */
	uint32_t line;	      /* 0: unknown */
	const char *module;   /* path; "": none, "[jit]": JIT-compiled code */
	uint64_t offset;      /* ELF virtual address, or the absolute address without a module */
	const char *language; /* see model/frames/languages.h; NULL: unknown */
	bool inlined;	      /* into the next frame */
	bool address_exact;   /* offset is the instruction itself, not a return address */
	bool named;	      /* function is a real name */
};

struct named_stack {
	const struct named_frame *at; /* leaf first */
	size_t count;
};

struct names;

/* Where names come from. Zeroed: no symbols, every frame is module+offset. */
struct names_options {
	bool use_symbols;
	enum name_style style;
	const char *const *debug_folders; /* more folders like /usr/lib/debug, searched first */
	size_t debug_folder_count;
	unsigned workers;		  /* threads for names_prepare; 0: one per CPU */
	struct debug_fetch_options fetch; /* debuginfod servers, if enabled */
	const char *root; /* "/proc/PID/root": root of a container's files; NULL: none */
	bool use_store;	  /* cache names below $XDG_CACHE_HOME or ~/.cache */
};

/* `options` may be NULL, which means zeroed. NULL if out of memory. */
struct names *names_new(const struct names_options *options);
/* Also saves unsaved names to the cache. */
void names_free(struct names *names);

/* Drops all processes and everything returned for them; the symbols of their modules stay cached. For callers that read a
 * running process repeatedly. */
void names_forget(struct names *names);

/*
 * Symbolizes all frames of the process at once, on several threads, for callers that will need most
 * of them. Does not change results, only when the time is spent; happens automatically after many
 * requests.
 */
void names_prepare(struct names *names, const struct profile_process *process);

/*
 * The frame with its inlined calls, leaf first, at least one. *ret is in the arena; its strings live as long as `names`. -1 if out
 * of memory.
 */
int names_frame(struct names *names, const struct profile_process *process,
		struct profile_frame frame, struct arena *arena, struct named_stack *ret);

/* The writable variables of a file, as symbolizer_variables returns them; 0 if symbols are disabled. */
struct symbol_variable;
ptrdiff_t names_variables(struct names *names, const char *module, struct span build_id,
			  struct arena *arena, struct symbol_variable **ret);

/* The package of this machine that brings the debug symbols of a module, if the module is here as it was recorded; in the
 * arena. NULL: not known. */
const char *names_debug_package(const struct names *names, const char *module, struct arena *arena);

/* Notes on modules with unnamed frames among those requested so far; in the arena. -1 if out of memory. */
int names_notes(const struct names *names, struct arena *arena, struct profile_notes *ret);

#endif
