/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Validates UTF-8 by table 3-7 of the Unicode standard: only the second byte's range depends on the
 * first, and that range excludes overlong encodings, surrogates and values that are too large.
 * Pure.
 */
#include "util/text/utf8.h"

struct lead {
	uint8_t first, last; /* range of the first byte */
	uint8_t second_first, second_last;
	uint8_t length;
};

static const struct lead leads[] = {
	{ 0x00, 0x7f, 0x00, 0x00, 1 }, { 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 },
	{ 0xe1, 0xec, 0x80, 0xbf, 3 }, { 0xed, 0xed, 0x80, 0x9f, 3 }, { 0xee, 0xef, 0x80, 0xbf, 3 },
	{ 0xf0, 0xf0, 0x90, 0xbf, 4 }, { 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 },
};

static const struct lead *find_lead(uint8_t byte)
{
	for (size_t i = 0; i < sizeof leads / sizeof leads[0]; i++)
		if (byte >= leads[i].first && byte <= leads[i].last)
			return &leads[i];
	return NULL;
}

size_t utf8_sequence(struct span text)
{
	const struct lead *lead = text.size ? find_lead(text.data[0]) : NULL;

	if (!lead || lead->length > text.size)
		return 0;
	if (lead->length == 1)
		return 1;
	if (text.data[1] < lead->second_first || text.data[1] > lead->second_last)
		return 0;
	for (size_t i = 2; i < lead->length; i++)
		if ((text.data[i] & 0xc0) != 0x80)
			return 0;
	return lead->length;
}

uint32_t utf8_code_point(const uint8_t *sequence, size_t length)
{
	uint32_t code = length == 1 ? sequence[0] : sequence[0] & (0x7fu >> length);

	for (size_t i = 1; i < length; i++)
		code = code << 6 | (sequence[i] & 0x3f);
	return code;
}
