/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evidence, from strong to weak: a file that contains an allocator whose code mapped a good part of the missing memory; a
 * file observed to be bound past the recorder; calls that a file could make. The contents of a file alone are no evidence:
 * if all memory is accounted for, nothing is reported, whatever is loaded.
 *
 * Pure; any thread.
 */
#include "model/unrecorded.h"

#include <math.h>

#include <string.h>

#include "base/checked.h"
#include "format/recording/rows.h"
#include "model/frames/own_code.h"
#include "model/history.h"
#include "model/missed.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/text/units.h"

#define LARGE_BYTES (4ull << 20)
enum { LARGE_PART = 10, HEADER_BYTES = 16, NAMED = 3, GENERATIONS_MAX = 256 };

/* How likely a reason is. Observed facts rank above what a file could do. */
enum {
	LIKELY_MAPPED = 1000, /* plus up to 100 by the share it mapped */
	LIKELY_BOUND = 900,
	LIKELY_OTHERWISE = 700, /* an allocator that bypasses mmap() */
	LIKELY_CALLED = 600,
	LIKELY_LATE = 550,
	LIKELY_LOOKED_UP = 500,
	LIKELY_BRK = 450,
	LIKELY_SMALL = 300, /* an allocator that mapped little */
	LIKELY_MERELY = 100,
};

/* Allocators and runtimes, whose mappings are not the program's own. */
static uint64_t heaps(void)
{
	return unrecorded_of_class(UNRECORDED_ALLOCATOR) | unrecorded_of_class(UNRECORDED_RUNTIME);
}

/* Heaps whose mappings count as recorded: Python's arenas have the stacks of the functions that needed them, and the summary explains how
 * to record what is inside. */
static uint64_t recorded_heaps(void)
{
	return UNRECORDED_BIT(cpython);
}

/* Returns the findings in a file, without heaps whose mappings count as recorded and allocators inside such a runtime: Python 3.13 contains
 * mimalloc. */
static uint64_t unrecorded_in(const struct unrecorded_row *row)
{
	return unrecorded_most_specific(row->found) & ~recorded_heaps();
}

/* The findings in the file of a module; 0: none. */
static uint64_t found_in(const struct profile_process *p, const char *path)
{
	for (size_t i = 0; i < p->rows->unrecorded_count; i++)
		if (strcmp(p->rows->unrecorded[i].path, path) == 0)
			return unrecorded_in(&p->rows->unrecorded[i]);
	return 0;
}

/* The file whose code called mmap; "": unknown. Uses the node of the rows: the interpreter's own frames are folded. */
static const char *mapper_of(const struct profile_process *p, const struct profile_site *site)
{
	node_id node = { p->rows->sites[site->id.v].node };
	struct profile_frame frame = profile_innermost(p, node);

	return frame.mark == MARK_NONE && frame.module.v < p->module_count
		       ? p->modules[frame.module.v].path
		       : "";
}

/* Bytes mapped by files that contain heaps, or by the others; an upper bound, since it sums the maxima of sites. */
static uint64_t mapped_by(const struct profile_process *p, bool with_heap)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->site_count; i++) {
		const struct profile_site *site = &p->sites[i];

		if (site->kind == PROFILE_MMAP &&
		    ((found_in(p, mapper_of(p, site)) & heaps()) != 0) == with_heap)
			sum = saturating_add(sum, site->numbers.max_bytes);
	}
	return sum;
}

static uint64_t mapped_by_file(const struct profile_process *p, const char *path)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->site_count; i++)
		if (p->sites[i].kind == PROFILE_MMAP &&
		    strcmp(mapper_of(p, &p->sites[i]), path) == 0)
			sum = saturating_add(sum, p->sites[i].numbers.max_bytes);
	return sum;
}

uint64_t unrecorded_python_arenas(const struct profile_process *p)
{
	bool unknown =
		p->rows->process.health[HEALTH_python_unknown]; /* its domains cannot be recorded */
	uint64_t sum = 0;

	for (size_t i = 0; i < p->site_count && !p->has_python_pools && !unknown; i++)
		if (p->sites[i].kind == PROFILE_MMAP &&
		    is_python_interpreter(mapper_of(p, &p->sites[i])))
			sum = saturating_add(sum, p->sites[i].numbers.max_bytes);
	sum = MIN(sum, p->mmap_peak_bytes);
	return sum >= LARGE_BYTES ? sum : 0;
}

