/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `threads`: what each thread allocated and freed, and cross-thread frees: blocks allocated by one thread and freed
 * by another.
 *
 * A thread's own counters are exact, and its live bytes come from the block map. If there were very many threads, some share a
 * slot: live bytes and cross-thread frees are then unknown for each. A thread that frees blocks of very many others does not
 * record their owners: what others freed of a thread is then its allocations minus its live blocks and its own frees.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/result/build.h"
#include "analysis/query/selection.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "util/cleanup.h"

#define THREAD_COLUMN_LIST(X)                                                                      \
	X(THREAD_PROCESS, "pid", "PID", UNIT_ID)                                                   \
	X(THREAD_TID, "tid", "TID", UNIT_ID)                                                       \
	X(THREAD_NAME, "name", "THREAD", UNIT_TEXT)                                                \
	X(THREAD_SLOT, "slot", NULL, UNIT_ID)                                                      \
	X(THREAD_SLOT_THREADS, "slot_threads", NULL, UNIT_COUNT)                                   \
	X(THREAD_STARTED, "started_ns", "STARTED", UNIT_NS)                                        \
	X(THREAD_CALLS, "calls", "CALLS", UNIT_COUNT)                                              \
	X(THREAD_SHARE, NULL, "OF CALLS", UNIT_PERCENT)                                            \
	X(THREAD_TOTAL, "total_bytes", "TOTAL", UNIT_BYTES)                                        \
	X(THREAD_FREES, "frees", "FREES", UNIT_COUNT)                                              \
	X(THREAD_FREED_BYTES, "freed_bytes", NULL, UNIT_BYTES)                                     \
	X(THREAD_ALLOCATOR_NS, "allocator_ns", "TIME", UNIT_NS)                                    \
	X(THREAD_HELD, "live_bytes", "HOLDS", UNIT_BYTES)                                          \
	X(THREAD_BY_OTHERS_BLOCKS, "freed_by_others_blocks", NULL, UNIT_COUNT)                     \
	X(THREAD_BY_OTHERS, "freed_by_others_bytes", "FREED BY OTHERS", UNIT_BYTES)                \
	X(THREAD_FOR_OTHERS_BLOCKS, "freed_for_others_blocks", NULL, UNIT_COUNT)                   \
	X(THREAD_FOR_OTHERS, "freed_for_others_bytes", "FOR OTHERS", UNIT_BYTES)                   \
	X(THREAD_MOSTLY, NULL, "MOSTLY OF", UNIT_TEXT)                                             \
	X(THREAD_FREED_OF, "freed_by_owner", NULL, UNIT_FIELDS)                                    \
	X(THREAD_STACK_RESERVED, "stack_reserved_bytes", NULL, UNIT_BYTES)                         \
	X(THREAD_STACK_USED, "stack_used_bytes", NULL, UNIT_BYTES)                                 \
	X(THREAD_STACK_MOST, "stack_most_bytes", NULL, UNIT_BYTES)
enum thread_column { THREAD_COLUMN_LIST(COLUMN_ID) THREAD_COLUMNS };
static const struct result_column columns[THREAD_COLUMNS] = { THREAD_COLUMN_LIST(COLUMN_ROW) };

/* Numbers by slot. */
struct slot {
	uint32_t first, threads; /* its first thread, and the number of threads */
	uint64_t by_blocks, by_bytes, for_blocks, for_bytes;
	uint64_t unknown_bytes;		 /* of unknown owners */
	bool by_unknown;		 /* by_blocks and by_bytes are unknown */
	uint32_t owners;		 /* number of owners whose blocks it freed */
	uint64_t most_bytes;		 /* the maximum over owners ... */
	uint32_t most_owner;		 /* ... and that owner */
	struct result_field *fields;	 /* {slot of the owner: {blocks, bytes}} */
	const struct site_numbers *sums; /* its counters: for standard errors */
};

struct row {
	const struct profile_process *process;
	struct profile_thread thread;
	struct slot *slot;
};

struct thread_maker {
	struct result *result;
	const struct profile *profile;
	const struct query *query;
	enum cost_id cost;
	struct row *rows;
	size_t count, shown;
	uint64_t shown_calls, shown_bytes;
	uint64_t calls, total_bytes, frees, remote_blocks, remote_bytes, unknown_blocks;
	double calls_variance, bytes_variance, shown_calls_variance, shown_bytes_variance;
	double remote_blocks_variance, remote_bytes_variance;
	bool several; /* several processes */
	bool timed;   /* calls of some were timed */
};

