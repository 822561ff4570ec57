/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects the profile, whose frames are (module, offset), with the symbolizer, which reads files.
 *
 * Names bundled with the recording take precedence: they were resolved where the program ran.
 *
 * Frames are not cached here: the symbolizer caches what it found in a module, analysis/result/locations.h what a view made of a
 * frame. No frame is dropped: one without a name is shown by its address, a sentinel frame by its text.
 */
#include "model/frames/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "format/recording/rows.h"
#include "model/frames/fold.h"
#include "model/frames/languages.h"
#include "symbols/debug/debug_package.h"
#include "symbols/names/name_store.h"
#include "symbols/symbolizer.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/intern.h"
#include "util/search.h"
#include "util/vector.h"

enum { MANY_FRAMES = 256, CHAIN_MAX = 128, NOTES_MAX = 2 };

struct module_names {
	const char *path; /* interned; NULL: not yet resolved */
	symbol_module_id symbols;
};

/* The modules of one process resolved so far. */
struct process_names {
	const struct profile_process *process;
	struct module_names *modules;
	size_t asked; /* number of frames requested */
};

struct names {
	struct arena arena;
	struct intern strings;	       /* module paths, and addresses of nameless frames */
	struct symbolizer *symbolizer; /* NULL: symbols are disabled */
	bool contained;		       /* the files are those of a container */
	const char *jit;	       /* pseudo module of named code outside of any module */
	struct named_frame marks[MARK_COUNT];
	VECTOR(struct process_names) processes;
	size_t last; /* the process of the last lookup, which is usually the next one too */
};

static bool make_marks(struct names *names)
{
	static const char *const words[MARK_COUNT] = {
		[MARK_NONE] = "",
		[MARK_CUT] = "[outer frames truncated]",
		[MARK_STOPPED] = "[unwind stopped]",
		[MARK_OTHER] = "[other: stack not kept]",
		[MARK_STACK_OFF] = "[stack not recorded: mode or size limit]",
		[MARK_DAMAGED] = "[damaged frame]",
	};
	const char *nowhere = intern_text(&names->strings, "");

	names->jit = intern_text(&names->strings, "[jit]");

	for (size_t i = 0; i < MARK_COUNT; i++)
		names->marks[i] = (struct named_frame){
			.function = words[i],
			.full = words[i],
			.module = nowhere,
		};
	return nowhere && names->jit;
}

struct names *names_new(const struct names_options *options)
{
	struct names *names = calloc(1, sizeof *names);

	if (!names)
		return NULL;
	bool wanted = options && options->use_symbols;

	if (wanted) {
		AUTO_FREE char *store = options->use_store ? name_store_folder() : NULL;
		struct symbolizer_options asked = {
			.style = options->style,
			.debug_folders = options->debug_folders,
			.debug_folder_count = options->debug_folder_count,
			.workers = options->workers,
			.store_folder = store,
			.fetch = options->fetch,
			.root = options->root,
		};

		names->contained = options->root != NULL;
		names->symbolizer = symbolizer_new(&asked);
	}
	if (!make_marks(names) || (wanted && !names->symbolizer)) {
		names_free(names);
		return NULL;
	}
	return names;
}

void names_free(struct names *names)
{
	if (!names)
		return;
	vector_release(&names->processes);
	symbolizer_free(names->symbolizer);
	arena_release(&names->arena);
	intern_release(&names->strings);
	free(names);
}

void names_forget(struct names *names)
{
	names->processes.count = 0;
	names->last = 0;
	arena_release(&names->arena);
}

static struct process_names *process_names(struct names *names, const struct profile_process *p)
{
	if (names->last < names->processes.count && names->processes.at[names->last].process == p)
		return &names->processes.at[names->last];
	for (size_t i = 0; i < names->processes.count; i++)
		if (names->processes.at[i].process == p) {
			names->last = i;
			return &names->processes.at[i];
		}
	struct process_names added = {
		.process = p,
		.modules = ARENA_ARRAY(&names->arena, struct module_names, p->module_count),
	};

