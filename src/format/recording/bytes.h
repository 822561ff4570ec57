/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing byte buffer for encoders. An allocation failure sets `failed`, which is sticky: an encoder checks it once at its
 * end. Owns its memory; { 0 } is empty.
 */
#ifndef FORMAT_RECORDING_BYTES_H
#define FORMAT_RECORDING_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
	uint8_t *data;
	size_t size, room;
	bool failed;
};

void bytes_release(struct bytes *bytes);

/* Reserves `more` bytes after size; NULL if out of memory. The caller adds the bytes it has written to size. */
uint8_t *bytes_reserve(struct bytes *bytes, size_t more);

void bytes_put(struct bytes *bytes, const void *data, size_t size);
void bytes_put_zeros(struct bytes *bytes, size_t size);
void bytes_put_u8(struct bytes *bytes, uint8_t value);
void bytes_put_varint(struct bytes *bytes, uint64_t value);
/* Writes a varint length and that many bytes. text NULL is the same as "". */
void bytes_put_text(struct bytes *bytes, const char *text);

#endif
