/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recording as a file: a header, then chunks, each with checksums of its header and its payload. doc: recording
 *
 * Reading never fails on damage after the file's header: a chunk with an invalid payload is left out and counted, with the
 * chunks that depend on it; a chunk with an invalid header ends the file, since its length is unknown. Memory for rows is
 * bounded by the bytes that really exist. Pure functions over memory of the caller; any thread.
 * Invariant: a process in the result has its process chunk, and every id in its rows is valid.
 */
#include "format/recording/recording.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#include "base/checked.h"
#include "format/recording/chunks.h"
#include "format/recording/pack.h"

/* doc: recording_head */
#define RECORDING_MAGIC "HGREC\r\n\x1a"
enum {
	RECORDING_MAJOR = 1,
	RECORDING_MINOR = 11,
	PROCESSES_MAX = 1 << 20,
};
struct recording_head {
	char magic[8];
	uint32_t bytes; /* including the checksum that follows */
	uint16_t major, minor;
	uint64_t compatible, incompatible;
};
_Static_assert(sizeof(struct recording_head) == 32, "on-disk size");
enum { HEAD_BYTES = sizeof(struct recording_head) + sizeof(uint64_t) };

/* doc: chunk_head. Values are for ever; a new chunk gets the next number. */
enum chunk_type {
	CHUNK_RUN = 1,
	CHUNK_PROCESS = 2,
	CHUNK_MODULES = 3,
	CHUNK_FRAMES = 4,
	CHUNK_NODES = 5,
	CHUNK_SITES = 6,
	CHUNK_SITE_COUNTERS = 7,
	CHUNK_AGES = 8,
	CHUNK_THREADS = 9,
	CHUNK_REMOTE_FREES = 10,
	CHUNK_SERIES = 11,
	CHUNK_SNAPSHOTS = 12,
	CHUNK_END = 13,
	CHUNK_MEMORY = 14,
	CHUNK_NAMES = 15,
	CHUNK_TAGS = 16,
	CHUNK_MARKS = 17,
	CHUNK_UNSEEN = 18,
	CHUNK_STATIC = 19,
	CHUNK_PAGES = 20,
	CHUNK_PAIRS = 21,
	CHUNK_REACH = 22,
	CHUNK_PAGE_MAP = 23,
	CHUNK_TYPES,
};
enum chunk_flags {
	CHUNK_ZSTD = 1,	    /* the payload consists of zstd frames */
	CHUNK_REQUIRED = 2, /* a reader that does not know the type must refuse the file */
};
#define CHUNK_NO_PROCESS UINT32_MAX
struct chunk_head { /* followed by its checksum */
	uint16_t type, flags;
	uint32_t process;
	uint64_t stored_bytes, raw_bytes, payload_hash;
};
_Static_assert(sizeof(struct chunk_head) == 32, "on-disk size");

/* doc: allowance */
#define ALLOWANCE_BASE (64u << 10)
#define ALLOWANCE_FACTOR 2048u
#define RAW_BASE (1u << 20)
#define RAW_FACTOR 1024u
#define RAW_MAX (1ull << 32)

