/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Query and profile to entries. Filters are applied only here, and so is the choice of the moment.
 * Excluded sites still count in `whole`, so that a view can show the base of its percentages.
 *
 * Names are resolved only if a filter needs them.
 */
#include "analysis/query/selection.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#include "analysis/query/builtin.h"
#include "analysis/query/comparison.h"
#include "analysis/result/imported.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "model/entries.h"
#include "model/estimates.h"
#include "model/frames/languages.h"
#include "model/tags.h"
#include "util/cleanup.h"

enum { RULES_MAX = 32 };

/* The rules that a location matches; evaluated at most once per location. */
struct location_answer {
	bool known, suppressed, beyond_runtime;
	uint32_t names, owner; /* a bit per rule: matches anywhere on a stack, and as its owner */
};

struct maker {
	struct selection *selection;
	const struct profile *profile;
	struct locations *locations;
	const struct query *query;
	enum query_kinds kinds;
	VECTOR(struct location_answer) answers;
	const bool *processes;		       /* which are selected */
	const struct profile_process *process; /* the current process ... */
	struct stack_answer *stacks;	       /* ... and its results by stack */
	VECTOR(node_id) path;
	bool by_site; /* some rule is about what a site has beside its stack */
	bool failed;
};

static bool matches(const regex_t *regex, const char *text)
{
	return text && regexec(regex, text, 0, NULL, 0) == 0;
}

static struct location_answer ask_location(struct maker *m, const struct location *location)
{
	const struct filters *f = &m->query->filters;
	const struct result_frame *frame = &location->frame;
	const char *language = frame->language ? frame->language : LANGUAGE_UNKNOWN;
	struct location_answer answer = { .known = true };

	for (size_t i = 0; i < f->rules.count; i++) {
		const struct rule *rule = &f->rules.at[i];
		uint32_t bit = UINT32_C(1) << i;

		if (matches(&rule->regex, frame->full) || matches(&rule->regex, frame->function) ||
		    matches(&rule->regex, frame->file))
			answer.names |= bit;
		if (matches(&rule->regex, rule->kind == RULE_LANGUAGE ? language : frame->module))
			answer.owner |= bit;
	}
	for (size_t i = 0; i < f->suppressions.count && !answer.suppressed; i++) {
		const char *pattern = f->suppressions.at[i].pattern;

		answer.suppressed = suppression_matches(pattern, frame->full) ||
				    (frame->file && suppression_matches(pattern, frame->file)) ||
				    suppression_matches(pattern, frame->module);
	}
	if (f->builtin) {
		answer.suppressed |= builtin_suppresses(frame);
		answer.beyond_runtime = !builtin_is_runtime(frame);
	}
	return answer;
}

static struct location_answer location_answer(struct maker *m, const struct location *location)
{
	static const struct location_answer unknown = { 0 };
	size_t id = location->frame.id;

	while (m->answers.count <= id)
		if (!vector_push(&m->answers, unknown)) {
			m->failed = true;
			return unknown;
		}
	if (!m->answers.at[id].known)
		m->answers.at[id] = ask_location(m, location);
	return m->answers.at[id];
}

/* The rules that a stack matches: those of its caller plus those of its innermost frame. */
struct stack_answer {
	bool known, suppressed, beyond_runtime, has_frames;
	uint32_t names; /* a bit per rule */
	struct owner_search owner;
};

/* -1 if out of memory. */
static int ask_stack(struct maker *m, node_id node, const struct stack_answer *caller,
		     struct stack_answer *ret)
{
	struct location_chain chain = locations_of(m->locations, m->process, node);
	struct stack_answer answer = *caller;

	for (size_t i = chain.count; i > 0; i--) {
		const struct location *location = chain.at[i - 1];
		struct location_answer asked = location_answer(m, location);

		answer.names |= asked.names;
		answer.suppressed |= asked.suppressed;
		answer.beyond_runtime |= asked.beyond_runtime;
		answer.has_frames = true;
		owner_visit(&answer.owner, location);
	}
	answer.known = true;
	*ret = answer;
	return chain.at ? 0 : -1;
}