static bool remote_fields(struct thread_maker *m, struct slot *s, uint32_t owner,
			  const struct profile_remote_frees *f)
{
	struct arena *arena = &m->result->arena;
	const struct result_field pair[] = {
		{ "blocks", value_part(UNIT_COUNT, f->blocks, VARIANCE_FREES, s->sums) },
		{ "bytes", value_part(UNIT_BYTES, f->bytes, VARIANCE_FREED_BYTES, s->sums) },
	};
	const struct result_field *kept = arena_copy(arena, pair, sizeof pair);
	const char *name =
		owner == PROFILE_OWNER_UNKNOWN ? "unknown" : arena_printf(arena, "%u", owner);

	if (!kept || !name)
		return false;
	s->fields[s->owners++] = (struct result_field){
		name, { .unit = UNIT_FIELDS, .fields = { kept, ARRAY_SIZE(pair) } }
	};
	return true;
}

/* Derived as the remainder: allocated blocks minus live ones minus its own frees of its own blocks. */
static void derive_by_others(struct slot *s)
{
	const struct site_numbers *n = s->sums;
	uint64_t own_frees = saturating_sub(n->frees, s->for_blocks);
	uint64_t own_freed = saturating_sub(n->freed_bytes, s->for_bytes);

	s->by_unknown = n->live_unknown;
	s->by_blocks = saturating_sub(saturating_sub(n->calls, n->live_blocks), own_frees);
	s->by_bytes = saturating_sub(saturating_sub(n->bytes, n->live_bytes), own_freed);
}

static bool add_remote_frees(struct thread_maker *m, const struct profile_process *p,
			     struct slot *slots, size_t slot_count)
{
	size_t count = profile_remote_frees_count(p);
	uint64_t unknown_blocks = 0;

	for (size_t i = 0; i < count; i++) {
		struct profile_remote_frees f = profile_remote_frees(p, i);

		if (f.freer < slot_count && f.kind == PROFILE_HEAP)
			slots[f.freer].owners++;
	}
	for (size_t i = 0; i < slot_count; i++) {
		slots[i].fields =
			ARENA_ARRAY(&m->result->arena, struct result_field, slots[i].owners);
		slots[i].owners = 0;
		if (!slots[i].fields)
			return false;
	}
	for (size_t i = 0; i < count; i++) {
		struct profile_remote_frees f = profile_remote_frees(p, i);

		if (f.freer >= slot_count || f.kind != PROFILE_HEAP || f.blocks == 0)
			continue;
		struct slot *s = &slots[f.freer];

		s->for_blocks = saturating_add(s->for_blocks, f.blocks);
		s->for_bytes = saturating_add(s->for_bytes, f.bytes);
		if (f.owner < slot_count) {
			struct slot *owner = &slots[f.owner];

			owner->by_blocks = saturating_add(owner->by_blocks, f.blocks);
			owner->by_bytes = saturating_add(owner->by_bytes, f.bytes);
			if (f.bytes > s->most_bytes || s->owners == 0) {
				s->most_bytes = f.bytes;
				s->most_owner = f.owner;
			}
		} else {
			unknown_blocks = saturating_add(unknown_blocks, f.blocks);
			s->unknown_bytes = saturating_add(s->unknown_bytes, f.bytes);
		}
		m->remote_blocks = saturating_add(m->remote_blocks, f.blocks);
		m->remote_bytes = saturating_add(m->remote_bytes, f.bytes);
		m->remote_blocks_variance += estimate_variance(s->sums, VARIANCE_FREES, f.blocks);
		m->remote_bytes_variance +=
			estimate_variance(s->sums, VARIANCE_FREED_BYTES, f.bytes);
		if (!remote_fields(m, s, f.owner, &f))
			return false;
	}
	for (size_t i = 0; i < slot_count && unknown_blocks; i++)
		derive_by_others(&slots[i]);
	m->unknown_blocks = saturating_add(m->unknown_blocks, unknown_blocks);
	return true;
}

static enum variance_rule calls_rule(const struct profile_thread *t)
{
	return t->counts_all ? VARIANCE_NONE : VARIANCE_CALLS;
}

static enum variance_rule bytes_rule(const struct profile_thread *t)
{
	return t->counts_all ? VARIANCE_NONE : VARIANCE_BYTES;
}

