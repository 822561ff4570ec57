/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks in results: the frames, and the label of a stack in a sentence: its owner, and what that called to allocate.
 *
 * No frame is ever omitted from a stack. Only the label skips runtime frames, recognized by their
 * names: internals of containers and allocators, wrappers of malloc, libc and the loader.
 */
#include <stdio.h>
#include <string.h>

#include "analysis/result/build.h"
#include "analysis/result/runtime_frames.h"
#include "analysis/query/selection.h"
#include "analysis/result/type_names.h"
#include "base/compiler.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/text/utf8.h"

enum { LABEL_MAX_BYTES = 56, VIA_MAX_BYTES = 24, NAME_MAX_BYTES = 512 };

bool stack_value(struct result *result, struct locations *locations,
		 const struct profile_process *process, node_id node, struct result_value *ret)
{
	struct location_chain stack;

	if (locations_stack(locations, process, node, &result->arena, &stack) < 0)
		return false;
	const struct result_frame **frames =
		ARENA_ARRAY(&result->arena, const struct result_frame *, stack.count);

	if (!frames)
		return false;
	for (size_t i = 0; i < stack.count; i++)
		frames[i] = &stack.at[i]->frame;
	*ret = (struct result_value){ .unit = UNIT_FRAMES, .frames = { frames, stack.count } };
	return true;
}

static bool begins_with_any(const char *text, const char *const *beginnings, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strncmp(text, beginnings[i], strlen(beginnings[i])) == 0)
			return true;
	return false;
}

static bool is_in_rust_library(const char *path)
{
	static const char *const crates[] = { "alloc::", "core::", "std::" };

	return begins_with_any(path, crates, ARRAY_SIZE(crates));
}

/* Returns the type that "&dyn core::ops::function::Fn" and "&mut core::str::iter::Chars" point to. */
static const char *skip_reference(const char *type)
{
	if (*type == '&')
		type++;
	while (strncmp(type, "mut ", 4) == 0 || strncmp(type, "dyn ", 4) == 0)
		type += 4;
	return type;
}

/* "<str as alloc::borrow::ToOwned>::to_owned", "<str>::repeat", "<[T]>::to_vec": library methods of types without a path, and
 * "<&dyn core::ops::function::Fn<()> as core::ops::function::FnOnce<()>>::call_once": of references to the library's own. */
static bool is_builtin_method(const char *name)
{
	const char *as = name[0] == '<' ? strstr(name, " as ") : NULL;

	if (name[0] == '<' && !as) {
		size_t type = strcspn(name, ":>");

		/* "<module>" and "<lambda>" are functions of Python. */
		return name[1] == '[' || (name[type] == '>' && name[type + 1] == ':');
	}
	if (!as || (memchr(name, ':', (size_t)(as - name)) &&
		    !is_in_rust_library(skip_reference(name + 1))))
		return false;
	as += strlen(" as ");
	/* A trait inside of a method: "<std::ffi::OsString>::push::SpecPushTo". */
	return is_in_rust_library(as + strspn(as, "<"));
}

/* "<heapgauge::alloc::Alloc as core::alloc::global::GlobalAlloc>::alloc": any global allocator. */
static bool is_allocator_method(const char *name)
{
	const char *as = name[0] == '<' ? strstr(name, " as core::alloc::") : NULL;

	return as && strstr(as, "Alloc");
}

/* sqlite3DbMallocRawNN, sqlite3_realloc64 and a dozen others. */
static bool is_of_sqlite(const char *name)
{
	return strncmp(name, "sqlite3", 7) == 0 &&
	       (strcasestr(name, "alloc") || strcasestr(name, "strdup"));
}

/* Language runtimes, and heapgauge itself. */
static const char *const runtimes[] = {
	"std::",  "__gnu_cxx::", "operator new", "alloc::",	"core::",
	"<alloc", "<core",	 "<std::",	 "hashbrown::", "<hashbrown",
	"__rust", "_start",	 "hg_pool_",	 "heapgauge::", "<heapgauge::",
};

static bool ends_with_any(struct span name, const char *const *endings, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t size = strlen(endings[i]);

		if (name.size >= size &&
		    strncasecmp((const char *)name.data + name.size - size, endings[i], size) == 0)
			return true;
	}
	return false;
}

