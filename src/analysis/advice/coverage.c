/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explained memory is in recorded blocks and mappings, in the overhead of the allocator that serves them, or inherited by a forked child.
 * Static data is not allocated and counts on neither side. Pure functions; any thread.
 */
#include "analysis/advice/coverage.h"

#include "base/checked.h"
#include "model/history.h"
#include "model/image/reach.h"
#include "model/missed.h"
#include "model/unrecorded.h"

#define MIB (1ull << 20)
enum { ENOUGH_PERCENT = 90 };
/* Loaders, thread tables and the like take a few hundred KiB in every process, even in one that allocates nothing. */
#define FEW_BYTES (4 * MIB)
/* Without any memory sheet: a process this small cannot hide much unrecorded memory. */
#define SMALL_RSS_BYTES (32 * MIB)

static uint64_t missing(const struct coverage *c)
{
	return c->anonymous_bytes - c->explained_bytes;
}

bool coverage_is_low(const struct coverage *c)
{
	return c->known && missing(c) >= FEW_BYTES &&
	       c->explained_bytes < c->anonymous_bytes / 100 * ENOUGH_PERCENT;
}

static struct coverage coverage_of(const struct profile_process *p, const struct profile_memory *m)
{
	uint64_t anonymous = saturating_sub(m->private_bytes, m->static_bytes);
	struct coverage c = {
		.known = m->known && m->has_parts,
		.at_ns = m->at_ns,
		.anonymous_bytes = anonymous,
		.explained_bytes = saturating_sub(anonymous, m->unrecorded_bytes),
	};

	if (linked_in_is_malloc(p) && !coverage_is_low(&c))
		c.known = false;
	/* All that is missing may have been allocated or released while the sheet was read. */
	if (coverage_is_low(&c)) {
		c.explained_bytes =
			MIN(anonymous, saturating_add(c.explained_bytes, m->changed_bytes));
		c.known = coverage_is_low(&c);
		c.is_unsteady = !c.known;
	}
	return c;
}

/* A smaller process does not explain the memory that came later. */
static bool is_as_large(const struct coverage *c, const struct coverage *than)
{
	return c->anonymous_bytes + FEW_BYTES >= than->anonymous_bytes ||
	       c->anonymous_bytes >= than->anonymous_bytes / 100 * ENOUGH_PERCENT;
}

/* Returns true if the last sheet shows missing memory, or cannot show that there is none. */
static bool is_doubtful(const struct coverage *last)
{
	return last->is_unsteady || coverage_is_low(last);
}

/* True if the process had much more memory than at each look, and the records do not explain it. */
static bool is_outgrown(const struct profile *profile, const struct profile_process *p)
{
	return unrecorded_growth_of(profile, p).bytes > 0;
}

struct coverage coverage_of_process(const struct profile *profile, const struct profile_process *p)
{
	struct coverage last = coverage_of(p, &p->memory);
	struct unrecorded_gap gap;

	if (p->memory.has_parts && unrecorded_is_reported(profile, p, &gap))
		return (struct coverage){ .known = true,
					  .at_ns = gap.at_ns,
					  .anonymous_bytes = gap.whole_bytes,
					  .explained_bytes = gap.whole_bytes - gap.missing_bytes };
	/* A single sheet may be wrong, because blocks and pages are not read at the same moment. */
	for (size_t i = profile_memory_count(p); i > 0; i--) {
		struct profile_memory memory = profile_memory_at(p, i - 1);
		struct coverage c = coverage_of(p, &memory);

		if (!is_doubtful(&last))
			break;
		if (c.known && !coverage_is_low(&c) && is_as_large(&c, &last))
			last = c;
	}
	if (!coverage_is_low(&last) && is_outgrown(profile, p)) {
		last.known = false;
		last.is_outgrown = true;
	}
	return last;
}

uint64_t coverage_missing_bytes(const struct profile *profile, const struct profile_process *p)
{
	struct coverage c = coverage_of_process(profile, p);

	if (c.is_outgrown)
		return unrecorded_growth_of(profile, p).bytes;
	return coverage_is_low(&c) ? missing(&c) : 0;
}

bool coverage_supports(const struct profile *profile, const struct profile_process *p)
{
	struct coverage c = coverage_of_process(profile, p);

	if (c.known || c.is_outgrown)
		return c.known && !coverage_is_low(&c);
	return saturating_sub(p->peak_rss_bytes, p->own_bytes) < SMALL_RSS_BYTES + p->peak_bytes;
}

static void words_outgrown(struct words *w, const struct profile *profile,
			   const struct profile_process *p)
{
	struct unrecorded_growth growth = unrecorded_growth_of(profile, p);

	text_format(w, "unknown: RSS reached {}, but was {} when the memory was last read",
		    value_bytes(p->peak_rss_bytes), value_bytes(growth.look_rss_bytes));
	words_time(w, p, growth.look_at_ns);
}

/* Why the coverage is unknown. */
static const char *unknown_reason(const struct profile_process *p, const struct coverage *c)
{
	if (p->memory.has_parts && linked_in_is_malloc(p))
		return "the blocks of the program's own allocator were not recorded";
	if (c->is_unsteady)
		return "the memory changed while it was read";
	if (p->memory.known)
		return "the recording does not say whose its memory was";
	if (profile_has_reach(p))
		return "images have no breakdown of the resident memory";
	return p->end == PROFILE_RUNNING ? "the memory of the process was not read"
					 : "the process ended before its memory was read";
}

static void words_nearly_all(struct words *w, const struct profile_process *p,
			     const struct coverage *c)
{
	if (missing(c))
		text_format(w, "all but {} of the anonymous memory", value_bytes(missing(c)));
	else
		words_text(w, "all anonymous memory");
	words_text(w, " is explained by what was recorded");
	/* Later there was more. */
	if (p->peak_rss_bytes > saturating_add(p->memory.rss_bytes, FEW_BYTES))
		words_time(w, p, c->at_ns);
}

static void words_part(struct words *w, const struct profile_process *p, const struct coverage *c)
{
	words_text(w, coverage_is_low(c) ? "only " : "");
	text_format(w, "{} of the anonymous memory is explained by what was recorded",
		    value_percent(c->explained_bytes, c->anonymous_bytes));
	words_time(w, p, c->at_ns);
	text_format(w, "; {} are in no recorded block", value_bytes(missing(c)));
}

void coverage_describe(struct sentences *s, const struct profile *profile,
		       const struct profile_process *p, const struct coverage *c)
{
	struct words w = { 0 };

	if (c->is_outgrown)
		words_outgrown(&w, profile, p);
	else if (!c->known)
		text_format(&w, "unknown: {}", value_text(unknown_reason(p, c)));
	else if (missing(c) < FEW_BYTES)
		words_nearly_all(&w, p, c);
	else
		words_part(&w, p, c);
	sentences_add(s, "coverage", &w, NULL);
}
