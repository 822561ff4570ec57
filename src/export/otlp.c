/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenTelemetry profiles: an ExportProfilesServiceRequest of OTLP 1.10.0, not compressed, so that the file can be sent as it is
 * to a collector's /v1development/profiles. The signal is alpha: names and numbers below are those of that version.
 *
 * Each process is a resource with one profile for each sample type, because a profile has one; the selected cost is the first,
 * which tools show by default. All share one dictionary, whose tables begin with the zero value: index 0 means none. A location is
 * one address with its inlined calls, as in pprof.c. Samples whose value is 0 are omitted.
 *
 * A resource is written as soon as it is complete; the dictionary is the end of the file.
 */
#include <string.h>

#include "base/compiler.h"
#include "export/protobuf.h"
#include "export/sample_types.h"
#include "export/stacks.h"
#include "model/tags.h"
#include "util/cleanup.h"
#include "util/files.h"

/* Field numbers, by message. */
enum { REQUEST_RESOURCE_PROFILES = 1, REQUEST_DICTIONARY = 2 };
enum { RESOURCE_PROFILES_RESOURCE = 1, RESOURCE_PROFILES_SCOPE_PROFILES = 2 };
enum { RESOURCE_ATTRIBUTES = 1 };
enum { SCOPE_PROFILES_SCOPE = 1, SCOPE_PROFILES_PROFILES = 2 };
enum { SCOPE_NAME = 1, SCOPE_VERSION = 2 };
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLES = 2,
	PROFILE_TIME_UNIX_NANO = 3,
	PROFILE_DURATION_NANO = 4,
	PROFILE_PERIOD_TYPE = 5,
	PROFILE_PERIOD = 6,
	PROFILE_ATTRIBUTE_INDICES = 11,
};
enum { VALUE_TYPE_TYPE = 1, VALUE_TYPE_UNIT = 2 };
enum { SAMPLE_STACK_INDEX = 1, SAMPLE_ATTRIBUTE_INDICES = 2, SAMPLE_VALUES = 4 };
enum { MAPPING_MEMORY_LIMIT = 2, MAPPING_FILENAME = 4, MAPPING_ATTRIBUTE_INDICES = 5 };
enum { STACK_LOCATION_INDICES = 1 };
enum {
	LOCATION_MAPPING_INDEX = 1,
	LOCATION_ADDRESS = 2,
	LOCATION_LINES = 3,
	LOCATION_ATTRIBUTE_INDICES = 4,
};
enum { LINE_FUNCTION_INDEX = 1, LINE_LINE = 2 };
enum { FUNCTION_NAME = 1, FUNCTION_FILENAME = 3 };
/* The key is a string in a resource, and an index in the dictionary. */
enum { KEY_VALUE_KEY = 1, KEY_VALUE_VALUE = 2 };
enum { ANY_STRING = 1, ANY_INT = 3 };

/* The tables of the dictionary, by their field numbers. */
enum { MAPPINGS = 1, LOCATIONS, FUNCTIONS, LINKS, STRINGS, ATTRIBUTES, STACKS, TABLES_END };

struct sample {
	struct span identity; /* its fields but the value, encoded */
	struct measures m;
};

struct writer {
	const struct export_input *in;
	FILE *out;
	struct buffer message; /* the resource being written */
	struct protobuf_table tables[TABLES_END];
	struct numbering chains;    /* of locations; ... */
	VECTOR(uint64_t) locations; /* ... by their number: index of the location */
	/* Of the process being written: */
	struct intern identities; /* their values: index of the sample + 1 */
	VECTOR(struct sample) samples;
	struct sample_types types;
	bool failed;
};

static uint64_t text_index(struct writer *w, const char *text)
{
	return protobuf_table_text(&w->tables[STRINGS], text);
}

static uint64_t add_item(struct writer *w, unsigned table, const struct buffer *item)
{
	w->failed |= item->failed;
	return protobuf_table_add(&w->tables[table], buffer_span(item));
}

/* An attribute of the dictionary. */
static uint64_t attribute_index(struct writer *w, const char *key, const char *value)
{
	AUTO(buffer_release) struct buffer item = BUFFER_INIT;

	protobuf_number(&item, KEY_VALUE_KEY, text_index(w, key));
	size_t any = protobuf_begin(&item, KEY_VALUE_VALUE);

	protobuf_text(&item, ANY_STRING, value);
	protobuf_end(&item, any);
	return add_item(w, ATTRIBUTES, &item);
}

/* An array with that attribute alone. */
static void put_attribute(struct writer *w, struct buffer *b, unsigned field, const char *key,
			  const char *value)
{
	size_t begin = protobuf_begin(b, field);

	protobuf_element(b, attribute_index(w, key, value));
	protobuf_end(b, begin);
}

