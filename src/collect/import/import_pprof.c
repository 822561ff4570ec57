/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof's profile.proto. The values of a heap profile are already scaled by its writer; the period is the sampling interval.
 *
 * Names in the file are used as they are; a location without one is named from its mapping, like a frame of a recording. Tables
 * may come in any order, so one pass collects their messages, and a second resolves the references.
 */
#include "collect/import/import_pprof.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "base/cursor.h"
#include "base/pprof_fields.h"
#include "util/cleanup.h"

/* Of messages that are collected, by field number. */
enum { TABLES = PROFILE_STRING + 1 };
/* What a field's key says of its encoding. */
enum { WIRE_NUMBER = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5, WIRE_BITS = 3 };
enum { ITEMS_MAX = 1 << 24, LINES_MAX = 128, DEPTH_MAX = 4096 };

struct field {
	uint64_t number;
	unsigned wire;
	uint64_t value;
	struct span bytes;
};

/* The next field of a message. False at its end, and if it is damaged: cursor.failed. */
static bool next_field(struct cursor *c, struct field *ret)
{
	if (cursor_left(c) == 0)
		return false;
	uint64_t key = cursor_varint(c);

	*ret = (struct field){ .number = key >> WIRE_BITS, .wire = key & ((1 << WIRE_BITS) - 1) };
	switch (ret->wire) {
	case WIRE_NUMBER:
		ret->value = cursor_varint(c);
		break;
	case WIRE_FIXED64:
		ret->value = cursor_u64(c);
		break;
	case WIRE_BYTES:
		ret->bytes = cursor_counted(c);
		break;
	case WIRE_FIXED32:
		ret->value = cursor_u32(c);
		break;
	default:
		cursor_fail(c);
	}
	return !c->failed;
}

/* What a value of a sample means. The variances are heapgauge's own. */
enum value {
	LIVE_BYTES,
	LIVE_BLOCKS,
	TOTAL_BYTES,
	TOTAL_BLOCKS,
	LIVE_BYTES_VARIANCE,
	LIVE_BLOCKS_VARIANCE,
	TOTAL_BYTES_VARIANCE,
	TOTAL_BLOCKS_VARIANCE,
	VALUES,
};
static const struct {
	const char *name;
	enum value value;
} value_names[] = {
	{ "inuse_space", LIVE_BYTES },
	{ "inuse_objects", LIVE_BLOCKS },
	{ "space", LIVE_BYTES }, /* of tcmalloc, and of gperftools' growth and sampled heaps */
	{ "objects", LIVE_BLOCKS },
	{ "alloc_space", TOTAL_BYTES },
	{ "alloc_objects", TOTAL_BLOCKS },
	{ "inuse_space_variance", LIVE_BYTES_VARIANCE },
	{ "inuse_objects_variance", LIVE_BLOCKS_VARIANCE },
	{ "alloc_space_variance", TOTAL_BYTES_VARIANCE },
	{ "alloc_objects_variance", TOTAL_BLOCKS_VARIANCE },
};

typedef VECTOR(struct span) span_vector;
typedef VECTOR(uint64_t) number_vector;

struct reader {
	struct imported_rows *rows;
	span_vector tables[TABLES]; /* the messages of each field, below TABLES */
	struct numbering mapping_ids, location_ids, function_ids;
	VECTOR(struct imported_mapping) mappings;
	struct {
		struct span name, file;
	} * functions;	  /* by number of the id */
	uint32_t *frames; /* by number of the location's id */
	struct imported_mapping unmapped;
	size_t at[VALUES]; /* position among a sample's values, + 1; 0: the file does not have it */
	struct span period_type;
	uint64_t period;
	number_vector stack, values; /* of the current sample */
};

static struct span text(const struct reader *r, uint64_t number)
{
	const span_vector *strings = &r->tables[PROFILE_STRING];

	return number < strings->count ? strings->at[number] : (struct span){ 0 };
}

static bool is_text(struct span text, const char *word)
{
	return span_equal(text, span_of(word, strlen(word)));
}

/* The numbers of up to `count` scalar fields 1..count of a message; others are ignored. False if it is damaged. */
static bool read_numbers(struct span message, uint64_t *ret, size_t count)
{
	struct cursor c = cursor_over(message);
	struct field f;

	memset(ret, 0, (count + 1) * sizeof *ret);
	while (next_field(&c, &f))
		if (f.wire == WIRE_NUMBER && f.number <= count)
			ret[f.number] = f.value;
	return !c.failed;
}

static int damaged(struct error *error, const char *what)
{
	return error_set(error, "a %s of the pprof profile is damaged", what);
}