uint64_t unrecorded_program_maps_peak(const struct profile_process *p)
{
	bool is_libc = strcmp(p->allocator, "glibc") == 0 || strcmp(p->allocator, "musl") == 0;

	if (!is_libc || p->linked_in[0] || mapped_by(p, true) > 0)
		return 0;
	for (size_t i = 0; i < p->site_count; i++)
		if (p->sites[i].kind == PROFILE_MMAP &&
		    is_python_interpreter(mapper_of(p, &p->sites[i])))
			return 0;
	return p->mmap_peak_bytes;
}

/* ---- how much ---- */

/* An upper bound for what the allocator needed for everything recorded. */
static uint64_t heap_needed(const struct profile_process *p)
{
	uint64_t fragmentation = 0, spread = (uint64_t)(2 * sqrt(p->sums.peak_bytes_variance));
	uint64_t headers = saturating_mul(p->peak_blocks, HEADER_BYTES);

	for (size_t i = 0; i < profile_memory_count(p); i++)
		fragmentation = MAX(fragmentation, profile_memory_at(p, i).fragmentation_bytes);
	return saturating_add(saturating_add(p->peak_bytes, spread),
			      saturating_add(fragmentation, headers));
}

/* The recorded process that this one was forked from; NULL: none. Searches backwards: the latest process with that pid is the
 * parent, and usually near. */
static const struct profile_process *forked_from(const struct profile *profile,
						 const struct profile_process *p)
{
	for (size_t i = (size_t)(p - profile->processes); i-- > 0;) {
		const struct profile_process *q = &profile->processes[i];

		if (q->pid == p->ppid && strcmp(q->exe, p->exe) == 0 &&
		    strcmp(q->command, p->command) == 0)
			return q;
	}
	return NULL;
}

/* An upper bound for what the records explain: of the process, and of those whose memory it inherited by fork. */
static uint64_t accounted_for(const struct profile *profile, const struct profile_process *p)
{
	uint64_t sum = 0;

	/* Processes are ordered by start, so each step leads to an earlier one. */
	for (unsigned steps = 0; p && steps < GENERATIONS_MAX; steps++, p = forked_from(profile, p))
		sum = saturating_add(sum, saturating_add(heap_needed(p), mapped_by(p, false)));
	return sum;
}

/* The bounds that all memory sheets of a process are compared with. */
struct most {
	uint64_t recorded;	  /* needed for its blocks and mappings, at any moment */
	uint64_t accounted_for;	  /* plus inherited by fork, and static data */
	uint64_t heap_needed;	  /* needed for its blocks alone */
	uint64_t mapped_by_heaps; /* a sheet counts these mappings as the program's */
};

static struct most most_of(const struct profile *profile, const struct profile_process *p)
{
	struct most most = {
		.recorded = saturating_add(heap_needed(p), mapped_by(p, false)),
		.accounted_for = accounted_for(profile, p),
		.heap_needed = heap_needed(p),
		.mapped_by_heaps = mapped_by(p, true),
	};

	for (size_t i = 0; i < p->rows->unrecorded_count; i++)
		most.accounted_for =
			saturating_add(most.accounted_for, p->rows->unrecorded[i].zeroed_bytes);
	return most;
}

static struct unrecorded_gap gap_of(const struct profile_memory *m, const struct most *most,
				    uint64_t whole, uint64_t missing)
{
	missing = MIN(missing, whole);
	return (struct unrecorded_gap){
		.known = true,
		.at_ns = m->at_ns,
		.whole_bytes = whole,
		.missing_bytes = missing,
		.heap_bytes = MIN(missing, saturating_sub(m->heap_bytes, most->heap_needed)),
	};
}

/* The least gap by the sheet's own parts. Memory in an allocator's own mappings is allocator memory, whoever allocated it. */
static struct unrecorded_gap gap_on(const struct profile_memory *m, const struct most *most)
{
	uint64_t in_heaps = MIN(m->mapped_bytes, most->mapped_by_heaps);
	uint64_t unrecorded = saturating_sub(m->unrecorded_bytes, m->changed_bytes);