/* Stacks share callers, so each is evaluated at most once: walk up to a known one, then back down. */
static const struct stack_answer *stack_answer(struct maker *m, node_id node)
{
	struct stack_answer *answers = m->stacks;
	node_id at = node;

	m->path.count = 0;
	for (; !answers[at.v].known; at = profile_parent(m->process, at))
		if (!vector_push(&m->path, at))
			return NULL;
	for (size_t i = m->path.count; i > 0; i--) {
		node_id next = m->path.at[i - 1];

		if (ask_stack(m, next, &answers[at.v], &answers[next.v]) < 0)
			return NULL;
		at = next;
	}
	return &answers[node.v];
}

static bool begin_stacks(struct maker *m, const struct profile_process *process)
{
	free(m->stacks);
	m->process = process;
	m->stacks = calloc(process->node_count + 1, sizeof *m->stacks);
	if (m->stacks)
		m->stacks[0].known = true; /* the empty stack matches nothing */
	return m->stacks;
}

enum verdict { KEPT, LEFT_OUT, SUPPRESSED };

static bool site_fits(struct maker *m, const struct entry *e)
{
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	const char *path = profile_tag_path(e->process, e->site->tag, &scratch);

	if (!path)
		m->failed = true;
	const char *pool = profile_tag_pool(e->process, e->site->tag);
	const char *labels[PROFILE_LABELS_MAX];
	size_t count = profile_tag_label_list(e->process, e->site->tag, labels);
	const char *called = profile_entry_name(e->site);

	return path && filters_site_fits(&m->query->filters, RULE_TAG, &path, 1) &&
	       filters_site_fits(&m->query->filters, RULE_POOL, &pool, 1) &&
	       filters_site_fits(&m->query->filters, RULE_LABEL, labels, count) &&
	       filters_site_fits(&m->query->filters, RULE_ENTRY, &called, 1);
}

static enum verdict judge_stack(struct maker *m, const struct entry *e)
{
	const struct filters *f = &m->query->filters;

	if (m->by_site && !site_fits(m, e))
		return LEFT_OUT;
	if (!filters_look_at_stacks(f))
		return KEPT;
	const struct stack_answer *answer = m->process == e->process || begin_stacks(m, e->process)
						    ? stack_answer(m, e->site->node)
						    : NULL;

	if (!answer) {
		m->failed = true;
		return LEFT_OUT;
	}
	struct location_chain innermost = locations_of(m->locations, e->process, e->site->node);
	const struct location *caller = owner_informative(&answer->owner);

	if (!caller && innermost.count)
		caller = innermost.at[0];
	uint32_t of_caller = caller ? location_answer(m, caller).owner : 0;

	for (size_t i = 0; i < f->rules.count; i++) {
		uint32_t bit = UINT32_C(1) << i;
		const bool holds[RULE_KINDS] = {
			[RULE_FOCUS] = answer->names & bit,
			[RULE_IGNORE] = !(answer->names & bit),
			[RULE_MODULE] = of_caller & bit,
			[RULE_NOT_MODULE] = !(of_caller & bit),
			[RULE_LANGUAGE] = of_caller & bit,
			[RULE_TAG] = true, /* checked above */
			[RULE_POOL] = true,
			[RULE_LABEL] = true,
			[RULE_ENTRY] = true,
			[RULE_FREED_IN] = true, /* not of this stack */
		};

		if (!holds[f->rules.at[i].kind])
			return LEFT_OUT;
	}
	if (answer->suppressed || (f->builtin && answer->has_frames && !answer->beyond_runtime))
		return SUPPRESSED;
	return KEPT;
}

static bool size_fits(const struct filters *f, const struct site_numbers *n)
{
	uint64_t mean = n->calls ? n->bytes / n->calls : 0;

	return mean >= f->min_size && (f->max_size == 0 || mean <= f->max_size);
}

