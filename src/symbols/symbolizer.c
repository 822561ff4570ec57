/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks up frames: first in memory and in the name cache of earlier runs (for the same file contents); then in
 * the module's own file, which is opened only then. Each frame is resolved at most once, and its strings are
 * interned for the lifetime of the symbolizer.
 *
 * Nothing here fails: out of memory, like any other problem, gives a frame without a name. The threads of
 * symbolizer_prepare end before it returns; their results are added serially (batch.h).
 */
#include "symbols/symbolizer.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "symbols/batch.h"
#include "symbols/debug/content_key.h"
#include "symbols/debug/debug_search.h"
#include "symbols/names/demangle.h"
#include "symbols/debug/dwarf_index.h"
#include "symbols/frame_cache.h"
#include "symbols/names/name_store.h"
#include "symbols/symbol_module.h"
#include "util/arena.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/intern.h"
#include "util/vector.h"

struct module_entry {
	const char *path;
	struct span build_id;
	enum symbol_source source;
	struct symbol_module *file; /* NULL: not open, or unusable */
	struct symbol_reader *reader;
	bool is_jit; /* if set, it has the following instead of a file: */
	struct perf_map_life life;
	struct perf_map *map; /* NULL: not read, or unusable */
	bool store_asked;
	struct name_store *store; /* the name cache; NULL: not opened, or none */
	struct content_key store_name;
	bool has_content;
	struct content content; /* of the file at its path */
	size_t frames, unnamed;
	size_t unsaved; /* frames that the store lacks */
};

/* A name in three forms: linkage name, demangled, and as shown. */
struct name_forms {
	const char *linkage, *full, *function;
};

struct symbolizer {
	struct arena arena;
	enum name_style style;
	struct buffer scratch;
	struct intern strings; /* the value of a linkage name is its forms */
	struct debug_search search;
	VECTOR(struct module_entry) modules; /* [0] is unused */
	struct frame_cache cache;
	unsigned workers;
	char *store_folder; /* NULL: no name cache */
	uint64_t store_limit_bytes;
	struct content_secret secret; /* of the name cache */
};

#define STORE_LIMIT_BYTES (UINT64_C(512) << 20)

/* The result for an unknown frame. */
static const struct symbol_frame unknown_frame = { 0 };
static const struct symbol_list unknown_list = { &unknown_frame, 1 };

