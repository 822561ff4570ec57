/* SPDX-License-Identifier: Apache-2.0 */
/* links: format base */
/* Recordings: round trips of random rows, files that are cut or damaged, versions and unknown chunks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "format/recording/recording.h"

static uint64_t seed;

static uint64_t rnd(void)
{
	return hash_mix(seed += UINT64_C(0x9e3779b97f4a7c15));
}

static uint64_t below(uint64_t limit)
{
	return rnd() % limit;
}

/* Mostly small, sometimes anything: what overflows must come back as well. */
static uint64_t number(void)
{
	switch (below(8)) {
	case 0:
		return 0;
	case 1:
		return rnd();
	case 2:
		return UINT64_MAX;
	default:
		return rnd() >> (32 + below(32));
	}
}

static char *text(void)
{
	char *out = calloc(1, 40);

	assert_non_null(out);
	snprintf(out, 40, "/usr/lib/lib%llx.so", (unsigned long long)below(100000));
	return out;
}

static void *rows_of(size_t count, size_t bytes)
{
	void *out = calloc(count + 1, bytes);

	assert_non_null(out);
	return out;
}

static void fill_stacks(struct process_rows *p, size_t scale)
{
	p->module_count = 1 + below(8);
	p->modules = rows_of(p->module_count, sizeof *p->modules);
	p->modules[0].path = calloc(1, 1);
	for (size_t i = 1; i < p->module_count; i++) {
		struct module_row *m = &p->modules[i];

		*m = (struct module_row){ .path = text(), .start = rnd() >> 17, .bias = number() };
		m->end = m->start + below(1 << 24);
		m->mapped_ns = below(1000) * 1000000;
		m->unmapped_ns = below(3) ? 0 : below(1000) * 1000000;
		m->build_id_bytes = (uint32_t)below(2) * 20;
		for (size_t j = 0; j < m->build_id_bytes; j++)
			m->build_id[j] = (uint8_t)rnd();
	}
	p->frame_count = 1 + below(scale);
	p->frames = rows_of(p->frame_count, sizeof *p->frames);
	for (size_t i = 0; i < p->frame_count; i++)
		p->frames[i] = live_frame_pack((uint32_t)below(p->module_count), rnd() >> 17,
					       below(10) == 0);
	p->node_count = 1 + below(2 * scale);
	p->nodes = rows_of(p->node_count, sizeof *p->nodes);
	for (size_t i = 1; i < p->node_count; i++) {
		p->nodes[i].parent = (uint32_t)(below(3) ? i - 1 : below(i));
		p->nodes[i].frame = (uint32_t)below(p->frame_count);
	}
	p->site_count = 1 + below(scale);
	p->sites = rows_of(p->site_count, sizeof *p->sites);
	for (size_t i = 1; i < p->site_count; i++)
		p->sites[i] = (struct site_row){ .node = (uint32_t)below(p->node_count),
						 .tag = (uint32_t)below(3),
						 .kind = (uint32_t)below(LIVE_KINDS),
						 .born_ns = below(100000) * 1000000 };
}

/* Appends bars to the process and returns how many; sometimes such as live_read makes them, sometimes any. */
static uint32_t fill_bars(struct process_rows *p, const struct site_counters_row *counters,
			  int sizes)
{
	uint32_t count = (uint32_t)below(4);
	uint32_t at = (uint32_t)p->bar_count;

	for (uint32_t i = 0; i < count; i++) {
		unsigned bucket = (unsigned)below(30);
		struct bar *bar = &p->bars[at + i];

		*bar = (struct bar){ number(), number(), number() };
		if (sizes && below(2))
			*bar = (struct bar){ live_size_bucket_floor(bucket),
					     live_size_bucket_floor(bucket + 1) - 1, below(100) };
		else if (!sizes && below(2))
			*bar = (struct bar){ bucket ? 1u << (bucket - 1) : 0, 1u << bucket,
					     below(100) };
	}
	if (count == 1 && below(2))
		p->bars[at] = (struct bar){ 48, 48, sizes ? counters->calls : counters->frees };
	if (count == 1 && !sizes && below(2))
		p->bars[at] = (struct bar){ 0, 1, counters->frees };
	p->bar_count += count;
	return count;
}

