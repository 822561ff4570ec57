/* SPDX-License-Identifier: Apache-2.0 */
/* links: analysis */
/* Selections split by thread and by size, against blocks that were counted one by one. */
#include "test_analysis_random.h"

#include "analysis/query/split.h"
#include "model/ages.h"
#include "model/build.h"

enum { ROUNDS = 20 };

struct fixture {
	struct random_world world;
	struct profile *profile;
	struct names *names;
	struct locations *locations;
	struct selection selection;
	struct arena arena;
	struct error error;
	enum query_kinds kinds;
};

static void begin(struct fixture *f, uint64_t seed)
{
	struct recording r = random_recording(&f->world, seed);

	f->profile = profile_new(&r, NULL);
	f->names = names_new(NULL);
	f->locations = locations_new(f->names);
	f->arena = ARENA_INIT;
	f->error = ERROR_INIT;
	f->kinds = KINDS_HEAP;
	assert_non_null(f->profile);
}

static void ask(struct fixture *f, enum cost_id cost, enum moment_kind at, const char *thread)
{
	struct query query = { .has_cost = true, .cost = cost, .kinds = f->kinds };

	query.at.kind = cost_rows[cost].time == COST_OF_MOMENT ? at : MOMENT_DEFAULT;
	query.filters.thread = thread;
	assert_int_equal(selection_make(&f->selection, f->profile, f->locations, &query,
					(struct view_defaults){ 0 }, &f->error),
			 0);
}

static void end(struct fixture *f)
{
	arena_release(&f->arena);
	locations_free(f->locations);
	names_free(f->names);
	profile_free(f->profile);
}

/* What the thread in the slot has of a cost, by the blocks that it allocated, one by one. */
static int64_t truth_of_slot(const struct random_world *w, unsigned process, unsigned slot,
			     enum cost_id cost)
{
	int64_t sum = 0;

	for (size_t i = 0; i < RANDOM_BLOCKS; i++) {
		const struct random_block *b = &w->blocks[i];

		if (b->process != process || b->slot != slot ||
		    random_kind(b->site) != LIVE_KIND_HEAP)
			continue;
		if (cost == COST_LIVE)
			sum += block_freed(b) ? 0 : (int64_t)b->size;
		else if (cost == COST_BLOCKS)
			sum += !block_freed(b);
		else if (cost == COST_TOTAL)
			sum += (int64_t)b->size;
		else if (cost == COST_CALLS)
			sum++;
		else if (cost == COST_TEMPORARY)
			sum += b->temporary;
		else if (cost == COST_WASTE)
			sum += (int64_t)b->waste;
		else if (cost == COST_REALLOC)
			sum += (int64_t)b->copied;
	}
	return sum;
}

/* Whether others freed blocks of the thread's, or it freed blocks of others. */
static bool passed_on(const struct random_world *w, unsigned process, unsigned slot)
{
	for (size_t i = 0; i < RANDOM_BLOCKS; i++) {
		const struct random_block *b = &w->blocks[i];

		if (b->process == process && block_freed(b) && b->slot != b->freer &&
		    (b->slot == slot || b->freer == slot) && random_kind(b->site) == LIVE_KIND_HEAP)
			return true;
	}
	return false;
}

/* N9: a thread's numbers are those of its own blocks, whoever freed them; what was not measured is unknown. */
static void threads_have_their_own_blocks_for_every_cost(void **state)
{
	(void)state;
	static struct fixture f;

	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		begin(&f, seed);
		for (enum cost_id cost = 0; cost < COST_TIME; cost++) { /* no calls were timed */
			enum moment_kind at = seed % 2 && cost_rows[cost].time == COST_OF_MOMENT
						      ? MOMENT_PEAK
						      : MOMENT_END;
			bool hidden = at == MOMENT_PEAK || cost == COST_LIFETIME;
			struct measures sum = { 0 };
			struct split_group *groups;
			size_t count;

			if (!cost_rows[cost].adds_up || cost == COST_RATE)
				continue;
			ask(&f, cost, at, NULL);
			assert_int_equal(
				split_by_thread(&f.selection, &f.arena, &groups, &count, &f.error),
				0);
			assert_int_equal(count, RANDOM_PROCESSES * RANDOM_SLOTS);
			for (size_t i = 0; i < count; i++) {
				unsigned process = groups[i].process->pid / 100 - 1;

				measures_add(&sum, &groups[i].m);
				assert_int_equal(
					groups[i].unknown,
					hidden && passed_on(&f.world, process, groups[i].slot));
				if (!hidden)
					assert_int_equal(selection_cost(&f.selection, &groups[i].m),
							 truth_of_slot(&f.world, process,
								       groups[i].slot, cost));
			}
			if (!hidden)
				assert_int_equal(selection_cost(&f.selection, &sum),
						 selection_cost(&f.selection, &f.selection.sum));
			selection_release(&f.selection);
		}
		end(&f);
	}
}

/* N9: so are those of a filter; at the peak only if no block went between these threads and others. */
static void a_filter_by_thread_says_the_same(void **state)
{
	(void)state;
	static struct fixture f;

	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		int64_t held = 0, peak;
		struct query query = { .has_cost = true,
				       .cost = COST_LIVE,
				       .kinds = KINDS_HEAP,
				       .at.kind = MOMENT_PEAK,
				       .filters.thread = "^thread3$" };

		begin(&f, seed);
		ask(&f, COST_LIVE, MOMENT_END, "^thread3$");
		for (unsigned i = 0; i < RANDOM_PROCESSES; i++)
			held += truth_of_slot(&f.world, i, 3, COST_LIVE);
		assert_int_equal(selection_cost(&f.selection, &f.selection.sum), held);
		selection_release(&f.selection);
		ask(&f, COST_LIVE, MOMENT_PEAK, NULL);
		peak = selection_cost(&f.selection, &f.selection.sum);
		selection_release(&f.selection);
		ask(&f, COST_LIVE, MOMENT_PEAK, "^thread");
		assert_int_equal(selection_cost(&f.selection, &f.selection.sum), peak);
		selection_release(&f.selection);
		assert_int_equal(selection_make(&f.selection, f.profile, f.locations, &query,
						(struct view_defaults){ 0 }, &f.error),
				 -1);
		end(&f);
	}
}