static bool add_process(struct thread_maker *m, const struct profile_process *p, const bool *wanted)
{
	size_t slot_count = profile_slot_count(p);
	struct slot *slots = ARENA_ARRAY(&m->result->arena, struct slot, slot_count);
	const struct site_numbers *sums = profile_slot_sums(p, &m->result->arena);

	for (size_t i = 0; slots && sums && i < slot_count; i++)
		slots[i].sums = &sums[i];
	if (!slots || !sums || !add_remote_frees(m, p, slots, slot_count))
		return false;
	for (uint32_t i = 0; i < profile_thread_count(p); i++) {
		struct profile_thread t = profile_thread(p, i);
		struct slot *s = &slots[t.slot];

		if (s->threads++ == 0)
			s->first = i;
		m->calls = saturating_add(m->calls, t.calls);
		m->total_bytes = saturating_add(m->total_bytes, t.bytes);
		m->frees = saturating_add(m->frees, t.frees);
		double calls_variance = estimate_variance(s->sums, calls_rule(&t), t.calls);
		double bytes_variance = estimate_variance(s->sums, bytes_rule(&t), t.bytes);

		m->calls_variance += calls_variance;
		m->bytes_variance += bytes_variance;
		if (wanted && !wanted[i])
			continue;
		m->shown_calls_variance += calls_variance;
		m->shown_bytes_variance += bytes_variance;
		m->shown_calls = saturating_add(m->shown_calls, t.calls);
		m->shown_bytes = saturating_add(m->shown_bytes, t.bytes);
		m->timed |= p->timed_of != NULL;
		m->several |= m->count && m->rows[m->count - 1].process != p;
		m->rows[m->count++] = (struct row){ p, t, s };
	}
	return true;
}

static bool is_held_known(const struct slot *s)
{
	return s->threads == 1 && !s->sums->live_unknown;
}

static uint64_t weight(const struct thread_maker *m, const struct row *r)
{
	switch (m->cost) {
	case COST_TOTAL:
		return r->thread.bytes;
	case COST_LIVE:
		return is_held_known(r->slot) ? r->slot->sums->live_bytes : 0;
	case COST_TIME:
		return r->slot->threads == 1 ? r->slot->sums->allocator_ns : 0;
	default:
		return r->thread.calls;
	}
}

static int compare_rows(const void *left, const void *right, void *context)
{
	const struct row *a = left, *b = right;
	uint64_t x = weight(context, a), y = weight(context, b);

	if (x != y)
		return x < y ? 1 : -1;
	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	return a->thread.tid < b->thread.tid ? -1 : a->thread.tid > b->thread.tid;
}

/* The thread whose blocks it freed most, by bytes; unknown if those of unknown owners are more. */
static struct result_value mostly(struct thread_maker *m, const struct row *r)
{
	const struct slot *s = r->slot;

	if (!s->most_bytes || s->unknown_bytes >= s->most_bytes)
		return value_unknown();
	const struct slot *owner = s - r->thread.slot + s->most_owner;

	if (!owner->threads)
		return value_unknown();
	struct profile_thread t = profile_thread(r->process, owner->first);

	return value_text(arena_printf(&m->result->arena, "%s (%u)", t.name, t.tid));
}

static void fill_slot(struct thread_maker *m, const struct row *r, struct result_value *row)
{
	const struct slot *s = r->slot;

	if (is_held_known(s))
		row[THREAD_HELD] = value_part(
			UNIT_BYTES, s->sums->live_bytes,
			s->sums->has_remote_frees ? VARIANCE_BYTES : VARIANCE_LIVE_BYTES, s->sums);
	if (!s->by_unknown) {
		row[THREAD_BY_OTHERS_BLOCKS] =
			value_part(UNIT_COUNT, s->by_blocks, VARIANCE_CALLS, s->sums);
		row[THREAD_BY_OTHERS] =
			value_part(UNIT_BYTES, s->by_bytes, VARIANCE_BYTES, s->sums);
	}
	row[THREAD_FOR_OTHERS_BLOCKS] =
		value_part(UNIT_COUNT, s->for_blocks, VARIANCE_FREES, s->sums);
	row[THREAD_FOR_OTHERS] =
		value_part(UNIT_BYTES, s->for_bytes, VARIANCE_FREED_BYTES, s->sums);
	row[THREAD_MOSTLY] = mostly(m, r);
	row[THREAD_FREED_OF] =
		(struct result_value){ .unit = UNIT_FIELDS, .fields = { s->fields, s->owners } };
}