/* The chunks of one process in file order. `needs` are the types whose rows its ids refer to. */
static const struct chunk_kind {
	enum chunk_type type;
	unsigned needs;
	chunk_put *put;
	chunk_get *get;
} kinds[] = {
	{ CHUNK_PROCESS, 0, chunk_process_put, chunk_process_get },
	{ CHUNK_MODULES, 1u << CHUNK_PROCESS, chunk_modules_put, chunk_modules_get },
	{ CHUNK_FRAMES, 1u << CHUNK_MODULES, chunk_frames_put, chunk_frames_get },
	{ CHUNK_NODES, 1u << CHUNK_FRAMES, chunk_nodes_put, chunk_nodes_get },
	{ CHUNK_TAGS, 1u << CHUNK_PROCESS, chunk_tags_put, chunk_tags_get },
	{ CHUNK_SITES, 1u << CHUNK_NODES, chunk_sites_put, chunk_sites_get },
	{ CHUNK_SITE_COUNTERS, 1u << CHUNK_SITES, chunk_site_counters_put,
	  chunk_site_counters_get },
	{ CHUNK_AGES, 1u << CHUNK_SITE_COUNTERS, chunk_ages_put, chunk_ages_get },
	{ CHUNK_THREADS, 1u << CHUNK_PROCESS, chunk_threads_put, chunk_threads_get },
	{ CHUNK_REMOTE_FREES, 1u << CHUNK_PROCESS, chunk_remote_frees_put, chunk_remote_frees_get },
	{ CHUNK_SERIES, 1u << CHUNK_PROCESS, chunk_series_put, chunk_series_get },
	{ CHUNK_SNAPSHOTS, 1u << CHUNK_SITE_COUNTERS, chunk_snapshots_put, chunk_snapshots_get },
	{ CHUNK_MEMORY, 1u << CHUNK_PROCESS, chunk_memory_put, chunk_memory_get },
	{ CHUNK_MARKS, 1u << CHUNK_PROCESS, chunk_marks_put, chunk_marks_get },
	{ CHUNK_UNSEEN, 1u << CHUNK_PROCESS, chunk_unrecorded_put, chunk_unrecorded_get },
	{ CHUNK_STATIC, 1u << CHUNK_PROCESS, chunk_static_put, chunk_static_get },
	{ CHUNK_PAGES, 1u << CHUNK_SITES, chunk_pages_put, chunk_pages_get },
	{ CHUNK_PAIRS, 1u << CHUNK_PROCESS, chunk_pairs_put, chunk_pairs_get },
	{ CHUNK_REACH, 1u << CHUNK_SITES, chunk_reach_put, chunk_reach_get },
	{ CHUNK_PAGE_MAP, 1u << CHUNK_PAGES, chunk_page_map_put, chunk_page_map_get },
	{ CHUNK_NAMES, 1u << CHUNK_FRAMES, chunk_names_put, chunk_names_get },
};

int format_fail(struct format_error *error, const char *format, ...)
{
	va_list args;

	if (error) {
		va_start(args, format);
		vsnprintf(error->message, sizeof error->message, format, args);
		va_end(args);
	}
	return -1;
}

static uint64_t allowance_of(uint64_t stored_bytes)
{
	return ALLOWANCE_BASE + stored_bytes * ALLOWANCE_FACTOR;
}

/* ---- writing ---- */

/* Writes a header of the file or of a chunk, with its checksum. */
static void put_head(struct bytes *out, const void *head, size_t bytes)
{
	uint64_t hash = XXH64(head, bytes, 0);

	bytes_put(out, head, bytes);
	bytes_put(out, &hash, sizeof hash);
}

/* The number of file bytes that a reader requires to accept the payload. */
static uint64_t bytes_to_believe(const struct payload *payload)
{
	uint64_t cost = payload->cost_bytes, raw = payload->bytes.size;
	uint64_t for_cost =
		cost > ALLOWANCE_BASE ? (cost - ALLOWANCE_BASE) / ALLOWANCE_FACTOR + 1 : 0;
	uint64_t for_raw = raw > RAW_BASE ? (raw - RAW_BASE) / RAW_FACTOR + 1 : 0;

	return MAX(for_cost, for_raw);
}

/* A zstd frame that decompresses to nothing: pads payloads whose compression ratio exceeds the reader's limit. */
static void put_skippable(struct bytes *out, uint32_t bytes)
{
	const uint32_t head[] = { ZSTD_MAGIC_SKIPPABLE_START, bytes };

	bytes_put(out, head, sizeof head);
	bytes_put_zeros(out, bytes);
}

/* The user waits for the recording: slower levels save 5 % of its bytes and take ten times as long. */
enum {
	LEVEL = 3,
	/* Smaller payloads do not compress, and short processes have no others. */
	PACKED_MIN = 128,
};

