/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict. Symbolizes whole stacks only of the heaviest sites. Pure; any thread. */
#include "analysis/advice/verdict.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/advice/coverage.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "model/estimates.h"
#include "model/frames/names.h"
#include "model/frames/own_code.h"
#include "model/history.h"
#include "model/image/reach.h"
#include "model/tags.h"
#include "model/unrecorded.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/intern.h"

enum {
	SITES_MAX = 10000,	 /* heaviest sites that are attributed to owners */
	LEAST_LEFT = 128 * 1024, /* not freed, and worth a sentence */
	LEFT_SHARE = 8,		 /* ... if it is at least one in so many of the peak */
	MUCH_LEFT = 16 << 20,	 /* ... or so much */
	OWNERS_MAX = 5,
	RSS_SAMPLES = 12,
};
#define RSS_LEAST_NS UINT64_C(1000000000)

struct weighed_site {
	const struct profile_site *site;
	uint64_t bytes;
};

static int compare_weights(const void *left, const void *right)
{
	const struct weighed_site *a = left, *b = right;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return a->site < b->site ? -1 : a->site > b->site;
}

/* Which sites, and which of their numbers. */
struct weighed_by {
	size_t offset;	  /* in struct site_numbers */
	const char *pool; /* the blocks of this pool; NULL: the heap */
};

static bool is_weighed(const struct profile_process *p, const struct profile_site *site,
		       const struct weighed_by *by)
{
	if (!by->pool)
		return site->kind == PROFILE_HEAP;
	return site->kind == PROFILE_POOL && strcmp(profile_tag_pool(p, site->tag), by->pool) == 0;
}

/* Returns the number of sites that have any, at most SITES_MAX. `ret` has room for all sites. */
static size_t heaviest_sites(const struct profile_process *p, const struct weighed_by *by,
			     struct weighed_site *ret)
{
	size_t count = 0;

	for (size_t i = 0; i < p->site_count; i++) {
		struct weighed_site one = { .site = &p->sites[i] };

		memcpy(&one.bytes, (const char *)&one.site->numbers + by->offset, sizeof one.bytes);
		if (one.bytes > 0 && is_weighed(p, one.site, by))
			ret[count++] = one;
	}
	qsort(ret, count, sizeof *ret, compare_weights);
	return MIN(count, (size_t)SITES_MAX);
}

/* The owners with the largest shares of a number, among the heaviest sites. */
struct owner_share {
	const char *label;
	node_id heaviest; /* its heaviest stack */
	uint64_t bytes;
	struct site_numbers sums; /* for the standard error */
};
struct owner_shares {
	struct owner_share *at; /* the largest first; in the arena */
	size_t count;
	bool is_whole; /* no site was left out that could change a share by a percent */
};

static int compare_shares(const void *left, const void *right)
{
	const struct owner_share *a = left, *b = right;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return strcmp(a->label, b->label);
}

/* False if out of memory. */
static bool owner_shares_find(struct result *result, struct locations *locations,
			      const struct profile_process *process, struct weighed_by by,
			      uint64_t whole, struct owner_shares *ret)
{
	AUTO_FREE struct weighed_site *sites = calloc(process->site_count + 1, sizeof *sites);
	AUTO(intern_release) struct intern labels = INTERN_INIT;
	size_t count = sites ? heaviest_sites(process, &by, sites) : 0;
	uint64_t sum = 0;

	*ret = (struct owner_shares){ .at = ARENA_ARRAY(&result->arena, struct owner_share,
							count + 1) };
	if (!ret->at || !sites)
		return false;
	for (size_t i = 0; i < count; i++) {
		const char *label = stack_label(result, locations, process, sites[i].site->node);
		struct intern_entry *known =
			label ? intern_entry(&labels, span_of(label, strlen(label))) : NULL;

		if (!known)
			return false;
		if (!known->value) {
			ret->at[ret->count].label = label;
			ret->at[ret->count].heaviest = sites[i].site->node;
			known->value = &ret->at[ret->count++];
		}
		struct owner_share *share = known->value;

		share->bytes = saturating_add(share->bytes, sites[i].bytes);
		estimates_add(&share->sums, &sites[i].site->numbers);
		sum = saturating_add(sum, sites[i].bytes);
	}
	qsort(ret->at, ret->count, sizeof *ret->at, compare_shares);
	ret->is_whole = count < SITES_MAX || sum >= whole - whole / 100;
	return true;
}