/* ---- frames ---- */

static uint64_t function_index(struct writer *w, const struct location *location)
{
	/* One function per name and file, regardless of its address. */
	const struct location *first = locations_example(w->in->locations, AXIS_FUNCTION,
							 location_key(location, AXIS_FUNCTION));
	AUTO(buffer_release) struct buffer item = BUFFER_INIT;

	protobuf_number(&item, FUNCTION_NAME, text_index(w, first->frame.function));
	protobuf_number(&item, FUNCTION_FILENAME, text_index(w, first->frame.file));
	return add_item(w, FUNCTIONS, &item);
}

static uint64_t mapping_index(struct writer *w, const char *path)
{
	AUTO(buffer_release) struct buffer item = BUFFER_INIT;
	AUTO(buffer_release) struct buffer id = BUFFER_INIT;

	if (!*path)
		return 0;
	protobuf_number(&item, MAPPING_MEMORY_LIMIT, UINT64_C(1) << 47);
	protobuf_number(&item, MAPPING_FILENAME, text_index(w, path));
	buffer_build_id(&id, w->in->profile, path);
	if (id.size && buffer_string(&id))
		put_attribute(w, &item, MAPPING_ATTRIBUTE_INDICES,
			      "process.executable.build_id.gnu", (const char *)id.data);
	w->failed |= id.failed;
	return add_item(w, MAPPINGS, &item);
}

/* A value of profile.frame.type; NULL for a sentinel, which is no function of any language. */
static const char *frame_type(const struct location *location)
{
	const char *language = location->frame.language;

	if (location->nameless && !location->frame.module[0])
		return NULL;
	if (language && strcmp(language, "python") == 0)
		return "cpython";
	return language && strcmp(language, "rust") == 0 ? "rust" : "native";
}

static uint64_t new_location(struct writer *w, struct location_chain chain)
{
	AUTO(buffer_release) struct buffer item = BUFFER_INIT;
	const struct location *outermost = chain.at[chain.count - 1];
	const char *type = frame_type(outermost);

	protobuf_number(&item, LOCATION_MAPPING_INDEX, mapping_index(w, outermost->frame.module));
	protobuf_number(&item, LOCATION_ADDRESS, outermost->frame.offset);
	for (size_t i = 0; i < chain.count; i++) {
		size_t line = protobuf_begin(&item, LOCATION_LINES);

		protobuf_number(&item, LINE_FUNCTION_INDEX, function_index(w, chain.at[i]));
		protobuf_number(&item, LINE_LINE, chain.at[i]->frame.line);
		protobuf_end(&item, line);
	}
	if (type)
		put_attribute(w, &item, LOCATION_ATTRIBUTE_INDICES, "profile.frame.type", type);
	return add_item(w, LOCATIONS, &item);
}

static uint64_t location_index(struct writer *w, struct location_chain chain)
{
	size_t known = w->chains.count;
	size_t number = number_of(&w->chains, chain.at);

	if (number == SIZE_MAX ||
	    (number == known && !vector_push(&w->locations, new_location(w, chain)))) {
		w->failed = true;
		return 0;
	}
	return w->locations.at[number];
}

static uint64_t stack_index(struct writer *w, const struct entry *e)
{
	AUTO(buffer_release) struct buffer item = BUFFER_INIT;

	if (!e->site->node.v)
		return 0;
	size_t begin = protobuf_begin(&item, STACK_LOCATION_INDICES);

	for (node_id n = e->site->node; n.v && !w->failed; n = profile_parent(e->process, n)) {
		struct location_chain chain = locations_of(w->in->locations, e->process, n);

		w->failed |= !chain.at;
		if (chain.at)
			protobuf_element(&item, location_index(w, chain));
	}
	protobuf_end(&item, begin);
	return add_item(w, STACKS, &item);
}

/* ---- samples ---- */

/* The labels that the program set with hg_label, by their keys. */
static void put_labels(struct writer *w, struct buffer *b, const struct entry *e)
{
	AUTO(arena_release) struct arena arena = ARENA_INIT;
	struct export_label labels[PROFILE_LABELS_MAX];
	ptrdiff_t count = entry_labels(e, &arena, labels);

	w->failed |= count < 0;
	for (ptrdiff_t i = 0; i < count; i++)
		protobuf_element(b, attribute_index(w, labels[i].key, labels[i].value));
}

