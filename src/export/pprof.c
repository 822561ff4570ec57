/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof's profile.proto, gzipped. Encoded by hand: the format has a dozen fields, and a code generator would be more
 * code.
 *
 * Ids are 1..n in table order, because Pyroscope and Parca reject anything else. A location is one address with its
 * inlined calls, innermost first. Addresses are ELF virtual addresses, and every mapping starts at 0: names are in
 * the file, so that no tool has to symbolize again.
 *
 * Sample types are those of every heap profile: alloc_objects, alloc_space, inuse_objects, inuse_space; the last two
 * at the selected moment. Any other cost is a fifth type.
 *
 * In a sampled recording each has its variance as an additional type: tools add up the values of a function, and
 * variances are additive, but standard errors are not.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/compiler.h"
#include "export/stacks.h"
#include "model/tags.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/intern.h"

/* Field numbers of profile.proto. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING = 6,
	PROFILE_TIME_NANOS = 9,
	PROFILE_DURATION_NANOS = 10,
	PROFILE_PERIOD_TYPE = 11,
	PROFILE_PERIOD = 12,
	PROFILE_COMMENT = 13,
	PROFILE_DEFAULT_SAMPLE_TYPE = 14,
};

struct sample_type {
	const char *name;
	enum cost_id cost;
	const char *variance; /* sample type of its variance; NULL: every block was recorded */
};

/* Present in every profile. */
static const struct sample_type usual[] = {
	{ "alloc_objects", COST_CALLS, "alloc_objects_variance" },
	{ "alloc_space", COST_TOTAL, "alloc_space_variance" },
	{ "inuse_objects", COST_BLOCKS, "inuse_objects_variance" },
	{ "inuse_space", COST_LIVE, "inuse_space_variance" },
};
/* Plus the selected cost. */
enum { TYPES_MAX = ARRAY_SIZE(usual) + 1 };

struct writer {
	const struct export_input *in;
	struct buffer bytes;   /* the profile so far */
	struct buffer message; /* the current message */
	struct numbering strings, functions, chains, modules;
	struct sample_type types[TYPES_MAX];
	size_t type_count, asked;		 /* index of the type of the selected cost */
	VECTOR(struct location_chain) locations; /* in the order of `chains` */
	VECTOR(uint64_t) ids;
	struct intern tags; /* interned texts: strings are numbered by address */
	bool failed;
};

static void put_varint(struct buffer *b, uint64_t value)
{
	while (value >= 0x80) {
		buffer_char(b, (char)(value | 0x80));
		value >>= 7;
	}
	buffer_char(b, (char)value);
}

static void put_number(struct buffer *b, unsigned field, uint64_t value)
{
	if (value == 0)
		return; /* the default */
	put_varint(b, field << 3);
	put_varint(b, value);
}

static void put_bytes(struct buffer *b, unsigned field, const void *data, size_t size)
{
	put_varint(b, field << 3 | 2);
	put_varint(b, size);
	buffer_append(b, data, size);
}

/* Appends the message to the profile. */
static void end_message(struct writer *w, unsigned field)
{
	put_bytes(&w->bytes, field, w->message.data, w->message.size);
	w->failed |= w->message.failed;
	buffer_clear(&w->message);
}

static uint64_t text_id(struct writer *w, const char *text)
{
	size_t number = number_of(&w->strings, text ? text : "");

	w->failed |= number == SIZE_MAX;
	return number;
}