	return gap_of(m, most, saturating_sub(m->private_bytes, m->static_bytes),
		      saturating_add(unrecorded, in_heaps));
}

/* The part that nothing recorded at any moment could explain. This bound does not depend on the order of the sheet's readings. */
static struct unrecorded_gap least_gap_on(const struct profile_memory *m, const struct most *most)
{
	uint64_t whole = saturating_add(m->heap_bytes, m->anonymous_bytes);
	uint64_t other = saturating_add(m->static_bytes, m->inherited_bytes);

	if (!m->has_parts)
		return gap_of(m, most, whole, saturating_sub(whole, most->accounted_for));
	struct unrecorded_gap gap =
		gap_of(m, most, saturating_sub(whole, m->static_bytes),
		       saturating_sub(whole, saturating_add(other, most->recorded)));
	uint64_t elsewhere = gap_on(m, most).missing_bytes;

	/* What is not missing in mappings elsewhere is in the allocator's heap, even if recorded blocks are there too. */
	gap.heap_bytes = MAX(gap.heap_bytes,
			     MIN(m->heap_bytes, saturating_sub(gap.missing_bytes, elsewhere)));
	return gap;
}

struct unrecorded_gap unrecorded_gap_of(const struct profile *profile,
					const struct profile_process *p)
{
	struct most most = most_of(profile, p);
	struct unrecorded_gap gap = { 0 }, largest = { 0 }, second = { 0 };

	if (strcmp(p->mode, "dormant") == 0)
		return gap;
	for (size_t i = 0; i < profile_memory_count(p); i++) {
		struct profile_memory m = profile_memory_at(p, i);
		struct unrecorded_gap least = least_gap_on(&m, &most), own = gap_on(&m, &most);

		if (!gap.known || least.missing_bytes >= gap.missing_bytes)
			gap = least;
		if (!m.has_parts)
			continue;
		if (own.missing_bytes >= largest.missing_bytes) {
			second = largest;
			largest = own;
		} else if (own.missing_bytes >= second.missing_bytes) {
			second = own;
		}
	}
	/* A gap on two sheets is certain. On a single one, a thread may have been between removing a record and unmapping the memory. */
	second.is_certain = true;
	return second.known && second.missing_bytes >= gap.missing_bytes ? second : gap;
}

/* The most that the process may have had after the look, with recorded blocks and mappings, the recorder and files. */
static uint64_t most_since(const struct profile_process *p, const struct profile_memory *m,
			   const struct most *most)
{
	uint64_t other = saturating_add(m->static_bytes, m->inherited_bytes);
	uint64_t recorded =
		saturating_sub(m->private_bytes, saturating_add(other, m->unrecorded_bytes));

	uint64_t files = saturating_add(m->file_bytes, m->shared_bytes);
	uint64_t most_bytes = m->rss_bytes;

	most_bytes = saturating_add(most_bytes, saturating_sub(p->own_bytes, m->own_bytes));
	most_bytes = saturating_add(most_bytes, saturating_sub(most->recorded, recorded));
	return saturating_add(most_bytes, saturating_sub(p->rows->process.peak_file_bytes, files));
}

struct unrecorded_growth unrecorded_growth_of(const struct profile *profile,
					      const struct profile_process *p)
{
	struct most most = most_of(profile, p);
	struct unrecorded_growth growth = { 0 };
	uint64_t explained = 0;

	if (p->end == PROFILE_RUNNING || strcmp(p->mode, "dormant") == 0)
		return growth;
	for (size_t i = 0; i < profile_memory_count(p); i++) {
		struct profile_memory m = profile_memory_at(p, i);

		if (!m.has_parts)
			continue;
		explained = MAX(explained, most_since(p, &m, &most));
		if (m.rss_bytes >= growth.look_rss_bytes) {
			growth.look_rss_bytes = m.rss_bytes;
			growth.look_at_ns = m.at_ns;
		}
	}
	if (explained == 0 || p->peak_rss_bytes <= explained ||
	    p->peak_rss_bytes - explained <= LARGE_BYTES ||
	    p->peak_rss_bytes - explained <= p->peak_rss_bytes / LARGE_PART)
		return (struct unrecorded_growth){ 0 };
	growth.bytes = p->peak_rss_bytes - explained;
	return growth;
}

