/* links: base */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any sequence of reads over any bytes: the input's first half says what to read, the second half is read. Whatever
 * comes, the cursor stays inside, moves forward only, and a failure stays.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/cursor.h"
#include "base/varint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void read_one(struct cursor *c, uint8_t what)
{
	uint8_t copy[16];

	switch (what % 9) {
	case 0:
		cursor_u8(c);
		break;
	case 1:
		cursor_u16(c);
		break;
	case 2:
		cursor_u32(c);
		break;
	case 3:
		cursor_u64(c);
		break;
	case 4:
		cursor_varint(c);
		break;
	case 5:
		cursor_zigzag(c);
		break;
	case 6:
		cursor_copy(c, copy, what % sizeof copy);
		break;
	case 7:
		cursor_skip(c, what);
		break;
	default: {
		struct span part = cursor_counted(c);

		/* Touches both ends, so that the sanitizer sees a wrong one. */
		if (part.size)
			require((part.data[0] | part.data[part.size - 1]) >= 0);
	}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t half = size / 2;
	struct cursor c = cursor_over(span_of(data + half, size - half));

	for (size_t i = 0; i < half; i++) {
		size_t before = cursor_offset(&c);
		bool failed = c.failed;

		read_one(&c, data[i]);
		require(cursor_offset(&c) >= before && cursor_offset(&c) <= size - half);
		require(!failed || (c.failed && cursor_offset(&c) == before));
	}
	return 0;
}