/* What programs call their malloc wrappers, behind a prefix of their own: m_malloc, ximalloc, git_strdup, vim_memsave; and
 * before what says how it differs: emalloc_real, xmalloc_or_die. */
static bool ends_like_wrapper(struct span name)
{
	static const char *const endings[] = { "malloc",  "calloc", "realloc", "strdup",
					       "strndup", "memdup", "memsave", "strsave" };
	static const char *const variants[] = { "array",   "_array", "_real", "_impl",
						"_inline", "_safe",  "_zero", "_or_die",
						"_nofail", "_fatal", "_debug" };

	if (ends_with_any(name, endings, ARRAY_SIZE(endings)))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(variants); i++)
		if (ends_with_any(name, &variants[i], 1))
			return ends_with_any(span_of(name.data, name.size - strlen(variants[i])),
					     endings, ARRAY_SIZE(endings));
	return false;
}

/* Functions of pools and arenas, which hand out parts of larger blocks, and of allocators in C++: mem_pool_alloc, more_blocks,
 * Arena::AllocateNewBlock, RegionAllocator::grow. */
static bool is_of_pool(struct span name)
{
	static const char *const parts[] = { "pool_alloc",   "poolalloc",   "pool::alloc",
					     "pool_calloc",  "arena_alloc", "arenaalloc",
					     "arena::alloc", "alloc_block", "allocblock",
					     "alloc_chunk",  "allocchunk",  "more_block",
					     "moreblock",    "more_core",   "morecore",
					     "allocator::" };
	char bare[NAME_MAX_BYTES];

	name_without_arguments(name, bare, sizeof bare);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (strcasestr(bare, parts[i]))
			return true;
	return false;
}

