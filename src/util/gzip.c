/* SPDX-License-Identifier: Apache-2.0 */
/* gzip in memory, with zlib. No state. */
#include "util/gzip.h"

#include <zlib.h>

enum { GZIP_WINDOW = 15 + 16, MEMORY_LEVEL = 8, STEP_BYTES = 16 * 1024 };

bool gzip_append(struct buffer *out, struct span bytes, enum gzip_level level)
{
	z_stream stream = { 0 };

	if (deflateInit2(&stream, (int)level, Z_DEFLATED, GZIP_WINDOW, MEMORY_LEVEL,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return false;
	size_t given = 0;
	int status = Z_OK;

	stream.next_in = (Bytef *)(uintptr_t)bytes.data;
	while (status == Z_OK) {
		uint8_t *room = buffer_reserve(out, STEP_BYTES);

		if (!room)
			break;
		if (stream.avail_in == 0) {
			/* zlib's counts have 32 bits; the input may be larger. */
			stream.avail_in = (uInt)MIN(bytes.size - given, (size_t)1 << 30);
			given += stream.avail_in;
		}
		stream.next_out = room;
		stream.avail_out = STEP_BYTES;
		status = deflate(&stream, given == bytes.size ? Z_FINISH : Z_NO_FLUSH);
		out->size += STEP_BYTES - stream.avail_out;
	}
	deflateEnd(&stream);
	return status == Z_STREAM_END;
}

/* After a member of the file: the next one, the zeros with which tapes are filled up, or nothing. Z_STREAM_END: that was all. */
static int next_member(z_stream *stream, struct span rest)
{
	size_t zeros = 0;

	while (zeros < rest.size && rest.data[zeros] == 0)
		zeros++;
	if (zeros == rest.size)
		return Z_STREAM_END;
	return zeros ? Z_DATA_ERROR : inflateReset(stream);
}

static int read_stream(z_stream *stream, struct buffer *out, struct span bytes, size_t limit,
		       struct error *error)
{
	size_t given = 0, before = out->size;
	int status = Z_OK;

	stream->next_in = (Bytef *)(uintptr_t)bytes.data;
	while (status == Z_OK) {
		uint8_t *room = buffer_reserve(out, STEP_BYTES);

		if (!room)
			return error_set(error, "out of memory");
		if (stream->avail_in == 0) {
			stream->avail_in = (uInt)MIN(bytes.size - given, (size_t)1 << 30);
			given += stream->avail_in;
		}
		stream->next_out = room;
		stream->avail_out = STEP_BYTES;
		status = inflate(stream, Z_NO_FLUSH);
		out->size += STEP_BYTES - stream->avail_out;
		if (out->size - before > limit)
			return error_set(error, "more than %zu MiB when decompressed", limit >> 20);
		size_t done = given - stream->avail_in;

		if (status == Z_STREAM_END)
			status = next_member(stream, span_of(bytes.data + done, bytes.size - done));
	}
	if (status == Z_STREAM_END)
		return 0;
	return error_set(error, status == Z_BUF_ERROR ? "the gzip data is cut off"
						      : "the gzip data is damaged");
}

int gzip_read(struct buffer *out, struct span bytes, size_t limit, struct error *error)
{
	z_stream stream = { 0 };

	if (inflateInit2(&stream, GZIP_WINDOW) != Z_OK)
		return error_set(error, "out of memory");
	int status = read_stream(&stream, out, bytes, limit, error);

	inflateEnd(&stream);
	return status;
}