static void put_sample_attributes(struct writer *w, struct buffer *b, const struct entry *e)
{
	AUTO(arena_release) struct arena arena = ARENA_INIT;
	const char *path = profile_tag_path(e->process, e->site->tag, &arena);
	const char *pool = profile_tag_pool(e->process, e->site->tag);
	size_t begin = protobuf_begin(b, SAMPLE_ATTRIBUTE_INDICES);

	w->failed |= !path;
	if (path && *path)
		protobuf_element(b, attribute_index(w, "heapgauge.tag", path));
	if (*pool)
		protobuf_element(b, attribute_index(w, "heapgauge.pool", pool));
	/* Else samples of one stack would have the same identity. */
	if (e->site->kind != PROFILE_HEAP)
		protobuf_element(
			b, attribute_index(w, "heapgauge.kind", profile_kind_name(e->site->kind)));
	put_labels(w, b, e);
	protobuf_end(b, begin);
}

/* Adds the entry to the sample with its stack and attributes: with frames left out, several stacks are one. */
static void add_to_sample(struct writer *w, const struct entry *e)
{
	AUTO(buffer_release) struct buffer identity = BUFFER_INIT;

	protobuf_number(&identity, SAMPLE_STACK_INDEX, stack_index(w, e));
	if (!tag_id_is_none(e->site->tag) || e->site->kind != PROFILE_HEAP)
		put_sample_attributes(w, &identity, e);
	struct intern_entry *known = intern_entry(&w->identities, buffer_span(&identity));

	if (identity.failed || !known) {
		w->failed = true;
		return;
	}
	if (!known->value) {
		struct sample sample = { .identity = span_of(known->text, known->length) };

		w->failed |= !vector_push(&w->samples, sample);
		/* The index plus 1, because a new entry has NULL. */
		known->value =
			(void *)(uintptr_t)w->samples.count; /* NOLINT(performance-no-int-to-ptr) */
	}
	if (!w->failed)
		measures_add(&w->samples.at[(uintptr_t)known->value - 1].m, &e->m);
}

static void put_value_type(struct writer *w, unsigned field, const char *type, const char *unit)
{
	size_t begin = protobuf_begin(&w->message, field);

	protobuf_number(&w->message, VALUE_TYPE_TYPE, text_index(w, type));
	protobuf_number(&w->message, VALUE_TYPE_UNIT, text_index(w, unit));
	protobuf_end(&w->message, begin);
}

static void put_sample(struct writer *w, const struct sample *s, int64_t value)
{
	size_t sample = protobuf_begin(&w->message, PROFILE_SAMPLES);

	buffer_append(&w->message, s->identity.data, s->identity.size);
	size_t values = protobuf_begin(&w->message, SAMPLE_VALUES);

	protobuf_element(&w->message, (uint64_t)value);
	protobuf_end(&w->message, values);
	protobuf_end(&w->message, sample);
}

static void put_profile(struct writer *w, const struct profile_process *process,
			const struct sample_type *type)
{
	size_t profile = protobuf_begin(&w->message, SCOPE_PROFILES_PROFILES);

	put_value_type(w, PROFILE_SAMPLE_TYPE, type->name, type->unit);
	for (size_t i = 0; i < w->samples.count && !w->failed; i++) {
		int64_t value = sample_value(w->in, type, &w->samples.at[i].m);

		if (value)
			put_sample(w, &w->samples.at[i], value);
	}
	protobuf_fixed64(&w->message, PROFILE_TIME_UNIX_NANO, process->started_real_ns);
	protobuf_number(&w->message, PROFILE_DURATION_NANO, process->duration_ns);
	put_value_type(w, PROFILE_PERIOD_TYPE, "space", "bytes");
	protobuf_number(&w->message, PROFILE_PERIOD, MAX(process->interval, UINT64_C(1)));
	if (cost_rows[type->cost].time == COST_OF_MOMENT)
		put_attribute(w, &w->message, PROFILE_ATTRIBUTE_INDICES, "heapgauge.moment",
			      live_moment(w->in->selection));
	protobuf_end(&w->message, profile);
}

/* ---- resources ---- */

/* Exactly one of text and number; an empty one is omitted. */
static void put_resource_attribute(struct writer *w, const char *key, const char *text,
				   uint64_t number)
{
	if (!number && !(text && *text))
		return;
	size_t attribute = protobuf_begin(&w->message, RESOURCE_ATTRIBUTES);

	protobuf_text(&w->message, KEY_VALUE_KEY, key);
	size_t any = protobuf_begin(&w->message, KEY_VALUE_VALUE);

	if (text)
		protobuf_text(&w->message, ANY_STRING, text);
	else
		protobuf_number(&w->message, ANY_INT, number);
	protobuf_end(&w->message, any);
	protobuf_end(&w->message, attribute);
}