static void fill_site_counters(struct process_rows *p, size_t scale)
{
	p->site_counters_count = p->site_count > 1 ? below(2 * scale) : 0;
	p->site_counters = rows_of(p->site_counters_count, sizeof *p->site_counters);
	p->bars = rows_of(p->site_counters_count * 8, sizeof *p->bars);
	for (size_t i = 0; i < p->site_counters_count; i++) {
		struct site_counters_row *c = &p->site_counters[i];

		c->site = 1 + (uint32_t)below(p->site_count - 1);
		c->slot = (uint32_t)below(LIVE_SLOTS_MAX);
		c->calls = number();
		c->bytes = below(2) ? c->calls * 48 : number();
		c->frees = below(2) ? c->calls : number();
		c->freed_bytes = below(2) ? c->bytes : number();
		c->peak_bytes = (int64_t)number();
		c->peak_blocks = (int64_t)(below(2) ? c->calls - c->frees : number());
		c->max_bytes = number();
		c->temporary = below(2) ? c->frees : number();
		c->fragmentation = number();
		c->freed_fragmentation = number();
		c->lifetime_ms_sum = number();
		if (below(4) == 0)
			c->reallocs =
				(struct live_reallocs){ number(), number(), number(), number(),
							number(), number(), number() };
		c->sizes_at = (uint32_t)p->bar_count;
		c->sizes_count = fill_bars(p, c, 1);
		c->lifetimes_at = (uint32_t)p->bar_count;
		c->lifetimes_count = fill_bars(p, c, 0);
	}
	p->age_count = p->site_counters_count ? below(scale) : 0;
	p->ages = rows_of(p->age_count, sizeof *p->ages);
	p->live_size_count = p->age_count;
	p->live_sizes = rows_of(p->live_size_count, sizeof *p->live_sizes);
	for (size_t i = 0; i < p->age_count; i++) {
		p->ages[i] = (struct age_row){ (uint32_t)below(p->site_counters_count),
					       (uint32_t)below(40), number(), number() };
		p->live_sizes[i].counters = p->ages[i].counters;
		p->live_sizes[i].low = i;
		p->live_sizes[i].high = i + below(100);
		p->live_sizes[i].blocks = number();
	}
}

static void fill_threads(struct process_rows *p, size_t scale)
{
	p->thread_count = below(scale);
	p->threads = rows_of(p->thread_count, sizeof *p->threads);
	for (size_t i = 0; i < p->thread_count; i++) {
		struct thread_row *t = &p->threads[i];

		*t = (struct thread_row){ .tid = (uint32_t)rnd(),
					  .slot = (uint32_t)below(100),
					  .started_ns = below(9999) * 1000000,
					  .calls = number(),
					  .bytes = number(),
					  .frees = number(),
					  .freed_bytes = number() };
		snprintf(t->name, sizeof t->name, "worker-%u", (unsigned)below(10));
	}
	p->remote_frees_count = below(scale);
	p->remote_frees = rows_of(p->remote_frees_count, sizeof *p->remote_frees);
	for (size_t i = 0; i < p->remote_frees_count; i++)
		p->remote_frees[i] =
			(struct remote_frees_row){ .freer = (uint32_t)below(100),
						   .owner = below(3) ? (uint32_t)below(100)
								     : UINT32_MAX,
						   .blocks = number(),
						   .bytes = number() };
}

