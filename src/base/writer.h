/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cursor's counterpart: writes little-endian numbers into memory of the caller and allocates
 * nothing. What does not fit is left out whole and sets `full`, which stays set: an encoder asks
 * once at its end.
 */
#ifndef BASE_WRITER_H
#define BASE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct writer {
	uint8_t *start;
	uint8_t *at;
	uint8_t *end;
	bool full;
};

/* out must not be NULL, even if room is 0. */
struct writer writer_over(void *out, size_t room);

void writer_bytes(struct writer *w, const void *data, size_t size);
void writer_u8(struct writer *w, uint8_t value);
void writer_u16(struct writer *w, uint16_t value);
void writer_u32(struct writer *w, uint32_t value);
void writer_u64(struct writer *w, uint64_t value);
void writer_varint(struct writer *w, uint64_t value);
void writer_zigzag(struct writer *w, int64_t value);
/* A varint length and that many bytes. */
void writer_counted(struct writer *w, struct span bytes);

/* What was written so far. */
static inline struct span writer_done(const struct writer *w)
{
	return span_of(w->start, (size_t)(w->at - w->start));
}

static inline size_t writer_left(const struct writer *w)
{
	return w->full ? 0 : (size_t)(w->end - w->at);
}

#endif