/* Which rule applies to numbers that are not a cost: see model/estimates.h. */
static void set_variances(struct measures *m, const struct site_numbers *n,
			  const struct site_numbers *counted)
{
	m->variance.samples = n->samples ? (float)n->samples : 1;
	m->variance.total_bytes = (float)estimate_variance(counted, VARIANCE_BYTES, counted->bytes);
	m->variance.calls = (float)estimate_variance(counted, VARIANCE_CALLS, counted->calls);
	m->variance.frees = (float)estimate_variance(counted, VARIANCE_FREES, counted->frees);
	m->variance.temporary =
		(float)estimate_variance(counted, VARIANCE_CALLS, counted->temporary_calls);
	m->variance.max_bytes = (float)estimate_variance(n, VARIANCE_BYTES, n->max_bytes);
	m->variance.waste_bytes =
		(float)estimate_variance(counted, VARIANCE_WASTE, counted->fragmentation_bytes);
	m->variance.lifetime_ms =
		(float)estimate_variance(n, VARIANCE_LIFETIME, n->lifetime_ms_sum);
	m->variance.copied_bytes =
		(float)estimate_variance(n, VARIANCE_BYTES, n->reallocs.moved_bytes);
	m->variance.realloc_calls = (float)estimate_variance(n, VARIANCE_CALLS, n->reallocs.calls);
}

static bool is_estimate(const struct site_numbers *n)
{
	return n->samples || n->calls_variance != n->live_blocks_variance;
}

/* A program may map more than a signed number counts: memory that it only reserves, again and again. */
static int64_t clamped(uint64_t number)
{
	return (int64_t)MIN(number, (uint64_t)INT64_MAX);
}

static void add_numbers(struct measures *m, const struct site_numbers *n,
			const struct site_numbers *counted, bool no_errors)
{
	struct measures part = {
		.total_bytes = clamped(counted->bytes),
		.calls = clamped(counted->calls),
		.frees = clamped(counted->frees),
		.temporary = clamped(counted->temporary_calls),
		.max_bytes = clamped(n->max_bytes),
		.waste_bytes = clamped(counted->fragmentation_bytes),
		.lifetime_ms = clamped(n->lifetime_ms_sum),
		.copied_bytes = clamped(n->reallocs.moved_bytes),
		.realloc_calls = clamped(n->reallocs.calls),
		.allocator_ns = clamped(n->allocator_ns),
		.variance.allocator_ns = (float)n->allocator_ns_variance,
	};

	if (!no_errors && is_estimate(n))
		set_variances(&part, n, counted);
	measures_add(m, &part);
}

/* Input is hostile: the value may be INT64_MIN. */
static int64_t negated(int64_t value)
{
	return value == INT64_MIN ? INT64_MAX : -value;
}

/* Blocks live at both moments count in both variances but not in that of the difference: this is an upper bound. */
static void add_live(struct measures *m, struct site_live live, struct live_variance variance,
		     int sign)
{
	struct measures part = {
		.live_bytes = sign < 0 ? negated(live.bytes) : live.bytes,
		.live_blocks = sign < 0 ? negated(live.blocks) : live.blocks,
	};

	measures_add(m, &part);
	m->variance.live_bytes += (float)variance.bytes;
	m->variance.live_blocks += (float)variance.blocks;
}

uint64_t selection_live_bound(const struct selection *s)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->profile->process_count && s->cost == COST_LIVE; i++) {
		if (s->processes[i])
			sum = saturating_add(sum, s->at[i].bound.bytes);
		if (s->processes[i] && s->minus)
			sum = saturating_add(sum, s->minus[i].bound.bytes);
	}
	return sum;
}

const bool *selection_slots(const struct selection *s, const struct profile_process *p)
{
	return s->slots ? s->slots[p - s->profile->processes] : NULL;
}

struct site_numbers selection_counted(const struct selection *s, const struct profile_process *p,
				      site_id site, const struct site_numbers *n)
{
	size_t index = (size_t)(p - s->profile->processes);

	return s->window
		       ? moments_between(&s->at[index], s->minus ? &s->minus[index] : NULL, site, n)
		       : *n;
}

struct measures selection_measures(const struct selection *s, const struct profile_process *p,
				   site_id site, const struct site_numbers *n)
{
	size_t index = (size_t)(p - s->profile->processes);
	struct site_numbers counted;
	struct measures sum = { 0 };

	if (s->window)
		counted = selection_counted(s, p, site, n);
	add_numbers(&sum, n, s->window ? &counted : n, s->no_errors);
	add_live(&sum, moment_live(&s->at[index], site, n), moment_variance(&s->at[index], site, n),
		 1);
	if (s->minus)
		add_live(&sum, moment_live(&s->minus[index], site, n),
			 moment_variance(&s->minus[index], site, n), -1);
	return sum;
}

