/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that were not recorded, as sentences: "2 programs were not recorded (statically linked): busybox, mdev". The
 * reasons and their words are format/missed.h's; here they are counted, and a few of the programs are named.
 * Pure; called once, when a profile is built.
 */
#include "model/missed.h"

#include <string.h>

#include "base/checked.h"

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
