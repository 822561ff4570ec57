/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of a profile's frames: resolved when first asked for, so that a view pays only for the
 * frames it shows. One thread at a time.
 *
 * Texts are interned: of one `struct names`, equal functions are the same pointer, and so are equal
 * files and equal modules, over all processes. Grouping may go by pointer.
 */
#ifndef MODEL_NAMES_H
#define MODEL_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/profile.h"
#include "symbols/debug/debug_fetch.h"
#include "symbols/names/name_style.h"
#include "util/arena.h"

struct named_frame {
	/* In the style that was asked for; never NULL: "libfoo.so+0x1c30" or a mark in brackets if unknown. */
	const char *function;
	const char *full; /* the same, in the full style whatever was asked for */
	/* Of a Rust function whose `full` name has letters for them: "<r::Blob, alloc::alloc::Global>"; or NULL. */
	const char *arguments;
	const char *file;   /* NULL: unknown */
	uint32_t line;	    /* 0: unknown */
	const char *module; /* path; "" = none, "[jit]" = made by a runtime */
	uint64_t offset;    /* ELF virtual address, or the bare address without a module */
	bool inlined;	    /* into the next frame */
	bool address_exact; /* offset is the instruction itself, not where a call returns to */
	bool named;	    /* function is a real name */
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
	const char *const *debug_folders; /* more folders like /usr/lib/debug, asked first */
	size_t debug_folder_count;
	unsigned workers; /* threads for names_prepare; 0: as many as there are CPUs */
	struct debug_fetch_options fetch; /* debuginfod servers, if wanted */
	const char *root; /* "/proc/PID/root": where a container has its files; NULL: none */
	bool use_store;	  /* names are kept below $XDG_CACHE_HOME or ~/.cache for the next time */
};

/* `options` may be NULL: zeroed. NULL if out of memory. */
struct names *names_new(const struct names_options *options);
/* Saves what is not yet saved. */
void names_free(struct names *names);

/* Forgets the processes asked about so far, and all that was handed out of them; what their modules said stays known. For who
 * looks at a running process again and again. */
void names_forget(struct names *names);

/*
 * Names all frames of the process at once, by several threads: for those who will ask about most of
 * them. Changes no answer, only when the time is spent; happens by itself when many were asked for.
 */
void names_prepare(struct names *names, const struct profile_process *process);

/*
 * The frame and what was inlined there, leaf first, at least one. *ret is in the arena; its strings live as long as `names`. -1 if
 * out of memory.
 */
int names_frame(struct names *names, const struct profile_process *process,
		struct profile_frame frame, struct arena *arena, struct named_stack *ret);

/* Modules that could not name what was asked so far; notes are in the arena. -1 if out of memory. */
int names_notes(const struct names *names, struct arena *arena, struct profile_notes *ret);

#endif
