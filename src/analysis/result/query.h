/* SPDX-License-Identifier: Apache-2.0 */
/* A question: which number, when, grouped by what, of which stacks. Zeroed asks for everything. */
#ifndef ANALYSIS_RESULT_QUERY_H
#define ANALYSIS_RESULT_QUERY_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/result/vocabulary.h"
#include "util/arena.h"
#include "util/error.h"
#include "util/vector.h"

/* What a rule of the filters looks at. */
enum rule_kind {
	RULE_FOCUS,	 /* some frame's function or file matches */
	RULE_IGNORE,	 /* no frame's function or file matches */
	RULE_MODULE,	 /* the owner's module matches: see locations.h */
	RULE_NOT_MODULE, /* it does not */
	RULE_TAG,	 /* the tag's path matches; that of no tag is empty */
	RULE_POOL,	 /* the pool's name matches */
	RULE_LABEL,	 /* a label matches, from its key to its end */
	RULE_KINDS,
};

struct rule {
	enum rule_kind kind;
	regex_t regex;
	char *text; /* as it was given */
};

/* One line of a suppression file: leak:PATTERN. */
struct suppression {
	const char *pattern; /* LeakSanitizer's: * is any text, ^ and $ anchor */
};

struct filters {
	VECTOR(struct rule) rules;
	VECTOR(struct suppression) suppressions;
	char *suppression_text;	      /* the file; patterns point into it */
	const char *suppression_path; /* the caller's */
	bool builtin;		      /* leave out what libraries keep by design: see builtin.h */
	const char *thread;	      /* a tid, or an extended regex on the name; NULL: all */
	const char *process;	      /* a pid, or an extended regex on the command; NULL: all */
	uint64_t min_size, max_size;  /* of a site's mean request; max 0: no limit */
};

/* Of RULE_LABEL: KEY, or KEY=REGEX. */
int filters_add(struct filters *filters, enum rule_kind kind, const char *regex,
		struct error *error);
/* Reads LeakSanitizer's syntax: "leak:PATTERN" lines, # comments. builtin: those of builtin.h too; none: not those. */
int filters_suppress(struct filters *filters, const char *path, struct error *error);
void filters_release(struct filters *filters);
/* Whether every rule about tags, pools or labels (`kind`) holds for some of the texts: the tag's path, the pool's name, or the
 * labels in force. */
bool filters_tag_fits(const struct filters *filters, enum rule_kind kind, const char *const *texts,
		      size_t count);
/* Whether some rule is about what is on the stack. */
bool filters_look_at_stacks(const struct filters *filters);
bool filters_look_at(const struct filters *filters, enum rule_kind kind);
/* Whether they leave out parts of a process. */
bool filters_are_finer_than_processes(const struct filters *filters);
/* "--focus Cache --min-size 1.0 KiB": all of them as they would be typed; in the arena, NULL if out of memory. */
const char *filters_text(const struct filters *filters, struct arena *arena);
/* Whether the pattern is somewhere in the text, as LeakSanitizer understands it. */
bool suppression_matches(const char *pattern, const char *text);

/* ALL: what the program has from the system; pools lie inside that. DEFAULT is POOL where pools are asked for. */
enum query_kinds { KINDS_DEFAULT, KINDS_HEAP, KINDS_MMAP, KINDS_POOL, KINDS_ALL };

struct comparison;

struct query {
	const struct comparison *against; /* NULL: one recording */
	const char *file;		  /* where the profile came from, as shown */
	const char *again; /* what to type to ask about it again; NULL: "heapgauge report" */
	size_t limit;	   /* rows; SIZE_MAX: all */

	bool has_cost, has_axis, has_threshold;
	enum cost_id cost;
	struct moment at, minus; /* kind DEFAULT: not given */
	enum axis_id by;
	enum query_kinds kinds; /* DEFAULT: heap, or what the view says */
	struct filters filters;
	bool must_match; /* filters that leave nothing are an error, not an empty answer */

	double threshold_percent; /* rows below are folded */
	size_t depth;		  /* of a tree; 0: all */
	bool callees_first; /* a tree from the allocating function up, instead of from main down */
	bool fold_recursion;
};

#endif
