/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing run of bytes for encoders. Failure to allocate sets `failed`, which stays set: an encoder checks it once at
 * its end. Owns its memory; { 0 } is an empty one.
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

/* Room for `more` bytes behind size; NULL if there is none. The caller adds to size what it has written. */
uint8_t *bytes_reserve(struct bytes *bytes, size_t more);

void bytes_put(struct bytes *bytes, const void *data, size_t size);
void bytes_put_zeros(struct bytes *bytes, size_t size);
void bytes_put_u8(struct bytes *bytes, uint8_t value);
void bytes_put_varint(struct bytes *bytes, uint64_t value);
/* A varint length and that many bytes. text may be NULL: the same as "". */
void bytes_put_text(struct bytes *bytes, const char *text);

#endif
