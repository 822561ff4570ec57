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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES (64ull << 20)
#define GUARD_MAX_BYTES (1ull << 20)

struct mapping {
	unsigned long long start, end;
	bool no_access, shared;
	const char *name; /* "" = anonymous */
	uint64_t *class;  /* where its pages were counted */
	uint64_t rss_bytes;
};

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* A line "start-end perms offset dev inode name"; fields of a mapping have a capital and no '-'. */
static bool parse_head(const char *line, struct mapping *ret)
{
	char permissions[8] = "";
	int name = 0;

	*ret = (struct mapping){ 0 };
	if (sscanf(line, "%llx-%llx %7s %*x %*s %*u %n", &ret->start, &ret->end, permissions,
		   &name) < 3 ||
	    name == 0)
		return false;
	ret->no_access = begins(permissions, "---");
	ret->shared = permissions[3] == 's';
	ret->name = line + name;
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

static uint64_t *class_of(const struct mapping *m, const struct mapping *below,
			  struct memory_row *row)
{
	if (begins(m->name, "/memfd:heapgauge"))
		return &row->own_bytes;
	if (m->shared)
		return &row->shared_bytes;
	if (strcmp(m->name, "[heap]") == 0 || begins(m->name, "[anon: glibc: malloc"))
		return &row->heap_bytes;
	if (is_stack(m, below))
		return &row->stack_bytes;
	if (m->name[0] == '\0' || begins(m->name, "[anon"))
		return &row->anonymous_bytes;
	return &row->file_bytes; /* also what the kernel maps: [vdso] and the like */
}

/* The unused rest of an arena tells what stands before it. */
static void move_arena(const struct mapping *rest, const struct mapping *below,
		       struct memory_row *row)
{
	if (rest->no_access && rest->name[0] == '\0' && below->class == &row->anonymous_bytes &&
	    below->end == rest->start && below->start % ARENA_BYTES == 0 &&
	    rest->end <= below->start + ARENA_BYTES) {
		row->anonymous_bytes -= below->rss_bytes;
		row->heap_bytes += below->rss_bytes;
	}
}

static uint64_t kib(const char *text)
{
	return strtoull(text, NULL, 10) * 1024;
}

void smaps_sum(char *text, struct memory_row *row)
{
	struct mapping now = { 0 }, next;
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n")) != NULL) {
		if (begins(line, "Rss:") && now.class) {
			now.rss_bytes = kib(line + 4);
			*now.class += now.rss_bytes;
			row->rss_bytes += now.rss_bytes;
		} else if (begins(line, "Swap:")) {
			row->swap_bytes += kib(line + 5);
		} else if ((line[0] < 'A' || line[0] > 'Z') && parse_head(line, &next)) {
			move_arena(&next, &now, row);
			next.class = class_of(&next, &now, row);
			now = next;
		}
	}
}