static void put_value_type(struct writer *w, unsigned field, const char *type, const char *unit)
{
	put_number(&w->message, 1, text_id(w, type));
	put_number(&w->message, 2, text_id(w, unit));
	end_message(w, field);
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

static void put_packed(struct writer *w, unsigned field)
{
	struct buffer packed = BUFFER_INIT;

	for (size_t i = 0; i < w->ids.count; i++)
		put_varint(&packed, w->ids.at[i]);
	put_bytes(&w->message, field, packed.data, packed.size);
	w->failed |= packed.failed;
	buffer_release(&packed);
	w->ids.count = 0;
}

static void push_id(struct writer *w, uint64_t id)
{
	w->failed |= !vector_push(&w->ids, id);
}

static void put_label(struct writer *w, const char *key, uint64_t number)
{
	struct buffer label = BUFFER_INIT;

	put_number(&label, 1, text_id(w, key));
	put_number(&label, 3, number);
	put_bytes(&w->message, 3, label.data, label.size);
	w->failed |= label.failed;
	buffer_release(&label);
}

static void put_word(struct writer *w, const char *key, const char *word)
{
	struct buffer label = BUFFER_INIT;

	put_number(&label, 1, text_id(w, key));
	word = word ? intern_text(&w->tags, word) : NULL;
	put_number(&label, 2, text_id(w, word));
	put_bytes(&w->message, 3, label.data, label.size);
	w->failed |= label.failed || !word;
	buffer_release(&label);
}

/* The labels that the program set with hg_label, by their keys. */
static void put_labels(struct writer *w, const struct entry *e)
{
	const char *labels[PROFILE_LABELS_MAX];
	size_t count = profile_tag_label_list(e->process, e->site->tag, labels);

	for (size_t i = 0; i < count; i++) {
		AUTO(arena_release) struct arena arena = ARENA_INIT;
		size_t length = strcspn(labels[i], "=");
		const char *key = arena_string(&arena, span_of(labels[i], length));

		key = key ? intern_text(&w->tags, key) : NULL;
		w->failed |= !key;
		if (key)
			put_word(w, key, labels[i] + length + 1);
	}
}

/* Tags as labels, for pprof -tagfocus, -tags and -tagroot. */
static void put_tag(struct writer *w, const struct entry *e)
{
	AUTO(arena_release) struct arena arena = ARENA_INIT;
	const char *path = profile_tag_path(e->process, e->site->tag, &arena);
	const char *pool = profile_tag_pool(e->process, e->site->tag);

	if (!path || *path)
		put_word(w, "tag", path);
	if (*pool)
		put_word(w, "pool", pool);
	put_labels(w, e);
}

static void put_sample(struct writer *w, const struct entry *e)
{
	for (node_id n = e->site->node; n.v && !w->failed; n = profile_node(e->process, n).parent) {
		struct location_chain chain = locations_of(w->in->locations, e->process, n);

		w->failed |= !chain.at;
		if (chain.at)
			push_id(w, location_id(w, chain));
	}
	put_packed(w, 1);
	for (size_t i = 0; i < w->type_count; i++)
		push_id(w,
			(uint64_t)cost_of(w->types[i].cost, &e->m, w->in->selection->duration_ns));
	for (size_t i = 0; i < w->type_count && w->types[i].variance; i++)
		push_id(w, (uint64_t)whole_variance(fabs(cost_variance(
				   w->types[i].cost, &e->m, w->in->selection->duration_ns))));
	put_packed(w, 2);
	if (w->in->profile->process_count > 1)
		put_label(w, "pid", e->process->pid);
	if (!tag_id_is_none(e->site->tag))
		put_tag(w, e);
	end_message(w, PROFILE_SAMPLE);
}

static void put_line(struct writer *w, const struct location *location)
{
	/* One function per name and file, regardless of its address. */
	const struct location *first = locations_example(w->in->locations, AXIS_FUNCTION,
							 location_key(location, AXIS_FUNCTION));
	size_t number = number_of(&w->functions, first);
	struct buffer line = BUFFER_INIT;

	w->failed |= number == SIZE_MAX;
	put_number(&line, 1, number + 1);
	put_number(&line, 2, location->frame.line);
	put_bytes(&w->message, 4, line.data, line.size);
	w->failed |= line.failed;
	buffer_release(&line);
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
		put_number(&w->message, 1, i + 1);
		put_number(&w->message, 2, mapping);
		put_number(&w->message, 3, f->offset);
		for (size_t j = 0; j < chain.count; j++)
			put_line(w, chain.at[j]);
		end_message(w, PROFILE_LOCATION);
	}
}

static void put_functions(struct writer *w)
{
	for (size_t i = 0; i < w->functions.count && !w->failed; i++) {
		const struct location *location = numbered(&w->functions, i);

		put_number(&w->message, 1, i + 1);
		put_number(&w->message, 2, text_id(w, location->frame.function));
		/*
		 * No system name (field 3): if it equals the name, pprof assumes that it is not yet
		 * demangled, and removes all parentheses and templates.
		 */
		put_number(&w->message, 4, text_id(w, location->frame.file));
		end_message(w, PROFILE_FUNCTION);
	}
}

/* The build-id of the module with that path in any process; empty if unknown. */
static struct span build_id_of(const struct profile *profile, const char *path)
{
	for (size_t i = 0; i < profile->process_count; i++) {
		const struct profile_process *p = &profile->processes[i];

		for (size_t j = 1; j < p->module_count; j++)
			if (p->modules[j].build_id.size && strcmp(p->modules[j].path, path) == 0)
				return p->modules[j].build_id;
	}
	return (struct span){ 0 };
}

/* Formats bytes as hex; the text must live until the end, since strings are numbered by address. */
static const char *hex_text(struct writer *w, struct span bytes, struct arena *arena)
{
	char *text = arena_alloc(arena, bytes.size * 2 + 1);

	for (size_t i = 0; text && i < bytes.size; i++)
		snprintf(text + i * 2, 3, "%02x", ((const uint8_t *)bytes.data)[i]);
	w->failed |= !text;
	return text;
}

