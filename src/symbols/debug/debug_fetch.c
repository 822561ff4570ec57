/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A debuginfod client, through the library of elfutils.
 *
 * The library is loaded by dlopen, because it depends on libcurl and all its libraries, which a report
 * should not need. It reads its servers from the environment at each request. libdwfl does not query them: it does so only in
 * its own search for debug files, which debug_search.c replaces.
 * While it waits it calls back at least about once a second, and the callback enforces the deadline.
 */
#include "symbols/debug/debug_fetch.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "util/cleanup.h"
#include "util/clock.h"

static const char library_name[] = "libdebuginfod.so.1";
static const char servers_variable[] = "DEBUGINFOD_URLS";
#define DEADLINE_MS 60000u

struct debuginfod_client;
typedef int progress_function(struct debuginfod_client *client, long done, long total);

struct debug_fetch {
	uint64_t left_ms;
	uint64_t began_ms; /* start of the current request */
	void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
	void *context;
	enum debug_fetch_trouble trouble;

	void *library; /* NULL: not loaded */
	struct debuginfod_client *client;
	struct debuginfod_client *(*begin)(void);
	int (*find_debuginfo)(struct debuginfod_client *client, const unsigned char *build_id,
			      int build_id_bytes, char **ret_path);
	void (*set_progress)(struct debuginfod_client *client, progress_function *function);
	void (*end)(struct debuginfod_client *client);
};

static uint64_t now_ms(void)
{
	return clock_monotonic_ns() / NS_PER_MS;
}

struct debug_fetch *debug_fetch_new(const struct debug_fetch_options *options)
{
	struct debug_fetch *fetch = calloc(1, sizeof *fetch);

	if (!fetch)
		return NULL;
	fetch->left_ms = options->deadline_ms ? options->deadline_ms : DEADLINE_MS;
	fetch->progress = options->progress;
	fetch->context = options->context;
	return fetch;
}

void debug_fetch_free(struct debug_fetch *fetch)
{
	if (!fetch)
		return;
	if (fetch->client)
		fetch->end(fetch->client);
	if (fetch->library)
		dlclose(fetch->library);
	free(fetch);
}

/* The owner of this thread's current request: the callback gets only the library's client. */
static _Thread_local struct debug_fetch *asker;

/* Non-zero: abort. */
static int on_progress(struct debuginfod_client *client, long done, long total)
{
	struct debug_fetch *f = asker;

	(void)client;
	if (!f)
		return 0;
	if (f->progress && done > 0)
		f->progress(f->context, (uint64_t)done, total > 0 ? (uint64_t)total : 0);
	return now_ms() - f->began_ms >= f->left_ms;
}

/* ISO C does not convert between data and function pointers; their representation is the same here. */
static bool take_function(void *library, const char *name, void *ret_function)
{
	void *found = dlsym(library, name);

	memcpy(ret_function, &found, sizeof found);
	return found != NULL;
}

static bool load_library(struct debug_fetch *f)
{
	if (f->client)
		return true;
	f->library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
	if (!f->library || !take_function(f->library, "debuginfod_begin", &f->begin) ||
	    !take_function(f->library, "debuginfod_find_debuginfo", &f->find_debuginfo) ||
	    !take_function(f->library, "debuginfod_set_progressfn", &f->set_progress) ||
	    !take_function(f->library, "debuginfod_end", &f->end))
		return false;
	f->client = f->begin();
	if (!f->client)
		return false;
	f->set_progress(f->client, on_progress);
	return true;
}

/* Sends a request, and waits for the answer until the deadline. */
static int ask(struct debug_fetch *f, struct span build_id, char **ret_path)
{
	f->began_ms = now_ms();
	asker = f;
	int fd = f->find_debuginfo(f->client, build_id.data, (int)build_id.size, ret_path);

	asker = NULL;
	uint64_t took_ms = now_ms() - f->began_ms;

	f->left_ms -= MIN(took_ms, f->left_ms);
	return fd;
}

char *debug_fetch_find(struct debug_fetch *f, struct span build_id)
{
	const char *urls = getenv(servers_variable);
	char *path = NULL;

	if (build_id.size == 0 || f->trouble == DEBUG_FETCH_LATE)
		return NULL;
	if (!urls || !urls[0]) {
		f->trouble = DEBUG_FETCH_NO_SERVER;
		return NULL;
	}
	if (!load_library(f)) {
		f->trouble = DEBUG_FETCH_NO_LIBRARY;
		return NULL;
	}
	AUTO_CLOSE int fd = ask(f, build_id, &path);

	if (fd >= 0)
		return path;
	if (f->left_ms == 0)
		f->trouble = DEBUG_FETCH_LATE;
	else if (fd != -ENOENT)
		f->trouble = DEBUG_FETCH_FAILED;
	return NULL;
}

enum debug_fetch_trouble debug_fetch_trouble(const struct debug_fetch *f)
{
	return f->trouble;
}