bool unrecorded_gap_is_large(struct unrecorded_gap gap)
{
	return gap.missing_bytes > LARGE_BYTES && gap.missing_bytes > gap.whole_bytes / LARGE_PART;
}

/* ---- why ---- */

static unsigned weigh_heap(uint64_t found, uint64_t mapped, const struct unrecorded_gap *gap)
{
	mapped = MIN(mapped, gap->missing_bytes);
	if (mapped > 0 && mapped >= gap->missing_bytes / 4)
		return LIKELY_MAPPED +
		       (unsigned)(100 * (double)mapped / (double)gap->missing_bytes);
	return found & (UNRECORDED_BIT(sbrk) | UNRECORDED_BIT(raw_mmap) | UNRECORDED_BIT(go))
		       ? LIKELY_OTHERWISE
		       : LIKELY_SMALL;
}

static unsigned weigh_bypass(enum unrecorded is, const struct unrecorded_gap *gap)
{
	bool in_heap = gap->heap_bytes >= gap->missing_bytes / 2;

	switch (is) {
	case UNRECORDED_deepbind:
	case UNRECORDED_namespace:
		return LIKELY_BOUND;
	case UNRECORDED_libc_malloc:
	case UNRECORDED_own_names:
		return LIKELY_CALLED;
	case UNRECORDED_dlsym_libc:
		return LIKELY_LOOKED_UP;
	case UNRECORDED_sbrk:
		return in_heap ? LIKELY_BRK : 0;
	case UNRECORDED_raw_mmap:
		return in_heap ? 0 : LIKELY_BRK;
	default:
		return 0; /* a mere possibility is no reason */
	}
}

static const char *sentence(enum unrecorded is, const char *path, struct arena *arena)
{
	char text[UNRECORDED_SENTENCE_MAX];

	unrecorded_format(is, path, text);
	return arena_printf(arena, "%s", text);
}

/* A possible explanation of the missing bytes. */
struct reason {
	const char *module;    /* path of the file; "": none */
	const char *text;      /* what happens and why */
	const char *remedy;    /* what to do */
	uint64_t mapped_bytes; /* mapped by code of the file */
	unsigned likely;       /* larger is more likely */
};

/* Finds the most likely reason; texts are in the arena. */
struct search {
	struct arena *arena;
	struct reason best; /* text NULL: none so far */
	bool failed;	    /* out of memory */
};

static bool is_likelier(const struct reason *a, const struct reason *b)
{
	if (a->likely != b->likely)
		return a->likely > b->likely;
	if (a->mapped_bytes != b->mapped_bytes)
		return a->mapped_bytes > b->mapped_bytes;
	return strcmp(a->module, b->module) < 0;
}

static void add(struct search *s, struct reason reason)
{
	s->failed |= reason.text == NULL;
	if (!s->best.text || is_likelier(&reason, &s->best))
		s->best = reason;
}

static void add_file(struct search *s, const struct profile_process *p,
		     const struct unrecorded_row *row, const struct unrecorded_gap *gap)
{
	uint64_t mapped = mapped_by_file(p, row->path);

	for (uint64_t left = unrecorded_in(row); left; left &= left - 1) {
		enum unrecorded is = (enum unrecorded)__builtin_ctzll(left);

		if (is >= UNRECORDED_COUNT)
			continue;
		unsigned likely = unrecorded_words[is].class == UNRECORDED_BYPASS
					  ? weigh_bypass(is, gap)
					  : weigh_heap(row->found, mapped, gap);

		if (likely == 0)
			continue;
		add(s, (struct reason){
			       .module = row->path,
			       .text = sentence(is, row->path, s->arena),
			       .remedy = unrecorded_words[is].remedy,
			       .mapped_bytes = mapped,
			       .likely = likely + (strcmp(row->path, p->exe) == 0),
		       });
	}
}

/* The last moment at which the process already had that much memory but no recorded call; 0: none. */
static uint64_t began_late_ns(const struct profile_process *p, const struct unrecorded_gap *gap)
{
	uint64_t late_ns = 0;

	if (p->calls == 0 || p->memory.inherited_bytes > 0)
		return 0; /* a forked child has its parent's memory from the start */
	for (size_t i = 0; i < profile_sample_count(p); i++) {
		struct profile_sample s = profile_sample(p, i);

		if (s.calls > 0 || s.live_bytes > 0)
			break;
		if (saturating_sub(s.rss_bytes, s.own_bytes) > gap->missing_bytes / 2)
			late_ns = s.at_ns;
	}
	return late_ns;
}