/* Whether the owner is the Python interpreter, outside of all Python functions: it starts, and keeps this until the end. */
static bool is_interpreters(struct locations *locations, const struct profile_process *p,
			    const struct owner_share *share)
{
	const struct location *owner = stack_owner(locations, p, share->heaviest);

	return owner && is_python_interpreter(owner->frame.module);
}

static bool has_interpreter(const struct profile_process *p)
{
	for (size_t i = 1; i < p->module_count; i++)
		if (is_python_interpreter(p->modules[i].path))
			return true;
	return false;
}

/* Moves what the interpreter itself owns behind all others. Returns its bytes. */
static uint64_t put_interpreter_last(struct locations *locations, const struct profile_process *p,
				     struct owner_shares *shares, struct result *result)
{
	struct owner_share *last =
		ARENA_ARRAY(&result->arena, struct owner_share, shares->count + 1);
	size_t kept = 0, moved = 0;
	uint64_t sum = 0;

	for (size_t i = 0; last && i < shares->count; i++) {
		if (is_interpreters(locations, p, &shares->at[i])) {
			sum = saturating_add(sum, shares->at[i].bytes);
			last[moved++] = shares->at[i];
		} else {
			shares->at[kept++] = shares->at[i];
		}
	}
	if (moved)
		memcpy(shares->at + kept, last, moved * sizeof *last);
	return sum;
}

/* The first leak of the process, or its first other finding; NULL: none. */
static const struct finding *find_finding(const struct findings *findings,
					  const struct profile_process *p, bool is_leak)
{
	for (size_t i = 0; i < findings->count; i++)
		if (findings->at[i].process == p &&
		    (findings->at[i].rule == &rule_rows[RULE_NOT_FREED]) == is_leak)
			return &findings->at[i];
	return NULL;
}

/* "at least 51.9 %" */
static void words_share(struct words *w, const struct owner_shares *shares, size_t i,
			uint64_t whole)
{
	words_text(w, shares->is_whole ? "" : "at least ");
	words_add(w, value_percent(shares->at[i].bytes, whole));
}

static void words_owner(struct words *w, const char *how, const struct owner_shares *shares,
			uint64_t whole)
{
	if (!shares->count)
		return;
	words_text(w, ", ");
	words_share(w, shares, 0, whole);
	words_text(w, how);
	words_text(w, shares->at[0].label);
}

/* "4.2 MiB   67.6 % handle (app.py:4)", in aligned lines. */
static void describe_owners(struct sentences *s, const char *label,
			    const struct owner_shares *shares, uint64_t whole,
			    enum variance_rule variance)
{
	for (size_t i = 0; i < MIN(shares->count, (size_t)OWNERS_MAX); i++) {
		struct words w = { 0 }, more = { 0 };

		if (shares->at[i].bytes < whole / 100)
			break;
		words_add(&w, value_part(UNIT_BYTES, shares->at[i].bytes, variance,
					 &shares->at[i].sums));
		if (shares->at[i].bytes < whole / 10)
			words_text(&more, " ");
		words_share(&more, shares, i, whole);
		words_text(&more, " ");
		words_text(&more, shares->at[i].label);
		sentences_add(s, i ? "" : label, &w, &more);
		if (s->list.count)
			s->list.at[s->list.count - 1].aligned = true;
	}
}

/* The largest resident sets of each third of a run. */
struct rss_course {
	uint64_t most[3];
	bool is_known;
};

static struct rss_course rss_course_of(const struct profile_process *p)
{
	size_t count = profile_sample_count(p), known = 0;
	struct rss_course course = { 0 };

