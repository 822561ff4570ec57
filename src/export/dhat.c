/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DHAT's JSON (version 2) for dh_view.html: a program point for each site. Time is in milliseconds;
 * lifetimes are those of freed blocks. A site's most blocks at once are not recorded, only its most
 * bytes: the larger of its blocks at the peak and at the end stands for them.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "export/stacks.h"
#include "util/json.h"

static void put_point(struct json *j, const struct entry *e)
{
	const struct site_numbers *n = &e->site->numbers;
	uint64_t kept = MAX(n->peak_bytes, n->live_bytes);

	json_field_u64(j, "tb", n->bytes);
	json_field_u64(j, "tbk", n->calls);
	json_field_u64(j, "tl", n->lifetime_ms_sum);
	json_field_u64(j, "mb", MAX(n->max_bytes, kept));
	json_field_u64(j, "mbk", MAX(n->peak_blocks, n->live_blocks));
	json_field_u64(j, "gb", n->peak_bytes);
	json_field_u64(j, "gbk", n->peak_blocks);
	json_field_u64(j, "eb", n->live_bytes);
	json_field_u64(j, "ebk", n->live_blocks);
}

static int put_points(const struct export_input *in, struct json *j, struct numbering *frames,
		      FILE *out)
{
	struct stack_scratch scratch = { 0 };
	struct place_chain stack;
	int status = 0;

	json_key(j, "pps");
	json_array(j);
	for (size_t i = 0; i < in->selection->count && status == 0; i++) {
		const struct entry *e = &in->selection->entries[i];

		if (e->site->numbers.calls == 0)
			continue;
		status = entry_stack(in, e, &scratch, &stack);
		json_object(j);
		put_point(j, e);
		json_key(j, "fs");
		json_array(j);
		for (size_t k = 0; k < stack.count && status == 0; k++) {
			size_t number = number_of(frames, stack.at[k]);

			status = number == SIZE_MAX ? -1 : 0;
			json_u64(j, number + 1); /* 0 is the root */
		}
		json_end_array(j);
		json_end_object(j);
		fwrite(j->out->data, 1, j->out->size, out);
		buffer_clear(j->out);
	}
	json_end_array(j);
	stack_scratch_release(&scratch);
	return status;
}

static int put_frames(struct json *j, const struct numbering *frames)
{
	json_key(j, "ftbl");
	json_array(j);
	json_string(j, "[root]");
	for (size_t i = 0; i < frames->items.count; i++) {
		char *text = NULL;
		size_t size;
		FILE *memory = open_memstream(&text, &size);

		if (!memory)
			return -1;
		write_valgrind_frame(memory, frames->items.at[i]);
		fclose(memory);
		json_string(j, text);
		free(text);
	}
	json_end_array(j);
	return 0;
}

int export_dhat(const struct export_input *in, FILE *out, struct error *error)
{
	struct buffer buffer = BUFFER_INIT;
	struct json j = json_to(&buffer, JSON_COMPACT);
	struct numbering frames = { 0 };

	json_object(&j);
	json_field_u64(&j, "dhatFileVersion", 2);
	json_field_string(&j, "mode", "heap");
	json_field_string(&j, "verb", "Allocated");
	json_field_bool(&j, "bklt", true);
	json_field_bool(&j, "bkacc", false);
	json_field_string(&j, "tu", "ms");
	json_field_string(&j, "Mtu", "s");
	json_field_u64(&j, "tuth", 10);
	json_field_string(&j, "cmd", in->profile->command);
	json_field_u64(&j, "pid", in->profile->process_count ? in->profile->processes[0].pid : 0);
	json_field_u64(&j, "tg", in->profile->peak_at_ns / 1000000);
	json_field_u64(&j, "te", in->profile->duration_ns / 1000000);
	int status = put_points(in, &j, &frames, out);

	if (status == 0)
		status = put_frames(&j, &frames);
	json_end_object(&j);
	buffer_char(&buffer, '\n');
	if (buffer.failed)
		status = -1;
	else
		fwrite(buffer.data, 1, buffer.size, out);
	buffer_release(&buffer);
	numbering_release(&frames);
	return status < 0 ? no_memory(error) : 0;
}