static void add_late(struct search *s, const struct profile_process *p,
		     const struct unrecorded_gap *gap)
{
	uint64_t late_ns = began_late_ns(p, gap);

	if (late_ns == 0)
		return;
	add(s, (struct reason){
		       .module = "",
		       .text = arena_printf(s->arena, "recording began when it had run for %s",
					    units_duration(late_ns).text),
		       .remedy = "record it from its start",
		       .likely = LIKELY_LATE,
	       });
}

static void add_unknown_frees(struct search *s, const struct profile_process *p)
{
	uint64_t count = p->rows->process.health[HEALTH_unknown_frees];

	if (count == 0)
		return;
	add(s, (struct reason){
		       .module = "",
		       .text = arena_printf(
			       s->arena,
			       "%llu freed blocks were never seen allocated, as by RTLD_DEEPBIND, "
			       "dlmopen or dlsym on libc's handle",
			       (unsigned long long)count),
		       .remedy = "call malloc by its name in the libraries that it opens",
		       .likely = LIKELY_MERELY,
	       });
}

/* ---- as a note ---- */

static void search_all(struct search *s, const struct profile_process *p,
		       const struct unrecorded_gap *gap)
{
	for (size_t i = 0; i < p->rows->unrecorded_count; i++)
		add_file(s, p, &p->rows->unrecorded[i], gap);
	add_late(s, p, gap);
	add_unknown_frees(s, p);
}

/* Returns true if a large gap is certain or has a likely reason, which is then in the search. */
static bool is_reported(struct search *s, const struct profile_process *p,
			const struct unrecorded_gap *gap)
{
	if (!unrecorded_gap_is_large(*gap) || linked_in_is_malloc(p))
		return false;
	search_all(s, p, gap);
	return s->failed || s->best.text || gap->is_certain;
}

bool unrecorded_is_reported(const struct profile *profile, const struct profile_process *p,
			    struct unrecorded_gap *ret)
{
	AUTO(arena_release) struct arena arena = ARENA_INIT;
	struct search s = { .arena = &arena };

	*ret = unrecorded_gap_of(profile, p);
	return is_reported(&s, p, ret);
}

/* "61.0 MiB, 95.3 % of what a has, is in no recorded block: x inside y ...; do this"; "": nothing to report; NULL:
 * out of memory. */
static const char *explain(const struct profile *profile, const struct profile_process *p,
			   struct arena *arena)
{
	struct unrecorded_gap gap = unrecorded_gap_of(profile, p);
	struct search s = { .arena = arena };

	if (!is_reported(&s, p, &gap))
		return "";
	if (s.failed)
		return NULL;
	return arena_printf(arena, "%s, %s of what %s has, is in no recorded block: %s; %s",
			    units_bytes(gap.missing_bytes).text,
			    units_percent(gap.missing_bytes, gap.whole_bytes).text,
			    path_base(p->exe), s.best.text ? s.best.text : "why is not known",
			    s.best.text ? s.best.remedy
					: "heapgauge report --view memory shows where it lies");
}

ptrdiff_t unrecorded_note(const struct profile *profile, struct arena *arena,
			  struct profile_note *ret)
{
	const char *text = "";
	size_t count = 0;

	for (size_t i = 0; text && i < profile->process_count; i++) {
		const char *why = explain(profile, &profile->processes[i], arena);

		if (why && !why[0])
			continue;
		count++;
		if (!why || count <= NAMED)
			text = why ? arena_printf(arena, "%s%s%s", text, count > 1 ? ". " : "", why)
				   : NULL;
		else if (count == NAMED + 1)
			text = arena_printf(arena, "%s. And others", text);
	}
	if (text && count == 0)
		return 0;
	text = text ? arena_printf(arena, "%s memory that was not recorded: %s",
				   count == 1 ? "process has" : "processes have", text)
		    : NULL;
	*ret = (struct profile_note){ UNRECORDED_NOTE, text, count };
	return text ? 1 : -1;
}
