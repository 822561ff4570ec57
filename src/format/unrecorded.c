/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts for causes that hide memory from the recorder, generated from the list in unrecorded.h. Constant data, for the
 * collector, which detects them, and for readers of recordings.
 */
#include "format/unrecorded.h"

#include <stdio.h>
#include <string.h>

const struct unrecorded_words unrecorded_words[UNRECORDED_COUNT] = {
#define UNRECORDED_ROW(name, class, title, remedy)                                                 \
	[UNRECORDED_##name] = { #name, title, remedy, UNRECORDED_##class },
	UNRECORDED_LIST(UNRECORDED_ROW)
#undef UNRECORDED_ROW
};

uint64_t unrecorded_of_class(enum unrecorded_class class)
{
	uint64_t bits = 0;

	for (unsigned i = 0; i < UNRECORDED_COUNT; i++)
		if (unrecorded_words[i].class == class)
			bits |= UINT64_C(1) << i;
	return bits;
}

uint64_t unrecorded_most_specific(uint64_t found)
{
	const uint64_t seen = UNRECORDED_BIT(deepbind) | UNRECORDED_BIT(namespace);
	uint64_t runtimes = unrecorded_of_class(UNRECORDED_RUNTIME);
	uint64_t allocators = unrecorded_of_class(UNRECORDED_ALLOCATOR);

	if (found & runtimes)
		return found & (runtimes | seen);
	if (found & UNRECORDED_BIT(arrow))
		return found & (UNRECORDED_BIT(arrow) | seen);
	if (found & allocators)
		return found & (allocators | seen);
	return found;
}

void unrecorded_format(enum unrecorded is, const char *path, char ret[UNRECORDED_SENTENCE_MAX])
{
	const struct unrecorded_words *words = &unrecorded_words[is];
	const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;

	switch (words->class) {
	case UNRECORDED_ALLOCATOR:
		snprintf(ret, UNRECORDED_SENTENCE_MAX,
			 "%s inside %.100s allocates without calling malloc", words->title, file);
		break;
	case UNRECORDED_RUNTIME:
		snprintf(ret, UNRECORDED_SENTENCE_MAX, "%s (%.100s) keeps objects in its own heap",
			 words->title, file);
		break;
	case UNRECORDED_BYPASS:
		snprintf(ret, UNRECORDED_SENTENCE_MAX, "%.100s %s", file, words->title);
		break;
	}
}