/* Appends the payload as zstd frames; leaves `out` empty if it is shorter uncompressed. */
static void compress_payload(const struct payload *payload, struct bytes *out)
{
	const struct bytes *raw = &payload->bytes;
	size_t bound = ZSTD_compressBound(raw->size), size;
	uint64_t wanted = bytes_to_believe(payload);
	uint8_t *to = raw->size < PACKED_MIN ? NULL : bytes_reserve(out, bound);

	if (!to)
		return;
	size = pack_zstd(to, bound, raw->data, raw->size, LEVEL);
	if (ZSTD_isError(size) || MAX((uint64_t)size, wanted) >= raw->size)
		return;
	out->size = size;
	if (size < wanted)
		put_skippable(out, (uint32_t)(wanted - size));
}

static void put_chunk(struct bytes *out, enum chunk_type type, uint32_t process,
		      struct payload *payload)
{
	struct bytes packed = { 0 };
	const struct bytes *stored = &packed;

	compress_payload(payload, &packed);
	if (packed.size == 0) {
		stored = &payload->bytes;
		/* Readers ignore bytes after a chunk's last table. */
		if (payload->bytes.size < bytes_to_believe(payload))
			bytes_put_zeros(&payload->bytes,
					bytes_to_believe(payload) - payload->bytes.size);
	}
	if (payload->bytes.failed || packed.failed)
		out->failed = true;
	const struct chunk_head head = {
		.type = (uint16_t)type,
		.flags = packed.size ? CHUNK_ZSTD : 0,
		.process = process,
		.stored_bytes = stored->size,
		.raw_bytes = payload->bytes.size,
		.payload_hash = out->failed ? 0 : XXH64(stored->data, stored->size, type),
	};

	put_head(out, &head, sizeof head);
	bytes_put(out, stored->data, stored->size);
	bytes_release(&packed);
}

struct recording_writer {
	struct bytes out;
	uint32_t process_count;
	uint64_t chunks;
};

/* The chunks of a process are independent: two threads take them in turn. */
struct chunks_job {
	const struct process_rows *rows;
	uint32_t process;
	size_t taken; /* atomic */
	struct bytes chunks[ARRAY_SIZE(kinds)];
};

/* Optional chunks: most recordings have no names, tags, marks, unrecorded files or pages, and a short run no static data. */
static bool has_chunk(const struct process_rows *rows, enum chunk_type type)
{
	return (type != CHUNK_NAMES || rows->name_count > 0) &&
	       (type != CHUNK_TAGS || rows->tag_count > 0) &&
	       (type != CHUNK_MARKS || rows->mark_count > 0) &&
	       (type != CHUNK_UNSEEN || rows->unrecorded_count > 0) &&
	       (type != CHUNK_STATIC || rows->globals.file_count > 0) &&
	       (type != CHUNK_PAGES || rows->pages.sum_count > 0) &&
	       (type != CHUNK_PAIRS || rows->pair_count + rows->size_moment_count > 0) &&
	       (type != CHUNK_REACH || rows->image.reach_count > 0) &&
	       (type != CHUNK_PAGE_MAP || rows->pages.map_count > 0);
}

static void *put_chunks(void *context)
{
	struct chunks_job *job = context;
	size_t i;

	while ((i = __atomic_fetch_add(&job->taken, 1, __ATOMIC_RELAXED)) < ARRAY_SIZE(kinds)) {
		struct payload payload = { 0 };

		if (!has_chunk(job->rows, kinds[i].type))
			continue;
		kinds[i].put(&payload, job->rows);
		put_chunk(&job->chunks[i], kinds[i].type, job->process, &payload);
		bytes_release(&payload.bytes);
	}
	return NULL;
}

#define ROWS_FOR_TWO_BYTES                                                                         \
	(UINT64_C(1) << 20) /* less is encoded before a second thread has started */

