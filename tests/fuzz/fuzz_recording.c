/* SPDX-License-Identifier: Apache-2.0 */
/* links: format base zstd xxhash */
/*
 * Arbitrary bytes as a recording. Checksums and compression would stop nearly all of them at the door, so the first
 * byte chooses: the file as it is, or the rest wrapped into well-formed chunks whose payloads are the fuzzer's.
 * What decodes must hold valid ids only, and must encode and decode to the same rows again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "format/recording/recording.h"
#include "fuzz_check.h"

static void check_site_counters(const struct process_rows *p)
{
	for (size_t i = 0; i < p->site_counters_count; i++) {
		const struct site_counters_row *c = &p->site_counters[i];

		CHECK(c->site > 0 && c->site < p->site_count);
		CHECK((uint64_t)c->sizes_at + c->sizes_count <= p->bar_count);
		CHECK((uint64_t)c->lifetimes_at + c->lifetimes_count <= p->bar_count);
	}
	for (size_t i = 0; i < p->age_count; i++)
		CHECK(p->ages[i].counters < p->site_counters_count);
}

static void check_map(const struct process_rows *p)
{
	const struct pages_rows *pages = &p->pages;
	uint64_t tiles = 0;

	CHECK(pages->region_count <= MAP_REGIONS_MAX && pages->tile_count <= MAP_TILES_MAX);
	CHECK(pages->block_count <= MAP_BLOCKS_MAX);
	for (size_t i = 0; i < pages->region_count; i++) {
		const struct region_row *r = &pages->regions[i];

		CHECK(r->kind < REGION_KINDS && r->start + r->size_bytes > r->start);
		CHECK(i == 0 || r[-1].start + r[-1].size_bytes <= r->start);
		tiles += r->tiles;
	}
	CHECK(tiles == pages->tile_count);
	for (size_t i = 0; i < pages->tile_count; i++)
		CHECK(pages->tiles[i].site < p->site_count);
	for (size_t i = 0; i < pages->block_count; i++)
		CHECK(pages->blocks[i].site > 0 && pages->blocks[i].site < p->site_count);
}

static void check_process(const struct process_rows *p)
{
	CHECK(p->process.command && p->process.exe && p->process.allocator);
	for (size_t i = 0; i < p->module_count; i++)
		CHECK(p->modules[i].path && p->modules[i].build_id_bytes <= 32);
	for (size_t i = 0; i < p->frame_count; i++)
		CHECK(live_frame_module(p->frames[i]) < p->module_count);
	for (size_t i = 1; i < p->node_count; i++)
		CHECK(p->nodes[i].parent < i && p->nodes[i].frame < p->frame_count);
	for (size_t i = 1; i < p->site_count; i++)
		CHECK(p->sites[i].node < p->node_count && p->sites[i].kind < LIVE_KINDS);
	check_site_counters(p);
	check_map(p);
	for (size_t i = 0; i < p->thread_count; i++)
		CHECK(memchr(p->threads[i].name, 0, sizeof p->threads[i].name));
	for (size_t i = 0; i < p->snapshot_count; i++) {
		const struct snapshot_row *s = &p->snapshots[i];

		CHECK((uint64_t)s->sites_at + s->sites_count <= p->snapshot_site_count);
		for (size_t j = 0; j < s->sites_count; j++)
			CHECK(p->snapshot_sites[s->sites_at + j].site < p->site_count);
	}
}

static void check_image(const struct process_rows *p)
{
	const struct image_rows *image = &p->image;

	for (size_t i = 0; i < image->reach_site_count; i++)
		CHECK(image->reach_sites[i].site < p->site_count &&
		      image->reach_sites[i].class < REACH_CLASSES);
	for (size_t i = 0; i < image->retained_count; i++)
		CHECK(image->retained[i].site < p->site_count &&
		      image->retained[i].holder <= image->holder_count);
	for (size_t i = 0; i < image->holder_count; i++)
		CHECK(image->holders[i].name && image->holders[i].class < REACH_ROOT_CLASSES);
	for (size_t i = 0; i < image->path_count; i++)
		CHECK(image->paths[i].site < p->site_count &&
		      image->paths[i].from < p->site_count &&
		      image->paths[i].type <= image->type_count);
	for (size_t i = 0; i < image->type_count; i++)
		CHECK(image->types[i].name);
	for (size_t i = 0; i < image->site_type_count; i++)
		CHECK(image->site_types[i].site < p->site_count &&
		      image->site_types[i].type < image->type_count);
}

static void check_names(const struct process_rows *p)
{
	CHECK(p->text_bytes == 0 || (p->texts[0] == 0 && p->texts[p->text_bytes - 1] == 0));
	for (size_t i = 0; i < p->name_count; i++) {
		const struct name_row *n = &p->names[i];

		CHECK(n->frame < p->frame_count && (i == 0 || n[-1].frame <= n->frame));
		CHECK(n->function == 0 || n->function < p->text_bytes);
		CHECK(n->file == 0 || n->file < p->text_bytes);
		CHECK(n->arguments == 0 || n->arguments < p->text_bytes);
	}
	for (size_t i = 0; i < p->source_count; i++) {
		const struct source_row *s = &p->sources[i];

		CHECK(s->file == 0 || s->file < p->text_bytes);
		CHECK(s->text == 0 || s->text < p->text_bytes);
	}
}

static void check(const struct recording *recording)
{
	struct recording back;
	void *bytes;
	size_t length;

	for (size_t i = 0; i < recording->process_count; i++)
		check_process(&recording->processes[i]);
	for (size_t i = 0; i < recording->process_count; i++) {
		check_names(&recording->processes[i]);
		check_image(&recording->processes[i]);
	}
	CHECK(recording_encode(recording, &bytes, &length, NULL) == 0);
	CHECK(recording_decode(bytes, length, &back, NULL) == 0);
	CHECK(back.warnings.bad_chunks == 0 && !back.warnings.unfinished &&
	      back.warnings.cut_bytes == 0);
	CHECK(back.process_count == recording->process_count);
	for (size_t i = 0; i < back.process_count; i++) {
		const struct process_rows *a = &recording->processes[i], *b = &back.processes[i];

		CHECK(a->site_counters_count == b->site_counters_count);
		CHECK(a->site_counters_count == 0 ||
		      memcmp(a->site_counters, b->site_counters,
			     a->site_counters_count * sizeof *a->site_counters) == 0);
		CHECK(a->snapshot_site_count == b->snapshot_site_count);
		CHECK(a->name_count == b->name_count);
	}
	recording_release(&back);
	free(bytes);
}

struct file {
	uint8_t bytes[1 << 16];
	size_t size;
};

static void put(struct file *file, const void *data, size_t size)
{
	if (size > sizeof file->bytes - file->size)
		size = sizeof file->bytes - file->size;
	memcpy(file->bytes + file->size, data, size);
	file->size += size;
}

static void put_chunk(struct file *file, uint16_t type, const uint8_t *payload, uint64_t size)
{
	uint16_t kind[2] = { type, 0 };
	uint32_t process = type == 1 || type == 13 ? UINT32_MAX : 0;
	uint64_t hash = XXH64(payload, size, type);
	size_t at = file->size;

	if (size + 40 > sizeof file->bytes - file->size)
		return;
	put(file, kind, sizeof kind);
	put(file, &process, sizeof process);
	put(file, &size, sizeof size);
	put(file, &size, sizeof size);
	put(file, &hash, sizeof hash);
	hash = XXH64(file->bytes + at, 32, 0);
	put(file, &hash, sizeof hash);
	put(file, payload, size);
}

/* [type, length (2 bytes), payload]... */
static void wrap(struct file *file, const uint8_t *data, size_t size)
{
	uint8_t head[32] = "HGREC\r\n\x1a";
	uint64_t hash;

	head[8] = 40;
	head[12] = 1;
	hash = XXH64(head, sizeof head, 0);
	put(file, head, sizeof head);
	put(file, &hash, sizeof hash);
	while (size >= 3) {
		uint16_t type = data[0] % 24;
		size_t length = data[1] | (size_t)data[2] << 8;

		data += 3;
		size -= 3;
		if (length > size)
			length = size;
		put_chunk(file, type, data, length);
		data += length;
		size -= length;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct file file;
	struct recording recording;
	struct format_error error;

	if (size == 0)
		return 0;
	file.size = 0;
	if (data[0] & 1)
		wrap(&file, data + 1, size - 1);
	else
		put(&file, data + 1, size - 1);
	if (recording_decode(file.bytes, file.size, &recording, &error) == 0) {
		check(&recording);
		recording_release(&recording);
	}
	return 0;
}
