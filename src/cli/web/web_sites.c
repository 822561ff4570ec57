/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sites of a recording for a saved page, which filters and sums them itself: one array per field, because a record
 * per site would be many times as large. Stacks are a tree: a node has the number of the node before it (its caller),
 * counted from 1, and a frame. Texts are written once. All lists but those of numbers have differences to the entry
 * before, most of which are 0 or 1.
 *
 * What only this side can tell from a stack is a field of the site: its owner, the frame that filters on modules and
 * languages look at, and the type of its blocks.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/result/imported.h"
#include "analysis/result/owners.h"
#include "analysis/result/types.h"
#include "base/compiler.h"
#include "cli/web/web.h"
#include "model/entries.h"
#include "model/tags.h"
#include "util/cleanup.h"
#include "util/numbering.h"
#include "util/text/json.h"

/* A step of a stack inwards. */
struct step {
	uint32_t before, frame; /* before: number of the node + 1; 0: none */
};

struct site_row {
	const struct profile_site *site;
	uint32_t process, node;			      /* node: like step.before */
	uint32_t caller;			      /* the frame that allocates, + 1; 0: none */
	uint32_t own, type, tag, pool, labels, entry; /* texts */
};

struct sites {
	const struct profile *profile;
	struct locations *locations;
	struct owners owners;
	struct types *types;
	struct result labels; /* its arena has the labels of owners */
	struct intern texts;
	struct numbering text_numbers, frames, nodes;
	VECTOR(struct step) steps; /* by node */
	VECTOR(struct site_row) rows;
	/* Of the current process, by stack: its node in the form of step.before, + 1; 0: not yet known. */
	uint32_t *reached;
	VECTOR(uint32_t) path;
};

static void sites_release(struct sites *s)
{
	owners_release(&s->owners);
	types_free(s->types);
	arena_release(&s->labels.arena);
	intern_release(&s->texts);
	numbering_release(&s->text_numbers);
	numbering_release(&s->frames);
	numbering_release(&s->nodes);
	vector_release(&s->steps);
	vector_release(&s->rows);
	vector_release(&s->path);
	free(s->reached);
	locations_free(s->locations);
}

static bool number_text(struct sites *s, const char *text, uint32_t *ret)
{
	const char *kept = text ? intern_text(&s->texts, text) : NULL;
	size_t number = kept ? number_of(&s->text_numbers, kept) : SIZE_MAX;

	*ret = (uint32_t)number;
	return number < UINT32_MAX;
}

/* A line for each label: values may contain spaces. */
static bool number_labels(struct sites *s, const struct profile_process *p, tag_id tag,
			  uint32_t *ret)
{
	const char *labels[PROFILE_LABELS_MAX], *text = "";
	size_t count = profile_tag_label_list(p, tag, labels);

	for (size_t i = 0; i < count && text; i++)
		text = arena_printf(&s->labels.arena, "%s%s%s", text, i ? "\n" : "", labels[i]);
	return number_text(s, text, ret);
}

static bool number_frame(struct sites *s, const struct location *location, uint32_t *ret)
{
	size_t number = number_of(&s->frames, location);

	*ret = (uint32_t)number;
	return number < UINT32_MAX;
}

/* Goes on from *node by the frames of a stack's innermost call. */
static bool enter(struct sites *s, const struct profile_process *p, node_id stack, uint32_t *node)
{
	struct location_chain chain = locations_of(s->locations, p, stack);

	for (size_t i = chain.count; i > 0; i--) {
		struct step step = { .before = *node };

		if (!number_frame(s, chain.at[i - 1], &step.frame))
			return false;
		size_t known = s->nodes.count, number = number_of(&s->nodes, step);

		if (number >= UINT32_MAX - 1 || (number == known && !vector_push(&s->steps, step)))
			return false;
		*node = (uint32_t)number + 1;
	}
	return chain.at;
}

/* Walks up to a caller with a known node, then back down. */
static bool reach(struct sites *s, const struct profile_process *p, node_id stack, uint32_t *ret)
{
	s->path.count = 0;
	for (; stack.v && !s->reached[stack.v]; stack = profile_parent(p, stack))
		if (!vector_push(&s->path, stack.v))
			return false;
	*ret = stack.v ? s->reached[stack.v] - 1 : 0;
	while (s->path.count) {
		uint32_t next = s->path.at[--s->path.count];

		if (!enter(s, p, (node_id){ next }, ret))
			return false;
		s->reached[next] = *ret + 1;
	}
	return true;
}