static void put_process(struct recording_writer *writer, const struct process_rows *rows)
{
	struct chunks_job job = { .rows = rows, .process = writer->process_count };
	pthread_t other;
	bool two = process_rows_bytes(rows) >= ROWS_FOR_TWO_BYTES &&
		   pthread_create(&other, NULL, put_chunks, &job) == 0;

	put_chunks(&job);
	if (two)
		pthread_join(other, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		bytes_put(&writer->out, job.chunks[i].data, job.chunks[i].size);
		writer->out.failed |= job.chunks[i].failed;
		writer->chunks += has_chunk(rows, kinds[i].type);
		bytes_release(&job.chunks[i]);
	}
	writer->process_count++;
}

struct recording_writer *recording_writer_new(void)
{
	struct recording_writer *writer = calloc(1, sizeof *writer);

	struct recording_head head = { .bytes = HEAD_BYTES,
				       .major = RECORDING_MAJOR,
				       .minor = RECORDING_MINOR };

	memcpy(head.magic, RECORDING_MAGIC, sizeof head.magic);
	if (writer)
		put_head(&writer->out, &head, sizeof head);
	return writer;
}

void recording_writer_free(struct recording_writer *writer)
{
	if (writer)
		bytes_release(&writer->out);
	free(writer);
}

int recording_writer_add(struct recording_writer *writer, const struct process_rows *rows,
			 struct format_error *error)
{
	if (writer->process_count >= PROCESSES_MAX)
		return format_fail(error, "too many processes for one recording");
	put_process(writer, rows);
	return writer->out.failed ? format_fail(error, "out of memory") : 0;
}

const void *recording_writer_bytes(const struct recording_writer *writer, size_t *ret_length)
{
	*ret_length = writer->out.failed ? 0 : writer->out.size;
	return writer->out.data;
}

int recording_writer_finish(struct recording_writer *writer, const struct run_row *run,
			    void **ret_bytes, size_t *ret_length, struct format_error *error)
{
	struct payload payload = { 0 };

	chunk_run_put(&payload, run);
	put_chunk(&writer->out, CHUNK_RUN, CHUNK_NO_PROCESS, &payload);
	bytes_release(&payload.bytes);
	payload = (struct payload){ 0 };
	bytes_put_varint(&payload.bytes, 1 + writer->chunks);
	put_chunk(&writer->out, CHUNK_END, CHUNK_NO_PROCESS, &payload);
	bytes_release(&payload.bytes);
	if (writer->out.failed)
		return format_fail(error, "out of memory");
	*ret_bytes = writer->out.data;
	*ret_length = writer->out.size;
	writer->out = (struct bytes){ 0 };
	return 0;
}

int recording_encode(const struct recording *recording, void **ret_bytes, size_t *ret_length,
		     struct format_error *error)
{
	struct recording_writer *writer = recording_writer_new();
	int status = writer ? 0 : format_fail(error, "out of memory");

	for (size_t i = 0; i < recording->process_count && status == 0; i++)
		status = recording_writer_add(writer, &recording->processes[i], error);
	if (status == 0)
		status = recording_writer_finish(writer, &recording->run, ret_bytes, ret_length,
						 error);
	recording_writer_free(writer);
	return status;
}

/* ---- reading ---- */

struct decoder {
	struct cursor cursor;
	struct recording recording;
	unsigned *seen;	 /* for each process, a bit for each type that was read */
	uint64_t chunks; /* complete chunks before the end chunk */
	struct format_error *error;
};

/* Reads a header. False: it is truncated. *ret_good: whether its checksum is correct. */
static bool get_head(struct cursor *c, void *ret, size_t bytes, bool *ret_good)
{
	cursor_copy(c, ret, bytes);
	*ret_good = cursor_u64(c) == XXH64(ret, bytes, 0);
	return !c->failed;
}

