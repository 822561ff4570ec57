/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classifies mappings. The kernel names the main heap and the main stack, and newer C libraries name theirs; the rest is recognized by
 * its shape:
 *   thread stack    writable, with a guard (no access, small, not the rest of an arena) directly below it
 *                   (glibc 2.42 has no such guard: smaps_split_at_guards recognizes its stacks)
 *   glibc arena     starts at a multiple of 64 MiB, directly followed by its unused rest (no access)
 *   static data     directly follows the writable part of a module: the loader maps it for zero-initialized variables
 * Everything else is other anonymous memory: large blocks, the program's own mappings, and the arenas of other allocators. Pure; the
 * text describes an untrusted process, but the kernel wrote it.
 */
#include "collect/kernel/smaps.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "collect/kernel/map_line.h"
#include "collect/kernel/recorded_processes.h"

#define ARENA_BYTES (64ull << 20)
#define GUARD_MAX_BYTES (1ull << 20)

/* A mapping, from its first line. */
struct head {
	struct map_line line;
	bool no_access, shared;
	bool anonymous;	 /* private, writable */
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
			      .anonymous = begins(map.permissions, "rw") &&
					   map.permissions[3] == 'p' && map.inode == 0,
			      .code = begins(map.permissions, "r-xp") && map.inode != 0,
			      .data = begins(map.permissions, "rw-p") && map.inode != 0 };
	return true;
}

/* below_is_rest: what has no access is the rest of an arena, and no guard; then this is an arena, too, perhaps one without a rest. */
static bool is_stack(const struct head *m, const struct head *below, bool below_is_rest)
{
	if (begins(m->line.name, "[stack") || begins(m->line.name, "[anon: glibc: pthread stack"))
		return true;
	return !below_is_rest && is_unnamed(m) && !m->no_access && is_unnamed(below) &&
	       below->no_access && below->line.end == m->line.start &&
	       below->line.end - below->line.start <= GUARD_MAX_BYTES;
}

static enum mapping_kind kind_of(const struct head *m, const struct head *below, bool below_is_rest)
{
	const char *name = m->line.name;

	if (begins(name, "/memfd:heapgauge") || (m->shared && recorded_file_name(name)))
		return MAPPING_OWN;
	if (m->shared)
		return MAPPING_SHARED;
	if (strcmp(name, "[heap]") == 0 || begins(name, "[anon: glibc: malloc"))
		return MAPPING_HEAP;
	if (is_stack(m, below, below_is_rest))
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

/* The unused rest of an arena identifies the mapping before it. A stack may start where an arena would: there the next stack's guard is not
 * a rest, which would reach the arena's end. */
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

/* The kernel writes a part of the file at a time, and mappings change in between: one that has grown down over others is written after
 * them. What comes later holds. */
static void end_before(struct smaps *smaps, uint64_t start)
{
	struct mapping *last;

	while (smaps->list.count > 0 && smaps->list.at[smaps->list.count - 1].start >= start)
		smaps->list.count--;
	if (smaps->list.count == 0)
		return;
	last = &smaps->list.at[smaps->list.count - 1];
	if (last->end <= start)
		return;
	last->end = start;
	last->rss_bytes = MIN(last->rss_bytes, last->end - last->start);
	last->swap_bytes = MIN(last->swap_bytes, last->end - last->start - last->rss_bytes);
}

static bool read_field(const char *line, bool is_anonymous, struct mapping *to)
{
	if (begins(line, "Rss:"))
		to->rss_bytes = kib(line + 4);
	else if (begins(line, "Swap:"))
		to->swap_bytes = kib(line + 5);
	else if (begins(line, "VmFlags:"))
		to->may_have_guards = is_anonymous && strstr(line, " nh");
	else
		return false;
	return true;
}

bool smaps_parse(char *text, struct smaps *ret)
{
	struct head now = { 0 }, code = { 0 }, next;
	struct mapping *last = NULL;
	char *rest = text, *line;
	bool now_is_rest = false; /* of the arena below it, up to that one's end */

	*ret = (struct smaps){ 0 };
	while ((line = strsep(&rest, "\n")) != NULL) {
		if (last && read_field(line, now.anonymous, last))
			continue;
		if (begins(line, "Private_Hugetlb:")) {
			ret->hugetlb_bytes = saturating_add(
				ret->hugetlb_bytes, kib(line + sizeof "Private_Hugetlb:" - 1));
		} else if (parse_head(line, &next)) {
			struct mapping mapping = { .start = next.line.start,
						   .end = next.line.end,
						   .kind = kind_of(&next, &now, now_is_rest),
						   .name = next.line.name,
						   .offset = next.line.offset,
						   .inode = next.line.inode,
						   .is_code = next.code };

			now_is_rest = last && is_rest_of_arena(&next, last);
			if (now_is_rest)
				last->kind = MAPPING_HEAP;
			now_is_rest = now_is_rest && next.line.end % ARENA_BYTES == 0;
			if (mapping.kind == MAPPING_ANONYMOUS && is_static(&next, &now, &code))
				mapping.kind = MAPPING_STATIC;
			if (next.code)
				code = next;
			end_before(ret, mapping.start);
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

/* The parts of one mapping, while its runs are passed from the bottom to the top. */
struct splitter {
	struct smaps *to;
	const struct mapping *m;
	struct mapping part;
	bool has_guard;
};

/* The next part begins at the end of this one. */
static bool end_part(struct splitter *s, uint64_t end)
{
	struct mapping part = s->part;

	part.end = end;
	s->part = *s->m;
	s->part.start = end;
	s->part.rss_bytes = s->part.swap_bytes = 0;
	return part.start >= end || vector_push(&s->to->list, part);
}

static bool add_guard(struct splitter *s, const struct page_run *run)
{
	s->has_guard = true;
	if (!end_part(s, run->start))
		return false;
	s->part.kind = MAPPING_ANONYMOUS;
	if (!end_part(s, run->end))
		return false;
	s->part.kind = MAPPING_STACK;
	return true;
}

/* Runs before the first one end below the mapping. */
static bool split(struct smaps *to, const struct mapping *m, const page_runs *runs, size_t first)
{
	struct splitter s = { .to = to, .m = m, .part = *m };
	bool added = true;

	s.part.rss_bytes = s.part.swap_bytes = 0;
	for (size_t i = first; added && i < runs->count && runs->at[i].start < m->end; i++) {
		struct page_run run = runs->at[i];

		run.start = MAX(run.start, m->start);
		run.end = MIN(run.end, m->end);
		if (run.state & PAGE_GUARD)
			added = add_guard(&s, &run);
		else if (run.state & PAGE_RESIDENT)
			s.part.rss_bytes += run.end - run.start;
		else if (run.state & PAGE_SWAPPED)
			s.part.swap_bytes += run.end - run.start;
	}
	if (!s.has_guard)
		return vector_push(&to->list, *m);
	return added && end_part(&s, m->end);
}

bool smaps_split_at_guards(struct smaps *smaps, const page_runs *runs)
{
	struct smaps made = { 0 };
	size_t run = 0;

	for (size_t i = 0; i < smaps->list.count; i++) {
		const struct mapping *m = &smaps->list.at[i];

		while (run < runs->count && runs->at[run].end <= m->start)
			run++;
		if (!(m->may_have_guards ? split(&made, m, runs, run)
					 : vector_push(&made.list, *m))) {
			smaps_release(&made);
			return false;
		}
	}
	smaps_release(smaps);
	*smaps = made;
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
