/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof's profile.proto, gzipped.
 *
 * Ids are 1..n in table order, because Pyroscope and Parca reject anything else. A location is one address with its
 * inlined calls, innermost first. Addresses are ELF virtual addresses, and every mapping starts at 0: names are in
 * the file, so that no tool has to symbolize again.
 */
#include "export/pprof.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/pprof_fields.h"
#include "export/protobuf.h"
#include "export/sample_types.h"
#include "export/stacks.h"
#include "model/tags.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/gzip.h"

/* What was found of a node. */
struct known_node {
	uint32_t parent;
	uint32_t location; /* its id; 0: not looked up yet */
};

struct writer {
	const struct export_input *in;
	struct buffer *out;
	struct protobuf_table strings;
	struct numbering functions, chains, modules;
	struct sample_types types;
	VECTOR(struct location_chain) locations; /* in the order of `chains` */
	const struct profile_process *process;	 /* whose nodes are known */
	struct known_node *nodes;		 /* by id: stacks share most of them */
	bool failed;
};

static uint64_t text_id(struct writer *w, const char *text)
{
	return protobuf_table_text(&w->strings, text);
}

static void put_value_type(struct writer *w, unsigned field, const char *type, const char *unit)
{
	size_t begin = protobuf_begin(w->out, field);

	protobuf_number(w->out, 1, text_id(w, type));
	protobuf_number(w->out, 2, text_id(w, unit));
	protobuf_end(w->out, begin);
}

/* The id of a location chain, from 1. */
static uint64_t location_id(struct writer *w, struct location_chain chain)
{
	size_t known = w->chains.count;
	size_t number = number_of(&w->chains, chain.at);

	if (number == SIZE_MAX || (number == known && !vector_push(&w->locations, chain)))
		w->failed = true;
	return number + 1;
}

static void put_label(struct writer *w, const char *key, const char *word, uint64_t number)
{
	size_t begin = protobuf_begin(w->out, 3);

	protobuf_number(w->out, 1, text_id(w, key));
	protobuf_number(w->out, 2, text_id(w, word));
	protobuf_number(w->out, 3, number);
	protobuf_end(w->out, begin);
}

/* The labels that the program set with hg_label, by their keys. */
static void put_labels(struct writer *w, const struct entry *e)
{
	AUTO(arena_release) struct arena arena = ARENA_INIT;
	struct export_label labels[PROFILE_LABELS_MAX];
	ptrdiff_t count = entry_labels(e, &arena, labels);

	w->failed |= count < 0;
	for (ptrdiff_t i = 0; i < count; i++)
		put_label(w, labels[i].key, labels[i].value, 0);
}

/* Tags as labels, for pprof -tagfocus, -tags and -tagroot. */
static void put_tag(struct writer *w, const struct entry *e)
{
	AUTO(arena_release) struct arena arena = ARENA_INIT;
	const char *path = profile_tag_path(e->process, e->site->tag, &arena);
	const char *pool = profile_tag_pool(e->process, e->site->tag);

	w->failed |= !path;
	if (path && *path)
		put_label(w, "tag", path, 0);
	if (*pool)
		put_label(w, "pool", pool, 0);
	put_labels(w, e);
}

static void know_process(struct writer *w, const struct profile_process *process)
{
	if (w->process == process)
		return;
	free(w->nodes);
	w->nodes = calloc(process->node_count + 1, sizeof *w->nodes);
	w->failed |= !w->nodes;
	w->process = process;
}

static struct known_node know_node(struct writer *w, const struct profile_process *process,
				   uint32_t node)
{
	struct location_chain chain = locations_of(w->in->locations, process, (node_id){ node });

	w->failed |= !chain.at;
	if (chain.at)
		w->nodes[node] = (struct known_node){
			.parent = profile_parent(process, (node_id){ node }).v,
			.location = (uint32_t)location_id(w, chain),
		};
	return w->nodes[node];
}