static bool fill_row(void *context, size_t index, struct result_value *row)
{
	struct thread_maker *m = context;
	const struct row *r = &m->rows[index];
	const struct profile_thread *t = &r->thread;

	for (size_t i = THREAD_HELD; i < THREAD_COLUMNS; i++)
		row[i] = value_unknown();
	row[THREAD_PROCESS] = value_id(r->process->pid);
	row[THREAD_TID] = value_id(t->tid);
	row[THREAD_NAME] = value_text(arena_strdup(&m->result->arena, t->name));
	row[THREAD_SLOT] = value_id(t->slot);
	row[THREAD_SLOT_THREADS] = value_count(r->slot->threads);
	row[THREAD_STARTED] = value_ns(t->started_ns);
	if (t->stack_reserved_bytes) {
		row[THREAD_STACK_RESERVED] = value_bytes(t->stack_reserved_bytes);
		row[THREAD_STACK_USED] = value_bytes(t->stack_used_bytes);
		row[THREAD_STACK_MOST] = value_bytes(t->stack_most_bytes);
	}
	const struct site_numbers *sums = r->slot->sums;

	row[THREAD_CALLS] = value_part(UNIT_COUNT, t->calls, calls_rule(t), sums);
	row[THREAD_SHARE] = value_percent(t->calls, m->calls);
	row[THREAD_TOTAL] = value_part(UNIT_BYTES, t->bytes, bytes_rule(t), sums);
	row[THREAD_FREES] = value_part(UNIT_COUNT, t->frees, VARIANCE_FREES, sums);
	row[THREAD_FREED_BYTES] =
		value_part(UNIT_BYTES, t->freed_bytes, VARIANCE_FREED_BYTES, sums);
	row[THREAD_ALLOCATOR_NS] =
		r->process->timed_of && r->slot->threads == 1 && sums->allocator_ns
			? value_part(UNIT_NS, sums->allocator_ns, VARIANCE_TIME, sums)
			: value_unknown();
	if (r->slot->threads == 1)
		fill_slot(m, r, row);
	return true;
}

static bool describe_left_out(struct thread_maker *m)
{
	struct result_table *t = &m->result->table;
	uint64_t calls = 0;
	struct words w = { 0 };

	if (m->shown == m->count)
		return true;
	for (size_t i = m->shown; i < m->count; i++)
		calls = saturating_add(calls, m->rows[i].thread.calls);
	words_count(&w, m->count - m->shown, " more thread with ", " more threads with ");
	words_count(&w, calls, " call, ", " calls, ");
	text_format(&w, "{} of calls (--limit N shows more)", value_percent(calls, m->calls));
	t->left_out = words_take(&w, &m->result->arena, &t->left_out_count);
	return t->left_out != NULL;
}

static bool fill_table(struct thread_maker *m)
{
	struct result_column shown[THREAD_COLUMNS];

	memcpy(shown, columns, sizeof columns);
	m->shown = MIN(m->count, m->query->limit);
	if (!m->several)
		shown[THREAD_PROCESS].title = NULL;
	if (!m->timed)
		shown[THREAD_ALLOCATOR_NS].title = NULL;
	if (!m->remote_blocks)
		shown[THREAD_BY_OTHERS].title = shown[THREAD_FOR_OTHERS].title =
			shown[THREAD_MOSTLY].title = NULL;
	return result_fill(m->result, "threads", shown, THREAD_COLUMNS, m->shown, fill_row, m) &&
	       describe_left_out(m);
}

static bool say(struct thread_maker *m)
{
	struct sentences sentences = { .result = m->result };
	struct words w = { 0 }, hands = { 0 }, shown = { 0 };

	words_headline(&w, m->result, m->profile);
	words_count(&w, m->count, " thread with ", " threads with ");
	words_estimate(&w, m->shown_calls, m->shown_calls_variance, " call for ", " calls for ");
	words_add(&w, value_estimate(value_bytes(m->shown_bytes), m->shown_bytes_variance));
	sentences_add(&sentences, NULL, &w, NULL);
	if (m->query->filters.thread || m->query->filters.process) {
		words_estimate(&shown, m->shown_calls, m->shown_calls_variance, " of ", " of ");
		words_estimate(&shown, m->calls, m->calls_variance, " call: ", " calls: ");
		words_text(&shown, filters_text(&m->query->filters, &m->result->arena));
		sentences_add(&sentences, "shown", &shown, NULL);
	}
	if (m->remote_blocks) {
		text_format(&hands,
			    "{} of freed blocks were freed by another thread than the one that "
			    "allocated them: ",
			    value_percent(m->remote_blocks, m->frees));
		words_estimate(&hands, m->remote_blocks, m->remote_blocks_variance, " block, ",
			       " blocks, ");
		words_add(&hands,
			  value_estimate(value_bytes(m->remote_bytes), m->remote_bytes_variance));
		sentences_add(&sentences, "passed on", &hands, NULL);
	}
	return sentences_end(&sentences);
}