static bool add_site(struct sites *s, uint32_t process, const struct profile_site *site)
{
	const struct profile_process *p = &s->profile->processes[process];
	struct site_row row = { .site = site, .process = process };
	struct arena *arena = &s->labels.arena;
	struct owner_search found;
	uint32_t type;

	if (!owners_find(&s->owners, p, site->node, &found) ||
	    types_of_stack(s->types, p, site->node, &type) < 0 ||
	    !reach(s, p, site->node, &row.node))
		return false;
	const struct location *caller = owner_informative(&found);

	if (caller && (!number_frame(s, caller, &row.caller) || row.caller++ == UINT32_MAX))
		return false;
	return number_text(s, owners_label(&s->owners, p, site->node, &s->labels), &row.own) &&
	       number_text(s, types_name(s->types, type), &row.type) &&
	       number_text(s, profile_tag_path(p, site->tag, arena), &row.tag) &&
	       number_text(s, profile_tag_pool(p, site->tag), &row.pool) &&
	       number_text(s, profile_entry_name(site), &row.entry) &&
	       number_labels(s, p, site->tag, &row.labels) && vector_push(&s->rows, row);
}

static bool add_process(struct sites *s, uint32_t process)
{
	const struct profile_process *p = &s->profile->processes[process];

	free(s->reached);
	s->reached = calloc(p->node_count + 1, sizeof *s->reached);
	for (size_t i = 0; i < p->site_count && s->reached; i++)
		if (!add_site(s, process, &p->sites[i]))
			return false;
	return s->reached;
}

/* ---- writing ---- */

/* The fields that are numbers of the site, under the names that they have in the view `sites`. */
#define NUMBER(name, field)                                                                        \
	{                                                                                          \
		name, offsetof(struct site_numbers, field)                                         \
	}
static const struct {
	const char *name;
	size_t at;
} numbers[] = {
	NUMBER("peak_bytes", peak_bytes),
	NUMBER("peak_blocks", peak_blocks),
	NUMBER("not_freed_bytes", live_bytes),
	NUMBER("not_freed_blocks", live_blocks),
	NUMBER("total_bytes", bytes),
	NUMBER("calls", calls),
	NUMBER("temporary_calls", temporary_calls),
	NUMBER("frees", frees),
	NUMBER("max_bytes", max_bytes),
	NUMBER("internal_fragmentation_bytes", fragmentation_bytes),
	NUMBER("lifetime_ms", lifetime_ms_sum),
	NUMBER("aged_frees", aged_frees),
	NUMBER("copied_bytes", reallocs.moved_bytes),
};

/* The other fields. */
#define FIELD(name, field)                                                                         \
	{                                                                                          \
		name, offsetof(struct site_row, field)                                             \
	}
static const struct {
	const char *name;
	size_t at;
} fields[] = {
	FIELD("process", process), FIELD("node", node),	    FIELD("caller", caller),
	FIELD("own", own),	   FIELD("type", type),	    FIELD("tag", tag),
	FIELD("pool", pool),	   FIELD("labels", labels), FIELD("entry", entry),
};

static void begin_list(struct json *j, const char *name)
{
	json_key(j, name);
	json_array(j);
}

/* Writes the difference to *last, which becomes the value. */
static void write_difference(struct json *j, uint64_t value, uint64_t *last)
{
	json_i64(j, (int64_t)(value - *last));
	*last = value;
}

static void write_rows(struct json *j, const struct sites *s)
{
	uint64_t last;

	json_key(j, "sites");
	json_object(j);
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		begin_list(j, fields[i].name);
		last = 0;
		for (size_t r = 0; r < s->rows.count; r++) {
			uint32_t value;

			memcpy(&value, (const char *)&s->rows.at[r] + fields[i].at, sizeof value);
			write_difference(j, value, &last);
		}
		json_end_array(j);
	}
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		begin_list(j, numbers[i].name);
		for (size_t r = 0; r < s->rows.count; r++) {
			const struct site_numbers *n = &s->rows.at[r].site->numbers;
			uint64_t value;

			memcpy(&value, (const char *)n + numbers[i].at, sizeof value);
			json_u64(j, value);
		}
		json_end_array(j);
	}
	begin_list(j, "site");
	last = 0;
	for (size_t r = 0; r < s->rows.count; r++)
		write_difference(j, s->rows.at[r].site->id.v, &last);
	json_end_array(j);
	begin_list(j, "kind");
	last = 0;
	for (size_t r = 0; r < s->rows.count; r++)
		write_difference(j, s->rows.at[r].site->kind, &last);
	json_end_array(j);
	begin_list(j, "first_seen_ns");
	last = 0;
	for (size_t r = 0; r < s->rows.count; r++)
		write_difference(j, s->rows.at[r].site->born_ns, &last);
	json_end_array(j);
	json_end_object(j);
}