bool selection_knows(const struct selection *s, const struct site_numbers *n)
{
	if (s->cost == COST_LIFETIME)
		return !n->has_remote_frees;
	if (cost_rows[s->cost].time != COST_OF_MOMENT)
		return true;
	if (s->asked.kind == MOMENT_PEAK || s->since.kind == MOMENT_PEAK)
		return !n->has_remote_frees;
	return !n->live_unknown;
}

bool selection_is_untimed(const struct selection *s, int64_t allocator_ns, int64_t operations)
{
	return s->cost == COST_TIME && !s->against && allocator_ns == 0 && operations > 0;
}

uint64_t selection_unjudged_mappings(const struct selection *s, const struct query *query)
{
	uint64_t most = 0;

	for (size_t i = 0; i < s->profile->process_count; i++)
		if (s->processes[i] && query->kinds != KINDS_MMAP && query->kinds != KINDS_ALL)
			most = MAX(most, s->profile->processes[i].mmap_peak_bytes);
	return most;
}

bool query_kinds_fit(enum query_kinds kinds, enum profile_kind kind)
{
	static const enum query_kinds one[PROFILE_KINDS] = { [PROFILE_HEAP] = KINDS_HEAP,
							     [PROFILE_MMAP] = KINDS_MMAP,
							     [PROFILE_POOL] = KINDS_POOL };

	return kinds == one[kind] || (kinds == KINDS_ALL && kind != PROFILE_POOL);
}

static void take_site(struct maker *m, const struct profile_process *p,
		      const struct profile_site *site, bool wanted)
{
	struct selection *s = m->selection;
	struct entry e = { .process = p, .site = site };
	struct measures all = selection_measures(s, p, site->id, &site->numbers);

	e.m = all;
	if (s->slots) {
		struct site_numbers n = selection_numbers(s, &e);

		e.m = selection_measures(s, p, site->id, &n);
	}
	measures_add(&s->whole, &all);
	if (!wanted || !size_fits(&m->query->filters, &site->numbers))
		return;
	if (s->slots && e.m.calls == 0 && (s->cost != COST_TIME || e.m.allocator_ns == 0))
		return; /* these threads allocated nothing here, or freed nothing that was timed */
	if (s->window && !e.m.calls && !e.m.frees && !e.m.live_bytes && !e.m.live_blocks)
		return; /* nothing happened here meanwhile */
	switch (judge_stack(m, &e)) {
	case KEPT:
		s->entries[s->count++] = e;
		s->unknown_sites += s->slots && selection_numbers(s, &e).live_unknown;
		measures_add(&s->sum, &e.m);
		measures_add(&s->sum_of[site->kind], &e.m);
		if (p->timed_of && e.m.allocator_ns == 0)
			s->untimed = saturating_add(s->untimed,
						    (uint64_t)e.m.calls + (uint64_t)e.m.frees);
		break;
	case SUPPRESSED:
		s->suppressed_count++;
		measures_add(&s->suppressed, &e.m);
		break;
	case LEFT_OUT:
		break;
	}
}

static bool take_all(struct maker *m)
{
	struct selection *s = m->selection;
	size_t count = 0;

	for (size_t i = 0; i < m->profile->process_count; i++)
		count += m->profile->processes[i].site_count;
	s->entries = ARENA_ARRAY(&s->arena, struct entry, count);
	if (!s->entries)
		return false;
	for (size_t i = 0; i < m->profile->process_count; i++) {
		const struct profile_process *p = &m->profile->processes[i];
		bool wanted = m->processes[i];

		for (size_t j = 0; j < p->site_count; j++)
			if (query_kinds_fit(m->kinds, p->sites[j].kind))
				take_site(m, p, &p->sites[j], wanted);
	}
	return !m->failed;
}

int selection_check_timed(const struct profile *profile, enum cost_id cost, struct error *error)
{
	if (cost != COST_TIME || profile_is_timed(profile))
		return 0;
	if (strstr(profile->options, "--time-calls"))
		return error_set(
			error,
			"no call of the allocator was timed, although --time-calls was given: "
			"--time-calls=1 times all, and the view health says if timing stopped");
	return error_set(error, "no calls of the allocator were timed: record with --time-calls");
}