static unsigned cpu_count(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

struct symbolizer *symbolizer_new(const struct symbolizer_options *options)
{
	static const struct symbolizer_options none = { 0 };
	struct symbolizer *s = calloc(1, sizeof *s);

	if (!s)
		return NULL;
	if (!options)
		options = &none;
	s->style = options->style;
	s->workers = options->workers ? options->workers : cpu_count();
	s->store_limit_bytes =
		options->store_limit_bytes ? options->store_limit_bytes : STORE_LIMIT_BYTES;
	if (options->store_folder && name_store_secret(options->store_folder, &s->secret))
		s->store_folder = strdup(options->store_folder);
	if (!debug_search_init(&s->search, options->debug_folders, options->debug_folder_count) ||
	    !vector_push(&s->modules, ((struct module_entry){ .path = "" }))) {
		symbolizer_free(s);
		return NULL;
	}
	s->search.root = options->root;
	if (options->fetch.wanted) {
		s->search.fetch = debug_fetch_new(&options->fetch);
		if (!s->search.fetch) {
			symbolizer_free(s);
			return NULL;
		}
	}
	return s;
}

void symbolizer_free(struct symbolizer *s)
{
	if (!s)
		return;
	(void)symbolizer_save(s);
	for (size_t i = 0; i < s->modules.count; i++) {
		struct module_entry *m = &s->modules.at[i];

		symbol_reader_free(m->reader);
		symbol_module_free(m->file);
		perf_map_free(m->map);
		name_store_free(m->store);
	}
	vector_release(&s->modules);
	debug_fetch_free(s->search.fetch);
	debug_search_release(&s->search);
	frame_cache_release(&s->cache);
	arena_release(&s->arena);
	intern_release(&s->strings);
	buffer_release(&s->scratch);
	free(s->store_folder);
	free(s);
}

/* Copies what the entry points to. Returns 0 if out of memory. */
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

	/* Not shared: two processes with the same pid are two modules. */
	snprintf(path, sizeof path, "/tmp/perf-%" PRIu32 ".map", pid);
	return add_module(s, (struct module_entry){ .path = path, .is_jit = true, .life = life });
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

/* NULL if out of memory. Cached, because a name occurs in many frames and demangling is expensive. */
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
	if (!fill_forms(s, forms)) /* it interns texts: the entry may have moved */
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

/* Interns a frame's strings: those of libdw and libiberty do not live as long. */
static struct symbol_frame keep_frame(struct symbolizer *s, const struct dwarf_frame *from)
{
	struct symbol_frame frame = { .line = from->line, .inlined = from->inlined };
	const char *name = from->linkage_name ? from->linkage_name : from->name;

	if (name) {
		/* "memcpy@@GLIBC_2.14": drop the symbol version. */
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

/* Names are as the runtime wrote them: no demangling, no style. */
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

static struct symbol_list keep_list(struct symbolizer *s, const struct dwarf_frame *found,
				    size_t count)
{
	struct symbol_frame *frames =
		count ? ARENA_ARRAY(&s->arena, struct symbol_frame, count) : NULL;

	for (size_t i = 0; frames && i < count; i++)
		frames[i] = keep_frame(s, &found[i]);
	return frames ? (struct symbol_list){ frames, count } : unknown_list;
}

/* Adds a result to the cache. */
static void add_entry(struct symbolizer *s, symbol_module_id id, uint64_t address,
		      struct symbol_list list, bool stored)
{
	struct module_entry *m = &s->modules.at[id.v];

	m->frames++;
	m->unsaved += !stored;
	if (!list.at[list.count - 1].function)
		m->unnamed++;
	(void)frame_cache_add(&s->cache, (struct frame_entry){ address, id, stored, list });
}

/* Searches like symbol_module_open: below the other root first. A file there has a path that is not of this machine, so it is
 * identified by its content alone. */
static void open_store(struct symbolizer *s, struct module_entry *m)
{
	AUTO_FREE char *inside = NULL;

	m->store_asked = true;
	if (!s->store_folder || m->is_jit || m->build_id.size == 0)
		return;
	if (s->search.root && m->path[0] == '/')
		inside = path_join(s->search.root, m->path + 1);
	if (inside && content_find(&s->search, inside, m->build_id, &s->secret, &m->content)) {
		m->has_content = true;
		m->store_name = m->content.key;
	} else {
		m->has_content =
			content_find(&s->search, m->path, m->build_id, &s->secret, &m->content);
		m->store_name = content_key_of_path(m->path, m->build_id, &s->secret);
	}
	m->store = name_store_open(s->store_folder, &m->store_name,
				   m->has_content ? &m->content.key : NULL);
}

static bool find_stored(struct symbolizer *s, symbol_module_id id, uint64_t address,
			struct symbol_list *ret)
{
	struct module_entry *m = &s->modules.at[id.v];
	struct dwarf_frame found[DWARF_CHAIN_MAX];
	size_t count;

	if (!m->store_asked)
		open_store(s, m);
	if (!m->store || !name_store_find(m->store, address, found, &count))
		return false;
	*ret = keep_list(s, found, count);
	add_entry(s, id, address, *ret, true);
	return true;
}

static struct symbol_list resolve(struct symbolizer *s, struct module_entry *m, uint64_t address)
{
	struct dwarf_frame found[DWARF_CHAIN_MAX];

	if (m->source == SYMBOLS_UNASKED)
		open_module(s, m);
	if (m->is_jit)
		return resolve_jit(s, m, address);
	if (m->file && !m->reader)
		m->reader = symbol_reader_new(m->file);
	return keep_list(s, found, m->reader ? symbol_reader_find(m->reader, address, found) : 0);
}

/* A return address may be the start of the next function: the call is before it. */
static uint64_t instruction_of(uint64_t address, bool exact)
{
	return exact || address == 0 ? address : address - 1;
}

struct symbol_list symbolizer_find(struct symbolizer *s, symbol_module_id module, uint64_t address,
				   bool exact)
{
	uint64_t at = instruction_of(address, exact);
	struct symbol_list list;

	if (module.v == 0 || module.v >= s->modules.count)
		return unknown_list;
	const struct frame_entry *known = frame_cache_find(&s->cache, module, at);

	if (known)
		return known->list;
	if (find_stored(s, module, at, &list))
		return list;
	list = resolve(s, &s->modules.at[module.v], at);
	add_entry(s, module, at, list, false);
	return list;
}

struct symbol_list symbolizer_adopt(struct symbolizer *s, const struct symbol_frame *frames,
				    size_t count)
{
	struct symbol_frame *kept = ARENA_ARRAY(&s->arena, struct symbol_frame, count);

	for (size_t i = 0; kept && i < count; i++) {
		const char *own = frames[i].function;

		kept[i] =
			keep_frame(s, &(struct dwarf_frame){ .name = own ? NULL : frames[i].linkage,
							     .arguments = frames[i].arguments,
							     .file = frames[i].file,
							     .line = frames[i].line,
							     .inlined = frames[i].inlined });
		if (own)
			kept[i].function = kept[i].full = kept[i].linkage =
				intern_text(&s->strings, own);
	}
	return kept ? (struct symbol_list){ kept, count } : unknown_list;
}

ptrdiff_t symbolizer_variables(struct symbolizer *s, symbol_module_id id, struct arena *arena,
			       struct symbol_variable **ret)
{
	AUTO(variables_release) struct variables found = { 0 };

	if (id.v == 0 || id.v >= s->modules.count)
		return 0;
	struct module_entry *m = &s->modules.at[id.v];

	if (m->source == SYMBOLS_UNASKED)
		open_module(s, m);
	if (m->file && symbol_module_variables(m->file, &found) < 0)
		return -1;
	*ret = ARENA_ARRAY(arena, struct symbol_variable, found.count);
	for (size_t i = 0; *ret && i < found.count; i++) {
		const struct variable *v = &found.at[i];

		(*ret)[i] = (struct symbol_variable){
			.name = keep_frame(s,
					   &(struct dwarf_frame){ .linkage_name = v->linkage_name,
								  .file = v->file,
								  .folder = v->folder,
								  .line = v->line }),
			.address = v->address,
			.size = v->size,
			.section = v->section,
		};
	}
	return *ret ? (ptrdiff_t)found.count : -1;
}

/* One module of a batch. */
struct preparation {
	struct symbolizer *symbolizer;
	symbol_module_id module;
};

static void keep_prepared(void *context, uint64_t address, const struct dwarf_frame *frames,
			  size_t count)
{
	const struct preparation *p = context;

	add_entry(p->symbolizer, p->module, address, keep_list(p->symbolizer, frames, count),
		  false);
}

static int compare_requests(const void *left, const void *right)
{
	const struct symbol_request *a = left, *b = right;

	if (a->module.v != b->module.v)
		return a->module.v < b->module.v ? -1 : 1;
	return (a->address > b->address) - (a->address < b->address);
}

/* Looks up the unknown instructions of one module, each once. */
static void prepare_module(struct symbolizer *s, const struct symbol_request *requests,
			   size_t count)
{
	symbol_module_id id = requests[0].module;
	struct module_entry *m = &s->modules.at[id.v];
	struct preparation p = { s, id };
	VECTOR(uint64_t) missing = { 0 };
	struct symbol_list list;

	for (size_t i = 0; i < count; i++) {
		uint64_t at = requests[i].address;

		if ((i > 0 && at == requests[i - 1].address) ||
		    frame_cache_find(&s->cache, id, at) || find_stored(s, id, at, &list))
			continue;
		if (!vector_push(&missing, at))
			break;
	}
	if (missing.count && m->source == SYMBOLS_UNASKED)
		open_module(s, m);
	/* Modules without a file are looked up one by one, which is fast. */
	if (missing.count && m->file)
		batch_find(m->file, missing.at, missing.count, s->workers, keep_prepared, &p);
	vector_release(&missing);
}

void symbolizer_prepare(struct symbolizer *s, const struct symbol_request *requests, size_t count)
{
	struct symbol_request *sorted = calloc(MAX(count, (size_t)1), sizeof *sorted);
	size_t known = 0;

	for (size_t i = 0; sorted && i < count; i++) {
		struct symbol_request r = requests[i];

		if (r.module.v == 0 || r.module.v >= s->modules.count)
			continue;
		r.address = instruction_of(r.address, r.exact);
		sorted[known++] = r;
	}
	if (known)
		qsort(sorted, known, sizeof *sorted, compare_requests);
	for (size_t i = 0, next; i < known; i = next) {
		for (next = i; next < known && sorted[next].module.v == sorted[i].module.v;)
			next++;
		prepare_module(s, &sorted[i], next - i);
	}
	free(sorted);
}

static bool save_module(struct symbolizer *s, struct module_entry *m, symbol_module_id id)
{
	struct name_entry *entries = calloc(m->unsaved, sizeof *entries);
	size_t count = 0;

	for (size_t i = 0; entries && i < s->cache.size; i++) {
		struct frame_entry *e = &s->cache.entries[i];

		if (e->module.v != id.v || e->stored || count == m->unsaved)
			continue;
		entries[count++] = (struct name_entry){ e->address, e->list };
		e->stored = true;
	}
	m->unsaved = 0;
	bool saved =
		entries && name_store_save(s->store_folder, &m->store_name, &m->content.key,
					   m->store, entries, count, s->store_limit_bytes) == 0;

	free(entries);
	if (saved) {
		name_store_free(m->store);
		m->store = name_store_open(s->store_folder, &m->store_name, &m->content.key);
	}
	return saved;
}

size_t symbolizer_save(struct symbolizer *s)
{
	size_t failed = 0;

	for (uint32_t i = 1; s->store_folder && i < s->modules.count; i++) {
		struct module_entry *m = &s->modules.at[i];

		/* A symbol table may be superseded (by a debug package), DWARF is not. */
		if (m->source == SYMBOLS_DWARF && m->unsaved > 0 && m->has_content &&
		    symbol_module_is_of(m->file, &m->content))
			failed += !save_module(s, m, (symbol_module_id){ i });
	}
	return failed;
}

enum debug_fetch_trouble symbolizer_fetch_trouble(const struct symbolizer *s)
{
	return s->search.fetch ? debug_fetch_trouble(s->search.fetch) : DEBUG_FETCH_FINE;
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
