/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classifies mappings. The kernel names the main heap and the main stack, and newer C libraries name theirs; the rest is recognized by
 * its shape:
 *   thread stack    writable, with a guard (no access, small) directly below it
 *   glibc arena     starts at a multiple of 64 MiB, directly followed by its unused rest (no access)
 *   static data     directly follows the writable part of a module: the loader maps it for zero-initialized variables
 * Everything else is other anonymous memory: large blocks, the program's own mappings, and the arenas of other allocators. Pure; the
 * text describes an untrusted process, but the kernel wrote it.
 */
#include "collect/kernel/smaps.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "collect/kernel/map_line.h"
#include "collect/kernel/recorded_processes.h"

#define ARENA_BYTES (64ull << 20)
#define GUARD_MAX_BYTES (1ull << 20)

/* A mapping, from its first line. */
struct head {
	struct map_line line;
	bool no_access, shared;
	bool code, data; /* private file mapping: executable, writable */
};

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static bool is_unnamed(const struct head *m)
{
	return m->line.name && m->line.name[0] == '\0';
}

static bool parse_head(const char *text, struct head *ret)
{
	struct map_line map;

	if (!map_line_parse(text, &map))
		return false;
	*ret = (struct head){ .line = map,
			      .no_access = begins(map.permissions, "---"),
			      .shared = map.permissions[3] == 's',
			      .code = begins(map.permissions, "r-xp") && map.inode != 0,
			      .data = begins(map.permissions, "rw-p") && map.inode != 0 };
	return true;
}

static bool is_stack(const struct head *m, const struct head *below)
{
	if (begins(m->line.name, "[stack") || begins(m->line.name, "[anon: glibc: pthread stack"))
		return true;
	return is_unnamed(m) && !m->no_access && is_unnamed(below) && below->no_access &&
	       below->line.end == m->line.start &&
	       below->line.end - below->line.start <= GUARD_MAX_BYTES;
}

static enum mapping_kind kind_of(const struct head *m, const struct head *below)
{
	const char *name = m->line.name;

	if (begins(name, "/memfd:heapgauge") || (m->shared && recorded_file_name(name)))
		return MAPPING_OWN;
	if (m->shared)
		return MAPPING_SHARED;
	if (strcmp(name, "[heap]") == 0 || begins(name, "[anon: glibc: malloc"))
		return MAPPING_HEAP;
	if (is_stack(m, below))
		return MAPPING_STACK;
	if (is_unnamed(m) || begins(name, "[anon"))
		return MAPPING_ANONYMOUS;
	return MAPPING_FILES; /* also the kernel's own: [vdso] etc. */
}

/* Requires that the module has code too: a runtime may also map its heap after a file. */
static bool is_static(const struct head *m, const struct head *below, const struct head *code)
{
	return is_unnamed(m) && begins(m->line.permissions, "rw-p") && below->data &&
	       below->line.end == m->line.start && below->line.inode == code->line.inode &&
	       below->line.device == code->line.device;
}

/* The unused rest of an arena identifies the mapping before it. An arena directly after a small rest of another looks like a
 * stack, and a stack may start where an arena would: there the next stack's guard is not a rest, which would reach the arena's
 * end. */
static bool is_rest_of_arena(const struct head *rest, const struct mapping *below)
{
	uint64_t end = below->start + ARENA_BYTES;

	if (!rest->no_access || !is_unnamed(rest) || below->end != rest->line.start ||
	    below->start % ARENA_BYTES != 0)
		return false;
	return below->kind == MAPPING_STACK
		       ? rest->line.end == end
		       : below->kind == MAPPING_ANONYMOUS && rest->line.end <= end;
}

static uint64_t kib(const char *text)
{
	return strtoull(text, NULL, 10) * 1024;
}

bool smaps_parse(char *text, struct smaps *ret)
{
	struct head now = { 0 }, code = { 0 }, next;
	struct mapping *last = NULL;
	char *rest = text, *line;

	*ret = (struct smaps){ 0 };
	while ((line = strsep(&rest, "\n")) != NULL) {
		if (last && begins(line, "Rss:")) {
			last->rss_bytes = kib(line + 4);
		} else if (last && begins(line, "Swap:")) {
			last->swap_bytes = kib(line + 5);
		} else if (parse_head(line, &next)) {
			struct mapping mapping = { next.line.start, next.line.end,
						   kind_of(&next, &now), 0, 0 };

			if (last && is_rest_of_arena(&next, last))
				last->kind = MAPPING_HEAP;
			if (mapping.kind == MAPPING_ANONYMOUS && is_static(&next, &now, &code))
				mapping.kind = MAPPING_STATIC;
			if (next.code)
				code = next;
			if (!vector_push(&ret->list, mapping)) {
				smaps_release(ret);
				return false;
			}
			last = &ret->list.at[ret->list.count - 1];
			now = next;
		}
	}
	return true;
}

void smaps_release(struct smaps *smaps)
{
	vector_release(&smaps->list);
}

void smaps_sum(const struct smaps *smaps, struct memory_row *row)
{
	uint64_t sums[MAPPING_KINDS] = { 0 };

	row->rss_bytes = row->swap_bytes = 0;
	row->stack_reserved_bytes = row->stack_largest_bytes = row->vm_bytes = 0;
	for (size_t i = 0; i < smaps->list.count; i++) {
		const struct mapping *m = &smaps->list.at[i];

		sums[m->kind] += m->rss_bytes;
		row->rss_bytes += m->rss_bytes;
		row->swap_bytes += m->swap_bytes;
		if (m->kind != MAPPING_OWN) /* a large reservation */
			row->vm_bytes += m->end - m->start;
		if (m->kind == MAPPING_STACK) {
			row->stack_reserved_bytes += m->end - m->start;
			row->stack_largest_bytes = MAX(row->stack_largest_bytes, m->rss_bytes);
		}
	}
	row->heap_bytes = sums[MAPPING_HEAP];
	row->anonymous_bytes = sums[MAPPING_ANONYMOUS] + sums[MAPPING_STATIC];
	row->stack_bytes = sums[MAPPING_STACK];
	row->file_bytes = sums[MAPPING_FILES];
	row->shared_bytes = sums[MAPPING_SHARED];
	row->own_bytes = sums[MAPPING_OWN];
}