	for (size_t i = 0; i < count; i++) {
		struct profile_sample sample = profile_sample(p, i);
		size_t third = MIN((size_t)(sample.at_ns * 3 / MAX(p->duration_ns, UINT64_C(1))),
				   (size_t)2);

		if (sample.rss_bytes == 0)
			continue;
		known++;
		course.most[third] = MAX(course.most[third], sample.rss_bytes);
	}
	course.is_known = known >= RSS_SAMPLES && p->duration_ns >= RSS_LEAST_NS;
	return course;
}

/* Returns true if the resident set rose by a tenth or more in each third of the run. This does not prove growth: it may have fallen
 * since. */
static bool rss_rose(const struct rss_course *rss)
{
	return rss->is_known && rss->most[2] >= MUCH_LEFT &&
	       rss->most[1] > rss->most[0] + rss->most[0] / 10 &&
	       rss->most[2] > rss->most[1] + rss->most[1] / 10;
}

bool words_rss_rose(struct words *w, const struct profile_process *p)
{
	const struct rss_course rss = rss_course_of(p);

	if (!rss_rose(&rss))
		return false;
	text_format(w,
		    "rose: at most {} in the first third of the run, {} in the second, {} in the "
		    "last",
		    value_bytes(rss.most[0]), value_bytes(rss.most[1]), value_bytes(rss.most[2]));
	return true;
}

/* Returns true if the resident set did not rise in the last third of the run. It includes unrecorded memory. */
static bool rss_is_stable(const struct rss_course *rss)
{
	return rss->is_known &&
	       rss->most[2] <= rss->most[1] + MAX(rss->most[1] / 20, UINT64_C(1) << 20);
}

/* The pool with the most bytes when the heap was largest, if that is more than the heap; NULL: none. */
static const char *largest_pool(const struct profile_process *p, uint64_t *ret_bytes)
{
	const char *most = NULL;

	*ret_bytes = 0;
	for (uint32_t i = 1; i < profile_tag_count(p); i++) {
		struct profile_tag tag = profile_tag(p, (tag_id){ i });
		uint64_t sum = 0;

		if (tag.pools == 0 || tag.most_bytes <= p->peak_bytes)
			continue;
		for (size_t j = 0; j < p->site_count; j++)
			if (is_weighed(p, &p->sites[j], &(struct weighed_by){ 0, tag.name }))
				sum = saturating_add(sum, p->sites[j].numbers.peak_bytes);
		if (sum > p->peak_bytes && sum > *ret_bytes) {
			*ret_bytes = sum;
			most = tag.name;
		}
	}
	return most;
}

struct verdict {
	const struct profile_process *process;
	const struct finding *leak; /* NULL: none */
	struct growth growth;
	const char *growing;		/* label of the site that grows most; "": not known */
	struct owner_shares left, peak; /* of what is live at the end, and at the peak */
	uint64_t interpreters;		/* of what is live at the end: kept by Python itself */
	const char *pool_name; /* of a pool that was larger than the heap at the peak; NULL: none */
	uint64_t pool_bytes;
	struct owner_shares pool;
	struct rss_course rss;
	uint64_t arenas;  /* Python's, if what is in them was not recorded */
	const char *kind; /* see verdict.h */
};

const char *when_it_ended(const struct profile_process *p)
{
	return p->end == PROFILE_KILLED	     ? " when it was killed"
	       : p->end == PROFILE_SIGNALLED ? " when a signal ended it"
					     : " at exit";
}

static bool grows(const struct verdict *v)
{
	return v->growth.per_second > 0;
}

/* True if the heap ended the window about where it began: a trend is also bounded if memory rose and then stopped. */
static bool heap_is_stable(const struct verdict *v)
{
	enum { RISE_OF = 20, RISE_MIN = 64 << 10 };

	return v->growth.verdict == TREND_BOUNDED &&
	       v->growth.risen_bytes <=
		       (int64_t)MAX(v->process->live_bytes / RISE_OF, (uint64_t)RISE_MIN);
}