static void fill_time(struct process_rows *p, size_t scale)
{
	p->series_count = below(scale);
	p->series = rows_of(p->series_count, sizeof *p->series);
	for (size_t i = 0; i < p->series_count; i++)
		p->series[i] = (struct series_row){ i * 10000000 + below(1000),
						    number(),
						    number(),
						    number(),
						    number(),
						    number(),
						    number(),
						    number(),
						    number(),
						    number() };
	p->memory_count = below(20);
	p->memory = rows_of(p->memory_count, sizeof *p->memory);
	for (size_t i = 0; i < p->memory_count; i++)
		p->memory[i] =
			(struct memory_row){ i * 100000000, number(), number(), number(), number(),
					     number(),	    number(), number(), number(), number(),
					     number(),	    number(), number(), number(), number(),
					     number(),	    number(), number(), number(), number(),
					     number(),	    number() };
	p->snapshot_count = below(10);
	p->snapshots = rows_of(p->snapshot_count, sizeof *p->snapshots);
	p->snapshot_sites = rows_of(p->snapshot_count * p->site_count, sizeof *p->snapshot_sites);
	if (below(2))
		p->snapshot_counts =
			rows_of(p->snapshot_count * p->site_count, sizeof *p->snapshot_counts);
	for (size_t i = 0; i < p->snapshot_count; i++) {
		struct snapshot_row *s = &p->snapshots[i];

		*s = (struct snapshot_row){ .at_ns = i * 100000000,
					    .live_bytes = number(),
					    .live_blocks = number(),
					    .rss_bytes = number(),
					    .counted = (uint32_t)below(2),
					    .sites_at = (uint32_t)p->snapshot_site_count };
		for (uint32_t site = 1; site < p->site_count; site++) {
			if (below(4) != 0)
				continue;
			if (p->snapshot_counts)
				p->snapshot_counts[p->snapshot_site_count] =
					(struct snapshot_counts){ number(), number(), number(),
								  number() };
			p->snapshot_sites[p->snapshot_site_count++] =
				(struct snapshot_site){ .site = site,
							.bytes = (int64_t)number(),
							.blocks = (int64_t)number() };
			s->sites_count++;
		}
	}
}

/* Names for some of the frames, of every second process. */
static void fill_names(struct process_rows *p)
{
	static const char words[] = "\0main\0_ZN3foo3barEv\0/src/main.cc\0int main()";

	if (below(2))
		return;
	p->text_bytes = sizeof words;
	p->texts = rows_of(sizeof words, 1);
	memcpy(p->texts, words, sizeof words);
	p->names = rows_of(p->frame_count * 3, sizeof *p->names);
	for (uint32_t frame = 0; frame < p->frame_count; frame++)
		for (size_t i = below(4); i > 0; i--)
			p->names[p->name_count++] = (struct name_row){
				.frame = frame,
				.function = (uint32_t)below(sizeof words),
				.file = (uint32_t)below(2) * 21,
				.line = (uint32_t)below(3000),
				.inlined = i > 1,
				.arguments = (uint32_t)below(2) * 6,
			};
	p->source_count = p->name_count ? below(30) : 0;
	p->sources = rows_of(p->source_count, sizeof *p->sources);
	for (uint32_t i = 0; i < p->source_count; i++)
		p->sources[i] = (struct source_row){ 21, 1 + i * 3, (uint32_t)below(sizeof words) };
	if (p->name_count == 0)
		p->text_bytes = 0; /* without names there is no such chunk */
}

/* A tree of tags, some of one name, of every second process. */
static void fill_tags(struct process_rows *p, size_t scale)
{
	if (below(2))
		return;
	p->tag_count = 2 + below(scale);
	p->tags = rows_of(p->tag_count, sizeof *p->tags);
	for (uint32_t i = 1; i < p->tag_count; i++) {
		struct tag_row *tag = &p->tags[i];
		uint32_t name = (uint32_t)below(2 * i);

		*tag = (struct tag_row){ .parent = (uint32_t)below(i),
					 .name = i,
					 .kind = (uint32_t)below(LIVE_TAG_KINDS),
					 .pools = below(2),
					 .most_bytes = below(1 << 30) };
		if (name > 0 && name < i)
			tag->name = p->tags[name].name;
		tag->text = tag->name == i ? text() : p->tags[tag->name].text;
	}
	p->visits_count = below(scale);
	p->visits = rows_of(p->visits_count, sizeof *p->visits);
	for (size_t i = 0; i < p->visits_count; i++)
		p->visits[i] = (struct visits_row){ (uint32_t)below(p->tag_count),
						    (uint32_t)below(LIVE_SLOTS_MAX), number() };
}

