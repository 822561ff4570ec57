/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache in front of the modules: every frame is resolved once, and its strings are interned
 * until the symbolizer goes.
 *
 * Open addressing over (module, address, exact); an entry's list is fixed once stored. A module is
 * opened by the first of its frames. Nothing here fails: out of memory, like every other trouble,
 * gives a frame without a name.
 */
#include "symbols/symbolizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "symbols/debug_search.h"
#include "symbols/demangle.h"
#include "symbols/dwarf_index.h"
#include "symbols/symbol_module.h"
#include "util/arena.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/intern.h"
#include "util/vector.h"

struct module_entry {
	const char *path;
	struct span build_id;
	enum symbol_source source;
	struct symbol_module *file; /* NULL: not open, or nothing to get */
	bool is_jit;		    /* then it has, instead of a file: */
	struct perf_map_life life;
	struct perf_map *map; /* NULL: not read, or nothing to get */
	size_t frames, unnamed;
};

struct cache_entry {
	uint64_t address;
	uint32_t module; /* 0: free */
	uint32_t count : 31;
	uint32_t exact : 1;
	const struct symbol_frame *frames;
};

/* A name as the linker has it, as its author wrote it, and as it is shown. */
struct name_forms {
	const char *linkage, *full, *function;
};

struct symbolizer {
	struct arena arena;
	enum name_style style;
	struct buffer scratch;
	struct intern strings; /* the value of a linkage name is its forms */
	struct debug_search search;
	VECTOR(struct module_entry) modules; /* [0] is no module */
	struct cache_entry *cache;
	size_t cache_size; /* a power of two */
	size_t cache_used;
};

enum { CACHE_FIRST_SIZE = 1024 };

/* What is known of a frame of which nothing is known. */
static const struct symbol_frame unknown_frame = { 0 };
static const struct symbol_list unknown_list = { &unknown_frame, 1 };

struct symbolizer *symbolizer_new(const struct symbolizer_options *options)
{
	static const struct symbolizer_options none = { 0 };
	struct symbolizer *s = calloc(1, sizeof *s);

	if (!s)
		return NULL;
	if (!options)
		options = &none;
	s->style = options->style;
	s->cache_size = CACHE_FIRST_SIZE;
	s->cache = calloc(s->cache_size, sizeof *s->cache);
	if (!s->cache ||
	    !debug_search_init(&s->search, options->debug_folders, options->debug_folder_count) ||
	    !vector_push(&s->modules, ((struct module_entry){ .path = "" }))) {
		symbolizer_free(s);
		return NULL;
	}
	unsetenv("DEBUGINFOD_URLS");
	return s;
}

void symbolizer_free(struct symbolizer *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->modules.count; i++) {
		symbol_module_free(s->modules.at[i].file);
		perf_map_free(s->modules.at[i].map);
	}
	vector_release(&s->modules);
	debug_search_release(&s->search);
	free(s->cache);
	arena_release(&s->arena);
	intern_release(&s->strings);
	buffer_release(&s->scratch);
	free(s);
}

/* Copies what the entry points to; 0 if out of memory. */
static symbol_module_id add_module(struct symbolizer *s, struct module_entry entry)
{
	void *bytes = arena_copy(&s->arena, entry.build_id.data, entry.build_id.size);

	entry.path = arena_strdup(&s->arena, entry.path);
	entry.build_id = span_of(bytes, entry.build_id.size);
	if (!entry.path || !bytes || !vector_push(&s->modules, entry))
		return (symbol_module_id){ 0 };
	return (symbol_module_id){ (uint32_t)(s->modules.count - 1) };
}

symbol_module_id symbolizer_module(struct symbolizer *s, const char *path, struct span build_id)
{
	for (size_t i = 1; i < s->modules.count; i++) {
		const struct module_entry *m = &s->modules.at[i];

		if (!m->is_jit && strcmp(m->path, path) == 0 && span_equal(m->build_id, build_id))
			return (symbol_module_id){ (uint32_t)i };
	}
	return add_module(s, (struct module_entry){ .path = path, .build_id = build_id });
}

symbol_module_id symbolizer_jit(struct symbolizer *s, uint32_t pid, struct perf_map_life life)
{
	char path[sizeof "/tmp/perf-4294967295.map"];

	/* Not shared: two lives of one process id are two modules. */
	snprintf(path, sizeof path, "/tmp/perf-%" PRIu32 ".map", pid);
	return add_module(s, (struct module_entry){ .path = path, .is_jit = true, .life = life });
}

static struct cache_entry *cache_slot(struct cache_entry *cache, size_t size, uint32_t module,
				      uint64_t address, bool exact)
{
	uint64_t hash = hash_combine(address, (uint64_t)module << 1 | exact);

	for (size_t i = hash & (size - 1);; i = (i + 1) & (size - 1)) {
		struct cache_entry *e = &cache[i];

		if (e->module == 0 ||
		    (e->module == module && e->address == address && e->exact == exact))
			return e;
	}
}

static bool cache_grow(struct symbolizer *s)
{
	size_t size = s->cache_size * 2;
	struct cache_entry *grown = calloc(size, sizeof *grown);

	if (!grown)
		return false;
	for (size_t i = 0; i < s->cache_size; i++) {
		const struct cache_entry *e = &s->cache[i];

		if (e->module)
			*cache_slot(grown, size, e->module, e->address, e->exact) = *e;
	}
	free(s->cache);
	s->cache = grown;
	s->cache_size = size;
	return true;
}