/* Heap and resident set: the latter may grow by memory that was not recorded. */
static enum trend_verdict growth_verdict(const struct verdict *v)
{
	if (grows(v))
		return TREND_GROWING;
	return heap_is_stable(v) && rss_is_stable(&v->rss) ? TREND_BOUNDED : TREND_UNKNOWN;
}

/* Whether the sentence about what is left ends with the owner of most of it. */
static bool ends_with_owner(const struct verdict *v)
{
	return v->left.count &&
	       (!grows(v) || !v->growing[0] || strcmp(v->left.at[0].label, v->growing) == 0);
}

/* " from 1.2 s to 9.8 s" */
static void words_window(struct words *w, const struct verdict *v)
{
	text_format(w, " from {} to {}", value_ns(v->growth.from_ns), value_ns(v->growth.to_ns));
}

static void words_growing(struct words *w, const struct verdict *v)
{
	text_format(w, "; it grew by {}/s", value_bytes((uint64_t)v->growth.per_second));
	words_window(w, v);
	if (v->growing[0] && (!v->left.count || strcmp(v->left.at[0].label, v->growing) != 0))
		text_format(w, ", most in {}", value_text(v->growing));
	words_text(w, ".");
}

/* Little or nothing is left. */
static void words_freed(struct words *w, const struct verdict *v, struct result_value live)
{
	const struct profile_process *p = v->process;

	if (p->live_bytes == 0)
		words_text(w, "Everything was freed");
	else
		text_format(w,
			    p->live_bytes < p->peak_bytes / LEFT_SHARE ? "All but {} had been freed"
								       : "Only {} was not freed",
			    live);
	if (p->live_bytes)
		words_text(w, when_it_ended(p));
}

static bool is_much_left(const struct verdict *v)
{
	uint64_t bytes = saturating_sub(v->process->live_bytes, v->interpreters);

	return bytes >= LEAST_LEFT &&
	       (bytes >= MUCH_LEFT || bytes >= v->process->peak_bytes / LEFT_SHARE);
}

static const char *kind_of(const struct verdict *v)
{
	if (grows(v))
		return "growing";
	if (!profile_end_leaks(v->process->end))
		return "live";
	if (v->leak)
		return "unclear";
	return is_much_left(v) ? "kept" : "freed";
}

static void words_growth_unknown(struct words *w, const struct verdict *v)
{
	words_text(w, "; growth is unknown");
	if (v->growth.moments == 0)
		words_text(w, ": there are no snapshots.");
	else if (v->growth.moments < TREND_MOMENTS)
		words_text(w, ": there are too few snapshots.");
	else
		words_text(w, ".");
}

static void words_outlook(struct words *w, const struct verdict *v)
{
	enum trend_verdict verdict = growth_verdict(v);

	if (verdict == TREND_GROWING) {
		words_growing(w, v);
	} else if (strcmp(v->kind, "freed") == 0) {
		words_text(w, ".");
	} else if (verdict == TREND_BOUNDED) {
		words_text(w, "; no growth");
		words_window(w, v);
		words_text(w, ".");
	} else {
		words_growth_unknown(w, v);
	}
}

/* Only an image tells; without one nothing is said. */
static void words_unreachable(struct words *w, const struct profile_process *p)
{
	struct profile_reach reach = profile_process_reach(p);

	if (reach_unreachable_blocks(&reach)) {
		text_format(w, " {} of it is unreachable, in ",
			    value_bytes(reach_unreachable_bytes(&reach)));
		words_count(w, reach_unreachable_blocks(&reach), " block.", " blocks.");
	} else if (profile_has_reach(p)) {
		words_text(w, " None of it is unreachable.");
	}
}

static void words_left(struct words *w, struct verdict *v)
{
	const struct profile_process *p = v->process;
	bool alive = !profile_end_leaks(p->end);
	struct result_value live =
		value_part(UNIT_BYTES, p->live_bytes, VARIANCE_LIVE_BYTES, &p->sums);

	v->kind = kind_of(v);
	if (!alive && !is_much_left(v) && !v->leak) {
		words_freed(w, v, live);
	} else {
		text_format(w, alive ? "{} live" : "{} not freed", live);
		words_text(w, alive ? "" : when_it_ended(p));
		words_owner(w, " from ", &v->left, p->live_bytes);
	}
	words_outlook(w, v);
	words_unreachable(w, p);
}

