/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes on processes that were not recorded: "2 programs were not recorded (statically linked): busybox, mdev".
 * format/missed.h defines the reasons and their texts; the code here counts them and names a few of the programs.
 * Likewise for allocators linked into programs: "jemalloc in ./server". Pure; called once, when a profile is built.
 */
#include "model/missed.h"

#include <string.h>

#include "base/checked.h"
#include "format/live/live_hooks.h"
#include "format/recording/recording.h"

enum { NAMED = 3 };

/* "a, b, c and others"; "" if no name is known. */
static const char *name_programs(const struct run_row *run, enum missed_reason reason,
				 struct arena *arena)
{
	const char *names = "";
	size_t named = 0;

	for (size_t i = 0; names && i < run->missed_count; i++) {
		const struct missed_row *row = &run->missed[i];

		if (row->reason != reason || !row->path || !row->path[0])
			continue;
		if (named == NAMED)
			return arena_printf(arena, "%s and others", names);
		names = arena_printf(arena, "%s%s%s", names, named ? ", " : ": ", row->path);
		named++;
	}
	return names;
}

ptrdiff_t missed_notes(const struct run_row *run, struct arena *arena, struct profile_note *notes)
{
	ptrdiff_t used = 0;

	for (unsigned reason = 0; reason < MISSED_COUNT; reason++) {
		const struct missed_words *words = &missed_words[reason];
		const char *names, *name, *text;
		uint64_t count = 0;

		for (size_t i = 0; i < run->missed_count; i++)
			if (run->missed[i].reason == reason)
				count = saturating_add(count, run->missed[i].count);
		if (count == 0)
			continue;
		names = name_programs(run, (enum missed_reason)reason, arena);
		name = arena_printf(arena, "missed_%s", words->name);
		text = arena_printf(arena, "%s not recorded (%s)%s",
				    count == 1 ? words->one : words->many, words->why,
				    names ? names : "");
		if (!names || !name || !text)
			return -1;
		notes[used++] = (struct profile_note){ name, text, count };
	}
	return used;
}

bool missed_program(const struct profile *profile, size_t index, struct missed_program *ret)
{
	const struct run_row *run = profile->recording ? &profile->recording->run : NULL;

	if (!run || index >= run->missed_count)
		return false;
	const struct missed_row *row = &run->missed[index];

	*ret = (struct missed_program){
		.path = row->path ? row->path : "",
		.why = missed_words[row->reason < MISSED_COUNT ? row->reason : 0].why,
	};
	return true;
}

/* ", 38.2 % of its heap and anonymous memory is in no recorded block"; "" if unknown. Recorded mappings are not
 * subtracted: an allocator's own would be counted as the program's. */
static const char *unexplained(const struct profile_process *p, struct arena *arena)
{
	const struct profile_memory *m = &p->memory;
	uint64_t whole = saturating_add(m->heap_bytes, m->anonymous_bytes);
	uint64_t rest =
		saturating_sub(whole, saturating_add(m->live_bytes, m->fragmentation_bytes));

	if (!m->known || whole == 0)
		return "";
	return arena_printf(arena,
			    ", %.1f %% of its heap and anonymous memory is in no recorded block",
			    100 * (double)rest / (double)whole);
}

/* Whether an earlier process ran the same program. */
static bool ran_before(const struct profile *profile, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (strcmp(profile->processes[i].exe, profile->processes[index].exe) == 0)
			return true;
	return false;
}

bool linked_in_is_malloc(const struct profile_process *p)
{
	const char *slash = strrchr(p->exe, '/'), *base = slash ? slash + 1 : p->exe;

	/* The recorder stores only the beginning of a long name. */
	return p->linked_in[0] && p->allocator[0] &&
	       strncmp(base, p->allocator, strlen(p->allocator)) == 0;
}

bool linked_in_has_hooks(const struct profile_process *p)
{
	return strstr(p->allocator, LIVE_HOOKS_MARK) != NULL;
}

ptrdiff_t linked_in_note(const struct profile *profile, struct arena *arena,
			 struct profile_note *ret)
{
	const char *names = "", *text;
	size_t count = 0, named = 0;

	for (size_t i = 0; names && i < profile->process_count; i++) {
		const struct profile_process *p = &profile->processes[i];

		if (!linked_in_is_malloc(p))
			continue;
		count++;
		if (named > NAMED || ran_before(profile, i))
			continue;
		const char *rest = unexplained(p, arena);

		if (named == NAMED)
			names = arena_printf(arena, "%s and others", names);
		else
			names = rest ? arena_printf(arena, "%s%s%s in %s%s", names,
						    named ? "; " : "", p->linked_in, p->exe, rest)
				     : NULL;
		named++;
	}
	if (count == 0)
		return 0;
	text = names ? arena_printf(
			       arena,
			       "%s an allocator linked in statically, which was not recorded: %s",
			       count == 1 ? "process has" : "processes have", names)
		     : NULL;
	*ret = (struct profile_note){ "unrecorded_allocators", text, count };
	return text ? 1 : -1;
}
