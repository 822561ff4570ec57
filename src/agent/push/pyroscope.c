/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Field numbers are those of push/v1/push.proto and types/v1/types.proto in the module github.com/grafana/pyroscope/api v1.6.0.
 * Labels are sorted as the store would; it does so only if it is not configured to refuse others. No state.
 */
#include "agent/push/pyroscope.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "export/protobuf.h"
#include "util/text/utf8.h"

enum {
	REQUEST_SERIES = 1,
	SERIES_LABEL = 1,
	SERIES_SAMPLE = 2,
	LABEL_NAME = 1,
	LABEL_VALUE = 2,
	SAMPLE_PROFILE = 1,
	SAMPLE_ID = 2,
};

/*
 * __delta__: allocations are those since the previous profile. Without the label some versions of the store would subtract the
 * previous profile again.
 */
static const struct pyroscope_label added[] = {
	{ "__name__", "memory" },
	{ "__delta__", "false" },
};

/* ---- ids ---- */

struct pyroscope_id pyroscope_id(const struct pyroscope_source *source)
{
	const uint64_t numbers[] = { source->pid, source->start_time, source->serial };
	uint64_t halves[2];
	struct pyroscope_id id;

	for (size_t i = 0; i < ARRAY_SIZE(halves); i++) {
		halves[i] = hash_bytes(source->machine, strlen(source->machine), i + 1);
		halves[i] = hash_bytes(numbers, sizeof numbers, halves[i]);
	}
	/* Version 8, whose bits are up to us, and the variant of RFC 9562. */
	halves[0] = (halves[0] & ~UINT64_C(0xf000)) | UINT64_C(0x8000);
	halves[1] = (halves[1] & ~(UINT64_C(3) << 62)) | UINT64_C(1) << 63;
	snprintf(id.text, sizeof id.text,
		 "%08" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%012" PRIx64,
		 halves[0] >> 32, halves[0] >> 16 & 0xffff, halves[0] & 0xffff, halves[1] >> 48,
		 halves[1] & UINT64_C(0xffffffffffff));
	return id;
}

/* ---- labels ---- */

static bool is_utf8(const char *text)
{
	struct span rest = span_of(text, strlen(text));

	while (rest.size) {
		size_t length = utf8_sequence(rest);

		if (length == 0)
			return false;
		rest = span_of(rest.data + length, rest.size - length);
	}
	return true;
}

static int compare_labels(const void *left, const void *right)
{
	const struct pyroscope_label *a = left, *b = right;

	return strcmp(a->name, b->name);
}

/* Copies what is to be sent to `all`, sorted. */
static int collect_labels(const struct pyroscope_label *labels, size_t count,
			  struct pyroscope_label all[PYROSCOPE_LABELS_MAX], size_t *ret_count,
			  struct error *err)
{
	size_t used = ARRAY_SIZE(added);
	bool has_service = false;

	memcpy(all, added, sizeof added);
	for (size_t i = 0; i < count; i++) {
		const struct pyroscope_label *label = &labels[i];
		size_t length = strnlen(label->name, PYROSCOPE_LABEL_NAME_MAX + 1);

		if (length == 0 || length > PYROSCOPE_LABEL_NAME_MAX || !is_utf8(label->name))
			return error_set(err, "label %zu has no valid name", i + 1);
		if (!label->value[0])
			continue;
		if (used == PYROSCOPE_LABELS_MAX)
			return error_set(err, "more than %d labels, of which %zu are added",
					 PYROSCOPE_LABELS_MAX, ARRAY_SIZE(added));
		has_service |= strcmp(label->name, "service_name") == 0;
		all[used++] = *label;
	}
	if (!has_service)
		return error_set(err, "no label service_name");
	qsort(all, used, sizeof *all, compare_labels);
	for (size_t i = 1; i < used; i++)
		if (strcmp(all[i - 1].name, all[i].name) == 0)
			return error_set(err, "more than one label %s", all[i].name);
	*ret_count = used;
	return 0;
}

/* Appends at most PYROSCOPE_LABEL_VALUE_MAX bytes of valid UTF-8. */
static void put_value(struct buffer *b, const char *value)
{
	struct span rest = span_of(value, strlen(value));
	size_t room = PYROSCOPE_LABEL_VALUE_MAX;

	while (rest.size) {
		size_t length = utf8_sequence(rest), step = length ? length : 1;
		const void *text = length ? (const char *)rest.data : UTF8_REPLACEMENT;

		if (!length)
			length = strlen(UTF8_REPLACEMENT);
		if (length > room)
			return;
		buffer_append(b, text, length);
		room -= length;
		rest = span_of(rest.data + step, rest.size - step);
	}
}

static void put_label(struct buffer *b, const struct pyroscope_label *label)
{
	size_t message = protobuf_begin(b, SERIES_LABEL), value;

	protobuf_bytes(b, LABEL_NAME, span_of(label->name, strlen(label->name)));
	value = protobuf_begin(b, LABEL_VALUE);
	put_value(b, label->value);
	protobuf_end(b, value);
	protobuf_end(b, message);
}

int pyroscope_encode(const struct pyroscope_label *labels, size_t count, struct pyroscope_id id,
		     struct span profile, struct buffer *out, struct error *err)
{
	struct pyroscope_label all[PYROSCOPE_LABELS_MAX];
	size_t before = out->size, used = 0, series, sample;

	if (collect_labels(labels, count, all, &used, err) < 0)
		return -1;
	series = protobuf_begin(out, REQUEST_SERIES);
	for (size_t i = 0; i < used; i++)
		put_label(out, &all[i]);
	sample = protobuf_begin(out, SERIES_SAMPLE);
	protobuf_bytes(out, SAMPLE_PROFILE, profile);
	protobuf_bytes(out, SAMPLE_ID, span_of(id.text, strlen(id.text)));
	protobuf_end(out, sample);
	protobuf_end(out, series);
	if (!out->failed)
		return 0;
	out->size = before;
	return error_set(err, "out of memory");
}