/* Marks of every second process; some are snapshots. */
static void fill_marks(struct process_rows *p)
{
	if (below(2))
		return;
	p->mark_count = 1 + below(20);
	p->marks = rows_of(p->mark_count, sizeof *p->marks);
	for (size_t i = 0; i < p->mark_count; i++)
		p->marks[i] = (struct mark_row){ number(), (uint32_t)below(LIVE_MARK_KINDS),
						 (uint32_t)below(p->snapshot_count + 1), text() };
}

static void fill_unrecorded(struct process_rows *p)
{
	p->unrecorded_count = below(5);
	p->unrecorded = rows_of(p->unrecorded_count, sizeof *p->unrecorded);
	for (size_t i = 0; i < p->unrecorded_count; i++)
		p->unrecorded[i] = (struct unrecorded_row){ text(), rnd(), number() };
}

static void fill_process(struct process_rows *p, size_t scale)
{
	p->process = (struct process_row){
		.pid = (uint32_t)rnd(),
		.ppid = (uint32_t)rnd(),
		.rank = (uint32_t)rnd(),
		.mode = LIVE_MODE_EXACT,
		.end = (uint32_t)below(END_UNKNOWN + 1),
		.exit_code = (uint32_t)below(256),
		.started_real_ns = rnd(),
		.started_offset_ns = number(),
		.duration_ns = number(),
		.calls = number(),
		.bytes = number(),
		.frees = number(),
		.freed_bytes = number(),
		.temporary = number(),
		.fragmentation = number(),
		.freed_fragmentation = number(),
		.map_calls = number(),
		.map_bytes = number(),
		.unmap_calls = number(),
		.unmap_bytes = number(),
		.map_peak_bytes = number(),
		.peak_bytes = number(),
		.peak_blocks = number(),
		.peak_at_ns = number(),
		.peak_bound_bytes = number(),
		.peak_rss_bytes = number(),
		.own_bytes = number(),
		.granule_bytes = 16,
		.depth_limit = 256,
		.command = text(),
		.exe = text(),
		.allocator = text(),
		.linked_in = text(),
	};
	for (size_t i = 0; i < HEALTH_COUNT; i++)
		p->process.health[i] = below(2) ? number() : 0;
	fill_stacks(p, scale);
	fill_site_counters(p, scale);
	fill_threads(p, scale);
	fill_time(p, scale);
	fill_names(p);
	fill_tags(p, scale);
	fill_marks(p);
	fill_unrecorded(p);
}

static struct recording random_recording(uint64_t with_seed, size_t processes, size_t scale)
{
	struct recording r = { 0 };

	seed = with_seed;
	r.run = (struct run_row){ rnd(),  number(), number(), number(), number(),
				  text(), text(),   text(),   text() };
	r.run.missed_count = below(20);
	r.run.missed = rows_of(r.run.missed_count, sizeof *r.run.missed);
	for (size_t i = 0; i < r.run.missed_count; i++)
		r.run.missed[i] =
			(struct missed_row){ (uint32_t)below(MISSED_COUNT), number(), text() };
	r.process_count = processes;
	r.processes = rows_of(processes, sizeof *r.processes);
	for (size_t i = 0; i < processes; i++)
		fill_process(&r.processes[i], scale);
	return r;
}

#define SAME(a, b, member, count)                                                                  \
	do {                                                                                       \
		assert_int_equal((a)->count, (b)->count);                                          \
		if ((a)->count)                                                                    \
			assert_memory_equal((a)->member, (b)->member,                              \
					    (a)->count * sizeof *(a)->member);                     \
	} while (0)

