/* SPDX-License-Identifier: Apache-2.0 */
#include "util/text/base64.h"

void base64_append(struct buffer *out, struct span bytes)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t at = 0; at < bytes.size; at += 3) {
		size_t left = bytes.size - at;
		uint32_t three = (uint32_t)bytes.data[at] << 16;

		if (left > 1)
			three |= (uint32_t)bytes.data[at + 1] << 8;
		if (left > 2)
			three |= bytes.data[at + 2];
		const char text[4] = {
			digits[three >> 18],
			digits[three >> 12 & 63],
			left > 1 ? digits[three >> 6 & 63] : '=',
			left > 2 ? digits[three & 63] : '=',
		};

		buffer_append(out, text, sizeof text);
	}
}
