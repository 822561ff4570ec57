/* SPDX-License-Identifier: Apache-2.0 */
/* The formats of other tools, by the first bytes of a file. No state. */
#include "collect/import/import.h"

#include <string.h>

#include "collect/import/import_jemalloc.h"
#include "collect/import/import_pprof.h"
#include "util/cleanup.h"
#include "util/gzip.h"

enum { INFLATED_MAX = 512 << 20 };

static bool begins_with(struct span bytes, const char *magic)
{
	size_t size = strlen(magic);

	return bytes.size >= size && memcmp(bytes.data, magic, size) == 0;
}

static bool is_gzip(struct span bytes)
{
	return begins_with(bytes, "\x1f\x8b");
}

/* profile.proto has no magic number. Its first field is a sample type, or the period's: two numbers of a byte or two each, and their
 * keys. */
static bool is_profile_proto(struct span first)
{
	enum { SAMPLE_TYPE = 1 << 3 | 2, PERIOD_TYPE = 11 << 3 | 2, TYPE = 1 << 3, UNIT = 2 << 3 };
	enum { SHORTEST = 2, LONGEST = 6 };

	return first.size >= 4 && (first.data[0] == SAMPLE_TYPE || first.data[0] == PERIOD_TYPE) &&
	       first.data[1] >= SHORTEST && first.data[1] <= LONGEST &&
	       (first.data[2] == TYPE || first.data[2] == UNIT);
}

bool import_recognizes(struct span first)
{
	return begins_with(first, JEMALLOC_MAGIC) || is_gzip(first) || is_profile_proto(first);
}

int import_profile(struct span bytes, const struct import_names *names, struct recording *ret,
		   struct error *error)
{
	AUTO(buffer_release) struct buffer inflated = BUFFER_INIT;
	struct imported_rows rows;

	if (is_gzip(bytes)) {
		if (gzip_read(&inflated, bytes, INFLATED_MAX, error) < 0)
			return -1;
		bytes = buffer_span(&inflated);
	}
	if (bytes.size > INFLATED_MAX)
		return error_set(error, "more than %d MiB", INFLATED_MAX >> 20);
	imported_init(&rows);
	int status = begins_with(bytes, JEMALLOC_MAGIC)
			     ? import_jemalloc(&rows, bytes, names, ret, error)
			     : import_pprof(&rows, bytes, ret, error);

	imported_release(&rows);
	return status;
}