/* alloc, zalloc, lalloc_clear: but alloc_node says what is allocated. */
static bool is_bare_alloc(struct span name)
{
	static const char *const names[] = { "alloc", "alloc_clear", "alloc_zero", "alloc_id" };
	const char *text = (const char *)name.data;
	size_t at = strspn(text, "_");

	if (at < name.size && text[at] != 'a')
		at++;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (at < name.size && name.size - at == strlen(names[i]) &&
		    memcmp(text + at, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

/* Common malloc wrappers of programs, libraries and interpreters, which do not say so at their end. */
static const char *const wrappers[] = {
	"xmalloc",
	"xcalloc",
	"xrealloc",
	"xstrdup",
	"xzalloc",
	"zmalloc",
	"zcalloc",
	"zrealloc",
	"ztry",
	"palloc",
	"xpalloc",
	"xcharalloc",
	"_obstack_newchunk",
	"_obstack_begin",
	"_obstack_allocate",
	"g_malloc",
	"g_try_malloc",
	"g_realloc",
	"g_strdup",
	"g_memdup",
	"g_slice_",
	"CRYPTO_zalloc",
	"av_malloc",
	"av_realloc",
	"av_calloc",
	"apr_palloc",
	"apr_pcalloc",
	"dbMallocRaw",
	"pcache1Alloc",
	"jv_mem_",
	"ngx_alloc",
	"ngx_palloc",
	"ngx_pcalloc",
	"AllocSet",
	"MemoryContextAlloc",
	"PyMem_",
	"_PyMem_",
	"_PyObject_GC_",
	"_PyObject_Arena",
	"_PyObject_New",
	"PyType_GenericAlloc",
	"_PyType_Alloc",
	"pymalloc_",
	"Perl_safesys",
	"objspace_x",
	"luaM_",
};

static const char *const modules[] = {
	"libc.so",     "libc-2.",  "libstdc++.so", "libc++.so",
	"libgcc_s.so", "ld-linux", "ld-musl",	   "libheapgauge.so",
};

/* The span ends at the parameters, but the text after it is still NUL-terminated. */
static const char *bare_name(const struct result_frame *f)
{
	return (const char *)name_qualified(f->full).data;
}

bool is_in_runtime(const struct result_frame *f)
{
	return begins_with_any(path_base(f->module), modules, ARRAY_SIZE(modules));
}

bool is_wrapper_name(const struct result_frame *f)
{
	struct span name = name_qualified(f->full);

	/* strdup and alloc::alloc::realloc are no wrappers of the program's. */
	if (is_in_runtime(f) || is_allocator_method(bare_name(f)) ||
	    begins_with_any(bare_name(f), runtimes, ARRAY_SIZE(runtimes)))
		return false;
	return is_of_sqlite(bare_name(f)) || ends_like_wrapper(name) || is_bare_alloc(name) ||
	       is_of_pool(name) || begins_with_any(bare_name(f), wrappers, ARRAY_SIZE(wrappers));
}

bool is_allocator_source(const struct result_frame *f)
{
	static const char *const stems[] = { "alloc", "mempool", "mem-pool", "mem_pool" };
	const char *base = f->file ? path_base(f->file) : "", *end = strrchr(base, '.');

	if (!end || (f->language && strcmp(f->language, "python") == 0))
		return false;
	return ends_with_any(span_of(base, (size_t)(end - base)), stems, ARRAY_SIZE(stems));
}

bool is_runtime_frame(const struct result_frame *f)
{
	const char *name = bare_name(f);

	return is_builtin_method(name) || is_allocator_method(name) || is_wrapper_name(f) ||
	       begins_with_any(name, runtimes, ARRAY_SIZE(runtimes)) || is_in_runtime(f);
}

bool is_nameless(const struct result_frame *f)
{
	return f->full[0] == '[' || strstr(f->full, "+0x") || f->full[0] == '0';
}

/* Returns the end of a name, which tells more than its namespaces, cut between characters. */
static struct span name_tail(struct span name, size_t most)
{
	size_t at = 0;

	while (name.size - at > most) {
		size_t step = utf8_sequence(span_of(name.data + at, name.size - at));

		at += step ? step : 1;
	}
	return span_of(name.data + at, name.size - at);
}

const char *location_label(struct result *result, const struct location *location)
{
	if (!location)
		return "[no stack]";
	const struct result_frame *f = &location->frame;
	struct span tail = name_tail(location->name, LABEL_MAX_BYTES);
	int bytes = (int)tail.size;
	const char *text = (const char *)tail.data;
	const char *cut = tail.size < location->name.size ? "..." : "";

	if (f->file && f->line)
		return arena_printf(&result->arena, "%s%.*s (%s:%u)", cut, bytes, text,
				    path_base(f->file), f->line);
	if (!location->nameless && f->module[0])
		return arena_printf(&result->arena, "%s%.*s (%s)", cut, bytes, text,
				    path_base(f->module));
	return arena_printf(&result->arena, "%s%.*s", cut, bytes, text);
}

/* "parse (main.c:12) via xmalloc" */
static const char *label_via(struct result *result, const char *label, const struct location *via)
{
	if (!label || !via)
		return label;
	const char *module = path_base(via->frame.module);
	struct span name = via->nameless ? span_of(module, strlen(module)) : via->name;
	struct span tail = name_tail(name, VIA_MAX_BYTES);

	return arena_printf(&result->arena, "%s via %s%.*s", label,
			    tail.size < name.size ? "..." : "", (int)tail.size,
			    (const char *)tail.data);
}

const struct location *stack_owner(struct locations *locations,
				   const struct profile_process *process, node_id node)
{
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	struct location_chain stack;

	if (locations_stack(locations, process, node, &scratch, &stack) < 0)
		return NULL;
	return locations_owner(stack);
}

const char *stack_label(struct result *result, struct locations *locations,
			const struct profile_process *process, node_id node)
{
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	struct location_chain stack;

	if (locations_stack(locations, process, node, &scratch, &stack) < 0)
		return NULL;
	const struct location *owner = locations_owner(stack);

	return label_via(result, location_label(result, owner), locations_via(stack, owner));
}

int top_live(struct result *result, const struct profile *profile, struct locations *locations,
	     struct result_value *ret_label, struct result_value *ret_bytes, struct error *error)
{
	const struct view_defaults defaults = { .cost = COST_LIVE,
						.at = MOMENT_END,
						.kinds = KINDS_HEAP };
	const struct query query = { 0 };
	struct selection selection;

	if (selection_make(&selection, profile, locations, &query, defaults, error) < 0)
		return -1;
	selection_sort(&selection, 1);
	const struct entry *top = selection.count ? &selection.entries[0] : NULL;

	if (top && top->m.live_bytes > 0) {
		*ret_label =
			value_text(stack_label(result, locations, top->process, top->site->node));
		*ret_bytes = selection_value(&selection, &top->m);
	}
	selection_release(&selection);
	return 0;
}