static bool fill_forms(struct symbolizer *s, struct name_forms *forms)
{
	AUTO_FREE char *plain = demangle(forms->linkage);
	AUTO_FREE char *brief = NULL;

	forms->full = plain ? intern_text(&s->strings, plain) : forms->linkage;
	forms->function = s->style == NAMES_RAW ? forms->linkage : forms->full;
	if (s->style == NAMES_SHORT && forms->full) {
		brief = name_shorten(forms->full);
		forms->function = brief ? intern_text(&s->strings, brief) : NULL;
	}
	return forms->function != NULL;
}

/* NULL if out of memory. The same name is met in many frames, and demangling is what costs. */
static const struct name_forms *name_forms(struct symbolizer *s, struct span linkage)
{
	struct intern_entry *entry = intern_entry(&s->strings, linkage);
	struct name_forms *forms;

	if (!entry || entry->value)
		return entry ? entry->value : NULL;
	forms = ARENA_NEW(&s->arena, struct name_forms);
	if (!forms)
		return NULL;
	forms->linkage = entry->text;
	entry->value = forms;
	if (!fill_forms(s, forms)) /* it adds texts: the entry may have moved */
		forms->function = forms->full = forms->linkage;
	return forms;
}

static const char *keep_file(struct symbolizer *s, const struct dwarf_frame *from)
{
	if (from->file[0] == '/' || !from->folder)
		return intern_text(&s->strings, from->file);
	buffer_clear(&s->scratch);
	buffer_printf(&s->scratch, "%s/%s", from->folder, from->file);
	return s->scratch.failed ? NULL : intern_span(&s->strings, buffer_span(&s->scratch));
}

/* Interns a frame's strings: libdw's and libiberty's do not live as long. */
static struct symbol_frame keep_frame(struct symbolizer *s, const struct dwarf_frame *from)
{
	struct symbol_frame frame = { .line = from->line, .inlined = from->inlined };
	const char *name = from->linkage_name ? from->linkage_name : from->name;

	if (name) {
		/* "memcpy@@GLIBC_2.14": the version is the linker's business. */
		size_t length = from->linkage_name ? strcspn(name, "@") : strlen(name);
		const struct name_forms *forms = name_forms(s, span_of(name, length));

		if (forms) {
			frame.function = forms->function;
			frame.full = forms->full;
			frame.linkage = forms->linkage;
		}
	}
	if (from->arguments)
		frame.arguments = intern_text(&s->strings, from->arguments);
	if (from->file)
		frame.file = keep_file(s, from);
	return frame;
}

static void open_module(struct symbolizer *s, struct module_entry *m)
{
	static const enum symbol_source sources[] = {
		[PERF_MAP_READ] = SYMBOLS_JIT,
		[PERF_MAP_MISSING] = SYMBOLS_MISSING,
		[PERF_MAP_STRANGE] = SYMBOLS_CHANGED,
	};
	enum perf_map_state state;

	if (!m->is_jit) {
		m->file = symbol_module_open(&s->search, m->path, m->build_id, &m->source);
		return;
	}
	m->map = perf_map_open(m->path, m->life, &state);
	m->source = sources[state];
}

/* A runtime's own words: nothing to demangle, and no style. */
static struct symbol_list resolve_jit(struct symbolizer *s, const struct module_entry *m,
				      uint64_t address)
{
	struct span name = m->map ? perf_map_find(m->map, address) : span_of(NULL, 0);
	struct symbol_frame *frame;

	if (name.size == 0 || !(frame = ARENA_NEW(&s->arena, struct symbol_frame)))
		return unknown_list;
	frame->function = frame->full = frame->linkage = intern_span(&s->strings, name);
	return (struct symbol_list){ frame, 1 };
}

static struct symbol_list resolve(struct symbolizer *s, struct module_entry *m, uint64_t address)
{
	struct dwarf_frame found[DWARF_CHAIN_MAX];

	if (m->source == SYMBOLS_UNASKED)
		open_module(s, m);
	if (m->is_jit)
		return resolve_jit(s, m, address);
	size_t count = m->file ? symbol_module_find(m->file, address, found) : 0;

	if (count == 0)
		return unknown_list;
	struct symbol_frame *frames = ARENA_ARRAY(&s->arena, struct symbol_frame, count);

	for (size_t i = 0; frames && i < count; i++)
		frames[i] = keep_frame(s, &found[i]);
	return frames ? (struct symbol_list){ frames, count } : unknown_list;
}

struct symbol_list symbolizer_find(struct symbolizer *s, symbol_module_id module, uint64_t address,
				   bool exact)
{
	if (module.v == 0 || module.v >= s->modules.count)
		return unknown_list;
	if (s->cache_used * 4 >= s->cache_size * 3 && !cache_grow(s))
		return unknown_list;
	struct cache_entry *e = cache_slot(s->cache, s->cache_size, module.v, address, exact);

	if (e->module)
		return (struct symbol_list){ e->frames, e->count };
	struct module_entry *m = &s->modules.at[module.v];
	/* A return address may be the first of the next function: the call is before it. */
	uint64_t at = exact || address == 0 ? address : address - 1;
	struct symbol_list list = resolve(s, m, at);

	m->frames++;
	if (!list.at[list.count - 1].function)
		m->unnamed++;
	*e = (struct cache_entry){
		.address = address,
		.module = module.v,
		.exact = exact,
		.count = (uint32_t)list.count & 0x7fffffff,
		.frames = list.at,
	};
	s->cache_used++;
	return list;
}

size_t symbolizer_module_count(const struct symbolizer *s)
{
	return s->modules.count - 1;
}

struct symbol_module_state symbolizer_module_state(const struct symbolizer *s,
						   symbol_module_id module)
{
	ASSERT(module.v >= 1 && module.v < s->modules.count);
	const struct module_entry *m = &s->modules.at[module.v];

	return (struct symbol_module_state){
		.path = m->path,
		.jit = m->is_jit,
		.source = m->source,
		.frames = m->frames,
		.unnamed = m->unnamed,
	};
}
