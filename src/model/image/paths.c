/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of an image by site, found by binary search, as in reach.c: a file whose rows are not sorted shows less. Names are in the file as
 * the linker knows them. Pure; any thread.
 */
#include "model/image/paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/recording/rows.h"
#include "model/same_sites.h"
#include "symbols/names/demangle.h"
#include "util/cleanup.h"
#include "util/search.h"

/* ---- paths ---- */

/* The row of the part that retains most; retained_count: there is none. */
static size_t most_retaining(const struct profile_process *p, site_id site)
{
	const struct image_rows *rows = &p->rows->image;
	size_t most = rows->retained_count;

	for (uint32_t part = site.v; part; part = same_site_next(p, part)) {
		size_t at = FIRST_WHERE(i, rows->retained_count, rows->retained[i].site >= part);

		if (at < rows->retained_count && rows->retained[at].site == part &&
		    (most == rows->retained_count ||
		     rows->retained[at].bytes > rows->retained[most].bytes))
			most = at;
	}
	return most;
}

struct profile_path profile_site_path(const struct profile_process *p, site_id site)
{
	const struct image_rows *rows = &p->rows->image;
	size_t at = most_retaining(p, site);
	struct profile_path path = { 0 };

	if (at == rows->retained_count || rows->retained[at].holder == 0)
		return path;
	uint32_t part = rows->retained[at].site;

	path.root = rows->retained[at].holder;
	path.root_class = rows->holders[path.root - 1].class;
	path.is_named = rows->holders[path.root - 1].name[0] != '\0';
	path.has_offset = rows->retained[at].offset > 0;
	path.offset = path.has_offset ? rows->retained[at].offset - 1 : 0;
	path.first = FIRST_WHERE(i, rows->path_count, rows->paths[i].site >= part);
	while (path.first + path.count < rows->path_count &&
	       rows->paths[path.first + path.count].site == part)
		path.count++;
	return path;
}

struct profile_path_step profile_path_step(const struct profile_process *p, size_t index)
{
	ASSERT(index < p->rows->image.path_count);
	const struct path_row *row = &p->rows->image.paths[index];

	return (struct profile_path_step){
		.site = row->from ? same_site_find(p, row->from) : NULL,
		.type = row->type ? row->type - 1 : PROFILE_NO_TYPE,
		.has_offset = row->offset > 0,
		.offset = row->offset ? row->offset - 1 : 0,
		.blocks = row->blocks,
	};
}

const char *profile_root_name(const struct profile_process *p, const struct profile_path *path,
			      bool with_offset, struct arena *arena)
{
	static const char *const nameless[REACH_ROOT_CLASSES] = {
		[REACH_GLOBAL] = "a global variable",
		[REACH_TLS] = "thread-local storage",
		[REACH_UNKNOWN] = "memory of unknown use",
		[REACH_STACK] = "a stack",
	};
	ASSERT(path->root > 0 && path->root <= p->rows->image.holder_count);
	const char *name = p->rows->image.holders[path->root - 1].name;
	const char *module = strstr(name, " (");

	name = path->is_named ? name : nameless[path->root_class];
	AUTO_FREE char *symbol = module ? strndup(name, (size_t)(module - name)) : strdup(name);
	AUTO_FREE char *plain = symbol ? demangle(symbol) : NULL;

	if (!symbol)
		return NULL;
	const char *shown = plain ? plain : symbol;

	if (with_offset && path->has_offset)
		return arena_printf(arena, "%s+0x%llx%s", shown, (unsigned long long)path->offset,
				    module ? module : "");
	return arena_printf(arena, "%s%s", shown, module ? module : "");
}

size_t profile_root_count(const struct profile_process *p)
{
	return p->rows->image.holder_count;
}

uint64_t profile_root_retained_bytes(const struct profile_process *p, size_t index)
{
	return p->rows->image.holders[index].bytes;
}

const char *profile_root_at(const struct profile_process *p, size_t index, struct arena *arena)
{
	const struct holder_row *row = &p->rows->image.holders[index];
	const struct profile_path path = { .root = (uint32_t)index + 1,
					   .root_class = row->class,
					   .is_named = row->name[0] != '\0' };

	return profile_root_name(p, &path, false, arena);
}

/* ---- types ---- */

size_t profile_type_count(const struct profile_process *p)
{
	return p->rows->image.type_count;
}

uint64_t profile_type_retained_bytes(const struct profile_process *p, uint32_t type)
{
	ASSERT(type < p->rows->image.type_count);
	return p->rows->image.types[type].retained_bytes;
}

const char *profile_type_name(const struct profile_process *p, uint32_t type, struct arena *arena)
{
	static const char before[] = "typeinfo name for ";
	ASSERT(type < p->rows->image.type_count);
	const char *name = p->rows->image.types[type].name;
	AUTO_FREE char *symbol = NULL;

	/* The demangler wants a whole symbol: this is the one that the name has in a program with symbols. */
	if (asprintf(&symbol, "_ZTS%s", name) < 0) {
		symbol = NULL;
		return NULL;
	}
	AUTO_FREE char *plain = demangle(symbol);

	if (plain && strncmp(plain, before, sizeof before - 1) == 0)
		return arena_strdup(arena, plain + sizeof before - 1);
	return arena_strdup(arena, name);
}

bool profile_site_type_next(const struct profile_process *p, site_id site,
			    struct profile_type_cursor *at, struct profile_site_type *ret)
{
	const struct image_rows *rows = &p->rows->image;

	while (at->part == 0 || at->row == rows->site_type_count ||
	       rows->site_types[at->row].site != at->part) {
		at->part = at->part ? same_site_next(p, at->part) : site.v;
		if (!at->part)
			return false;
		at->row =
			FIRST_WHERE(i, rows->site_type_count, rows->site_types[i].site >= at->part);
	}
	const struct site_type_row *row = &rows->site_types[at->row++];

	*ret = (struct profile_site_type){ row->type, row->blocks, row->bytes,
					   row->unreachable_bytes };
	return true;
}
