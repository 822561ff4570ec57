/* SPDX-License-Identifier: Apache-2.0 */
/* links: symbols xxhash */
/*
 * Arbitrary bytes as a store of names. The first byte chooses: the file as it is, or one whose head and
 * checksum are right and whose tables are the fuzzer's. Every entry and some others are asked for.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "symbols/names/name_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 52, SUM_AT = 44, COUNTS_AT = 32 };
static const struct content_key key = { { 1, 2, 3, 4 } };

static void ask(struct span file)
{
	struct name_store *store = name_store_read(file, &key);
	struct dwarf_frame frames[DWARF_CHAIN_MAX];
	size_t length = 0;
	size_t count;

	for (size_t at = HEAD; store && at + 8 <= file.size; at += 8) {
		uint64_t address;

		memcpy(&address, file.data + at, sizeof address);
		if (!name_store_find(store, address, frames, &count))
			continue;
		for (size_t i = 0; i < count; i++) {
			length += frames[i].name ? strlen(frames[i].name) : 0;
			length += frames[i].file ? strlen(frames[i].file) : 0;
		}
	}
	name_store_free(store);
	if (length == SIZE_MAX) /* never, but the texts were read */
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 4)
		return 0;
	uint8_t *file = calloc(1, HEAD + size);
	uint32_t version = 3;
	uint32_t entries = data[1] % 16, frames = data[2] % 32, texts;
	uint64_t sum;

	if (data[0] & 1) {
		memcpy(file, data, size);
		ask(span_of(file, size));
		free(file);
		return 0;
	}
	data += 3;
	size -= 3;
	memcpy(file, "hgnames", 8);
	memcpy(file + 8, &version, 4);
	memcpy(file + 16, &key, sizeof key);
	uint32_t rows = entries * 16 + frames * 20;

	texts = size > rows ? (uint32_t)size - rows : 0;
	memcpy(file + COUNTS_AT, &entries, 4);
	memcpy(file + COUNTS_AT + 4, &frames, 4);
	memcpy(file + COUNTS_AT + 8, &texts, 4);
	memcpy(file + HEAD, data, size);
	sum = XXH64(file + HEAD, size, XXH64(file, SUM_AT, version));
	memcpy(file + SUM_AT, &sum, sizeof sum);
	ask(span_of(file, HEAD + size));
	free(file);
	return 0;
}
