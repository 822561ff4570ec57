/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By what kept names are known to be right: the contents of the files that they were read from. A build-id alone is no more than a claim:
 * whoever writes a file chooses it, and names of that file would be shown for every other that claims the same.
 *
 * The hash is a fast one and not made to withstand people who look for collisions; so it takes a secret that only its user has.
 */
#ifndef SYMBOLS_DEBUG_CONTENT_KEY_H
#define SYMBOLS_DEBUG_CONTENT_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "symbols/debug/debug_search.h"
#include "util/files.h"

struct content_secret {
	uint8_t bytes[192];
};

struct content_key {
	uint8_t bytes[16];
};

/* The files that names are read from: a program or library, its debug file and dwz's common file, as far as there are such. */
enum content_file { CONTENT_MODULE, CONTENT_DEBUG, CONTENT_COMMON, CONTENT_FILES };
struct content {
	struct content_key key;
	struct file_identity files[CONTENT_FILES]; /* all zero: there is none */
};

/*
 * The files that names would be read from, and what is in them: reads them, but unpacks no debug information. False if the file at
 * `path` is not the one that was recorded, or has no debug information.
 */
bool content_find(const struct debug_search *search, const char *path, struct span build_id,
		  const struct content_secret *secret, struct content *ret);

/* Of a path and a build-id. */
struct content_key content_key_of_path(const char *path, struct span build_id,
				       const struct content_secret *secret);

/* Whether the build-id that the file has is the one that was recorded. An empty one cannot be compared and is trusted. */
bool content_same_build_id(struct span in_file, struct span recorded);

#endif
