/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of an imported profile. The input is untrusted: counts are limited by the width of ids, and sums so that no later
 * arithmetic overflows.
 */
#include "collect/import/imported_rows.h"

#include <elf.h>
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "base/cursor.h"
#include "util/cleanup.h"
#include "util/files.h"

#define NUMBER_MAX (1ull << 60)
#define NON_PIE_MAX (1ull << 31) /* the usual code models link a fixed-address program below it */
enum { MODULES_MAX = 0xffff, ROWS_MAX = 1 << 25, PAGE = 4096 };
/* Addresses that no program has, for frames that are only a name. */
#define NO_ADDRESS (1ull << 46)

static void fail(struct imported_rows *r, const char *why)
{
	if (!r->failure)
		r->failure = why;
}

static const char out_of_memory[] = "out of memory", too_many[] = "too many stacks";

void imported_init(struct imported_rows *r)
{
	static const struct module_row no_module = { 0 };
	static const struct site_row no_site = { 0 };
	const struct node_row root = { 0, 0 };

	*r = (struct imported_rows){ 0 };
	struct module_row first = no_module;

	first.path = strdup("");
	if (!first.path || !vector_push(&r->modules, first)) {
		free(first.path);
		fail(r, out_of_memory);
	}
	if (!vector_push(&r->frames, UINT64_C(0)) || !vector_push(&r->sites, no_site) ||
	    !vector_push(&r->texts, '\0') || number_of(&r->nodes, root) == SIZE_MAX)
		fail(r, out_of_memory);
}

void imported_release(struct imported_rows *r)
{
	for (size_t i = 0; i < r->modules.count; i++)
		free(r->modules.at[i].path);
	vector_release(&r->modules);
	vector_release(&r->frames);
	vector_release(&r->sites);
	vector_release(&r->counters);
	vector_release(&r->names);
	vector_release(&r->texts);
	numbering_release(&r->addresses);
	vector_release(&r->address_frames);
	numbering_release(&r->nodes);
	numbering_release(&r->site_nodes);
	intern_release(&r->strings);
	process_rows_release(&r->rows);
}