	if (!added.modules || !vector_push(&names->processes, added))
		return NULL;
	names->last = names->processes.count - 1;
	return &names->processes.at[names->last];
}

static const char *place_name(struct names *names, const struct profile_frame *frame,
			      const char *path)
{
	AUTO_FREE char *text = NULL;
	const char *base = path[0] ? path_base(path) : "[unknown module]";
	int length;

	if (frame->module.v == 0)
		length = asprintf(&text, "0x%" PRIx64, frame->offset);
	else
		length = asprintf(&text, "%s+0x%" PRIx64, base, frame->offset);
	return length < 0 ? NULL : intern_text(&names->strings, text);
}

/* Code outside of any module may be JIT-compiled. */
static symbol_module_id jit_of(struct names *names, const struct profile_process *p)
{
	struct perf_map_life life = { .started_real_ns = p->started_real_ns, .uid = p->uid };

	if (p->end != PROFILE_RUNNING)
		life.ended_real_ns = saturating_add(p->started_real_ns, p->duration_ns);
	return symbolizer_jit(names->symbolizer, p->pid, life);
}

/* NULL if out of memory. */
static const struct module_names *module_names(struct names *names, struct process_names *known,
					       module_id id)
{
	const struct profile_module *m = &known->process->modules[id.v];
	struct module_names *kept = &known->modules[id.v];

	if (kept->path)
		return kept;
	kept->path = intern_text(&names->strings, m->path);
	if (kept->path && names->symbolizer)
		kept->symbols =
			id.v == 0 ? jit_of(names, known->process)
				  : symbolizer_module(names->symbolizer, m->path, m->build_id);
	return kept->path ? kept : NULL;
}

/* The first row of the frame, or of a later frame. */
static size_t first_bundled(const struct process_rows *rows, uint32_t frame)
{
	return FIRST_WHERE(i, rows->name_count, rows->names[i].frame >= frame);
}

static bool has_bundled(const struct process_rows *rows, uint32_t frame)
{
	size_t at = first_bundled(rows, frame);

	return at < rows->name_count && rows->names[at].frame == frame;
}

/* The names of the frame in the recording itself; count 0 if there are none. */
static struct symbol_list bundled(struct names *names, const struct process_rows *rows,
				  uint32_t frame)
{
	struct symbol_frame frames[CHAIN_MAX];
	size_t count = 0;

	for (size_t i = first_bundled(rows, frame);
	     i < rows->name_count && rows->names[i].frame == frame && count < CHAIN_MAX; i++) {
		const struct name_row *n = &rows->names[i];

		const char *name = n->function ? rows->texts + n->function : NULL;

		frames[count++] = (struct symbol_frame){
			/* Python names are not mangled and have no style. */
			.function = fold_is_python(rows, n) ? name : NULL,
			.linkage = name,
			.arguments = n->arguments ? rows->texts + n->arguments : NULL,
			.file = n->file ? rows->texts + n->file : NULL,
			.line = n->line,
			.inlined = n->inlined,
		};
	}
	if (count == 0)
		return (struct symbol_list){ 0 };
	frames[count - 1].inlined =
		false; /* regardless of the file: it has no caller to be inlined into */
	return symbolizer_adopt(names->symbolizer, frames, count);
}