static void words_peak(struct words *w, const struct verdict *v)
{
	const struct profile_process *p = v->process;

	text_format(w, " Peak {}",
		    value_part(UNIT_BYTES, p->peak_bytes, VARIANCE_PEAK_BYTES, &p->sums));
	words_time(w, p, p->peak_at_ns);
	if (strcmp(v->kind, "freed") != 0 && ends_with_owner(v) && v->peak.count &&
	    strcmp(v->left.at[0].label, v->peak.at[0].label) == 0) {
		words_text(w, ", ");
		words_share(w, &v->peak, 0, p->peak_bytes);
		words_text(w, " from there, too");
	} else {
		words_owner(w, " in ", &v->peak, p->peak_bytes);
	}
	words_text(w, ".");
}

/* The module of the largest owner, if that has no name; NULL: it has one. */
static const char *nameless_module(struct locations *locations, const struct profile_process *p,
				   const struct owner_shares *shares)
{
	const struct location *owner =
		shares->count ? stack_owner(locations, p, shares->at[0].heaviest) : NULL;

	return owner && owner->nameless && owner->frame.module[0] ? owner->frame.module : NULL;
}

/* What brings the names that are missing. */
static void words_names(struct words *w, struct result *result, struct locations *locations,
			const struct verdict *v)
{
	const char *module = nameless_module(locations, v->process, &v->left);

	if (!module)
		module = nameless_module(locations, v->process, &v->peak);
	if (!module)
		return;
	const char *package =
		names_debug_package(locations_names(locations), module, &result->arena);

	text_format(w, " Names in {} are missing: ", value_text(path_base(module)));
	if (package)
		text_format(w, "install {}, or use heapgauge report --debuginfod.",
			    value_text(package));
	else
		words_text(w, "build it with -g, install its debug symbols, or use heapgauge "
			      "report --debuginfod.");
}

static void words_rest(struct words *w, struct result *result, struct locations *locations,
		       const struct profile *profile, const struct verdict *v,
		       const struct finding *other)
{
	const struct profile_process *p = v->process;
	struct coverage c = coverage_of_process(profile, p);

	if (v->pool_name) {
		text_format(w, " Then {} held {}", value_text(v->pool_name),
			    value_bytes(v->pool_bytes));
		words_owner(w, " in ", &v->pool, v->pool_bytes);
		words_text(w, ".");
	} else if (v->arenas > p->peak_bytes) {
		text_format(w,
			    " Python's objects took up to {} more: record --python domains shows "
			    "their lines.",
			    value_bytes(v->arenas));
	} else if (unrecorded_program_maps_peak(p) > p->peak_bytes) {
		text_format(w, " It also mapped up to {} itself, more than its heap.",
			    value_bytes(unrecorded_program_maps_peak(p)));
	}
	if (rss_rose(&v->rss) && !grows(v)) {
		words_text(w, " RSS ");
		words_rss_rose(w, p);
		words_text(w, ".");
	}
	words_names(w, result, locations, v);
	if (coverage_is_low(&c))
		text_format(w, " Only {} of its memory is in recorded blocks.",
			    value_percent(c.explained_bytes, c.anonymous_bytes));
	else if (c.is_outgrown)
		text_format(w, " RSS reached {}, which the recorded blocks do not explain.",
			    value_bytes(p->peak_rss_bytes));
	if (!other)
		return;
	text_format(w, " Also: {} in ", value_text(other->rule->title));
	words_text(w, location_label(result, other->owner));
	words_text(w, ".");
}

static struct result_value owner_value(const struct owner_shares *shares)
{
	return shares->count ? value_text(shares->at[0].label) : value_unknown();
}

static struct result_value owner_bytes(const struct owner_shares *shares)
{
	return shares->count ? value_bytes(shares->at[0].bytes) : value_unknown();
}