static int out_of_memory(struct error *error)
{
	return error_set(error, "out of memory");
}

static int collect(struct reader *r, struct span bytes, struct error *error)
{
	struct cursor c = cursor_over(bytes);
	struct process_row *process = &r->rows->rows.process;
	struct field f;

	while (next_field(&c, &f)) {
		if (f.wire == WIRE_BYTES && f.number > 0 && f.number < TABLES) {
			if (r->tables[f.number].count >= ITEMS_MAX)
				return error_set(error, "too many entries in the pprof profile");
			if (!vector_push(&r->tables[f.number], f.bytes))
				return out_of_memory(error);
		} else if (f.wire == WIRE_BYTES && f.number == PROFILE_PERIOD_TYPE) {
			r->period_type = f.bytes;
		} else if (f.wire == WIRE_NUMBER && f.number == PROFILE_PERIOD) {
			r->period = f.value;
		} else if (f.wire == WIRE_NUMBER && f.number == PROFILE_TIME_NANOS) {
			process->started_real_ns = f.value <= INT64_MAX ? f.value : 0;
		} else if (f.wire == WIRE_NUMBER && f.number == PROFILE_DURATION_NANOS) {
			process->duration_ns = f.value <= INT64_MAX ? f.value : 0;
		}
	}
	return c.failed ? error_set(error, "not a pprof profile, or cut off at byte %zu",
				    cursor_offset(&c))
			: 0;
}

static bool is_bytes(struct span unit)
{
	return unit.size == 0 || is_text(unit, "bytes") || is_text(unit, "byte") ||
	       is_text(unit, "B");
}

static int read_sample_types(struct reader *r, struct error *error)
{
	const span_vector *types = &r->tables[PROFILE_SAMPLE_TYPE];
	uint64_t type[3];

	for (size_t i = 0; i < types->count; i++) {
		if (!read_numbers(types->at[i], type, 2))
			return damaged(error, "sample type");
		for (size_t j = 0; j < ARRAY_SIZE(value_names); j++) {
			enum value value = value_names[j].value;

			if (!is_text(text(r, type[1]), value_names[j].name) || r->at[value])
				continue;
			if ((value == LIVE_BYTES || value == TOTAL_BYTES) &&
			    !is_bytes(text(r, type[2])))
				return error_set(error, "its %s is not in bytes",
						 value_names[j].name);
			r->at[value] = i + 1;
		}
	}
	if (!r->at[LIVE_BYTES] || !r->at[LIVE_BLOCKS])
		return error_set(error, "not a heap profile: its sample types lack inuse_space and "
					"inuse_objects");
	if (!read_numbers(r->period_type, type, 2))
		return damaged(error, "period type");
	r->rows->has_totals = r->at[TOTAL_BYTES] && r->at[TOTAL_BLOCKS];
	r->rows->unknown_interval = !is_text(text(r, type[1]), "space") ||
				    !is_bytes(text(r, type[2])) || r->period == 0;
	if (!r->rows->unknown_interval && r->period > 1)
		r->rows->interval = MIN(r->period, UINT64_C(1) << 62);
	return 0;
}

/* "5a39…" as bytes; none if it is anything else. */
static struct span build_id_of(struct span hex, struct arena *arena)
{
	static const char digits[] = "0123456789abcdef";
	uint8_t *bytes = hex.size % 2 == 0 ? arena_alloc(arena, hex.size / 2 + 1) : NULL;

	for (size_t i = 0; bytes && i < hex.size; i++) {
		const char *digit = hex.data[i] ? strchr(digits, hex.data[i]) : NULL;

		if (!digit)
			return (struct span){ 0 };
		bytes[i / 2] = (uint8_t)(bytes[i / 2] << 4 | (digit - digits));
	}
	return bytes ? span_of(bytes, hex.size / 2) : (struct span){ 0 };
}

/* The number of an id that is the next one of its table; SIZE_MAX if it is there already. */
static int add_id(struct numbering *ids, uint64_t id, const char *what, struct error *error)
{
	size_t known = ids->count, number = number_of(ids, id);

	if (number == SIZE_MAX)
		return out_of_memory(error);
	return number == known ? 0 : error_set(error, "two %ss have the id %" PRIu64, what, id);
}