static void put_mappings(struct writer *w, struct arena *arena)
{
	for (size_t i = 0; i < w->modules.count && !w->failed; i++) {
		const char *path = numbered(&w->modules, i);
		struct span id = build_id_of(w->in->profile, path);

		put_number(&w->message, 1, i + 1);
		put_number(&w->message, 3, UINT64_C(1) << 47);
		put_number(&w->message, 5, text_id(w, path));
		if (id.size)
			put_number(&w->message, 6, text_id(w, hex_text(w, id, arena)));
		for (unsigned has = 7; has <= 10; has++)
			put_number(&w->message, has, 1);
		end_message(w, PROFILE_MAPPING);
	}
}

static void put_strings(struct writer *w)
{
	for (size_t i = 0; i < w->strings.count; i++) {
		buffer_safe(&w->message, numbered(&w->strings, i));
		end_message(w, PROFILE_STRING);
	}
}

static void put_types(struct writer *w)
{
	enum cost_id cost = w->in->selection->cost;

	memcpy(w->types, usual, sizeof usual);
	w->type_count = w->asked = ARRAY_SIZE(usual);
	for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
		if (usual[i].cost == cost)
			w->asked = i;
	if (w->asked == w->type_count)
		w->types[w->type_count++] =
			(struct sample_type){ cost_rows[cost].key, cost, "variance" };
	for (size_t i = 0; i < w->type_count; i++)
		put_value_type(w, PROFILE_SAMPLE_TYPE, w->types[i].name,
			       cost_unit_word(w->types[i].cost));
	for (size_t i = 0; i < w->type_count; i++) {
		if (!is_estimated(w->in))
			w->types[i].variance = NULL;
		else
			put_value_type(w, PROFILE_SAMPLE_TYPE, w->types[i].variance, "variance");
	}
}

/* 1 if every block was recorded, else the average bytes between samples. */
static uint64_t period_of(const struct profile *profile)
{
	uint64_t period = 1;

	for (size_t i = 0; i < profile->process_count; i++)
		period = MAX(period, profile->processes[i].interval);
	return period;
}

static void put_all(struct writer *w, struct arena *arena)
{
	const struct profile *profile = w->in->profile;

	text_id(w, ""); /* string 0 must be empty */
	put_types(w);
	for (size_t i = 0; i < w->in->selection->count && !w->failed; i++)
		put_sample(w, &w->in->selection->entries[i]);
	put_locations(w);
	put_functions(w);
	put_mappings(w, arena);
	put_number(&w->bytes, PROFILE_TIME_NANOS, profile->started_real_ns);
	put_number(&w->bytes, PROFILE_DURATION_NANOS, profile->duration_ns);
	put_value_type(w, PROFILE_PERIOD_TYPE, "space", "bytes");
	put_number(&w->bytes, PROFILE_PERIOD, period_of(profile));
	put_number(&w->bytes, PROFILE_COMMENT, text_id(w, profile->command));
	put_number(&w->bytes, PROFILE_COMMENT, text_id(w, live_moment(w->in->selection)));
	if (is_estimated(w->in))
		put_number(&w->bytes, PROFILE_COMMENT,
			   text_id(w, arena_strdup(arena, estimate_words(w->in).text + 1)));
	put_number(&w->bytes, PROFILE_DEFAULT_SAMPLE_TYPE, text_id(w, w->types[w->asked].name));
	put_strings(w);
	w->failed |= w->bytes.failed;
}

static int write_gzip(struct span bytes, FILE *out, struct error *error)
{
	enum { GZIP_WINDOW = 15 + 16, ROOM = 1 << 16 };
	z_stream z = { .next_in = (Bytef *)(uintptr_t)bytes.data };
	size_t left = bytes.size;
	int status = deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
				  Z_DEFAULT_STRATEGY);
	Bytef *room = malloc(ROOM);

	if (status != Z_OK || !room) {
		free(room);
		return no_memory(error);
	}
	do {
		if (z.avail_in == 0) {
			z.avail_in = (uInt)MIN(left, (size_t)1 << 30);
			left -= z.avail_in;
		}
		z.next_out = room;
		z.avail_out = ROOM;
		status = deflate(&z, left ? Z_NO_FLUSH : Z_FINISH);
		fwrite(room, 1, ROOM - z.avail_out, out);
	} while (status == Z_OK || status == Z_BUF_ERROR);
	deflateEnd(&z);
	free(room);
	return status == Z_STREAM_END ? 0 : error_set(error, "cannot compress");
}

int export_pprof(const struct export_input *in, FILE *out, struct error *error)
{
	struct writer w = { .in = in };
	struct arena arena = ARENA_INIT;
	int status = -1;

	put_all(&w, &arena);
	status = w.failed ? no_memory(error)
			  : write_gzip((struct span){ w.bytes.data, w.bytes.size }, out, error);
	buffer_release(&w.bytes);
	buffer_release(&w.message);
	numbering_release(&w.strings);
	numbering_release(&w.functions);
	numbering_release(&w.chains);
	numbering_release(&w.modules);
	vector_release(&w.locations);
	vector_release(&w.ids);
	intern_release(&w.tags);
	arena_release(&arena);
	return status;
}
