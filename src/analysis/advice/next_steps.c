/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TABLE of next steps. Each row computes its weight from the recording: 0 if its view would
 * show nothing, and higher if it is more likely to be what the user needs. The three heaviest are
 * printed.
 */
#include "analysis/advice/next_steps.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "model/history.h"
#include "model/image/reach.h"
#include "model/memory/pages.h"

enum { STEPS = 3, MIB = 1 << 20 };

struct facts {
	const struct profile *profile;
	const struct profile_process *p;
	const struct findings *findings;
	struct growth growth;
};

static unsigned percent(uint64_t part, uint64_t whole)
{
	if (!whole)
		return 0;
	double share = (double)part * 100 / (double)whole;

	return share > 100 ? 100 : (unsigned)share;
}

static unsigned weigh_advice(const struct facts *f)
{
	return f->findings->count ? 90 : 0;
}

static void describe_advice(struct words *w, const struct facts *f)
{
	words_count(w, f->findings->count, " finding", " findings");
}

/* A server's slow growth matters more than memory that was there from the start. */
static unsigned weigh_growth(const struct facts *f)
{
	return f->growth.per_second > 0 ? 80 : 0;
}

static void describe_growth(struct words *w, const struct facts *f)
{
	words_text(w, "growing ");
	words_growth(w, &f->growth);
}

static bool has_unreachable(const struct facts *f)
{
	struct profile_reach reach = profile_process_reach(f->p);

	return reach_unreachable_blocks(&reach) > 0;
}

/* An image is made for what it says of references. */
static unsigned weigh_leaks(const struct facts *f)
{
	if (profile_has_reach(f->p) && f->p->live_bytes)
		return has_unreachable(f) ? 85 : 70;
	unsigned share = percent(f->p->live_bytes, f->p->peak_bytes);

	if (f->p->end == PROFILE_BECAME || f->p->live_bytes == 0)
		return 0;
	return f->p->live_bytes >= MIB || share >= 5 ? 40 + share / 3 : 5;
}

static void describe_leaks(struct words *w, const struct facts *f)
{
	bool alive = f->p->end == PROFILE_RUNNING;

	if (profile_has_reach(f->p))
		words_text(w, has_unreachable(f) ? "what is unreachable" : "what holds the blocks");
	else
		words_text(w, alive ? "what is live" : "what was not freed");
}

static unsigned weigh_peak(const struct facts *f)
{
	return f->p->peak_bytes ? 60 : 0;
}

static unsigned weigh_pools(const struct facts *f)
{
	for (size_t i = 0; i < f->p->site_count; i++)
		if (f->p->sites[i].kind == PROFILE_POOL)
			return 65;
	return 0;
}

static unsigned weigh_temporary(const struct facts *f)
{
	unsigned share = percent(f->p->temporary_calls, f->p->calls);

	return f->p->calls >= 100000 && share >= 20 ? 30 + share / 3 : 0;
}

static void describe_temporary(struct words *w, const struct facts *f)
{
	words_text(w, "who makes ");
	words_estimate(w, f->p->temporary_calls,
		       estimate_variance(&f->p->sums, VARIANCE_CALLS, f->p->temporary_calls),
		       " temporary allocation", " temporary allocations");
}

/* Much of the process' memory was not requested by the program. */
static unsigned weigh_memory(const struct facts *f)
{
	const struct profile_memory *m = &f->p->memory;
	unsigned share = percent(m->beyond_bytes + m->stack_bytes, m->rss_bytes);

	return m->known && m->rss_bytes >= 16 * MIB && share >= 25 ? 40 + share / 3 : 0;
}

static void describe_memory(struct words *w, const struct facts *f)
{
	text_format(w, "why the RSS is {}", value_bytes(f->p->memory.rss_bytes));
}

/* Much of it is on pages that were read, but in no block. */
static unsigned weigh_pins(const struct facts *f)
{
	struct profile_pages pages;

	if (!profile_pages(f->p, &pages) || pages.rss_bytes < 16 * MIB)
		return 0;
	unsigned share =
		percent(saturating_add(pages.free_bytes, pages.waste_bytes), pages.rss_bytes);

	return share >= 25 ? 50 + share / 3 : 0;
}

static unsigned weigh_processes(const struct facts *f)
{
	return f->profile->process_count > 2 ? 50 : 0;
}

static void describe_processes(struct words *w, const struct facts *f)
{
	words_text(w, "the tree of ");
	words_count(w, f->profile->process_count, " process", " processes");
}

static unsigned weigh_health(const struct facts *f)
{
	return f->p->health.count ? 55 : 0;
}

static unsigned weigh_timeline(const struct facts *f)
{
	return profile_sample_count(f->p) >= 10 ? 20 : 0;
}

static unsigned weigh_sites(const struct facts *f)
{
	return f->p->site_count ? 10 : 0;
}

static const struct {
	const char *options;
	unsigned (*weigh)(const struct facts *facts);
	void (*say)(struct words *words, const struct facts *facts); /* NULL: `text` is used */
	const char *text;
} steps[] = {
	{ "--view advice", weigh_advice, describe_advice },
	{ "--view growth", weigh_growth, describe_growth },
	{ "--view tree --cost peak", weigh_peak, NULL, "who holds the peak" },
	{ "--view sites --kind pool", weigh_pools, NULL, "who holds blocks of pools" },
	{ "--view leaks", weigh_leaks, describe_leaks },
	{ "--view temporary", weigh_temporary, describe_temporary },
	{ "--view memory", weigh_memory, describe_memory },
	{ "--view pins", weigh_pins, NULL, "who keeps free pages" },
	{ "--view processes", weigh_processes, describe_processes },
	{ "--view health", weigh_health, NULL, "what was lost" },
	{ "--view timeline", weigh_timeline, NULL, "over time" },
	{ "--view sites", weigh_sites, NULL, "every site" },
};

void next_steps_describe(struct sentences *sentences, const struct profile *profile,
			 const struct profile_process *largest, const struct findings *findings,
			 const struct query *query)
{
	struct facts facts = { .profile = profile,
			       .p = largest,
			       .findings = findings,
			       .growth = findings_growth(findings, largest) };
	bool said[ARRAY_SIZE(steps)] = { false };

	if (query->again && !query->again[0])
		return;
	for (size_t n = 0; n < STEPS; n++) {
		size_t best = ARRAY_SIZE(steps);
		unsigned most = 0;
		struct words w = { 0 };

		for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
			unsigned weight = said[i] ? 0 : steps[i].weigh(&facts);

			if (weight > most) {
				most = weight;
				best = i;
			}
		}
		if (best == ARRAY_SIZE(steps))
			return;
		said[best] = true;
		if (steps[best].say)
			steps[best].say(&w, &facts);
		else
			words_text(&w, steps[best].text);
		words_text(&w, arena_printf(&sentences->result->arena, " -> %s %s",
					    query->again ? query->again : "heapgauge report",
					    steps[best].options));
		sentences_add(sentences, n ? "" : "next", &w, NULL);
	}
}