static void one_thread_alone_is_its_group(void **state)
{
	(void)state;
	static struct fixture f;
	struct split_group *groups;
	size_t count;

	begin(&f, 77);
	ask(&f, COST_CALLS, MOMENT_END, "^thread3$");
	assert_int_equal(split_by_thread(&f.selection, &f.arena, &groups, &count, &f.error), 0);
	assert_int_equal(count, RANDOM_PROCESSES);
	assert_string_equal(groups[1].label, "thread3 (203)");
	for (size_t i = 0; i < count; i++)
		assert_int_equal(groups[i].m.calls,
				 truth_of_slot(&f.world, (unsigned)i, 3, COST_CALLS));
	selection_release(&f.selection);
	end(&f);
}

static void sizes_are_exact_and_classes_add_up(void **state)
{
	(void)state;
	static struct fixture f;

	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		struct split_group *groups;
		struct measures sum = { 0 };
		size_t count;

		begin(&f, seed);
		f.kinds = KINDS_ALL;
		ask(&f, seed % 2 ? COST_CALLS : COST_TOTAL, MOMENT_END, NULL);
		assert_int_equal(split_by_size(&f.selection, &f.arena, &groups, &count, &f.error),
				 0);
		for (size_t i = 0; i < count; i++) {
			const struct split_group *g = &groups[i];
			uint64_t calls = 0, waste = 0, waste_calls = 0;
			bool exact = g->low == g->high;

			measures_add(&sum, &g->m);
			for (size_t j = 0; j < RANDOM_BLOCKS; j++) {
				const struct random_block *b = &f.world.blocks[j];
				struct bar bar = random_size_bar(b->size, b->site % 2 == 0);
				bool single = exact && b->site % 4 == 0;

				if (bar.low != g->low || bar.high != g->high)
					continue;
				calls++;
				waste += single ? b->waste : 0;
				waste_calls += single;
			}
			assert_int_equal(g->m.calls, calls);
			assert_true(g->m.total_bytes >= (int64_t)(g->low * calls));
			assert_true(g->m.total_bytes <= (int64_t)(g->high * calls));
			assert_true(i == 0 || groups[i - 1].low < g->low ||
				    groups[i - 1].high < g->high);
			/* A site with few blocks may have one size by chance. */
			assert_true(g->waste_calls >= waste_calls);
			assert_true(g->waste_bytes >= waste);
		}
		assert_int_equal(sum.calls, f.selection.sum.calls);
		assert_int_equal(sum.total_bytes, f.selection.sum.total_bytes);
		selection_release(&f.selection);
		end(&f);
	}
}

static void what_is_not_kept_is_refused_in_words(void **state)
{
	(void)state;
	static struct fixture f;
	struct split_group *groups;
	size_t count;

	begin(&f, 5);
	ask(&f, COST_LIVE, MOMENT_END, NULL);
	assert_int_equal(split_by_size(&f.selection, &f.arena, &groups, &count, &f.error), -1);
	assert_non_null(strstr(f.error.message, "calls and total"));
	f.selection.asked.kind = MOMENT_TIME;
	assert_int_equal(split_by_thread(&f.selection, &f.arena, &groups, &count, &f.error), -1);
	assert_non_null(strstr(f.error.message, "kept per site, not per thread"));
	selection_release(&f.selection);
	end(&f);
}

static void ages_are_of_what_is_left(void **state)
{
	(void)state;
	static struct fixture f;

	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		begin(&f, seed);
		for (unsigned p = 0; p < RANDOM_PROCESSES; p++) {
			struct profile_ages ages;

			assert_int_equal(
				profile_ages(&f.profile->processes[p], NULL, &f.arena, &ages), 0);
			assert_int_equal(ages.site_count, RANDOM_SITES + 1);
			for (unsigned site = 1; site <= RANDOM_SITES; site++) {
				uint64_t blocks = 0, oldest = 0;

				for (size_t i = 0; i < RANDOM_BLOCKS; i++) {
					const struct random_block *b = &f.world.blocks[i];

					if (b->process != p || b->site != site || block_freed(b))
						continue;
					blocks++;
					oldest = MAX(oldest, (uint64_t)RANDOM_TICKS - b->born);
				}
				uint64_t counted = 0;

				for (uint32_t i = ages.first[site]; i < ages.first[site + 1]; i++) {
					counted += ages.at[i].blocks;
					assert_true(i == ages.first[site] ||
						    ages.at[i - 1].high_ms <= ages.at[i].low_ms);
				}
				assert_int_equal(counted, blocks);
				if (blocks) {
					const struct profile_age *last =
						&ages.at[ages.first[site + 1] - 1];

					assert_in_range(oldest, last->low_ms, last->high_ms - 1);
				}
			}
		}
		end(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_have_their_own_blocks_for_every_cost),
		cmocka_unit_test(a_filter_by_thread_says_the_same),
		cmocka_unit_test(one_thread_alone_is_its_group),
		cmocka_unit_test(sizes_are_exact_and_classes_add_up),
		cmocka_unit_test(what_is_not_kept_is_refused_in_words),
		cmocka_unit_test(ages_are_of_what_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
