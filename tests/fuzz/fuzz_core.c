/* links: collect format util base */
/* SPDX-License-Identifier: Apache-2.0 */
/* A core file that anybody wrote: its segments, its notes, and the mappings and threads that are made of them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collect/image/core_threads.h"
#include "collect/kernel/core_file.h"
#include "collect/kernel/map_line.h"
#include "collect/kernel/recorded_processes.h"
#include "fuzz_check.h"

/* By address, disjoint, with no more data than the file has. */
static void check_segments(const struct core_file *core, size_t size)
{
	uint64_t end = 0, sum = 0, at, bytes;

	for (size_t i = 0; i < core->segments.count; i++) {
		const struct core_segment *s = &core->segments.at[i];
		char byte;

		CHECK(s->start >= end && s->start < s->end && s->data_bytes <= s->end - s->start);
		CHECK(s->data_bytes == 0 || s->offset + s->data_bytes <= size);
		CHECK(core_file_has(core, s->start, s->end - s->start) == s->data_bytes);
		CHECK(core_file_read(core, s->start, &byte, 1) == (s->data_bytes > 0));
		if (core_file_next(core, s->start, s->end, &at, &bytes))
			CHECK(at >= s->start && at + bytes <= s->start + s->data_bytes);
		end = s->end;
		sum += s->data_bytes;
	}
	CHECK(sum <= size);
}

static void check_maps(const struct core_file *core)
{
	char *maps = core_file_maps(core);
	const char *at = maps;
	struct map_line map;
	uint64_t end = 0;
	size_t count = 0;

	CHECK(maps);
	for (; map_line_next(&at, &map); count++) {
		CHECK(map.start >= end && map.start < map.end);
		end = map.end;
	}
	CHECK(count >= core->segments.count && count <= core->segments.count + core->mapped.count);
	free(maps);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct core_file core;
	struct stopped stopped;
	struct recorded recorded;

	CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	if (core_file_open_fd(&core, fd, NULL) < 0)
		return 0;
	check_segments(&core, size);
	check_maps(&core);
	(void)recorded_find_core(&core, &recorded, NULL);
	if (threads_of_core(&core, &stopped))
		CHECK(stopped.threads.count <= core.threads.count);
	vector_release(&stopped.threads);
	vector_release(&stopped.words);
	core_file_release(&core);
	return 0;
}
