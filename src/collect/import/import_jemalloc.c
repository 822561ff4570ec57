/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc's heap profile:
 *
 *	heap_v2/524288
 *	  t*: 28106: 56637512 [0: 0]
 *	@ 0x55d4c7c5d2b1 0x55d4c7c5d3f0 0x7f3c1fe2a24a
 *	  t*: 13: 6688 [0: 0]
 *	  t3: 12: 6496 [0: 0]
 *	MAPPED_LIBRARIES:
 *	and the lines of /proc/self/maps
 *
 * Each "t*" has live blocks and bytes, then all that were ever allocated, which are 0 unless prof_accum is set. The numbers are
 * of the samples alone, whose mean distance the first line has; jeprof scales them by stack, and so does this reader, by the same
 * formula, so that both show the same bytes.
 */
#include "collect/import/import_jemalloc.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "collect/kernel/map_line.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/search.h"

/* An allocation passes fewer functions of jemalloc before it is recorded. */
enum { ALLOCATOR_DEPTH = 12 };
enum { DEPTH_MAX = 4096, HEXADECIMAL = 16, DECIMAL = 10 };
static const char maps_head[] = "MAPPED_LIBRARIES:", deleted[] = " (deleted)";

struct reader {
	struct imported_rows *rows;
	const struct import_names *names;	  /* NULL: none */
	VECTOR(struct imported_mapping) mappings; /* executable ones, by address */
	VECTOR(uint64_t) stack;			  /* of the current entry, innermost first */
	double interval;
	bool failed;
};

static int by_start(const void *left, const void *right)
{
	const struct imported_mapping *a = left, *b = right;

	return a->start < b->start ? -1 : a->start > b->start;
}

/* Pre: the text is NUL-terminated. */
static void read_maps(struct reader *r, const char *at)
{
	struct map_line line;

	while (map_line_next(&at, &line)) {
		size_t length = strcspn(line.name, "\n");

		if (line.permissions[2] != 'x' || line.start >= line.end)
			continue;
		if (length >= sizeof deleted && memcmp(line.name + length - (sizeof deleted - 1),
						       deleted, sizeof deleted - 1) == 0)
			length -= sizeof deleted - 1;
		struct imported_mapping mapping = { .start = line.start,
						    .end = line.end,
						    .offset = line.offset,
						    .path = span_of(line.name, length) };

		if (length && !vector_push(&r->mappings, mapping))
			r->failed = true;
	}
	if (r->mappings.count)
		qsort(r->mappings.at, r->mappings.count, sizeof *r->mappings.at, by_start);
}

static struct imported_mapping *mapping_of(struct reader *r, uint64_t address)
{
	size_t low = FIRST_WHERE(i, r->mappings.count, r->mappings.at[i].start > address);

	return low && address < r->mappings.at[low - 1].end ? &r->mappings.at[low - 1] : NULL;
}

/* "@ 0x55d4c7c5d2b1 0x55d4c7c5d3f0": false if it is not a list of addresses. */
static bool read_stack(struct reader *r, const char *at, const char *end)
{
	r->stack.count = 0;
	for (;;) {
		while (at < end && isblank((unsigned char)*at))
			at++;
		if (at >= end || *at == '\r')
			return true;
		char *behind;
		uint64_t address = strtoull(at, &behind, HEXADECIMAL);

		if (!isxdigit((unsigned char)*at) || behind > end || r->stack.count >= DEPTH_MAX)
			return false;
		if (!vector_push(&r->stack, address))
			r->failed = true;
		at = behind;
	}
}

/* A number and the character after it. */
static bool read_number(const char **at, char behind, double *ret)
{
	char *end;

	while (isblank((unsigned char)**at))
		(*at)++;
	if (!isdigit((unsigned char)**at))
		return false;
	*ret = (double)strtoull(*at, &end, DECIMAL);
	while (isblank((unsigned char)*end) && behind != ' ')
		end++;
	*at = end + 1;
	return *end == behind;
}

/* jeprof's factor, in its own arithmetic. */
static double weight_of(double blocks, double bytes, double interval)
{
	double ratio = blocks > 0 ? bytes / blocks / interval : 0;
	double probability = 1 - exp(-ratio);

	return probability > 0 ? 1 / probability : 1;
}

/* Of n samples of s bytes with the weight w: n w blocks, whose variance is n w (w - 1). */
static void scale(double samples, double sampled_bytes, double interval, double *blocks,
		  double *bytes, double *blocks_variance, double *bytes_variance)
{
	double weight = weight_of(samples, sampled_bytes, interval);
	double size = samples > 0 ? sampled_bytes / samples : 0;

	*blocks = samples * weight;
	*bytes = sampled_bytes * weight;
	*blocks_variance = *blocks * (weight - 1);
	*bytes_variance = *blocks_variance * size * size;
}