static void assert_same_process(struct process_rows *a, struct process_rows *b)
{
	char *texts[2][4] = {
		{ a->process.command, a->process.exe, a->process.allocator, a->process.linked_in },
		{ b->process.command, b->process.exe, b->process.allocator, b->process.linked_in }
	};
	struct process_row rows[2] = { a->process, b->process };

	for (size_t i = 0; i < 4; i++)
		assert_string_equal(texts[0][i], texts[1][i]);
	for (size_t i = 0; i < 2; i++)
		rows[i].command = rows[i].exe = rows[i].allocator = rows[i].linked_in = NULL;
	assert_memory_equal(&rows[0], &rows[1], sizeof rows[0]);
	assert_int_equal(a->module_count, b->module_count);
	for (size_t i = 0; i < a->module_count; i++) {
		struct module_row x = a->modules[i], y = b->modules[i];

		assert_string_equal(x.path, y.path);
		x.path = y.path = NULL;
		assert_memory_equal(&x, &y, sizeof x);
	}
	SAME(a, b, frames, frame_count);
	SAME(a, b, nodes, node_count);
	SAME(a, b, sites, site_count);
	SAME(a, b, site_counters, site_counters_count);
	SAME(a, b, bars, bar_count);
	SAME(a, b, ages, age_count);
	SAME(a, b, threads, thread_count);
	SAME(a, b, remote_frees, remote_frees_count);
	SAME(a, b, series, series_count);
	SAME(a, b, snapshots, snapshot_count);
	SAME(a, b, memory, memory_count);
	SAME(a, b, live_sizes, live_size_count);
	SAME(a, b, snapshot_sites, snapshot_site_count);
	if (a->snapshot_counts)
		SAME(a, b, snapshot_counts, snapshot_site_count);
	assert_int_equal(a->unrecorded_count, b->unrecorded_count);
	for (size_t i = 0; i < a->unrecorded_count; i++) {
		assert_string_equal(a->unrecorded[i].path, b->unrecorded[i].path);
		assert_int_equal(a->unrecorded[i].found, b->unrecorded[i].found);
		assert_int_equal(a->unrecorded[i].zeroed_bytes, b->unrecorded[i].zeroed_bytes);
	}
	assert_int_equal(a->mark_count, b->mark_count);
	for (size_t i = 0; i < a->mark_count; i++) {
		assert_int_equal(a->marks[i].at_ns, b->marks[i].at_ns);
		assert_int_equal(a->marks[i].kind, b->marks[i].kind);
		assert_int_equal(a->marks[i].snapshot, b->marks[i].snapshot);
		assert_string_equal(a->marks[i].name, b->marks[i].name);
	}
	SAME(a, b, visits, visits_count);
	assert_int_equal(a->tag_count, b->tag_count);
	for (size_t i = 1; i < a->tag_count; i++) {
		assert_int_equal(a->tags[i].parent, b->tags[i].parent);
		assert_int_equal(a->tags[i].name, b->tags[i].name);
		assert_int_equal(a->tags[i].kind, b->tags[i].kind);
		assert_int_equal(a->tags[i].pools, b->tags[i].pools);
		assert_int_equal(a->tags[i].most_bytes, b->tags[i].most_bytes);
		assert_string_equal(a->tags[i].text, b->tags[i].text);
	}
	SAME(a, b, names, name_count);
	SAME(a, b, sources, source_count);
	SAME(a, b, texts, text_bytes);
}

static void encode(const struct recording *r, uint8_t **ret, size_t *ret_length)
{
	struct format_error error = { "" };
	void *bytes = NULL;

	assert_int_equal(recording_encode(r, &bytes, ret_length, &error), 0);
	*ret = bytes;
}

static int is_whole(const struct recording_warnings *w)
{
	return !w->cut_bytes && !w->bad_chunks && !w->unknown_chunks && !w->unfinished;
}

