/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens profiles, for the reading commands and for the reader library (src/reader/).
 *
 * A file is a recording, the live profile of a process without a collector, a core file, or a heap profile of another tool; its first
 * bytes tell which. The caller owns what is returned; no state.
 */
#include "cli/profile_source.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "collect/attach/inspect.h"
#include "collect/import/import.h"
#include "collect/kernel/core_file.h"
#include "format/live/live.h"
#include "model/build.h"
#include "symbols/symbolizer.h"
#include "util/cleanup.h"
#include "util/files.h"

/* The first bytes of the file, as many as there are. */
static struct span first_bytes(const char *path, uint8_t *into, size_t size)
{
	AUTO_CLOSE int fd = file_open_regular(path, NULL, NULL);
	ssize_t got = fd >= 0 ? read(fd, into, size) : 0;

	return span_of(into, got > 0 ? (size_t)got : 0);
}

/* The live profile of a process without a collector, which may have ended. */
static bool is_live(struct span first)
{
	return first.size >= sizeof LIVE_MAGIC - 1 &&
	       memcmp(first.data, LIVE_MAGIC, sizeof LIVE_MAGIC - 1) == 0;
}

static struct profile *load_live(const char *path, struct error *error)
{
	struct recording recording = { 0 };

	if (inspect_file(path, HEAPGAUGE_VERSION, &recording, NULL, error) < 0) {
		error_wrap(error, "%s", path);
		return NULL;
	}
	return profile_new(&recording, error);
}

static struct profile *load_core(const char *path, struct error *error)
{
	struct recording recording = { 0 };

	if (inspect_core(path, HEAPGAUGE_VERSION, &recording, error) < 0) {
		error_wrap(error, "%s", path);
		return NULL;
	}
	return profile_new(&recording, error);
}

/* The functions by which a program allocates, as in jeprof's list, and those of jemalloc that follow if they jump there; with the
 * prefixes that a linked-in jemalloc may have. */
static bool allocates(const char *name)
{
	static const char *const prefixes[] = { "_rjem_je_", "_rjem_", "je_", "" };
	static const char *const functions[] = {
		"malloc",	  "calloc",	    "realloc",	  "reallocarray",
		"memalign",	  "valloc",	    "pvalloc",	  "aligned_alloc",
		"posix_memalign", "mallocx",	    "rallocx",	  "xallocx",
		"newImpl",	  "malloc_default", "do_rallocx", "prof_tctx_create",
		"prof_backtrace",
	};

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		size_t length = strlen(prefixes[i]);

		if (strncmp(name, prefixes[i], length) != 0)
			continue;
		for (size_t j = 0; j < ARRAY_SIZE(functions); j++)
			if (strcmp(name + length, functions[j]) == 0)
				return true;
	}
	/* operator new and operator new[] */
	return strncmp(name, "_Znwm", 5) == 0 || strncmp(name, "_Znam", 5) == 0;
}

static bool is_allocator(void *context, const char *path, uint64_t address)
{
	struct symbolizer *symbolizer = context;
	symbol_module_id module = symbolizer_module(symbolizer, path, (struct span){ 0 });
	struct symbol_list found = { 0 };

	if (module.v)
		found = symbolizer_find(symbolizer, module, address, true);
	/* The outermost is the function itself; the others are inlined into it. */
	return found.count && found.at[found.count - 1].linkage &&
	       allocates(found.at[found.count - 1].linkage);
}

static struct profile *load_import(const char *path, struct error *error)
{
	AUTO(file_map_release) struct file_map map = FILE_MAP_INIT;
	struct recording recording = { 0 };

	if (file_map_open(&map, path, error) < 0)
		return NULL;
	struct symbolizer *symbolizer = symbolizer_new(NULL);
	const struct import_names names = { is_allocator, symbolizer };
	int status = import_profile(map.bytes, symbolizer ? &names : NULL, &recording, error);

	symbolizer_free(symbolizer);
	if (status < 0) {
		error_wrap(error, "%s", path);
		return NULL;
	}
	return profile_new(&recording, error);
}

struct profile *recording_open(const char *path, struct error *error)
{
	uint8_t begin[CORE_FILE_FIRST_BYTES];
	struct span first = first_bytes(path, begin, sizeof begin);
	struct error reason = ERROR_INIT;

	if (core_file_is(first))
		return load_core(path, error);
	first.size = MIN(first.size, (size_t)IMPORT_FIRST_BYTES);
	struct profile *profile = is_live(first)	     ? load_live(path, &reason)
				  : import_recognizes(first) ? load_import(path, &reason)
							     : profile_load(path, &reason);

	if (!profile)
		error_set(error,
			  "cannot read the recording (%s); name a file that 'heapgauge record "
			  "PROGRAM' wrote",
			  reason.message);
	return profile;
}

struct profile *process_open(pid_t pid, bool reads_pages, char **ret_name, struct error *error)
{
	struct recording recording = { 0 };

	*ret_name = NULL;
	if (inspect_process(pid, reads_pages, HEAPGAUGE_VERSION, &recording, error) < 0)
		return NULL;
	if (asprintf(ret_name, "process %d", (int)pid) < 0) {
		*ret_name = NULL;
		recording_release(&recording);
		error_set(error, "out of memory");
		return NULL;
	}
	return profile_new(&recording, error);
}
