/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key that validates cached names: the contents of the files that they were read from. A build-id alone is only a claim: the author
 * of a file chooses it, and the names of that file would be shown for every other file with the same claim.
 *
 * The hash is fast but not collision-resistant against attackers; so it is keyed with a secret that only the user has.
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

/* The files that names are read from: an executable or library, its debug file and dwz's common file, where they exist. */
enum content_file { CONTENT_MODULE, CONTENT_DEBUG, CONTENT_COMMON, CONTENT_FILES };
struct content {
	struct content_key key;
	struct file_identity files[CONTENT_FILES]; /* all zero: no such file */
};

/*
 * Finds the files that names would be read from and hashes their contents, without decompressing debug information. False if the
 * file at `path` is not the recorded one, or has no debug information.
 */
bool content_find(const struct debug_search *search, const char *path, struct span build_id,
		  const struct content_secret *secret, struct content *ret);

/* The key of a path and a build-id. */
struct content_key content_key_of_path(const char *path, struct span build_id,
				       const struct content_secret *secret);

/* Whether the file's build-id equals the recorded one. An empty one cannot be compared and is trusted. */
bool content_same_build_id(struct span in_file, struct span recorded);

#endif
