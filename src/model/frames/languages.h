/* SPDX-License-Identifier: Apache-2.0 */
/* Determines the source language of a function from its frame. */
#ifndef MODEL_FRAMES_LANGUAGES_H
#define MODEL_FRAMES_LANGUAGES_H

/* What --language accepts and JSON contains; LANGUAGE_UNKNOWN is the last. Terminated by a NULL name. */
struct language_word {
	const char *name, *help;
};
extern const struct language_word language_words[];
#define LANGUAGE_UNKNOWN "unknown"

/* Returns a name from language_words; NULL: unknown. Arguments: the linkage name, the demangled name, the source file and the
 * module; all except `module` may be NULL. */
const char *language_of(const char *linkage, const char *full, const char *file,
			const char *module);

#endif