/* The frame with its inlined calls; `at` is NULL if out of memory. */
static struct named_stack name_frame(struct names *names, struct process_names *known,
				     const struct profile_frame *frame, struct arena *arena)
{
	static const struct symbol_frame nothing = { 0 };
	struct symbol_list symbols = { 0 };
	const struct module_names *module = module_names(names, known, frame->module);

	if (!module)
		return (struct named_stack){ 0 };
	if (names->symbolizer)
		symbols = bundled(names, known->process->rows, frame->id.v);
	if (symbols.count == 0 && module->symbols.v != 0)
		symbols = symbolizer_find(names->symbolizer, module->symbols, frame->offset,
					  frame->exact);
	if (symbols.count == 0)
		symbols = (struct symbol_list){ &nothing, 1 };
	struct named_frame *list = ARENA_ARRAY(arena, struct named_frame, symbols.count);

	for (size_t i = 0; list && i < symbols.count; i++) {
		const struct symbol_frame *s = &symbols.at[i];

		list[i] = (struct named_frame){
			.function =
				s->function ? s->function : place_name(names, frame, module->path),
			.full = s->full,
			.arguments = s->arguments,
			.file = s->file,
			.line = s->line,
			.module = frame->module.v == 0 && s->function ? names->jit : module->path,
			.offset = frame->offset,
			.language = language_of(s->linkage, s->full, s->file, module->path),
			.inlined = s->inlined,
			.address_exact = frame->exact,
			.named = s->function != NULL,
		};
		if (!list[i].full)
			list[i].full = list[i].function;
		if (!list[i].function)
			list = NULL;
	}
	return (struct named_stack){ list, list ? symbols.count : 0 };
}

void names_prepare(struct names *names, const struct profile_process *p)
{
	struct process_names *known = process_names(names, p);
	VECTOR(struct symbol_request) requests = { 0 };

	for (uint32_t i = 1; known && names->symbolizer && i < p->frame_count; i++) {
		struct profile_frame frame = profile_frame_at(p, (frame_id){ i });
		const struct module_names *module;

		if (frame.mark != MARK_NONE || frame.module.v == 0 || has_bundled(p->rows, i))
			continue;
		module = module_names(names, known, frame.module);
		if (module &&
		    !vector_push(&requests, ((struct symbol_request){ module->symbols, frame.offset,
								      frame.exact })))
			break;
	}
	if (requests.count)
		symbolizer_prepare(names->symbolizer, requests.at, requests.count);
	vector_release(&requests);
}

int names_frame(struct names *names, const struct profile_process *p, struct profile_frame frame,
		struct arena *arena, struct named_stack *ret)
{
	struct process_names *known = process_names(names, p);

	if (!known)
		return -1;
	if (frame.mark != MARK_NONE) {
		*ret = (struct named_stack){ &names->marks[frame.mark], 1 };
		return 0;
	}
	/* A caller that asks for so many frames will probably ask for most. */
	if (++known->asked == MAX((size_t)MANY_FRAMES, p->frame_count / 8))
		names_prepare(names, p);
	*ret = name_frame(names, known, &frame, arena);
	return ret->at ? 0 : -1;
}

ptrdiff_t names_variables(struct names *names, const char *module, struct span build_id,
			  struct arena *arena, struct symbol_variable **ret)
{
	if (!names->symbolizer)
		return 0;
	return symbolizer_variables(names->symbolizer,
				    symbolizer_module(names->symbolizer, module, build_id), arena,
				    ret);
}

static const char *jit_note(const struct symbol_module_state *m, const char *shows,
			    struct arena *arena)
{
	switch (m->source) {
	case SYMBOLS_MISSING:
		return arena_printf(arena,
				    "%s as 0x...: made by a runtime, and %s is gone or was never "
				    "written (node --perf-basic-prof, python -X perf, ...)",
				    shows, m->path);
	case SYMBOLS_CHANGED:
		return arena_printf(arena,
				    "%s as 0x...: made by a runtime, and %s is of another process",
				    shows, m->path);
	default:
		return arena_printf(arena, "%s as 0x...: not in %s", shows, m->path);
	}
}

static const char *note_text(const struct symbol_module_state *m, struct arena *arena)
{
	const char *shows = m->unnamed == 1 ? "frame shows" : "frames show";
	const char *base = path_base(m->path);

	if (m->jit)
		return jit_note(m, shows, arena);
	switch (m->source) {
	case SYMBOLS_MISSING:
		return arena_printf(arena, "%s as %s+0x...: %s cannot be read", shows, base,
				    m->path);
	case SYMBOLS_CHANGED:
		return arena_printf(arena, "%s as %s+0x...: the file changed since it was recorded",
				    shows, base);
	case SYMBOLS_UNASKED: /* all names are cached, which those of symbol tables never are */
	case SYMBOLS_DWARF:
		return arena_printf(arena, "%s as %s+0x...: not in its debug information", shows,
				    base);
	default:
		return arena_printf(arena, "%s as %s+0x...: no debug information", shows, base);
	}
}

