/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the page asks, answered: a path and parameters become a question, and its result is the JSON that `report`
 * or `diff` would print. One thread at a time.
 */
#ifndef CLI_WEB_WEB_H
#define CLI_WEB_WEB_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "cli/options/ask.h"
#include "model/names.h"
#include "model/profile.h"
#include "serve/serve.h"
#include "util/buffer.h"
#include "util/error.h"
#include "util/intern.h"
#include "util/vector.h"

enum { WEB_STYLES = NAMES_RAW + 1 };

struct web_file {
	char *path; /* of a process: a name for it */
	pid_t pid;  /* 0: a recording */
	struct profile *profile;
	/* By style, of it alone and of comparisons; stay known from one question to the next. NULL: not asked for yet. */
	struct names *names[2][WEB_STYLES];
};

struct web {
	VECTOR(struct web_file) files;
	struct web_file before;	   /* what they are compared with; no profile: nothing */
	const struct asked *asked; /* names, and what to leave out, as said on the command line */
	struct buffer first;	   /* what the page begins with; empty: not made yet */
	struct intern sources;	   /* every source file that a frame names ... */
	bool sources_known;	   /* ... once somebody has asked */
	struct web_live *live;	   /* of the first file, if that is a running process; else NULL */
};

/* Opens the recordings. `before_path` may be NULL. -1 with the error set; web_release either way. */
int web_open(struct web *web, const char *const *paths, size_t count, const char *before_path,
	     struct error *error);
/* Begins to watch the process; it is the only file. The same. */
int web_watch(struct web *web, pid_t pid, const char *before_path, struct error *error);
int web_open_file(struct web_file *file, const char *path, struct error *error);
/* Takes a profile that is there already, and the name it goes by. The same. */
int web_adopt(struct web *web, struct profile *profile, const char *name, struct error *error);
void web_release(struct web *web);

/* For serve_start; context is the struct web. */
serve_handler web_answer;

/* The parts of it, each appends JSON: the answer to a question, and everything that can be asked. */
int web_result(struct web *web, const struct serve_param *params, size_t count, struct buffer *out,
	       struct error *error);
void web_about(const struct web *web, struct buffer *out);
/* The page as a file, with the answers to what it will ask. -1 with the error set. */
int web_save(struct web *web, struct buffer *out, struct error *error);

/* What is said where this build has no page. */
#define WEB_NO_PAGE                                                                                  \
	"this build has no page (it was made with -DHEAPGAUGE_WEB=OFF); 'heapgauge report' answers " \
	"the same questions as text and JSON"

/* Its names in that style; the web's. NULL if out of memory. */
struct names *web_names(const struct web *web, struct web_file *file, bool compare,
			enum name_style style);
/* web_live.c: who looks asks for the newest state, and it is read if the last one is old enough; the answer says which it is. */
void web_live(struct web *web, const struct serve_request *request, struct serve_answer *answer);
void web_live_free(struct web_live *live);
/* The lines of a source file that the recordings name; any other is refused. */
void web_source(struct web *web, const struct serve_request *request, struct serve_answer *answer);

#endif