/* The virtual address of a byte of an ELF file; false if the file does not say. */
static bool elf_address(const char *path, uint64_t offset, uint64_t *ret)
{
	AUTO(file_map_release) struct file_map map = FILE_MAP_INIT;
	Elf64_Ehdr head;
	Elf64_Phdr part;

	if (path[0] != '/' || file_map_open(&map, path, NULL) < 0)
		return false;
	struct cursor c = cursor_over(map.bytes);

	if (!cursor_copy(&c, &head, sizeof head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    head.e_ident[EI_CLASS] != ELFCLASS64)
		return false;
	cursor_seek(&c, head.e_phoff);
	for (size_t i = 0; i < head.e_phnum && cursor_copy(&c, &part, sizeof part); i++) {
		uint64_t start = part.p_offset & ~(uint64_t)(PAGE - 1);

		/* The kernel maps whole pages. */
		if (part.p_type == PT_LOAD && part.p_flags & PF_X && offset >= start &&
		    offset - start < saturating_add(part.p_filesz, part.p_offset - start)) {
			*ret = part.p_vaddr - part.p_offset + offset;
			return true;
		}
	}
	return false;
}

static uint64_t bias_of(const struct imported_mapping *m, const char *path)
{
	uint64_t address;

	if (m->start == 0)
		return 0;
	if (elf_address(path, m->offset, &address))
		return m->start - address;
	return m->start < NON_PIE_MAX ? 0 : m->start - m->offset;
}

/* The segments of one file are one module. */
static void add_module(struct imported_rows *r, struct imported_mapping *m)
{
	struct module_row row = {
		.path = m->path.size ? strndup((const char *)m->path.data, m->path.size)
				     : strdup(""),
		.start = m->start,
		.end = MAX(m->start, m->end),
		.build_id_bytes = (uint32_t)MIN(m->build_id.size, sizeof row.build_id)
	};

	if (!row.path) {
		fail(r, out_of_memory);
		return;
	}
	if (row.build_id_bytes)
		memcpy(row.build_id, m->build_id.data, row.build_id_bytes);
	row.bias = m->bias = bias_of(m, row.path);
	for (size_t i = 1; i < r->modules.count && !m->module; i++)
		if (r->modules.at[i].bias == row.bias &&
		    strcmp(r->modules.at[i].path, row.path) == 0)
			m->module = (uint32_t)i;
	if (m->module || r->modules.count > MODULES_MAX || !vector_push(&r->modules, row)) {
		if (!m->module)
			fail(r, "too many mapped files");
		free(row.path);
		return;
	}
	m->module = (uint32_t)r->modules.count - 1;
}

const char *imported_path(struct imported_rows *r, struct imported_mapping *mapping)
{
	if (!mapping->module)
		add_module(r, mapping);
	return mapping->module ? r->modules.at[mapping->module].path : "";
}

/* Packs a frame. */
static uint64_t frame_word(struct imported_rows *r, struct imported_mapping *m, uint64_t address,
			   bool exact)
{
	if (!m)
		return live_frame_pack(0, MAX(address, (uint64_t)PAGE), exact);
	if (!m->module)
		add_module(r, m);
	return live_frame_pack(m->module, address - m->bias, exact);
}

static uint32_t add_frame(struct imported_rows *r, uint64_t word)
{
	if (r->frames.count >= ROWS_MAX)
		fail(r, too_many);
	else if (!vector_push(&r->frames, word))
		fail(r, out_of_memory);
	else
		return (uint32_t)r->frames.count - 1;
	return 0;
}

uint32_t imported_frame(struct imported_rows *r, struct imported_mapping *mapping, uint64_t address,
			bool exact)
{
	uint64_t word = frame_word(r, mapping, address, exact);
	size_t known = r->addresses.count, number = number_of(&r->addresses, word);

	if (number == known && !vector_push(&r->address_frames, add_frame(r, word)))
		number = SIZE_MAX;
	if (number == SIZE_MAX)
		fail(r, out_of_memory);
	return r->failure ? 0 : r->address_frames.at[number];
}

uint32_t imported_named_frame(struct imported_rows *r, struct imported_mapping *mapping,
			      uint64_t address)
{
	uint64_t word = frame_word(r, mapping, address, true);

	if (address == 0)
		word = live_frame_pack(live_frame_module(word), NO_ADDRESS + r->frames.count, true);
	return add_frame(r, word);
}

static uint32_t text_at(struct imported_rows *r, struct span text)
{
	struct intern_entry *entry = text.size ? intern_entry(&r->strings, text) : NULL;

	if (!entry) {
		if (text.size)
			fail(r, out_of_memory);
		return 0;
	}
	if (!entry->value) {
		if (r->texts.count > UINT32_MAX / 2 || text.size > UINT32_MAX / 2 ||
		    !vector_reserve(&r->texts, text.size + 1)) {
			fail(r, out_of_memory);
			return 0;
		}
		/* Places are never 0, the empty text. */
		entry->value = (void *)(uintptr_t)r->texts.count;
		memcpy(r->texts.at + r->texts.count, text.data, text.size);
		r->texts.count += text.size;
		r->texts.at[r->texts.count++] = '\0';
	}
	return (uint32_t)(uintptr_t)entry->value;
}

void imported_name(struct imported_rows *r, uint32_t frame, struct span function, struct span file,
		   uint64_t line, bool inlined)
{
	struct name_row row = { .frame = frame,
				.function = text_at(r, function),
				.file = text_at(r, file),
				.line = line <= INT32_MAX ? (uint32_t)line : 0,
				.inlined = inlined };

	if (r->names.count >= ROWS_MAX || !vector_push(&r->names, row))
		fail(r, out_of_memory);
}

uint32_t imported_node(struct imported_rows *r, uint32_t parent, uint32_t frame)
{
	const struct node_row node = { parent, frame };
	size_t number = r->nodes.count < ROWS_MAX ? number_of(&r->nodes, node) : SIZE_MAX;

	if (number != SIZE_MAX)
		return (uint32_t)number;
	fail(r, r->nodes.count < ROWS_MAX ? out_of_memory : too_many);
	return 0;
}

static struct site_counters_row *counters_of(struct imported_rows *r, uint32_t node)
{
	size_t known = r->site_nodes.count, number = number_of(&r->site_nodes, node);

	if (number == known) {
		struct site_row site = { .node = node,
					 .kind = LIVE_KIND_HEAP,
					 .interval = r->interval };
		struct site_counters_row counters = { .site = (uint32_t)r->sites.count };

		if (!vector_push(&r->sites, site) || !vector_push(&r->counters, counters))
			number = SIZE_MAX;
	}
	if (number == SIZE_MAX)
		fail(r, out_of_memory);
	return r->failure ? NULL : &r->counters.at[number];
}

/* Rounds so that the results add up to the rounded-down sum. */
static uint64_t part_of(double *sum, double part)
{
	double before = floor(*sum);

	*sum += part;
	return saturating_u64(floor(*sum) - before);
}

static uint64_t variance_word(double variance, double unit)
{
	return MIN(saturating_u64(variance * unit), (uint64_t)NUMBER_MAX);
}

/* Until imported_finish, freed_* and frees hold what is live. */
void imported_site(struct imported_rows *r, uint32_t node, const struct imported_number *bytes,
		   const struct imported_number *blocks, double samples)
{
	const double unit = 1 << LIVE_VARIANCE_SHIFT;
	bool totals = r->has_totals;
	struct site_counters_row *c = counters_of(r, node);

	if (!c)
		return;
	c->freed_bytes += part_of(&r->bytes, bytes->live);
	c->frees += part_of(&r->blocks, blocks->live);
	c->bytes += part_of(&r->total_bytes, totals ? bytes->total : bytes->live);
	c->calls += part_of(&r->calls, totals ? blocks->total : blocks->live);
	if (!(MAX(r->bytes, r->total_bytes) < (double)NUMBER_MAX &&
	      MAX(r->blocks, r->calls) < (double)NUMBER_MAX))
		fail(r, "its numbers are too large");
	if (!r->interval)
		return;
	struct live_samples *s = &c->samples;
	double live_bytes = bytes->live_variance, live_blocks = blocks->live_variance;

	s->count = saturating_add(s->count, saturating_u64(ceil(samples)));
	s->freed_variance = saturating_add(s->freed_variance, variance_word(live_bytes, 1 / unit));
	s->frees_variance = saturating_add(s->frees_variance, variance_word(live_blocks, unit));
	s->bytes_variance = saturating_add(
		s->bytes_variance,
		variance_word(totals ? bytes->total_variance : live_bytes, 1 / unit));
	s->calls_variance =
		saturating_add(s->calls_variance,
			       variance_word(totals ? blocks->total_variance : live_blocks, unit));
}

/* Raises a total to what is live, of which it may be less by one because each is rounded, or more because both are estimates.
 * Returns whether it was more. */
static bool raise_to(uint64_t *total, uint64_t live, uint64_t *raised)
{
	uint64_t missing = saturating_sub(live, *total);

	*total += missing;
	*raised += missing == 1;
	return missing > 1;
}

/* Takes back what rounding raised, so that the sum is right. */
static void lower(uint64_t *freed, uint64_t *total, uint64_t *raised)
{
	uint64_t taken = *freed && *raised;

	*freed -= taken;
	*total -= taken;
	*raised -= taken;
}

/* Sets what was freed from what is live. */
static void settle(struct imported_rows *r, struct site_counters_row *c)
{
	uint64_t bytes = c->freed_bytes, blocks = c->frees;
	struct live_samples *s = &c->samples;

	/* A site without a block would not be shown. */
	if (bytes && !blocks)
		blocks = 1;
	bool bytes_raised = raise_to(&c->bytes, bytes, &r->raised_bytes);
	bool calls_raised = raise_to(&c->calls, blocks, &r->raised_calls);

	r->raised_sites += bytes_raised || calls_raised;
	c->freed_bytes = c->bytes - bytes;
	c->frees = c->calls - blocks;
	c->peak_bytes = (int64_t)bytes;
	c->peak_blocks = (int64_t)blocks;
	c->max_bytes = bytes;
	s->bytes_variance = MAX(s->bytes_variance, s->freed_variance);
	s->calls_variance = MAX(s->calls_variance, s->frees_variance);
	s->freed_variance = s->bytes_variance - s->freed_variance;
	s->frees_variance = s->calls_variance - s->frees_variance;
}

static int fill_run(struct run_row *run, const char *writer, const char *command)
{
	run->host = strdup("");
	run->kernel = strdup("");
	run->version = strdup(writer);
	run->command = strdup(command);
	run->own_code = strdup("");
	run->options = strdup("");
	return run->host && run->kernel && run->version && run->command && run->own_code &&
			       run->options
		       ? 0
		       : -1;
}

static void take_rows(struct imported_rows *r, struct process_rows *rows)
{
	struct process_row *row = &rows->process;

	for (size_t i = 0; i < r->counters.count; i++)
		settle(r, &r->counters.at[i]);
	for (size_t i = 0; i < r->counters.count; i++) {
		struct site_counters_row *c = &r->counters.at[i];

		lower(&c->freed_bytes, &c->bytes, &r->raised_bytes);
		lower(&c->frees, &c->calls, &r->raised_calls);
		row->calls += c->calls;
		row->bytes += c->bytes;
		row->frees += c->frees;
		row->freed_bytes += c->freed_bytes;
	}
	row->peak_bytes = row->bytes - row->freed_bytes;
	row->peak_blocks = row->calls - row->frees;
	row->imported = r->has_totals ? IMPORTED_WITH_TOTALS : IMPORTED_LIVE_ONLY;
	row->mode = r->interval		  ? LIVE_MODE_SAMPLE
		    : r->unknown_interval ? IMPORTED_MODE_UNKNOWN
					  : LIVE_MODE_EXACT;
	row->end = END_RUNNING;
	rows->module_count = r->modules.count;
	rows->modules = TAKE(r->modules.at);
	rows->frame_count = r->frames.count;
	rows->frames = TAKE(r->frames.at);
	rows->node_count = r->nodes.count;
	rows->nodes = (struct node_row *)(void *)TAKE(r->nodes.items.at);
	rows->site_count = r->sites.count;
	rows->sites = TAKE(r->sites.at);
	rows->site_counters_count = r->counters.count;
	rows->site_counters = TAKE(r->counters.at);
	rows->name_count = r->names.count;
	rows->names = TAKE(r->names.at);
	rows->text_bytes = r->texts.count;
	rows->texts = TAKE(r->texts.at);
	r->modules.count = 0;
}

int imported_finish(struct imported_rows *r, const char *writer, const char *allocator,
		    struct span program, struct recording *ret, struct error *error)
{
	struct recording made = { .processes = calloc(1, sizeof *made.processes) };
	AUTO_FREE char *exe = strndup(program.size ? (const char *)program.data : "", program.size);

	if (r->failure || !made.processes || !exe) {
		free(made.processes);
		return error_set(error, "%s", r->failure ? r->failure : out_of_memory);
	}
	struct process_rows *rows = &made.processes[0];

	made.process_count = 1;
	*rows = r->rows; /* the times */
	take_rows(r, rows);
	made.warnings.raised_sites = r->raised_sites;
	made.run.started_real_ns = rows->process.started_real_ns;
	made.run.duration_ns = rows->process.duration_ns;
	made.run.peak_bytes = rows->process.peak_bytes;
	rows->process.command = strdup(exe);
	rows->process.allocator = strdup(allocator);
	rows->process.exe = TAKE(exe);
	if (fill_run(&made.run, writer, rows->process.exe) < 0 || !rows->process.command ||
	    !rows->process.allocator) {
		recording_release(&made);
		return error_set(error, "%s", out_of_memory);
	}
	*ret = made;
	return 0;
}
