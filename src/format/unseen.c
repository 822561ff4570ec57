/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts for causes that hide memory from the recorder, generated from the list in unseen.h. Constant data, for the
 * collector, which detects them, and for readers of recordings.
 */
#include "format/unseen.h"

#include <stdio.h>
#include <string.h>

const struct unseen_words unseen_words[UNSEEN_COUNT] = {
#define UNSEEN_ROW(name, class, title, remedy)                                                     \
	[UNSEEN_##name] = { #name, title, remedy, UNSEEN_##class },
	UNSEEN_LIST(UNSEEN_ROW)
#undef UNSEEN_ROW
};

uint64_t unseen_of_class(enum unseen_class class)
{
	uint64_t bits = 0;

	for (unsigned i = 0; i < UNSEEN_COUNT; i++)
		if (unseen_words[i].class == class)
			bits |= UINT64_C(1) << i;
	return bits;
}

uint64_t unseen_most_specific(uint64_t found)
{
	const uint64_t seen = UNSEEN_BIT(deepbind) | UNSEEN_BIT(namespace);
	uint64_t runtimes = unseen_of_class(UNSEEN_RUNTIME);
	uint64_t allocators = unseen_of_class(UNSEEN_ALLOCATOR);

	if (found & runtimes)
		return found & (runtimes | seen);
	if (found & UNSEEN_BIT(arrow))
		return found & (UNSEEN_BIT(arrow) | seen);
	if (found & allocators)
		return found & (allocators | seen);
	return found;
}

void unseen_say(enum unseen is, const char *path, char ret[UNSEEN_SENTENCE_MAX])
{
	const struct unseen_words *words = &unseen_words[is];
	const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;

	switch (words->class) {
	case UNSEEN_ALLOCATOR:
		snprintf(ret, UNSEEN_SENTENCE_MAX,
			 "%s inside %.100s allocates without calling malloc", words->title, file);
		break;
	case UNSEEN_RUNTIME:
		snprintf(ret, UNSEEN_SENTENCE_MAX, "%s (%.100s) keeps objects in its own heap",
			 words->title, file);
		break;
	case UNSEEN_BYPASS:
		snprintf(ret, UNSEEN_SENTENCE_MAX, "%.100s %s", file, words->title);
		break;
	}
}