static int get_recording_head(struct decoder *decoder)
{
	struct cursor *c = &decoder->cursor;
	struct recording_head head;
	bool good;

	if (cursor_left(c) < sizeof head.magic ||
	    memcmp(c->at, RECORDING_MAGIC, sizeof head.magic) != 0)
		return format_fail(decoder->error, "not a heapgauge recording");
	if (!get_head(c, &head, sizeof head, &good))
		return format_fail(decoder->error, "truncated in its header");
	if (!good)
		return format_fail(decoder->error, "its header is damaged");
	/* Any minor is accepted. */
	if (head.major != RECORDING_MAJOR)
		return format_fail(decoder->error,
				   "written in format %u.%u, and this heapgauge reads format %u: "
				   "use the heapgauge that wrote it, or a newer one",
				   head.major, head.minor, RECORDING_MAJOR);
	if (head.incompatible != 0)
		return format_fail(
			decoder->error,
			"uses a feature (0x%llx) that this version of heapgauge does not know",
			(unsigned long long)head.incompatible);
	if (head.bytes < HEAD_BYTES)
		return format_fail(decoder->error, "its header is damaged");
	cursor_seek(c, head.bytes);
	if (c->failed)
		return format_fail(decoder->error, "truncated in its header");
	return 0;
}

/* Returns false if no complete chunk follows; the cursor is unchanged then. */
static bool get_chunk_head(struct decoder *decoder, struct chunk_head *ret)
{
	struct cursor c = decoder->cursor;
	bool good;

	if (!get_head(&c, ret, sizeof *ret, &good))
		return false;
	if (!good) {
		decoder->recording.warnings.bad_chunks++;
		return false;
	}
	if (ret->stored_bytes > cursor_left(&c))
		return false;
	decoder->cursor = c;
	return true;
}

/* Returns the payload, decompressed into malloc'd memory if *ret_owned is set. False if it is damaged. */
static bool get_payload(const struct chunk_head *head, struct span stored, struct span *ret,
			uint8_t **ret_owned)
{
	uint64_t size;
	uint8_t *raw;

	*ret_owned = NULL;
	if (XXH64(stored.data, stored.size, head->type) != head->payload_hash)
		return false;
	if (!(head->flags & CHUNK_ZSTD)) {
		*ret = stored;
		return head->raw_bytes == stored.size;
	}
	if (head->raw_bytes > RAW_MAX || head->raw_bytes > RAW_BASE + stored.size * RAW_FACTOR)
		return false;
	raw = malloc(head->raw_bytes + 1);
	if (!raw)
		return false;
	size = ZSTD_decompress(raw, head->raw_bytes, stored.data, stored.size);
	if (ZSTD_isError(size) || size != head->raw_bytes) {
		free(raw);
		return false;
	}
	*ret_owned = raw;
	*ret = span_of(raw, size);
	return true;
}

/* Allocates a process; they come in order. */
static bool add_process(struct decoder *decoder, uint32_t index)
{
	struct recording *recording = &decoder->recording;
	struct process_rows *processes;
	unsigned *seen;

	if (index < recording->process_count)
		return true;
	if (index != recording->process_count || index >= PROCESSES_MAX)
		return false;
	processes = reallocarray(recording->processes, index + 1, sizeof *processes);
	if (!processes)
		return false;
	recording->processes = processes;
	seen = reallocarray(decoder->seen, index + 1, sizeof *seen);
	if (!seen)
		return false;
	decoder->seen = seen;
	processes[index] = (struct process_rows){ 0 };
	seen[index] = 0;
	recording->process_count++;
	return true;
}

/* Releases the fields that a failed reader has filled. They were zero in `before`, so the exclusive or of both contains nothing
 * else. */
static void release_filled(struct process_rows *rows, const struct process_rows *before)
{
	struct process_rows filled = *rows;

	for (size_t i = 0; i < sizeof filled; i++)
		((uint8_t *)&filled)[i] ^= ((const uint8_t *)before)[i];
	process_rows_release(&filled);
	*rows = *before;
}