static bool notes(struct thread_maker *m)
{
	static const char *const of_shared =
		"there were very many threads: some were counted together with earlier ones, and what "
		"those hold and pass on is not known (-)";
	static const char *const of_unknown =
		"some blocks were freed by threads that free for very many others: whose they were is "
		"not kept";
	const char *first = m->unknown_blocks ? of_unknown : NULL;
	size_t shared = 0;

	for (size_t i = 0; i < m->count; i++)
		shared += m->rows[i].slot->threads > 1;
	if (shared)
		first = first ? arena_printf(&m->result->arena, "%s; %s", of_shared, first)
			      : of_shared;
	if (shared && !first)
		return false;
	if (first)
		result_head_add(m->result, "note", value_text(first));
	return result_notes(m->result, m->profile, NULL,
			    m->calls ? first : nothing_recorded(m->profile));
}

static bool make(struct thread_maker *m, const bool *processes, bool *const *threads)
{
	size_t total = 0;

	if (!m->result)
		return false;
	for (size_t i = 0; i < m->profile->process_count; i++)
		total += profile_thread_count(&m->profile->processes[i]);
	m->rows = ARENA_ARRAY(&m->result->arena, struct row, total);
	if (!m->rows)
		return false;
	for (size_t i = 0; i < m->profile->process_count; i++)
		if (processes[i] &&
		    !add_process(m, &m->profile->processes[i], threads ? threads[i] : NULL))
			return false;
	if (m->count)
		qsort_r(m->rows, m->count, sizeof *m->rows, compare_rows, m);
	result_head_add(m->result, "thread_count", value_count(m->count));
	result_head_add(m->result, "calls",
			value_estimate(value_count(m->calls), m->calls_variance));
	result_head_add(m->result, "total_bytes",
			value_estimate(value_bytes(m->total_bytes), m->bytes_variance));
	result_head_add(m->result, "cross_thread_freed_blocks",
			value_estimate(value_count(m->remote_blocks), m->remote_blocks_variance));
	result_head_add(m->result, "cross_thread_freed_bytes",
			value_estimate(value_bytes(m->remote_bytes), m->remote_bytes_variance));
	return fill_table(m) && say(m) && notes(m);
}

static int check(const struct profile *profile, const struct query *q, struct error *error)
{
	const struct filters *f = &q->filters;

	if (f->rules.count || f->suppressions.count || f->min_size || f->max_size)
		return error_set(error,
				 "the view threads counts whole threads: the only filters it "
				 "takes are --thread and --process; '--view functions --by "
				 "thread' takes all");
	if (q->has_cost && q->cost != COST_CALLS && q->cost != COST_TOTAL && q->cost != COST_LIVE &&
	    q->cost != COST_TIME)
		return error_set(
			error,
			"the view threads takes the costs calls, total, live and time; '--view "
			"functions --by thread --cost %s' takes all",
			cost_rows[q->cost].name);
	if (q->has_cost && selection_check_timed(profile, q->cost, error) < 0)
		return -1;
	if (q->at.kind > MOMENT_END || q->at.kind == MOMENT_PEAK || q->minus.kind)
		return error_set(error, "what threads hold is known only at the end; '--view "
					"functions --by thread --at peak' shows the peak");
	return 0;
}

struct result *analyse_threads(const struct profile *profile, struct locations *locations,
			       const struct query *query, struct error *error)
{
	enum { OWN_FIELDS = 6 };
	const struct filters *f = &query->filters;
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	struct thread_maker m = { .profile = profile,
				  .query = query,
				  .cost = query->has_cost ? query->cost : COST_CALLS };
	bool *processes, **threads = NULL;

	(void)locations;
	if (check(profile, query, error) < 0)
		return NULL;
	processes = choose_processes(profile, f->process, &scratch, error);
	if (processes && f->thread)
		threads = choose_threads(profile, f->thread, &scratch, error);
	if (!processes || (f->thread && !threads))
		return NULL;
	m.result = result_begin("threads", profile, query, OWN_FIELDS);
	return result_end(m.result, make(&m, processes, threads), error);
}
