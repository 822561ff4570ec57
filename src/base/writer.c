/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bounds-checked writer. Owns nothing; the memory stays the caller's.
 * Invariant: start <= at <= end, and once full is set nothing is written any more.
 */
#include "base/writer.h"

#include "base/compiler.h"
#include "base/varint.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "byte order");

struct writer writer_over(void *out, size_t room)
{
	uint8_t *start = out;

	ASSERT(out != NULL);
	return (struct writer){ .start = start, .at = start, .end = start + room };
}

void writer_bytes(struct writer *w, const void *data, size_t size)
{
	ASSERT(w->start <= w->at && w->at <= w->end);
	if (UNLIKELY(size > writer_left(w))) {
		w->full = true;
		return;
	}
	if (size == 0)
		return;
	__builtin_memcpy(w->at, data, size);
	w->at += size;
}

void writer_u8(struct writer *w, uint8_t value)
{
	writer_bytes(w, &value, sizeof value);
}

void writer_u16(struct writer *w, uint16_t value)
{
	writer_bytes(w, &value, sizeof value);
}

void writer_u32(struct writer *w, uint32_t value)
{
	writer_bytes(w, &value, sizeof value);
}

void writer_u64(struct writer *w, uint64_t value)
{
	writer_bytes(w, &value, sizeof value);
}

void writer_varint(struct writer *w, uint64_t value)
{
	size_t used = varint_put(w->at, writer_left(w), value);

	if (UNLIKELY(used == 0))
		w->full = true;
	w->at += used;
}

void writer_zigzag(struct writer *w, int64_t value)
{
	writer_varint(w, zigzag_encode(value));
}

void writer_counted(struct writer *w, struct span bytes)
{
	uint8_t *at = w->at;

	writer_varint(w, bytes.size);
	writer_bytes(w, bytes.data, bytes.size);
	if (UNLIKELY(w->full))
		w->at = at;
}