/* The note on debuginfod servers; NULL if none. */
static const char *fetch_note(const struct symbolizer *symbolizer)
{
	switch (symbolizer_fetch_trouble(symbolizer)) {
	case DEBUG_FETCH_FINE:
		break;
	case DEBUG_FETCH_NO_LIBRARY:
		return "reason why no server was asked: libdebuginfod is not installed";
	case DEBUG_FETCH_NO_SERVER:
		return "reason why no server was asked: DEBUGINFOD_URLS names none";
	case DEBUG_FETCH_FAILED:
		return "or more questions to debuginfod servers failed: names may be missing";
	case DEBUG_FETCH_LATE:
		return "deadline for debuginfod servers has passed: names may be missing";
	}
	return NULL;
}

const char *names_debug_package(const struct names *names, const char *module, struct arena *arena)
{
	size_t modules = names->symbolizer && !names->contained
				 ? symbolizer_module_count(names->symbolizer)
				 : 0;

	for (uint32_t i = 1; i <= modules; i++) {
		struct symbol_module_state m =
			symbolizer_module_state(names->symbolizer, (symbol_module_id){ i });

		if (strcmp(m.path, module) != 0 || m.jit || m.source == SYMBOLS_MISSING ||
		    m.source == SYMBOLS_CHANGED)
			continue;
		AUTO_FREE char *package = debug_package_of(DEBUG_PACKAGE_LISTS, module);

		return package ? arena_strdup(arena, package) : NULL;
	}
	return NULL;
}

/* The most frames first, then by path, so that the notes do not depend on the order of earlier queries. */
static int compare_modules(const void *left, const void *right)
{
	const struct symbol_module_state *a = left, *b = right;

	if (a->unnamed != b->unnamed)
		return a->unnamed < b->unnamed ? 1 : -1;
	return strcmp(a->path, b->path);
}

/* One note for all modules that have none of their own. */
static struct profile_note rest_note(const struct symbol_module_state *rest, size_t count,
				     struct arena *arena)
{
	struct profile_note note = {
		"unnamed_frames",
		arena_printf(
			arena,
			"frames of %zu other modules show as module+0x...: --view modules lists them",
			count),
		0
	};

	for (size_t i = 0; i < count; i++)
		note.count += rest[i].unnamed;
	return note;
}

int names_notes(const struct names *names, struct arena *arena, struct profile_notes *ret)
{
	size_t modules = names->symbolizer ? symbolizer_module_count(names->symbolizer) : 0;
	struct profile_note *notes = ARENA_ARRAY(arena, struct profile_note, modules + 1);
	AUTO_FREE struct symbol_module_state *unnamed = calloc(modules + 1, sizeof *unnamed);
	const char *fetch = names->symbolizer ? fetch_note(names->symbolizer) : NULL;
	size_t found = 0, count = 0;

	if (!notes || !unnamed)
		return -1;
	for (uint32_t i = 1; i <= modules; i++) {
		unnamed[found] =
			symbolizer_module_state(names->symbolizer, (symbol_module_id){ i });
		found += unnamed[found].unnamed && unnamed[found].path[0];
	}
	qsort(unnamed, found, sizeof *unnamed, compare_modules);
	/* A note for one module alone is as long as one that names it. */
	size_t named = found <= NOTES_MAX + 1 ? found : NOTES_MAX;

	for (; count < named; count++)
		notes[count] =
			(struct profile_note){ "unnamed_frames", note_text(&unnamed[count], arena),
					       unnamed[count].unnamed };
	if (named < found)
		notes[count++] = rest_note(unnamed + named, found - named, arena);
	for (size_t i = 0; i < count; i++)
		if (!notes[i].text)
			return -1;
	if (fetch)
		notes[count++] = (struct profile_note){ "debuginfod", fetch, 1 };
	*ret = (struct profile_notes){ notes, count };
	return 0;
}