static void put_stack(struct writer *w, const struct entry *e)
{
	size_t begin = protobuf_begin(w->out, 1);

	know_process(w, e->process);
	for (uint32_t n = e->site->node.v; n && !w->failed;) {
		struct known_node known = w->nodes[n];

		if (!known.location)
			known = know_node(w, e->process, n);
		if (!w->failed)
			protobuf_element(w->out, known.location);
		n = known.parent;
	}
	protobuf_end(w->out, begin);
}

static void put_sample(struct writer *w, const struct entry *e)
{
	size_t sample = protobuf_begin(w->out, PROFILE_SAMPLE);

	put_stack(w, e);
	size_t values = protobuf_begin(w->out, 2);

	for (size_t i = 0; i < w->types.count; i++)
		protobuf_element(w->out, (uint64_t)sample_value(w->in, &w->types.at[i], &e->m));
	protobuf_end(w->out, values);
	if (w->in->profile->process_count > 1)
		put_label(w, "pid", NULL, e->process->pid);
	for (size_t i = 0; w->in->interval && i < w->in->interval->label_count; i++)
		put_label(w, w->in->interval->labels[i].key, w->in->interval->labels[i].value, 0);
	if (!tag_id_is_none(e->site->tag))
		put_tag(w, e);
	protobuf_end(w->out, sample);
}

static void put_line(struct writer *w, const struct location *location)
{
	/* One function per name and file, regardless of its address. */
	const struct location *first = locations_example(w->in->locations, AXIS_FUNCTION,
							 location_key(location, AXIS_FUNCTION));
	size_t number = number_of(&w->functions, first);
	size_t line = protobuf_begin(w->out, 4);

	w->failed |= number == SIZE_MAX;
	protobuf_number(w->out, 1, number + 1);
	protobuf_number(w->out, 2, location->frame.line);
	protobuf_end(w->out, line);
}

/* Tools take the first mapping as the main program: make it that of the first process. */
static void number_program(struct writer *w)
{
	const struct profile *profile = w->in->profile;

	for (size_t i = 0; i < w->locations.count && !w->modules.count; i++) {
		const char *module = w->locations.at[i].at[0]->frame.module;

		if (strcmp(module, profile->processes[0].exe) == 0)
			w->failed |= number_of(&w->modules, module) == SIZE_MAX;
	}
}

static bool is_unnamed(const struct writer *w)
{
	return w->in->interval && w->in->interval->unnamed;
}

/* Frames of Python and of no module have names in any case: nobody could find them later. */
static bool is_address(const struct writer *w, const struct result_frame *frame)
{
	return is_unnamed(w) && frame->module[0] == '/' && !frame->file;
}

static void put_locations(struct writer *w)
{
	number_program(w);
	for (size_t i = 0; i < w->locations.count && !w->failed; i++) {
		struct location_chain chain = w->locations.at[i];
		const struct result_frame *f = &chain.at[0]->frame;
		uint64_t mapping = 0;

		if (f->module[0]) {
			size_t number = number_of(&w->modules, f->module);

			w->failed |= number == SIZE_MAX;
			mapping = number + 1;
		}
		size_t begin = protobuf_begin(w->out, PROFILE_LOCATION);

		protobuf_number(w->out, 1, i + 1);
		protobuf_number(w->out, 2, mapping);
		protobuf_number(w->out, 3, f->offset);
		for (size_t j = 0; j < chain.count && !is_address(w, f); j++)
			put_line(w, chain.at[j]);
		protobuf_end(w->out, begin);
	}
}

static void put_functions(struct writer *w)
{
	for (size_t i = 0; i < w->functions.count && !w->failed; i++) {
		const struct location *location = numbered(&w->functions, i);
		size_t begin = protobuf_begin(w->out, PROFILE_FUNCTION);

		protobuf_number(w->out, 1, i + 1);
		protobuf_number(w->out, 2, text_id(w, location->frame.function));
		/*
		 * No system name (field 3): if it equals the name, pprof assumes that it is not yet
		 * demangled, and removes all parentheses and templates.
		 */
		protobuf_number(w->out, 4, text_id(w, location->frame.file));
		protobuf_end(w->out, begin);
	}
}