static int check(const struct query *query, const struct selection *s, enum query_kinds kinds,
		 struct error *error)
{
	const struct cost_row *row = &cost_rows[s->cost];
	const struct filters *f = &query->filters;
	bool kept = query->at.kind >= MOMENT_TIME || query->minus.kind >= MOMENT_TIME;

	if (selection_check_timed(s->profile, s->cost, error) < 0 ||
	    (query->second_word && selection_check_timed(s->profile, query->second, error) < 0))
		return -1;
	if (s->cost == COST_LIFETIME && kinds == KINDS_MMAP)
		return error_set(error, "how long mappings live is not recorded");
	if (row->time == COST_OF_RUN && (query->at.kind || query->minus.kind))
		return error_set(
			error,
			"--at and --minus require a cost that snapshots keep (live, blocks, calls, "
			"total, temporary, waste or rate): %s is known for the whole run only",
			row->name);
	if (query->second_word && query->minus.kind && cost_rows[query->second].time == COST_OF_RUN)
		return error_set(error,
				 "%s is known for the whole run only: --minus does not apply",
				 query->second_word);
	if (f->thread && kept)
		return error_set(error, "--thread requires the peak or the end: other moments are "
					"kept per site, not per thread");
	if (f->rules.count > RULES_MAX)
		return error_set(error, "more than %d filters", RULES_MAX);
	if (f->max_size && f->max_size < f->min_size)
		return error_set(error, "--max-size is less than --min-size");
	return 0;
}

/* Whether any process exited: memory of a running one is not leaked. */
static bool some_leak(const struct profile *profile)
{
	for (size_t i = 0; i < profile->process_count; i++)
		if (profile_end_leaks(profile->processes[i].end))
			return true;
	return profile->process_count == 0;
}

static const char *cost_word(const struct selection *s)
{
	if (s->cost == COST_REALLOC)
		return "copied";
	if (cost_rows[s->cost].time != COST_OF_MOMENT || s->change || s->cost != COST_LIVE)
		return cost_rows[s->cost].name;
	if (s->asked.kind == MOMENT_PEAK)
		return "peak";
	return s->at_exit ? "not freed" : "live";
}

static const char *upper(struct arena *arena, const char *before, const char *word)
{
	char *text = arena_printf(arena, "%s%s", before, word);

	for (char *c = text; c && *c; c++)
		*c = (char)toupper((unsigned char)*c);
	return text;
}

/* Whether the query is about pools although it names no kind of memory. */
static bool asks_pools(const struct query *query)
{
	return (query->has_axis && query->by == AXIS_POOL) ||
	       filters_look_at(&query->filters, RULE_POOL);
}

/* The same for heap and mappings: mmap is one of the functions that a program may have called. */
static bool asks_entries(const struct query *query)
{
	return (query->has_axis && query->by == AXIS_ENTRY) ||
	       filters_look_at(&query->filters, RULE_ENTRY);
}

int selection_check(struct selection *s, const struct query *query, struct error *error)
{
	s->unmatched = NULL;
	if (!s->filtered || s->count || s->suppressed_count)
		return 0;
	const char *filters = filters_text(&query->filters, &s->arena);

	if (filters)
		s->unmatched = arena_printf(
			&s->arena,
			query->kinds && query->kinds != KINDS_HEAP
				? "nothing of that kind matches %s: '--view sites' lists all sites"
				: "nothing in the heap matches %s: '--view sites' lists all sites, "
				  "and --kind all includes mappings and pools",
			filters);
	if (!s->unmatched)
		return error_set(error, "out of memory");
	return query->must_match ? error_set(error, "%s", s->unmatched) : 0;
}

int selection_make(struct selection *selection, const struct profile *profile,
		   struct locations *locations, const struct query *query,
		   struct view_defaults defaults, struct error *error)
{
	const struct filters *f = &query->filters;
	struct moment at = query->at;