static bool is_allocator(struct reader *r, uint64_t address)
{
	struct imported_mapping *mapping = mapping_of(r, address);
	const char *path = mapping ? imported_path(r->rows, mapping) : NULL;

	if (!path)
		return false;
	return strncmp(path_base(path), "libjemalloc", strlen("libjemalloc")) == 0 ||
	       /* The return address may be that of the next function. */
	       (r->names &&
		r->names->is_allocator(r->names->context, path, address - 1 - mapping->bias));
}

/* The number of innermost frames that belong to the allocator; jeprof drops them too. */
static size_t allocator_depth(struct reader *r)
{
	size_t depth = 0;

	for (size_t i = 0; i < MIN(r->stack.count, (size_t)ALLOCATOR_DEPTH); i++)
		if (is_allocator(r, r->stack.at[i]))
			depth = i + 1;
	/* A stack of the allocator alone is kept. */
	return depth < r->stack.count ? depth : 0;
}

/* " 13: 6688 [0: 0]" of the current stack. */
static bool read_counts(struct reader *r, const char *at)
{
	struct imported_number bytes, blocks;
	double live, live_bytes, total, total_bytes;
	uint32_t node = 0;

	if (!read_number(&at, ':', &live) || !read_number(&at, '[', &live_bytes) ||
	    !read_number(&at, ':', &total) || !read_number(&at, ']', &total_bytes))
		return false;
	if (r->stack.count == 0)
		return true; /* the sums of the whole file, or no stack, which jeprof skips too */
	size_t inner = allocator_depth(r);

	scale(live, live_bytes, r->interval, &blocks.live, &bytes.live, &blocks.live_variance,
	      &bytes.live_variance);
	scale(total, total_bytes, r->interval, &blocks.total, &bytes.total, &blocks.total_variance,
	      &bytes.total_variance);
	for (size_t i = r->stack.count; i > inner; i--) {
		uint64_t address = r->stack.at[i - 1];

		node = imported_node(
			r->rows, node,
			imported_frame(r->rows, mapping_of(r, address), address, false));
	}
	imported_site(r->rows, node, &bytes, &blocks, MAX(live, total));
	return true;
}

/* The sums at the top say whether the file has totals. */
static bool has_totals(const char *at)
{
	double live, live_bytes, total = 0;

	at = strstr(at, "t*:");
	if (!at)
		return false;
	at += 3;
	return read_number(&at, ':', &live) && read_number(&at, '[', &live_bytes) &&
	       read_number(&at, ':', &total) && total > 0;
}

static int read_text(struct reader *r, const char *text, struct error *error)
{
	size_t number = 1;

	for (const char *at = text; *at; number++) {
		const char *end = strchrnul(at, '\n');
		const char *word = at + strspn(at, " \t");
		bool fine = true;

		if (strncmp(at, maps_head, sizeof maps_head - 1) == 0)
			break;
		if (*word == '@')
			fine = read_stack(r, word + 1, end);
		else if (strncmp(word, "t*:", 3) == 0)
			fine = read_counts(r, word + 3);
		if (!fine)
			return error_set(error, "line %zu is not one of a heap_v2 profile", number);
		if (r->failed)
			return error_set(error, "out of memory");
		if (r->rows->failure)
			return error_set(error, "%s", r->rows->failure);
		at = *end ? end + 1 : end;
	}
	return 0;
}

static int read_profile(struct reader *r, const char *text, struct recording *ret,
			struct error *error)
{
	const char *at = text + sizeof JEMALLOC_MAGIC - 1;
	const char *maps = strstr(text, maps_head);
	struct span program = { 0 };

	if (!isdigit((unsigned char)*at))
		return error_set(error, "the first line has no sampling interval");
	r->interval = (double)strtoull(at, NULL, DECIMAL);
	if (r->interval < 1)
		return error_set(error, "the sampling interval is 0");
	r->rows->interval = r->interval > 1 ? (uint64_t)MIN(r->interval, 0x1p62) : 0;
	r->rows->has_totals = has_totals(at);
	if (maps)
		read_maps(r, maps);
	/* The kernel maps the program first, unless it was started in an unusual way. */
	const char *lines = maps ? strchr(maps, '\n') : NULL;

	if (lines) {
		struct map_line first;

		if (map_line_next(&lines, &first) && first.name[0] == '/')
			program = span_of(first.name, strcspn(first.name, "\n"));
	}
	if (read_text(r, at, error) < 0)
		return -1;
	/* Nothing else tells: the sums at the top are not those of the stacks if the samples are adjusted. */
	if (!maps)
		return error_set(error,
				 "it was cut off: the list of mappings at its end is missing");
	return imported_finish(r->rows, "jemalloc heap_v2", "jemalloc", program, ret, error);
}

int import_jemalloc(struct imported_rows *rows, struct span text, const struct import_names *names,
		    struct recording *ret, struct error *error)
{
	struct reader r = { .rows = rows, .names = names };
	AUTO_FREE char *copy = strndup((const char *)text.data, text.size);
	int status = copy ? read_profile(&r, copy, ret, error) : error_set(error, "out of memory");

	vector_release(&r.mappings);
	vector_release(&r.stack);
	return status;
}
