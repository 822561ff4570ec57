/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers the page's requests: a path and parameters become a query, and the response is the JSON that `report` or
 * `diff` would print. One thread at a time.
 */
#ifndef CLI_WEB_WEB_H
#define CLI_WEB_WEB_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "cli/options/query_options.h"
#include "model/frames/names.h"
#include "model/profile.h"
#include "serve/serve.h"
#include "util/buffer.h"
#include "util/error.h"
#include "util/intern.h"
#include "util/vector.h"

enum { WEB_STYLES = NAMES_RAW + 1 };

struct web_file {
	char *path; /* for a process, a name for it */
	pid_t pid;  /* 0: a recording */
	struct profile *profile;
	/* By style, for the file alone and for comparisons; cached between queries. NULL: not needed yet. */
	struct names *names[2][WEB_STYLES];
};

struct web {
	VECTOR(struct web_file) files;
	struct web_file before;		   /* the baseline; without a profile: none */
	const struct query_options *asked; /* naming and filters from the command line */
	struct buffer first;		   /* data embedded in the page; empty: not built yet */
	struct intern sources;		   /* every source file that a frame refers to ... */
	bool sources_known;		   /* ... once a request has needed them */
	struct web_live *live; /* for the first file, if it is a running process; else NULL */
};

/* Opens the recordings. `before_path` may be NULL. Returns -1 with the error set; call web_release in any case. */
int web_open(struct web *web, const char *const *paths, size_t count, const char *before_path,
	     struct error *error);
/* Starts to watch the process, which is then the only file. Fails like web_open. */
int web_watch(struct web *web, pid_t pid, const char *before_path, struct error *error);
int web_open_file(struct web_file *file, const char *path, struct error *error);
/* Takes ownership of a loaded profile, shown under `name`. Fails like web_open. */
int web_adopt(struct web *web, struct profile *profile, const char *name, struct error *error);
void web_release(struct web *web);

/* For serve_start; context is the struct web. */
serve_handler web_answer;

/* Parts of web_answer; each appends JSON: the result of a query, and the list of everything that can be queried. */
int web_result(struct web *web, const struct serve_param *params, size_t count, struct buffer *out,
	       struct error *error);
void web_about(const struct web *web, struct buffer *out);
/* web_sites.c: appends all sites with their numbers, for a saved page to filter. -1 with the error set. */
int web_sites(struct web *web, struct buffer *out, struct error *error);
/* Why a saved page cannot have them; NULL: it can. */
const char *web_sites_missing(const struct web *web);
/* Writes the page as a file that contains its own data. Returns -1 with the error set. */
int web_save(struct web *web, struct buffer *out, struct error *error);

/* The message of a build without the page. */
#define WEB_NO_PAGE                                                                                 \
	"this build has no page (it was built with -DHEAPGAUGE_WEB=OFF); 'heapgauge report' shows " \
	"the same data as text and JSON"

/* Returns the names of the file in that style, owned by the web. NULL if out of memory. */
struct names *web_names(const struct web *web, struct web_file *file, bool compare,
			enum name_style style);
/* Call after a profile was rebuilt: drops names that refer to its processes. */
void web_forget_names(struct web *web);
/* web_live.c: a page polls for the newest state, which is read again if the last reading is old enough; the
 * response says which reading it is. */
void web_live(struct web *web, const struct serve_request *request, struct serve_answer *answer);
void web_live_free(struct web_live *live);
/* Returns lines of a source file that the recordings refer to; any other file is refused. */
void web_source(struct web *web, const struct serve_request *request, struct serve_answer *answer);

#endif