static int read_mappings(struct reader *r, struct error *error)
{
	enum { ID = 1, START, LIMIT, OFFSET, FILE_NAME, BUILD_ID };
	const span_vector *all = &r->tables[PROFILE_MAPPING];
	uint64_t m[BUILD_ID + 1];

	for (size_t i = 0; i < all->count; i++) {
		if (!read_numbers(all->at[i], m, BUILD_ID))
			return damaged(error, "mapping");
		struct imported_mapping mapping = {
			.start = m[START],
			.end = m[LIMIT],
			.offset = m[OFFSET],
			.path = text(r, m[FILE_NAME]),
			.build_id = build_id_of(text(r, m[BUILD_ID]), &r->rows->strings.arena),
		};

		if (add_id(&r->mapping_ids, m[ID], "mapping", error) < 0)
			return -1;
		if (!vector_push(&r->mappings, mapping))
			return out_of_memory(error);
	}
	return 0;
}

static int read_functions(struct reader *r, struct error *error)
{
	enum { ID = 1, NAME, SYSTEM_NAME, FILE_NAME };
	const span_vector *all = &r->tables[PROFILE_FUNCTION];
	uint64_t f[FILE_NAME + 1];

	r->functions = calloc(all->count + 1, sizeof *r->functions);
	if (!r->functions)
		return out_of_memory(error);
	for (size_t i = 0; i < all->count; i++) {
		if (!read_numbers(all->at[i], f, FILE_NAME))
			return damaged(error, "function");
		if (add_id(&r->function_ids, f[ID], "function", error) < 0)
			return -1;
		/* The linkage name has all that each style of names needs. */
		struct span name = text(r, f[SYSTEM_NAME]);

		r->functions[i].name = name.size ? name : text(r, f[NAME]);
		r->functions[i].file = text(r, f[FILE_NAME]);
	}
	return 0;
}

static struct imported_mapping *mapping_of(struct reader *r, uint64_t id)
{
	size_t number = numbering_find(&r->mapping_ids, &id, sizeof id);

	return number == SIZE_MAX ? NULL : &r->mappings.at[number];
}

struct location {
	uint64_t id, mapping, address;
	struct span lines[LINES_MAX];
	size_t line_count;
};

static bool read_location(struct span message, struct location *ret)
{
	enum { ID = 1, MAPPING, ADDRESS, LINE };
	struct cursor c = cursor_over(message);
	struct field f;

	ret->id = ret->mapping = ret->address = ret->line_count = 0;
	while (next_field(&c, &f)) {
		if (f.number == LINE && f.wire == WIRE_BYTES && ret->line_count < LINES_MAX)
			ret->lines[ret->line_count++] = f.bytes;
		if (f.wire != WIRE_NUMBER)
			continue;
		if (f.number == ID)
			ret->id = f.value;
		else if (f.number == MAPPING)
			ret->mapping = f.value;
		else if (f.number == ADDRESS)
			ret->address = f.value;
	}
	return !c.failed;
}

/* 0 if it is damaged. */
static uint32_t frame_of(struct reader *r, const struct location *l)
{
	enum { FUNCTION = 1, LINE };
	struct imported_mapping *mapping = mapping_of(r, l->mapping);
	uint64_t line[LINE + 1];

	if (l->line_count == 0)
		return imported_frame(r->rows, mapping, l->address, true);
	uint32_t frame =
		imported_named_frame(r->rows, mapping ? mapping : &r->unmapped, l->address);

	for (size_t i = 0; frame && i < l->line_count; i++) {
		if (!read_numbers(l->lines[i], line, LINE))
			return 0;
		size_t number =
			numbering_find(&r->function_ids, &line[FUNCTION], sizeof line[FUNCTION]);
		bool known = number != SIZE_MAX;
		struct span none = { 0 };

		imported_name(r->rows, frame, known ? r->functions[number].name : none,
			      known ? r->functions[number].file : none, line[LINE],
			      i + 1 < l->line_count);
	}
	return frame;
}

static int read_locations(struct reader *r, struct error *error)
{
	const span_vector *all = &r->tables[PROFILE_LOCATION];
	struct location location;

	r->frames = calloc(all->count + 1, sizeof *r->frames);
	if (!r->frames)
		return out_of_memory(error);
	for (size_t i = 0; i < all->count; i++) {
		if (!read_location(all->at[i], &location))
			return damaged(error, "location");
		if (add_id(&r->location_ids, location.id, "location", error) < 0)
			return -1;
		r->frames[i] = frame_of(r, &location);
		if (r->frames[i] == 0)
			return r->rows->failure ? error_set(error, "%s", r->rows->failure)
						: damaged(error, "location");
	}
	return 0;
}

/* A repeated number, packed or not. False if it is damaged or longer than `most`, or out of memory. */
static bool append_numbers(const struct field *f, number_vector *to, size_t most)
{
	struct cursor c = cursor_over(f->bytes);

	if (f->wire == WIRE_NUMBER)
		return to->count < most && vector_push(to, f->value);
	while (cursor_left(&c) && to->count < most)
		if (!vector_push(to, cursor_varint(&c)))
			return false;
	return !c.failed && cursor_left(&c) == 0;
}