/* The same for machines. */
static bool add_fields(struct result *result, const struct verdict *v)
{
	struct profile_reach reach = profile_process_reach(v->process);
	bool known = profile_has_reach(v->process);
	const struct result_field fields[] = {
		{ "kind", value_text(v->kind) },
		{ "pid", value_id(v->process->pid) },
		{ "growth", value_text(trend_name(growth_verdict(v))) },
		{ "growth_from_ns", value_ns(v->growth.from_ns) },
		{ "growth_to_ns", value_ns(v->growth.to_ns) },
		{ "growth_snapshots", value_count(v->growth.moments) },
		{ "not_freed_owner", owner_value(&v->left) },
		{ "not_freed_owner_bytes", owner_bytes(&v->left) },
		{ "peak_owner", owner_value(&v->peak) },
		{ "peak_owner_bytes", owner_bytes(&v->peak) },
		{ "growing_owner",
		  grows(v) && v->growing[0] ? value_text(v->growing) : value_unknown() },
		{ "growing_bytes_per_second",
		  grows(v) ? value_bytes((uint64_t)v->growth.per_second) : value_unknown() },
		{ "unreachable_bytes",
		  known ? value_bytes(reach_unreachable_bytes(&reach)) : value_unknown() },
		{ "unreachable_blocks",
		  known ? value_count(reach_unreachable_blocks(&reach)) : value_unknown() },
	};
	const struct result_field *kept = arena_copy(&result->arena, fields, sizeof fields);

	result_head_add(result, "verdict",
			(struct result_value){ .unit = UNIT_FIELDS,
					       .fields = { kept, ARRAY_SIZE(fields) } });
	return kept != NULL;
}

bool verdict_describe(struct sentences *s, struct locations *locations,
		      const struct profile *profile, const struct profile_process *p,
		      const struct findings *findings)
{
	struct verdict v = { .process = p,
			     .leak = find_finding(findings, p, true),
			     .growth = findings_growth(findings, p) };
	struct words w = { 0 };

	if (p->calls == 0)
		return true; /* a note says why */
	const struct weighed_by left = { offsetof(struct site_numbers, live_bytes), NULL };
	const struct weighed_by peak = { offsetof(struct site_numbers, peak_bytes), NULL };
	const struct weighed_by in_pool = { peak.offset, largest_pool(p, &v.pool_bytes) };

	if (!owner_shares_find(s->result, locations, p, left, p->live_bytes, &v.left) ||
	    !owner_shares_find(s->result, locations, p, peak, p->peak_bytes, &v.peak) ||
	    (in_pool.pool &&
	     !owner_shares_find(s->result, locations, p, in_pool, v.pool_bytes, &v.pool)))
		return false;
	if (has_interpreter(p))
		v.interpreters = put_interpreter_last(locations, p, &v.left, s->result);
	v.pool_name = in_pool.pool;
	v.rss = rss_course_of(p);
	if (profile_end_leaks(p->end) && !is_much_left(&v) && !v.leak)
		v.growth = (struct growth){ 0 }; /* it was freed again */
	v.arenas = unrecorded_python_arenas(p);
	v.growing = v.growth.most ? stack_label(s->result, locations, p, v.growth.most->node) : "";
	if (!v.growing)
		return false;
	words_left(&w, &v);
	words_peak(&w, &v);
	words_rest(&w, s->result, locations, profile, &v, find_finding(findings, p, false));
	sentences_add(s, "verdict", &w, NULL);
	if (!add_fields(s->result, &v))
		return false;
	if (grows(&v) && p->live_bytes >= LEAST_LEFT)
		describe_owners(s, "left by", &v.left, p->live_bytes, VARIANCE_LIVE_BYTES);
	else
		describe_owners(s, "held by", &v.peak, p->peak_bytes, VARIANCE_PEAK_BYTES);
	describe_owners(s, "in pools", &v.pool, v.pool_bytes, VARIANCE_PEAK_BYTES);
	return true;
}