static void put_mappings(struct writer *w)
{
	for (size_t i = 0; i < w->modules.count && !w->failed; i++) {
		const char *path = numbered(&w->modules, i);
		AUTO(buffer_release) struct buffer id = BUFFER_INIT;
		size_t begin = protobuf_begin(w->out, PROFILE_MAPPING);

		buffer_build_id(&id, w->in->profile, path);
		protobuf_number(w->out, 1, i + 1);
		protobuf_number(w->out, 3, UINT64_C(1) << 47);
		protobuf_number(w->out, 5, text_id(w, path));
		protobuf_number(w->out, 6, text_id(w, buffer_string(&id)));
		w->failed |= id.failed;
		for (unsigned has = 7; has <= 10 && !is_unnamed(w); has++)
			protobuf_number(w->out, has, 1);
		protobuf_end(w->out, begin);
	}
}

static void put_types(struct writer *w)
{
	w->types = sample_types_of(w->in);
	for (size_t i = 0; i < w->types.count; i++)
		put_value_type(w, PROFILE_SAMPLE_TYPE, w->types.at[i].name, w->types.at[i].unit);
}

static void put_all(struct writer *w)
{
	const struct profile *profile = w->in->profile;
	const struct export_interval *interval = w->in->interval;

	put_types(w);
	for (size_t i = 0; i < w->in->selection->count && !w->failed; i++)
		put_sample(w, &w->in->selection->entries[i]);
	put_locations(w);
	put_functions(w);
	put_mappings(w);
	protobuf_number(w->out, PROFILE_TIME_NANOS,
			interval ? interval->at_real_ns : profile->started_real_ns);
	protobuf_number(w->out, PROFILE_DURATION_NANOS,
			interval ? interval->duration_ns : profile->duration_ns);
	put_value_type(w, PROFILE_PERIOD_TYPE, "space", "bytes");
	protobuf_number(w->out, PROFILE_PERIOD, sampling_period(profile));
	/* Arguments may be secrets, and the profile of an interval goes to a store that others read. */
	protobuf_number(
		w->out, PROFILE_COMMENT,
		text_id(w, interval ? path_base(profile->processes[0].exe) : profile->command));
	protobuf_number(w->out, PROFILE_COMMENT, text_id(w, live_moment(w->in->selection)));
	if (is_estimated(w->in))
		protobuf_number(w->out, PROFILE_COMMENT,
				text_id(w, estimate_words(w->in).text + 1));
	if (interval && interval->comment)
		protobuf_number(w->out, PROFILE_COMMENT, text_id(w, interval->comment));
	protobuf_number(w->out, PROFILE_DEFAULT_SAMPLE_TYPE,
			text_id(w, w->types.at[w->types.selected].name));
	buffer_append(w->out, w->strings.bytes.data, w->strings.bytes.size);
	w->failed |= w->strings.bytes.failed || w->out->failed;
}

int pprof_encode(const struct export_input *in, struct buffer *out, struct error *error)
{
	struct writer w = { .in = in, .out = out };

	protobuf_table_init(&w.strings, PROFILE_STRING);
	put_all(&w);
	protobuf_table_release(&w.strings);
	numbering_release(&w.functions);
	numbering_release(&w.chains);
	numbering_release(&w.modules);
	vector_release(&w.locations);
	free(w.nodes);
	return w.failed ? no_memory(error) : 0;
}

int export_pprof(const struct export_input *in, FILE *out, struct error *error)
{
	AUTO(buffer_release) struct buffer plain = BUFFER_INIT;
	AUTO(buffer_release) struct buffer packed = BUFFER_INIT;

	if (pprof_encode(in, &plain, error) < 0)
		return -1;
	if (!gzip_append(&packed, buffer_span(&plain), GZIP_USUAL))
		return no_memory(error);
	fwrite(packed.data, 1, packed.size, out);
	return 0;
}
