/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names and texts of the reasons why a process was missed, generated from the list in missed.h. Constant data, for readers
 * of recordings: the recorder has only the numbers.
 */
#include "format/missed.h"

#define PROGRAM "program was", "programs were"
#define CHILD "child was", "children were"
#define PROCESS "process was", "processes were"

const struct missed_words missed_words[MISSED_COUNT] = {
#define MISSED_ROW(name, who, why) [MISSED_##name] = { #name, who, why },
	MISSED_REASONS(MISSED_ROW)
#undef MISSED_ROW
};