	if (query->against)
		return comparison_select(selection, locations, query, defaults, error);
	struct maker m = { .selection = selection,
			   .profile = profile,
			   .locations = locations,
			   .query = query,
			   .kinds = query->kinds	  ? query->kinds
				    : asks_pools(query)	  ? KINDS_POOL
				    : asks_entries(query) ? KINDS_ALL
							  : defaults.kinds,
			   .by_site = filters_look_at(f, RULE_TAG) ||
				      filters_look_at(f, RULE_POOL) ||
				      filters_look_at(f, RULE_LABEL) ||
				      filters_look_at(f, RULE_ENTRY) };
	int status = -1;

	*selection = (struct selection){ .profile = profile,
					 .no_errors = defaults.no_errors,
					 .locations = locations,
					 .cost = query->has_cost ? query->cost : defaults.cost,
					 .also = { query->second_word ? query->second : COST_BLOCKS,
						   COST_CALLS },
					 .duration_ns = profile->duration_ns,
					 .divisor = 1 };
	selection->filtered = f->process || filters_are_finer_than_processes(f);
	if (!at.kind)
		at.kind = query->has_cost ? MOMENT_END : defaults.at;
	if (!m.kinds)
		m.kinds = KINDS_HEAP;
	m.processes = choose_processes(profile, f->process, &selection->arena, error);
	selection->processes = m.processes;
	if (!m.processes || imported_choose(profile, query, &selection->cost, &at, error) < 0 ||
	    check(query, selection, m.kinds, error) < 0 ||
	    selection_choose_threads(selection, query, m.kinds, error) < 0 ||
	    selection_choose_known(selection, query, m.kinds, defaults, &at, error) < 0 ||
	    selection_resolve(selection, query, at, error) < 0)
		goto done;
	if (cost_rows[selection->cost].time == COST_OF_MOMENT || selection->window) {
		selection->change = query->minus.kind;
		selection->asked = at;
		selection->since = query->minus;
	}
	selection->at_exit = selection->cost == COST_LIVE && !selection->change &&
			     selection->asked.kind == MOMENT_END && some_leak(profile);
	selection->cost_word = cost_word(selection);
	selection->title = upper(&selection->arena, "", selection->cost_word);
	selection->second_title =
		query->second_word ? upper(&selection->arena, "", query->second_word) : NULL;
	selection->share_title = upper(&selection->arena, "of ",
				       selection->filtered ? "shown" : selection->cost_word);
	status = selection->title && selection->share_title && take_all(&m)
			 ? selection_check(selection, query, error)
			 : error_set(error, "out of memory");
done:
	vector_release(&m.answers);
	vector_release(&m.path);
	free(m.stacks);
	if (status < 0)
		selection_release(selection);
	return status;
}

void selection_release(struct selection *selection)
{
	arena_release(&selection->arena);
	*selection = (struct selection){ 0 };
}

struct site_numbers selection_numbers(const struct selection *s, const struct entry *e)
{
	const bool *slots = selection_slots(s, e->process);

	if (!slots)
		return e->site->numbers;
	return profile_slots_numbers(e->process, e->site, slots,
				     s->closed[e->process - s->profile->processes][e->site->kind]);
}

int64_t selection_cost(const struct selection *s, const struct measures *measures)
{
	return cost_of(s->cost, measures, s->duration_ns) / s->divisor;
}

uint64_t selection_magnitude(const struct selection *s, const struct measures *measures)
{
	return magnitude(selection_cost(s, measures));
}

struct result_value selection_value(const struct selection *s, const struct measures *measures)
{
	return selection_value_of(s, s->cost, measures);
}

int64_t selection_raw(enum cost_id cost, const struct measures *measures)
{
	return cost_of(cost == COST_RATE ? COST_CALLS : cost, measures, 0);
}

double selection_raw_variance(enum cost_id cost, const struct measures *measures)
{
	return cost_variance(cost == COST_RATE ? COST_CALLS : cost, measures, 0);
}

double selection_shown_error(const struct selection *s, enum cost_id cost, double raw_variance)
{
	double error = sqrt(fabs(raw_variance)) / (double)s->divisor;

	return cost == COST_RATE && s->duration_ns ? error * 1e9 / (double)s->duration_ns : error;
}

