/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One piece at a time; process_vm_readv is about as fast as memcpy. A page that cannot be read although it exists (a mapping of
 * a device, or beyond the end of its file) is skipped and counted.
 *
 * Owned by one thread.
 */
#include "collect/image/scan.h"

#include <stdlib.h>

#include "base/compiler.h"
#include "format/live/live.h"

enum { PIECE_BYTES = 1 << 20, WORD = sizeof(uint64_t) };

bool scanner_init(struct scanner *scanner, const struct memory_source *source)
{
	*scanner = (struct scanner){ .source = source, .buffer = malloc(PIECE_BYTES) };
	return scanner->buffer != NULL;
}

void scanner_release(struct scanner *scanner)
{
	free(scanner->buffer);
}

bool scan_bytes(const struct scanner *scanner, uint64_t address, void *to, size_t bytes)
{
	return memory_source_read(scanner->source, address, to, bytes) == (ssize_t)bytes;
}

/* [start, end) exists. */
static bool scan_run(struct scanner *s, uint64_t start, uint64_t end, scan_words *words,
		     void *context)
{
	while (start + WORD <= end) {
		uint64_t bytes = MIN(end - start, (uint64_t)PIECE_BYTES) & ~(WORD - 1ull);
		ssize_t got = memory_source_read(s->source, start, s->buffer, bytes);

		if (got < WORD) {
			uint64_t next = (start / LIVE_PAGE + 1) * LIVE_PAGE;

			s->unreadable_bytes += MIN(next, end) - start;
			start = next;
			continue;
		}
		s->read_bytes += (uint64_t)got;
		if (!words(context, start, s->buffer, (size_t)got / WORD))
			return false;
		start += (uint64_t)got & ~(WORD - 1ull);
	}
	return true;
}

/* Of memory that the program excludes from core files (MADV_DONTDUMP) or that coredump_filter does. */
static uint64_t memory_missing(const struct core_file *core, uint64_t start, uint64_t end)
{
	return start < end ? end - start - core_file_has(core, start, end - start) : 0;
}

bool scan_range(struct scanner *s, uint64_t start, uint64_t end, scan_words *words, void *context)
{
	uint64_t from = start & ~(LIVE_PAGE - 1ull), last, run, bytes;

	start = (start + WORD - 1) & ~(WORD - 1ull);
	if (s->source->core)
		s->unreadable_bytes += memory_missing(s->source->core, start, end);
	last = (end + LIVE_PAGE - 1) & ~(LIVE_PAGE - 1ull);
	while (from < last && memory_source_next(s->source, from, last, &run, &bytes)) {
		if (!scan_run(s, MAX(run, start), MIN(run + bytes, end), words, context))
			return false;
		from = run + bytes;
	}
	return true;
}
