/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread part of a selection: which counters belong to the selected threads alone, and what is known of them. The
 * freeing thread counts a free, so the peak and lifetimes are unknown for threads whose blocks other threads free.
 */
#include "analysis/query/selection.h"

/* Selects the slots all of whose threads are wanted and returns the number of those threads. Wanted threads of the other
 * slots are counted in `shared`. */
static size_t take_slots(const struct profile_process *p, const bool *wanted, bool *slots,
			 size_t *shared)
{
	size_t count = 0;

	for (size_t i = 0; i < profile_thread_count(p); i++)
		slots[profile_thread(p, i).slot] |= wanted[i];
	for (size_t i = 0; i < profile_thread_count(p); i++)
		if (!wanted[i])
			slots[profile_thread(p, i).slot] = false;
	for (size_t i = 0; i < profile_thread_count(p); i++) {
		count += wanted[i] && slots[profile_thread(p, i).slot];
		*shared += wanted[i] && !slots[profile_thread(p, i).slot];
	}
	return count;
}

/* The slots of the selected threads, in the arena. */
int selection_choose_threads(struct selection *s, const struct query *query, enum query_kinds kinds,
			     struct error *error)
{
	const char *filter = query->filters.thread;
	struct arena *arena = &s->arena;
	size_t count = s->profile->process_count, taken = 0;

	if (!filter)
		return 0;
	bool **threads = choose_threads(s->profile, filter, arena, error);
	const bool **all = ARENA_ARRAY(arena, const bool *, count);
	bool(*closed)[PROFILE_KINDS] = arena_alloc(arena, count * sizeof *closed + 1);

	if (!threads)
		return -1;
	for (size_t i = 0; all && closed && i < count; i++) {
		const struct profile_process *p = &s->profile->processes[i];
		bool *slots = ARENA_ARRAY(arena, bool, profile_slot_count(p) + 1);

		all[i] = slots;
		if (!slots)
			return error_set(error, "out of memory");
		taken += take_slots(p, threads[i], slots, &s->shared_count);
		for (enum profile_kind kind = 0; kind < PROFILE_KINDS; kind++) {
			closed[i][kind] = profile_slots_closed(p, kind, slots);
			s->has_remote_frees |=
				!closed[i][kind] && s->processes[i] && query_kinds_fit(kinds, kind);
		}
	}
	s->slots = all;
	s->closed = (const bool(*)[PROFILE_KINDS])closed;
	if (!all || !closed)
		return error_set(error, "out of memory");
	return taken ? 0
		     : error_set(error,
				 "the threads that match '%s' were counted together with others, "
				 "because there were very many: '--view threads' has their totals, "
				 "and no site is known to be theirs alone",
				 filter);
}

/* Whether any thread freed blocks of another one. */
static bool any_remote_frees(const struct selection *s, enum query_kinds kinds)
{
	for (size_t i = 0; i < s->profile->process_count; i++) {
		const struct profile_process *p = &s->profile->processes[i];

		for (size_t j = 0; s->processes[i] && j < profile_remote_frees_count(p); j++)
			if (query_kinds_fit(kinds, profile_remote_frees(p, j).kind))
				return true;
	}
	return false;
}

/* Rejects costs that are unknown for some threads, unless only the view's default asks for them. */
int selection_choose_known(struct selection *s, const struct query *q, enum query_kinds kinds,
			   struct view_defaults defaults, struct moment *at, struct error *error)
{
	bool of_moment = cost_rows[s->cost].time == COST_OF_MOMENT;
	bool by_thread = q->has_axis && q->by == AXIS_THREAD && any_remote_frees(s, kinds);

	if (!s->has_remote_frees && !by_thread)
		return 0;
	if (s->has_remote_frees && (s->cost == COST_LIFETIME || defaults.lifetimes))
		return error_set(error, "how long the blocks of these threads lived is not known: "
					"others freed some of them, or they freed blocks of "
					"others; without --thread it is");
	if (!of_moment || (at->kind != MOMENT_PEAK && q->minus.kind != MOMENT_PEAK))
		return 0;
	if (q->has_cost || q->at.kind || q->minus.kind)
		return !s->has_remote_frees
			       ? 0
			       : error_set(
					 error,
					 "what these threads held at the peak is not known: others freed "
					 "some of their blocks, or they freed blocks of others; the end is "
					 "(--cost leaked), and so are --cost calls and total");
	at->kind = MOMENT_END;
	s->end_for_peak = true;
	return 0;
}
