/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbol tables of a module are read when its first root is named: most modules have none. Variables are sorted by address; of several
 * at one address the first is used. A stripped module has only what it exports.
 *
 * Owned by one thread.
 */
#include "collect/image/globals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "collect/binaries/elf_walk.h"
#include "collect/kernel/procfs.h"
#include "format/live/live.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/search.h"

enum {
	NAME_BYTES_MAX = 4096,
	GLOBALS_BYTES_MAX = 512 << 20, /* variables and names of all modules */
};

struct variable {
	uint64_t at, bytes;
	char *name;
};
struct module_globals {
	char *path;
	VECTOR(struct variable) list; /* by address */
};

void globals_init(struct globals *globals, const struct memory_source *source)
{
	*globals = (struct globals){ .source = source };
}

static void module_free(struct module_globals *module)
{
	for (size_t i = 0; i < module->list.count; i++)
		free(module->list.at[i].name);
	vector_release(&module->list);
	free(module->path);
	free(module);
}

void globals_release(struct globals *globals)
{
	for (size_t i = 0; i < globals->modules.count; i++)
		module_free(globals->modules.at[i]);
	vector_release(&globals->modules);
}

static int compare_variables(const void *left, const void *right)
{
	const struct variable *a = left, *b = right;

	if (a->at != b->at)
		return a->at < b->at ? -1 : 1;
	return a->bytes > b->bytes ? -1 : a->bytes < b->bytes;
}

/* A file may have millions of symbols that share one name of megabytes. malloc'd; NULL: there are too many, or it has none. */
static char *take_name(struct globals *globals, const char *name)
{
	size_t length = name ? strnlen(name, NAME_BYTES_MAX) : 0;
	uint64_t bytes = sizeof(struct variable) + length;

	if (length == 0 || globals->used_bytes + bytes > GLOBALS_BYTES_MAX)
		return NULL;
	globals->used_bytes += bytes;
	return strndup(name, length);
}

static void read_symbols(struct globals *globals, struct module_globals *module,
			 struct elf_walk *walk)
{
	Elf_Data *data = elf_getdata(walk->section, NULL);
	size_t count = data && walk->header.sh_entsize ? data->d_size / walk->header.sh_entsize : 0;
	GElf_Sym symbol;

	for (size_t i = 0; i < count && gelf_getsym(data, (int)i, &symbol); i++) {
		if (GELF_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_size == 0 ||
		    symbol.st_shndx == SHN_UNDEF)
			continue;
		const char *name = elf_walk_name(walk, walk->header.sh_link, symbol.st_name);
		struct variable variable = { symbol.st_value, symbol.st_size,
					     take_name(globals, name) };

		if (variable.name && !vector_push(&module->list, variable))
			free(variable.name);
	}
}

/* The first page has the headers and mostly the build id; nothing writes to it. A program may have been built again since it crashed. */
static bool is_same_file(const struct memory_source *source, uint64_t file_at, struct span file)
{
	uint8_t mapped[LIVE_PAGE];
	ssize_t got = file_at ? memory_source_read(source, file_at, mapped, sizeof mapped) : 0;

	return got <= 0 || memcmp(mapped, file.data, MIN((size_t)got, file.size)) == 0;
}

static void read_module(struct globals *globals, struct module_globals *module, uint64_t file_at)
{
	AUTO(buffer_release) struct buffer bytes = BUFFER_INIT;
	struct elf_walk walk;
	AUTO_FREE char *path = NULL;

	if (asprintf(&path, "%s%s",
		     globals->source->pid ? procfs_path(globals->source->pid, "root").text : "",
		     module->path) < 0) {
		path = NULL;
		return;
	}
	if (file_read(path, ELF_WALK_MAX, &bytes, NULL) < 0 ||
	    !is_same_file(globals->source, file_at, buffer_span(&bytes)))
		return;
	if (elf_walk_begin(&walk, buffer_span(&bytes)))
		while (elf_walk_next(&walk))
			if (walk.header.sh_type == SHT_SYMTAB || walk.header.sh_type == SHT_DYNSYM)
				read_symbols(globals, module, &walk);
	elf_walk_end(&walk);
	if (module->list.count > 0)
		qsort(module->list.at, module->list.count, sizeof *module->list.at,
		      compare_variables);
}

static const struct module_globals *module_of(struct globals *globals, const char *path,
					      uint64_t file_at)
{
	for (size_t i = 0; i < globals->modules.count; i++)
		if (strcmp(globals->modules.at[i]->path, path) == 0)
			return globals->modules.at[i];
	struct module_globals *module = calloc(1, sizeof *module);

	if (!module)
		return NULL;
	module->path = strdup(path);
	if (!module->path || !vector_push(&globals->modules, module)) {
		module_free(module);
		return NULL;
	}
	read_module(globals, module, file_at);
	return module;
}

struct global globals_find(struct globals *globals, const char *path, uint64_t file_at,
			   uint64_t bias, uint64_t address)
{
	const struct module_globals *module = module_of(globals, path, file_at);
	struct global ret = { 0, UINT64_MAX, NULL };
	uint64_t at = address - bias;
	size_t low = FIRST_WHERE(i, module ? module->list.count : 0, module->list.at[i].at > at);

	if (module && low < module->list.count)
		ret.end = module->list.at[low].at + bias;
	if (low == 0)
		return ret;
	const struct variable *before = &module->list.at[low - 1];

	while (before > module->list.at && before[-1].at == before->at)
		before--;
	ret.start = before->at + bias;
	if (at - before->at >= before->bytes)
		ret.start += before->bytes;
	else
		ret = (struct global){ ret.start, ret.start + before->bytes, before->name };
	return ret;
}

char *global_name(const struct global *global, const char *path)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	char *name = NULL;
	int length = global->name ? asprintf(&name, "%s (%s)", global->name, base)
				  : asprintf(&name, "%s", base);

	return length < 0 ? NULL : name;
}
