/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes whole files, at 5 to 20 GB/s, and finds the files that libdwfl would use: the file itself, or its debug file if it has no DWARF,
 * and dwz's common file of that. Reads only headers and notes on the way: decompressing debug information would take longer than all the
 * rest.
 *
 * No state. Any thread.
 */
#include "symbols/debug/content_key.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <elfutils/libdwelf.h>
#include <xxhash.h>

#include "base/compiler.h"
#include "util/cleanup.h"

_Static_assert(sizeof(struct content_secret) >= XXH3_SECRET_SIZE_MIN, "a secret of its own");

static struct content_key key_of(XXH128_hash_t hash)
{
	XXH128_canonical_t sum;
	struct content_key key;

	XXH128_canonicalFromHash(&sum, hash);
	memcpy(key.bytes, sum.digest, sizeof key.bytes);
	return key;
}

static struct content_key hash_of(const void *data, size_t bytes,
				  const struct content_secret *secret)
{
	return key_of(XXH3_128bits_withSecret(data, bytes, secret, sizeof *secret));
}

/* Reads the file again: libelf's copy in memory may have been changed by decompression. */
static bool hash_content(int fd, XXH3_state_t *state)
{
	enum { STEP = 256 << 10 };
	AUTO_FREE char *bytes = malloc(STEP);
	ssize_t got = bytes ? 1 : -1;

	for (off_t at = 0; got > 0; at += got) {
		got = pread(fd, bytes, STEP, at);
		if (got > 0)
			XXH3_128bits_update(state, bytes, (size_t)got);
	}
	return got == 0;
}

static bool hash_file(int fd, const struct content_secret *secret, struct content_key *ret)
{
	XXH3_state_t *state = XXH3_createState();
	bool done = state &&
		    XXH3_128bits_reset_withSecret(state, secret, sizeof *secret) == XXH_OK &&
		    hash_content(fd, state);

	if (done)
		*ret = key_of(XXH3_128bits_digest(state));
	XXH3_freeState(state);
	return done;
}

struct content_key content_key_of_path(const char *path, struct span build_id,
				       const struct content_secret *secret)
{
	struct content_key parts[] = { hash_of(path, strlen(path), secret),
				       hash_of(build_id.data, build_id.size, secret) };

	return hash_of(parts, sizeof parts, secret);
}

bool content_same_build_id(struct span in_file, struct span recorded)
{
	/* The recording keeps at most this much of a build-id; longer ones are compared up to this length. */
	enum { KEPT_MAX_BYTES = 32 };

	in_file.size = MIN(in_file.size, (size_t)KEPT_MAX_BYTES);
	return recorded.size == 0 || span_equal(in_file, recorded);
}

/* An ELF file, open while the key is computed. */
struct opened {
	Elf *elf; /* NULL: none */
	int fd;
	char *path;
};

static void opened_release(struct opened *opened)
{
	elf_end(opened->elf);
	if (opened->fd >= 0)
		close(opened->fd);
	free(opened->path);
}

static bool begin(struct opened *opened)
{
	opened->elf = opened->fd < 0 ? NULL : elf_begin(opened->fd, ELF_C_READ_MMAP, NULL);
	return opened->elf != NULL;
}

static bool open_debug_file(const struct debug_search *search, const struct opened *module,
			    struct opened *ret)
{
	GElf_Word checksum = 0;
	const char *link = dwelf_elf_gnu_debuglink(module->elf, &checksum);

	ret->fd = debug_search_debug_file(search, module->path, elf_build_id(module->elf), link,
					  checksum, &ret->path);
	return begin(ret);
}

/* False if the file refers to a common file that is not found. */
static bool open_common_file(const struct debug_search *search, const struct opened *debug,
			     struct opened *ret)
{
	Elf_Scn *scn = elf_section(debug->elf, ".gnu_debugaltlink");
	const Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;
	const char *name = data ? data->d_buf : NULL;
	size_t length = name ? strnlen(name, data->d_size) : 0;

	if (!scn)
		return true;
	if (!name || length == data->d_size)
		return false;
	const struct debug_wanted wanted = {
		.beside = debug->path,
		.name = name,
		.build_id = span_of(name + length + 1, data->d_size - length - 1),
		.is_common = true,
	};

	ret->fd = debug_search_open(search, &wanted, &ret->path);
	return begin(ret);
}

bool content_find(const struct debug_search *search, const char *path, struct span build_id,
		  const struct content_secret *secret, struct content *ret)
{
	AUTO(opened_release)
	struct opened module = { .fd = -1 }, debug = { .fd = -1 }, common = { .fd = -1 };
	struct content_key sums[CONTENT_FILES] = { { { 0 } } };

	elf_version(EV_CURRENT);
	module.path = strdup(path);
	module.fd = file_open_regular(path, NULL, NULL);
	if (!module.path || !begin(&module) ||
	    !content_same_build_id(elf_build_id(module.elf), build_id))
		return false;
	bool has_dwarf =
		elf_section(module.elf, ".debug_info") || elf_section(module.elf, ".zdebug_info");

	if ((!has_dwarf && !open_debug_file(search, &module, &debug)) ||
	    !open_common_file(search, has_dwarf ? &module : &debug, &common))
		return false;
	const struct opened *all[CONTENT_FILES] = { &module, &debug, &common };

	for (size_t i = 0; i < CONTENT_FILES; i++) {
		ret->files[i] = file_identity(all[i]->fd);
		if (all[i]->fd >= 0 && !hash_file(all[i]->fd, secret, &sums[i]))
			return false;
	}
	ret->key = hash_of(sums, sizeof sums, secret);
	return true;
}
