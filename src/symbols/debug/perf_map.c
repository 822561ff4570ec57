/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /tmp/perf-PID.map: one line "START SIZE NAME" for each piece of code, in hexadecimal; written by
 * V8, the JVM's agents, .NET, LuaJIT, CPython 3.12 and others, and never removed by most of them.
 *
 * So a map may be of an earlier process with the same pid. It is used only if it was last written
 * while the process ran; a runtime may write shortly after its exit is recorded. And since /tmp is
 * world-writable, it must be a regular file owned by the user of the process, or by root.
 *
 * The file is read, not mapped: its writer may truncate it at any time.
 */
#include "symbols/debug/perf_map.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "symbols/ranges.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/vector.h"

enum { FILE_MAX_BYTES = 1 << 29 };
#define AFTER_END_NS UINT64_C(5000000000)
/* File timestamps advance in ticks and lag by up to 10 ms. */
#define TICK_NS UINT64_C(10000000)

struct perf_map {
	struct buffer text;
	struct ranges ranges; /* item = index into names, rank = line number */
	VECTOR(struct span) names;
};

static bool fits(const struct stat *file, struct perf_map_life life)
{
	uint64_t written_ns =
		(uint64_t)file->st_mtim.tv_sec * 1000000000u + (uint64_t)file->st_mtim.tv_nsec;
	uid_t owner = life.uid ? life.uid - 1 : geteuid();

	if (file->st_uid != owner && file->st_uid != 0)
		return false;
	return written_ns + TICK_NS >= life.started_real_ns &&
	       (life.ended_real_ns == 0 || written_ns <= life.ended_real_ns + AFTER_END_NS);
}

static bool read_hex(struct span *line, uint64_t *ret)
{
	size_t digits = 0;

	*ret = 0;
	if (line->size > 2 && line->data[0] == '0' && (line->data[1] | 0x20) == 'x')
		*line = span_of(line->data + 2, line->size - 2);
	for (; line->size > 0; digits++) {
		int c = line->data[0] | 0x20;
		int digit = c >= '0' && c <= '9'   ? c - '0'
			    : c >= 'a' && c <= 'f' ? c - 'a' + 10
						   : -1;

		if (digit < 0)
			break;
		if (digits == 16)
			return false;
		*ret = *ret << 4 | (uint64_t)digit;
		*line = span_of(line->data + 1, line->size - 1);
	}
	/* A space must follow. */
	if (digits == 0 || line->size == 0 || line->data[0] != ' ')
		return false;
	while (line->size > 0 && line->data[0] == ' ')
		*line = span_of(line->data + 1, line->size - 1);
	return true;
}

/* Malformed lines are skipped: a runtime may be writing one. */
static bool add_line(struct perf_map *map, struct span line)
{
	uint64_t start, size, end;

	if (!read_hex(&line, &start) || !read_hex(&line, &size) || line.size == 0)
		return true;
	if (start >> 47 == 1) /* aarch64: frames keep 47 bits of its 48 */
		start ^= 1ull << 47;
	if (!checked_add(start, size, &end))
		return true;
	uint32_t number = (uint32_t)map->names.count;

	return vector_push(&map->names, line) &&
	       ranges_add(&map->ranges, start, end, number, number);
}

static bool read_lines(struct perf_map *map)
{
	struct span rest = buffer_span(&map->text);

	while (rest.size > 0) {
		const uint8_t *end = memchr(rest.data, '\n', rest.size);
		size_t length = end ? (size_t)(end - rest.data) : rest.size;

		if (!add_line(map, span_of(rest.data, length)))
			return false;
		length += end != NULL;
		rest = span_of(rest.data + length, rest.size - length);
	}
	ranges_sort(&map->ranges);
	return true;
}

struct perf_map *perf_map_open(const char *path, struct perf_map_life life,
			       enum perf_map_state *ret_state)
{
	struct perf_map *map = calloc(1, sizeof *map);
	struct stat file;
	AUTO_CLOSE int fd = map ? file_open_regular(path, &file, NULL) : -1;

	*ret_state = PERF_MAP_MISSING;
	if (fd >= 0)
		*ret_state = fits(&file, life) ? PERF_MAP_READ : PERF_MAP_STRANGE;
	if (*ret_state == PERF_MAP_READ &&
	    file_read_all(fd, FILE_MAX_BYTES, path, &map->text, NULL) == 0 && read_lines(map))
		return map;
	if (*ret_state == PERF_MAP_READ)
		*ret_state = PERF_MAP_MISSING;
	perf_map_free(map);
	return NULL;
}

void perf_map_free(struct perf_map *map)
{
	if (!map)
		return;
	buffer_release(&map->text);
	ranges_release(&map->ranges);
	vector_release(&map->names);
	free(map);
}

struct span perf_map_find(const struct perf_map *map, uint64_t address)
{
	const struct range *found = ranges_find_highest(&map->ranges, address);

	return found ? map->names.at[found->item] : span_of(NULL, 0);
}