static void random_recordings_come_back_as_they_were(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= 120; i++) {
		struct recording r = random_recording(i, below(4),
						      i % 10 == 0 ? 3000 : 1 + below(60)),
				 back = { 0 };
		struct format_error error = { "" };
		uint8_t *bytes;
		size_t length;

		encode(&r, &bytes, &length);
		if (recording_decode(bytes, length, &back, &error) != 0)
			fail_msg("%s", error.message);
		assert_true(is_whole(&back.warnings));
		assert_string_equal(r.run.command, back.run.command);
		assert_int_equal(r.run.peak_at_ns, back.run.peak_at_ns);
		assert_int_equal(r.run.missed_count, back.run.missed_count);
		for (size_t j = 0; j < r.run.missed_count; j++) {
			assert_int_equal(r.run.missed[j].reason, back.run.missed[j].reason);
			assert_int_equal(r.run.missed[j].count, back.run.missed[j].count);
			assert_string_equal(r.run.missed[j].path, back.run.missed[j].path);
		}
		assert_int_equal(r.process_count, back.process_count);
		for (size_t j = 0; j < r.process_count; j++)
			assert_same_process(&r.processes[j], &back.processes[j]);
		recording_release(&back);
		recording_release(&r);
		free(bytes);
	}
}

static void a_file_cut_at_any_byte_opens_up_to_its_last_whole_chunk(void **state)
{
	struct recording r = random_recording(77, 2, 20);
	uint8_t *bytes;
	size_t length, most_counters = 0, opened = 0;

	(void)state;
	encode(&r, &bytes, &length);
	for (size_t cut = 0; cut < length; cut++) {
		struct recording back = { 0 };
		struct format_error error = { "" };
		/* On the heap and of the exact size, so that a sanitizer sees one byte too many. */
		uint8_t *part = malloc(cut ? cut : 1);

		memcpy(part, bytes, cut);
		if (recording_decode(part, cut, &back, &error) < 0) {
			assert_true(cut < 40);
			assert_true(strlen(error.message) > 0);
		} else {
			assert_true(back.warnings.unfinished);
			assert_int_equal(back.warnings.bad_chunks, 0);
			assert_true(back.process_count <= 2);
			if (back.process_count == 2) {
				assert_true(back.processes[1].site_counters_count >= most_counters);
				most_counters = back.processes[1].site_counters_count;
				assert_same_process(&r.processes[0], &back.processes[0]);
			}
			opened++;
			recording_release(&back);
		}
		free(part);
	}
	assert_int_equal(opened, length - 40);
	assert_int_equal(most_counters, r.processes[1].site_counters_count);
	recording_release(&r);
	free(bytes);
}