static void write_frame(struct json *j, const struct result_frame *f)
{
	json_object(j);
	json_field_string(j, "function", f->function);
	if (strcmp(f->full, f->function) != 0)
		json_field_string(j, "full", f->full);
	json_field_string(j, "file", f->file);
	json_field_u64(j, "line", f->line);
	json_field_string(j, "module", f->module);
	json_field_bool(j, "inlined", f->inlined);
	json_field_bool(j, "runtime_frame", f->runtime_frame);
	json_field_bool(j, "own", f->own);
	json_field_string(j, "language", f->language);
	json_end_object(j);
}

static void write_stacks(struct json *j, const struct sites *s)
{
	uint64_t last = 0;

	begin_list(j, "frames");
	for (size_t i = 0; i < s->frames.count; i++) {
		const struct location *location = numbered(&s->frames, i);

		write_frame(j, &location->frame);
	}
	json_end_array(j);
	begin_list(j, "before");
	for (size_t i = 0; i < s->steps.count; i++)
		write_difference(j, s->steps.at[i].before, &last);
	json_end_array(j);
	begin_list(j, "frame");
	last = 0;
	for (size_t i = 0; i < s->steps.count; i++)
		write_difference(j, s->steps.at[i].frame, &last);
	json_end_array(j);
}

static void write_all(struct json *j, const struct sites *s)
{
	json_object(j);
	begin_list(j, "kinds");
	for (enum profile_kind kind = 0; kind < PROFILE_KINDS; kind++)
		json_string(j, profile_kind_name(kind));
	json_end_array(j);
	begin_list(j, "processes");
	for (size_t i = 0; i < s->profile->process_count; i++) {
		const struct profile_process *p = &s->profile->processes[i];

		json_object(j);
		json_field_u64(j, "pid", p->pid);
		json_field_u64(j, "rank", p->rank);
		json_field_string(j, "command", p->command);
		json_field_bool(j, "leaks", profile_end_leaks(p->end));
		json_end_object(j);
	}
	json_end_array(j);
	begin_list(j, "texts");
	for (size_t i = 0; i < s->text_numbers.count; i++)
		json_string(j, numbered(&s->text_numbers, i));
	json_end_array(j);
	write_stacks(j, s);
	write_rows(j, s);
	json_end_object(j);
}

const char *web_sites_missing(const struct web *web)
{
	const struct profile *profile = web->files.at[0].profile;

	if (web->asked->query.filters.suppression_path)
		return "it was saved with suppressions";
	if (profile_is_imported(profile))
		return "it shows a heap profile of another tool, which has few of the numbers";
	for (size_t i = 0; i < profile->process_count; i++)
		for (size_t k = 0; k < profile->processes[i].site_count; k++)
			if (profile->processes[i].sites[k].interval)
				return "its numbers are estimates, whose errors it has only as sums";
	return NULL;
}

int web_sites(struct web *web, struct buffer *out, struct error *error)
{
	struct query_options asked = query_options_init();
	struct names *names = web_names(web, &web->files.at[0], false, asked.names.style);
	AUTO(sites_release)
	struct sites s = { .profile = web->files.at[0].profile };
	struct json j = json_to(out, JSON_COMPACT);
	bool done = names != NULL;

	query_options_release(&asked);
	s.locations = done ? locations_new(names) : NULL;
	s.types = s.locations ? types_new(s.locations) : NULL;
	s.owners.locations = s.locations;
	done = s.types;
	for (uint32_t i = 0; i < s.profile->process_count && done; i++)
		done = add_process(&s, i);
	if (done)
		write_all(&j, &s);
	return done && !out->failed ? 0 : error_set(error, "out of memory");
}
