/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classes of mappings. The kernel names the main heap and the main stack, and newer C libraries name theirs; the rest
 * is told by shape:
 *   a thread's stack   writable, with a guard (no access, small) right below it
 *   an arena of glibc  begins at a multiple of 64 MiB, and its unused rest (no access) follows right behind it
 * What looks like neither is other anonymous memory: large blocks, the program's own mappings, zeroed data, and the
 * arenas of other allocators. Pure; the text is another process' word, but the kernel's writing.
 */
#include "collect/smaps.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "collect/map_line.h"
#include "collect/recorded.h"

#define ARENA_BYTES (64ull << 20)
#define GUARD_MAX_BYTES (1ull << 20)

enum kind { NONE, HEAP, ANONYMOUS, STACK, FILES, SHARED, OWN, KINDS };

struct mapping {
	uint64_t start, end;
	bool no_access, shared;
	const char *name; /* "" = anonymous */
	enum kind kind;	  /* where its pages are counted */
	uint64_t rss_bytes;
};

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static bool parse_head(const char *line, struct mapping *ret)
{
	struct map_line map;

	if (!map_line_parse(line, &map))
		return false;
	*ret = (struct mapping){ .start = map.start,
				 .end = map.end,
				 .no_access = begins(map.permissions, "---"),
				 .shared = map.permissions[3] == 's',
				 .name = map.name };
	return true;
}

static bool is_stack(const struct mapping *m, const struct mapping *below)
{
	if (begins(m->name, "[stack") || begins(m->name, "[anon: glibc: pthread stack"))
		return true;
	return m->name[0] == '\0' && !m->no_access && below->name && below->name[0] == '\0' &&
	       below->no_access && below->end == m->start && m->start % ARENA_BYTES != 0 &&
	       below->end - below->start <= GUARD_MAX_BYTES;
}

static enum kind kind_of(const struct mapping *m, const struct mapping *below)
{
	if (begins(m->name, "/memfd:heapgauge") || (m->shared && recorded_file_name(m->name)))
		return OWN;
	if (m->shared)
		return SHARED;
	if (strcmp(m->name, "[heap]") == 0 || begins(m->name, "[anon: glibc: malloc"))
		return HEAP;
	if (is_stack(m, below))
		return STACK;
	if (m->name[0] == '\0' || begins(m->name, "[anon"))
		return ANONYMOUS;
	return FILES; /* also what the kernel maps: [vdso] and the like */
}

/* The unused rest of an arena tells what stands before it. */
static bool is_rest_of_arena(const struct mapping *rest, const struct mapping *below)
{
	return rest->no_access && rest->name[0] == '\0' && below->kind == ANONYMOUS &&
	       below->end == rest->start && below->start % ARENA_BYTES == 0 &&
	       rest->end <= below->start + ARENA_BYTES;
}

static uint64_t kib(const char *text)
{
	return strtoull(text, NULL, 10) * 1024;
}

void smaps_sum(char *text, struct memory_row *row)
{
	uint64_t sums[KINDS] = { 0 }, rss = 0, swap = 0;
	struct mapping now = { 0 }, next;
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n")) != NULL) {
		if (begins(line, "Rss:") && now.kind != NONE) {
			now.rss_bytes = kib(line + 4);
			sums[now.kind] += now.rss_bytes;
			rss += now.rss_bytes;
		} else if (begins(line, "Swap:")) {
			swap += kib(line + 5);
		} else if (parse_head(line, &next)) {
			if (is_rest_of_arena(&next, &now)) {
				sums[ANONYMOUS] -= now.rss_bytes;
				sums[HEAP] += now.rss_bytes;
			}
			next.kind = kind_of(&next, &now);
			now = next;
		}
	}
	row->rss_bytes = rss;
	row->swap_bytes = swap;
	row->heap_bytes = sums[HEAP];
	row->anonymous_bytes = sums[ANONYMOUS];
	row->stack_bytes = sums[STACK];
	row->file_bytes = sums[FILES];
	row->shared_bytes = sums[SHARED];
	row->own_bytes = sums[OWN];
}