/* A value of host.arch, from "Linux 6.1.0 x86_64". */
static const char *architecture(const char *kernel)
{
	static const char *const names[][2] = { { "x86_64", "amd64" }, { "aarch64", "arm64" } };
	const char *space = strrchr(kernel, ' ');
	const char *machine = space ? space + 1 : "";

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(machine, names[i][0]) == 0)
			return names[i][1];
	return machine;
}

/* No command line: it may contain secrets, and the profile goes to a store that others read. */
static void put_resource(struct writer *w, const struct profile_process *process)
{
	AUTO(buffer_release) struct buffer id = BUFFER_INIT;
	const char *program = path_base(process->exe);
	size_t resource = protobuf_begin(&w->message, RESOURCE_PROFILES_RESOURCE);

	buffer_build_id(&id, w->in->profile, process->exe);
	put_resource_attribute(w, "service.name", *program ? program : "unknown_service", 0);
	put_resource_attribute(w, "process.pid", NULL, process->pid);
	put_resource_attribute(w, "process.executable.name", program, 0);
	put_resource_attribute(w, "process.executable.path", process->exe, 0);
	put_resource_attribute(w, "process.executable.build_id.gnu", buffer_string(&id), 0);
	put_resource_attribute(w, "host.name", w->in->profile->host, 0);
	put_resource_attribute(w, "host.arch", architecture(w->in->profile->kernel), 0);
	put_resource_attribute(w, "os.type", "linux", 0);
	protobuf_end(&w->message, resource);
	w->failed |= id.failed;
}

static void put_process(struct writer *w, const struct profile_process *process,
			const struct entry *entries, size_t count)
{
	size_t whole = protobuf_begin(&w->message, REQUEST_RESOURCE_PROFILES);

	w->samples.count = 0;
	for (size_t i = 0; i < count && !w->failed; i++)
		add_to_sample(w, &entries[i]);
	put_resource(w, process);
	size_t scope_profiles = protobuf_begin(&w->message, RESOURCE_PROFILES_SCOPE_PROFILES);
	size_t scope = protobuf_begin(&w->message, SCOPE_PROFILES_SCOPE);

	protobuf_text(&w->message, SCOPE_NAME, "heapgauge");
	protobuf_text(&w->message, SCOPE_VERSION, w->in->profile->version);
	protobuf_end(&w->message, scope);
	put_profile(w, process, &w->types.at[w->types.selected]);
	for (size_t i = 0; i < w->types.count; i++)
		if (i != w->types.selected)
			put_profile(w, process, &w->types.at[i]);
	protobuf_end(&w->message, scope_profiles);
	protobuf_end(&w->message, whole);
	intern_release(&w->identities);
	w->failed |= w->message.failed;
	flush_buffer(&w->message, w->out, 0);
}

static void put_processes(struct writer *w)
{
	const struct selection *s = w->in->selection;

	for (size_t i = 0, count; i < s->count && !w->failed; i += count) {
		const struct entry *first = &s->entries[i];

		for (count = 1; i + count < s->count && first[count].process == first->process;)
			count++;
		put_process(w, first->process, first, count);
	}
	if (s->count == 0 && w->in->profile->process_count)
		put_process(w, &w->in->profile->processes[0], NULL, 0);
}

static void put_dictionary(struct writer *w)
{
	struct buffer head = BUFFER_INIT;
	size_t size = 0;

	for (unsigned i = MAPPINGS; i < TABLES_END; i++) {
		size += w->tables[i].bytes.size;
		w->failed |= w->tables[i].bytes.failed;
	}
	protobuf_head(&head, REQUEST_DICTIONARY, size);
	w->failed |= head.failed;
	flush_buffer(&head, w->out, 0);
	for (unsigned i = MAPPINGS; i < TABLES_END; i++)
		flush_buffer(&w->tables[i].bytes, w->out, 0);
	buffer_release(&head);
}

static void init_tables(struct writer *w)
{
	for (unsigned i = MAPPINGS; i < TABLES_END; i++)
		protobuf_table_init(&w->tables[i], i);
}

int export_otlp(const struct export_input *in, FILE *out, struct error *error)
{
	struct writer w = { .in = in, .out = out, .types = sample_types_of(in) };

	init_tables(&w);
	put_processes(&w);
	put_dictionary(&w);
	for (unsigned i = MAPPINGS; i < TABLES_END; i++)
		protobuf_table_release(&w.tables[i]);
	buffer_release(&w.message);
	numbering_release(&w.chains);
	vector_release(&w.locations);
	vector_release(&w.samples);
	return w.failed ? no_memory(error) : 0;
}