int64_t selection_shown(const struct selection *s, enum cost_id cost, int64_t raw)
{
	if (cost == COST_RATE)
		raw = cost_of(COST_RATE, &(struct measures){ .calls = raw }, s->duration_ns);
	return raw / s->divisor;
}

/* Calls and other costs without a moment are signed only in comparisons. */
static bool is_signed(const struct selection *s, enum cost_id cost)
{
	return s->against || (s->change && cost_rows[cost].time == COST_OF_MOMENT);
}

enum result_unit selection_unit(const struct selection *s, enum cost_id cost)
{
	return cost_unit(cost, is_signed(s, cost));
}

struct result_value selection_number(const struct selection *s, enum cost_id cost, int64_t raw,
				     double raw_variance)
{
	int64_t number = selection_shown(s, cost, raw);
	enum result_unit unit = selection_unit(s, cost);
	struct result_value value = is_signed(s, cost)
					    ? value_change(unit, number)
					    : value_number(unit, number > 0 ? (uint64_t)number : 0);

	if (!imported_knows(s->profile, cost, MOMENT_END))
		return value_unknown();

	value.error = (float)selection_shown_error(s, cost, raw_variance);
	return value;
}

struct result_value selection_value_of(const struct selection *s, enum cost_id cost,
				       const struct measures *measures)
{
	return selection_number(s, cost, selection_raw(cost, measures),
				selection_raw_variance(cost, measures));
}

enum profile_kind selection_kind(const struct selection *s)
{
	for (enum profile_kind kind = 0; kind < PROFILE_KINDS; kind++)
		if (s->sum_of[kind].calls)
			return kind;
	return PROFILE_HEAP;
}

struct sorting {
	enum cost_id cost;
	uint64_t duration_ns;
	bool change;
};

static int compare_entries(const void *left, const void *right, void *context)
{
	const struct sorting *by = context;
	const struct entry *a = left, *b = right;
	int64_t x = cost_of(by->cost, &a->m, by->duration_ns);
	int64_t y = cost_of(by->cost, &b->m, by->duration_ns);

	if (x != y)
		return x < y ? 1 : -1;
	if (a->m.live_bytes != b->m.live_bytes)
		return a->m.live_bytes < b->m.live_bytes ? 1 : -1;
	if (a->m.total_bytes != b->m.total_bytes)
		return a->m.total_bytes < b->m.total_bytes ? 1 : -1;
	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	return a->site->id.v < b->site->id.v ? -1 : a->site->id.v > b->site->id.v;
}

/* A max-heap by sort order: the last entry is at index 0. */
static void sift_down(struct entry *heap, size_t count, struct sorting *by)
{
	size_t at = 0;

	for (size_t child = 1; child < count; child = at * 2 + 1) {
		if (child + 1 < count && compare_entries(&heap[child], &heap[child + 1], by) < 0)
			child++;
		if (compare_entries(&heap[at], &heap[child], by) >= 0)
			return;
		struct entry moved = heap[at];

		heap[at] = heap[child];
		heap[child] = moved;
		at = child;
	}
}

/* Moves the first `wanted` entries to the front as a heap: every other entry is compared with the heap's last. */
static void bring_forward(struct selection *s, size_t wanted, struct sorting *by)
{
	struct entry *heap = s->entries;

	/* An array in descending order is such a heap. */
	qsort_r(heap, wanted, sizeof *heap, compare_entries, by);
	for (size_t i = 0; i < wanted / 2; i++) {
		struct entry moved = heap[i];

		heap[i] = heap[wanted - 1 - i];
		heap[wanted - 1 - i] = moved;
	}
	for (size_t i = wanted; i < s->count; i++) {
		struct entry moved = heap[i];

		if (compare_entries(&moved, &heap[0], by) >= 0)
			continue;
		heap[i] = heap[0];
		heap[0] = moved;
		sift_down(heap, wanted, by);
	}
}

void selection_sort(struct selection *s, size_t wanted)
{
	struct sorting by = { s->cost, s->duration_ns, s->change };

	wanted = MIN(wanted, s->count);
	if (wanted == 0)
		return;
	if (wanted < s->count)
		bring_forward(s, wanted, &by);
	qsort_r(s->entries, wanted, sizeof *s->entries, compare_entries, &by);
}