static void a_flipped_bit_never_goes_unnoticed(void **state)
{
	struct recording r = random_recording(99, 1, 10);
	uint8_t *bytes;
	size_t length;

	(void)state;
	encode(&r, &bytes, &length);
	for (size_t bit = 0; bit < 8 * length; bit++) {
		struct recording back = { 0 };

		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (recording_decode(bytes, length, &back, NULL) == 0) {
			assert_false(is_whole(&back.warnings));
			recording_release(&back);
		}
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	recording_release(&r);
	free(bytes);
}

static void resign_head(uint8_t *bytes)
{
	uint64_t hash = XXH64(bytes, 32, 0);

	memcpy(bytes + 32, &hash, sizeof hash);
}

static int decode_after(uint8_t *bytes, size_t length, size_t at, uint8_t value,
			struct format_error *error)
{
	struct recording back = { 0 };
	uint8_t old = bytes[at];
	int status;

	bytes[at] = value;
	resign_head(bytes);
	status = recording_decode(bytes, length, &back, error);
	if (status == 0)
		recording_release(&back);
	bytes[at] = old;
	resign_head(bytes);
	return status;
}

static void any_minor_and_compatible_flag_is_read_and_unknown_needs_are_refused(void **state)
{
	struct recording r = random_recording(5, 1, 10);
	struct format_error error = { "" };
	uint8_t *bytes;
	size_t length;

	(void)state;
	encode(&r, &bytes, &length);
	assert_int_equal(decode_after(bytes, length, 14, 200, &error), 0); /* minor */
	assert_int_equal(decode_after(bytes, length, 16, 255, &error), 0); /* compatible */
	assert_int_equal(decode_after(bytes, length, 24, 2, &error), -1);  /* incompatible */
	assert_non_null(strstr(error.message, "does not know"));
	assert_int_equal(decode_after(bytes, length, 12, 2, &error), -1); /* major */
	assert_non_null(strstr(error.message, "format 2"));
	recording_release(&r);
	free(bytes);
}

/* Changes the type of the chunk at the given place of the file and signs its head again. */
static void retype_chunk(uint8_t *bytes, size_t chunk, uint16_t type, uint16_t flags)
{
	uint8_t *head = bytes + 40;
	uint64_t size, hash;

	for (size_t i = 0; i < chunk; i++) {
		memcpy(&size, head + 8, sizeof size);
		head += 40 + size;
	}
	memcpy(head, &type, sizeof type);
	head[2] |= (uint8_t)flags;
	hash = XXH64(head, 32, 0);
	memcpy(head + 32, &hash, sizeof hash);
}

/* The place of the first chunk of a type. */
static size_t place_of_chunk(const uint8_t *bytes, uint16_t type)
{
	const uint8_t *head = bytes + 40;
	uint16_t found;

	for (size_t i = 0;; i++) {
		uint64_t size;

		memcpy(&found, head, sizeof found);
		if (found == type)
			return i;
		memcpy(&size, head + 8, sizeof size);
		head += 40 + size;
	}
}

static void an_unknown_chunk_is_skipped_and_counted_unless_it_is_required(void **state)
{
	struct recording r = random_recording(6, 1, 10), back = { 0 };
	struct format_error error = { "" };
	uint8_t *bytes;
	size_t length;

	(void)state;
	encode(&r, &bytes, &length);
	size_t threads = place_of_chunk(bytes, 9 /* threads */);

	retype_chunk(bytes, threads, 900, 0);
	assert_int_equal(recording_decode(bytes, length, &back, &error), 0);
	assert_int_equal(back.warnings.unknown_chunks, 1);
	assert_int_equal(back.warnings.bad_chunks, 0);
	assert_false(back.warnings.unfinished);
	assert_int_equal(back.processes[0].thread_count, 0);
	assert_int_equal(back.processes[0].site_counters_count, r.processes[0].site_counters_count);
	recording_release(&back);
	retype_chunk(bytes, threads, 900, 2);
	assert_int_equal(recording_decode(bytes, length, &back, &error), -1);
	assert_non_null(strstr(error.message, "cannot read"));
	recording_release(&r);
	free(bytes);
}

static void a_lost_table_takes_those_that_point_into_it(void **state)
{
	struct recording r = random_recording(8, 1, 30), back = { 0 };
	uint8_t *bytes;
	size_t length;

	(void)state;
	encode(&r, &bytes, &length);
	retype_chunk(bytes, 3, 901,
		     0); /* nodes: sites, site counters, ages and snapshots need them */
	assert_int_equal(recording_decode(bytes, length, &back, NULL), 0);
	assert_int_equal(back.warnings.unknown_chunks, 1);
	assert_int_equal(back.warnings.bad_chunks, 4);
	assert_int_equal(back.processes[0].site_counters_count, 0);
	assert_int_equal(back.processes[0].process.calls, r.processes[0].process.calls);
	assert_int_equal(back.processes[0].series_count, r.processes[0].series_count);
	recording_release(&back);
	recording_release(&r);
	free(bytes);
}

static void very_regular_rows_are_still_believed(void **state)
{
	struct recording r = random_recording(3, 1, 4), back = { 0 };
	struct process_rows *p = &r.processes[0];
	size_t count = 200000;
	uint8_t *bytes;
	size_t length;

	(void)state;
	free(p->nodes);
	p->nodes = rows_of(count, sizeof *p->nodes);
	p->node_count = count;
	for (size_t i = 1; i < count; i++)
		p->nodes[i].parent = (uint32_t)i - 1;
	encode(&r, &bytes, &length);
	assert_int_equal(recording_decode(bytes, length, &back, NULL), 0);
	assert_true(is_whole(&back.warnings));
	assert_same_process(p, &back.processes[0]);
	assert_true(length < 20000);
	recording_release(&back);
	recording_release(&r);
	free(bytes);
}

/* What a reader of names relies on: each row that breaks it costs the chunk, and nothing else. */
static void names_that_point_outside_are_left_out(void **state)
{
	static const struct {
		const char *what;
		struct name_row name;
	} rows[] = {
		{ "good", { .frame = 2, .function = 1, .file = 6, .line = 9, .inlined = 1 } },
		{ "frame", { .frame = 3 } },
		{ "order", { .frame = 0 } },
		{ "function", { .frame = 2, .function = 11 } },
		{ "file", { .frame = 2, .file = 11 } },
		{ "inlined", { .frame = 2, .inlined = 2 } },
		{ "arguments", { .frame = 2, .arguments = 11 } },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows) + 3; i++) {
		struct recording r = { .process_count = 1 }, back;
		struct process_rows *p = rows_of(1, sizeof *p);
		uint8_t *bytes;
		size_t length;

		r.processes = p;
		r.run = (struct run_row){ .host = strdup(""),
					  .kernel = strdup(""),
					  .version = strdup(""),
					  .command = strdup("") };
		p->process.command = strdup("");
		p->process.exe = strdup("");
		p->process.allocator = strdup("");
		p->module_count = 1;
		p->modules = rows_of(1, sizeof *p->modules);
		p->modules[0].path = strdup("");
		p->frame_count = 3;
		p->frames = rows_of(3, sizeof *p->frames);
		p->name_count = 2;
		p->names = rows_of(2, sizeof *p->names);
		p->names[0] = (struct name_row){ .frame = 1, .function = 1 };
		p->names[1] = i < ARRAY_SIZE(rows) ? rows[i].name : rows[0].name;
		p->text_bytes = 11;
		p->texts = rows_of(11, 1);
		memcpy(p->texts, "\0main\0/a.c", 11);
		p->source_count = 2;
		p->sources = rows_of(2, sizeof *p->sources);
		p->sources[0] = (struct source_row){ 6, 8, 1 };
		p->sources[1] = (struct source_row){ 6, 9, 1 };
		if (i == ARRAY_SIZE(rows))
			p->sources[1].line = 8; /* twice */
		if (i == ARRAY_SIZE(rows) + 1)
			p->texts[0] = 'x';
		if (i == ARRAY_SIZE(rows) + 2)
			p->texts[10] = 'x'; /* does not end */
		encode(&r, &bytes, &length);
		assert_int_equal(recording_decode(bytes, length, &back, NULL), 0);
		assert_int_equal(back.warnings.bad_chunks, i != 0);
		assert_int_equal(back.processes[0].name_count, i == 0 ? 2 : 0);
		assert_int_equal(back.processes[0].frame_count, 3);
		recording_release(&back);
		recording_release(&r);
		free(bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_recordings_come_back_as_they_were),
		cmocka_unit_test(a_file_cut_at_any_byte_opens_up_to_its_last_whole_chunk),
		cmocka_unit_test(a_flipped_bit_never_goes_unnoticed),
		cmocka_unit_test(
			any_minor_and_compatible_flag_is_read_and_unknown_needs_are_refused),
		cmocka_unit_test(names_that_point_outside_are_left_out),
		cmocka_unit_test(an_unknown_chunk_is_skipped_and_counted_unless_it_is_required),
		cmocka_unit_test(a_lost_table_takes_those_that_point_into_it),
		cmocka_unit_test(very_regular_rows_are_still_believed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
