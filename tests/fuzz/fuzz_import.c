/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect */
/*
 * Arbitrary bytes as a heap profile of another tool: jemalloc's text, or profile.proto, gzipped or not. What is read must be rows
 * that a recording can hold, with valid ids only.
 */
#include <stdint.h>
#include <stdlib.h>

#include "collect/import/import.h"
#include "fuzz_check.h"

static void check(const struct process_rows *p)
{
	uint64_t calls = 0, bytes = 0;

	CHECK(p->process.command && p->process.exe && p->process.allocator);
	for (size_t i = 0; i < p->module_count; i++)
		CHECK(p->modules[i].path && p->modules[i].build_id_bytes <= 32);
	for (size_t i = 0; i < p->frame_count; i++)
		CHECK(live_frame_module(p->frames[i]) < p->module_count);
	for (size_t i = 1; i < p->node_count; i++)
		CHECK(p->nodes[i].parent < i && p->nodes[i].frame < p->frame_count);
	for (size_t i = 1; i < p->site_count; i++)
		CHECK(p->sites[i].node < p->node_count);
	for (size_t i = 0; i < p->site_counters_count; i++) {
		const struct site_counters_row *c = &p->site_counters[i];

		CHECK(c->site > 0 && c->site < p->site_count);
		CHECK(c->frees <= c->calls && c->freed_bytes <= c->bytes);
		calls += c->calls;
		bytes += c->bytes;
	}
	CHECK(calls == p->process.calls && bytes == p->process.bytes && bytes < UINT64_MAX / 2);
	for (size_t i = 0; i < p->name_count; i++) {
		const struct name_row *n = &p->names[i];

		CHECK(n->frame < p->frame_count && (i == 0 || n[-1].frame <= n->frame));
		CHECK(n->function < p->text_bytes && n->file < p->text_bytes);
	}
	CHECK(p->texts[0] == 0 && p->texts[p->text_bytes - 1] == 0);
}

static bool every_second(void *context, const char *path, uint64_t address)
{
	(void)context;
	return path[0] && address % 2;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct import_names names = { every_second, NULL };
	struct recording recording, back;
	struct error error = ERROR_INIT;
	void *bytes;
	size_t length;

	(void)import_recognizes(span_of(data, size));
	if (import_profile(span_of(data, size), &names, &recording, &error) < 0) {
		CHECK(error.message[0]);
		return 0;
	}
	CHECK(recording.process_count == 1);
	check(&recording.processes[0]);
	CHECK(recording_encode(&recording, &bytes, &length, NULL) == 0);
	CHECK(recording_decode(bytes, length, &back, NULL) == 0);
	CHECK(back.warnings.bad_chunks == 0 && !back.warnings.unfinished);
	free(bytes);
	recording_release(&back);
	recording_release(&recording);
	return 0;
}