static bool get_process_chunk(struct decoder *decoder, const struct chunk_head *head,
			      struct source *source)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct process_rows *rows, before;
		unsigned *seen;

		if (kinds[i].type != head->type)
			continue;
		if (!add_process(decoder, head->process))
			return false;
		seen = &decoder->seen[head->process];
		if ((*seen & kinds[i].needs) != kinds[i].needs || (*seen & 1u << head->type))
			return false;
		rows = &decoder->recording.processes[head->process];
		before = *rows;
		kinds[i].get(source, rows);
		if (source->cursor.failed)
			release_filled(rows, &before);
		else
			*seen |= 1u << head->type;
		return !source->cursor.failed;
	}
	return false;
}

static bool get_run_chunk(struct decoder *decoder, struct source *source)
{
	if (decoder->recording.run.host)
		return false;
	chunk_run_get(source, &decoder->recording.run);
	if (source->cursor.failed)
		run_row_release(&decoder->recording.run);
	return !source->cursor.failed;
}

/* Reads one chunk. Sets *ret_end at the end of the recording. Returns -1 if the whole file must be refused. */
static int get_chunk(struct decoder *decoder, const struct chunk_head *head, bool *ret_end)
{
	struct recording_warnings *warnings = &decoder->recording.warnings;
	struct span stored = cursor_bytes(&decoder->cursor, head->stored_bytes), raw;
	struct source source = { .allowance = allowance_of(head->stored_bytes) };
	uint8_t *owned;
	bool good;

	if (head->type == 0 || head->type >= CHUNK_TYPES) {
		if (head->flags & CHUNK_REQUIRED)
			return format_fail(
				decoder->error,
				"holds data (kind %u) that this version of heapgauge cannot read",
				head->type);
		decoder->chunks++;
		warnings->unknown_chunks++;
		return 0;
	}
	good = get_payload(head, stored, &raw, &owned);
	if (good) {
		source.cursor = cursor_over(raw);
		if (head->type == CHUNK_END) {
			*ret_end = true;
			good = cursor_varint(&source.cursor) == decoder->chunks;
		} else if (head->type == CHUNK_RUN) {
			good = get_run_chunk(decoder, &source);
		} else {
			good = get_process_chunk(decoder, head, &source);
		}
	}
	free(owned);
	decoder->chunks++;
	warnings->bad_chunks += !good;
	return 0;
}

/* Drops processes without a process chunk; the damage is already counted. */
static void drop_nameless(struct decoder *decoder)
{
	struct recording *recording = &decoder->recording;
	size_t kept = 0;

	for (size_t i = 0; i < recording->process_count; i++) {
		if (decoder->seen[i] & 1u << CHUNK_PROCESS)
			recording->processes[kept++] = recording->processes[i];
		else
			process_rows_release(&recording->processes[i]);
	}
	recording->process_count = kept;
}

static int fill_texts(struct run_row *run)
{
	char **texts[] = { &run->host,	  &run->kernel,	  &run->version,
			   &run->command, &run->own_code, &run->options };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		if (!*texts[i])
			*texts[i] = calloc(1, 1);
		if (!*texts[i])
			return -1;
	}
	return 0;
}

static int get_all(struct decoder *decoder)
{
	struct recording_warnings *warnings = &decoder->recording.warnings;
	struct chunk_head head;
	bool end = false;

	if (get_recording_head(decoder) < 0)
		return -1;
	while (!end && get_chunk_head(decoder, &head)) {
		if (get_chunk(decoder, &head, &end) < 0)
			return -1;
	}
	warnings->cut_bytes = cursor_left(&decoder->cursor);
	warnings->unfinished = !end;
	drop_nameless(decoder);
	if (fill_texts(&decoder->recording.run) < 0)
		return format_fail(decoder->error, "out of memory");
	return 0;
}

int recording_decode(const void *bytes, size_t length, struct recording *ret,
		     struct format_error *error)
{
	struct decoder decoder = { .cursor = cursor_over(span_of(bytes, length)), .error = error };
	int status = get_all(&decoder);

	free(decoder.seen);
	if (status < 0)
		recording_release(&decoder.recording);
	else
		*ret = decoder.recording;
	return status;
}