static double value_of(const struct reader *r, enum value value)
{
	return r->at[value] ? (double)(int64_t)r->values.at[r->at[value] - 1] : 0;
}

/* The variances of the estimates, which heapgauge writes itself; others follow from the mean size. Returns the number of samples
 * behind so many blocks. */
static double add_variances(const struct reader *r, enum value first, double bytes, double blocks,
			    double *bytes_variance, double *blocks_variance)
{
	enum value variances = first + LIVE_BYTES_VARIANCE;
	double size = blocks > 0 ? bytes / blocks : 0;
	double weight =
		size > 0 ? -1 / expm1(-size / (double)MAX(r->rows->interval, UINT64_C(1))) : 1;

	*blocks_variance = blocks * (weight - 1);
	*bytes_variance = *blocks_variance * size * size;
	if (r->at[variances] && r->at[variances + 1]) {
		*bytes_variance = value_of(r, variances);
		*blocks_variance = value_of(r, variances + 1);
	}
	return blocks / weight;
}

static int add_sample(struct reader *r, struct error *error)
{
	struct imported_number bytes = { .live = value_of(r, LIVE_BYTES),
					 .total = value_of(r, TOTAL_BYTES) };
	struct imported_number blocks = { .live = value_of(r, LIVE_BLOCKS),
					  .total = value_of(r, TOTAL_BLOCKS) };
	uint32_t node = 0;

	if (bytes.live < 0 || blocks.live < 0 || bytes.total < 0 || blocks.total < 0)
		return error_set(error, "it has negative values: a difference of profiles is not a "
					"heap profile; 'heapgauge diff' takes both profiles");
	double live = add_variances(r, LIVE_BYTES, bytes.live, blocks.live, &bytes.live_variance,
				    &blocks.live_variance);
	double total = add_variances(r, TOTAL_BYTES, bytes.total, blocks.total,
				     &bytes.total_variance, &blocks.total_variance);

	for (size_t i = r->stack.count; i > 0; i--) {
		size_t number = numbering_find(&r->location_ids, &r->stack.at[i - 1],
					       sizeof r->stack.at[i - 1]);

		if (number == SIZE_MAX)
			return error_set(error, "a sample has a location that the file lacks");
		node = imported_node(r->rows, node, r->frames[number]);
	}
	imported_site(r->rows, node, &bytes, &blocks, MAX(live, total));
	return r->rows->failure ? error_set(error, "%s", r->rows->failure) : 0;
}

static int read_samples(struct reader *r, struct error *error)
{
	enum { LOCATION = 1, VALUE };
	const span_vector *all = &r->tables[PROFILE_SAMPLE];
	size_t types = r->tables[PROFILE_SAMPLE_TYPE].count;

	for (size_t i = 0; i < all->count; i++) {
		struct cursor c = cursor_over(all->at[i]);
		struct field f;
		bool fine = true;

		r->stack.count = r->values.count = 0;
		while (fine && next_field(&c, &f)) {
			if (f.number == LOCATION)
				fine = append_numbers(&f, &r->stack, DEPTH_MAX);
			else if (f.number == VALUE)
				fine = append_numbers(&f, &r->values, types);
		}
		if (!fine || c.failed || r->values.count != types)
			return damaged(error, "sample");
		if (add_sample(r, error) < 0)
			return -1;
	}
	return 0;
}

static void release(struct reader *r)
{
	for (size_t i = 0; i < TABLES; i++)
		vector_release(&r->tables[i]);
	numbering_release(&r->mapping_ids);
	numbering_release(&r->location_ids);
	numbering_release(&r->function_ids);
	vector_release(&r->mappings);
	vector_release(&r->stack);
	vector_release(&r->values);
	free(r->functions);
	free(r->frames);
}

int import_pprof(struct imported_rows *rows, struct span bytes, struct recording *ret,
		 struct error *error)
{
	struct reader r = { .rows = rows };
	int status = -1;

	if (collect(&r, bytes, error) == 0 && read_sample_types(&r, error) == 0 &&
	    read_mappings(&r, error) == 0 && read_functions(&r, error) == 0 &&
	    read_locations(&r, error) == 0 && read_samples(&r, error) == 0) {
		/* By convention the first mapping is the program. */
		struct span program = r.mappings.count ? r.mappings.at[0].path : (struct span){ 0 };

		status = imported_finish(rows, "pprof", "", program, ret, error);
	}
	release(&r);
	return status;
}
