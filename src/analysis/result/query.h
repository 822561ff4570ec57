/* SPDX-License-Identifier: Apache-2.0 */
/* A query: which cost, when, grouped by which axis, of which stacks. Zeroed selects everything. */
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

/* What a filter rule matches against. */
enum rule_kind {
	RULE_FOCUS,	 /* some frame's function or file matches */
	RULE_IGNORE,	 /* no frame's function or file matches */
	RULE_MODULE,	 /* the owner's module matches: see locations.h */
	RULE_NOT_MODULE, /* it does not match */
	RULE_TAG,	 /* the tag's path matches; untagged memory has an empty path */
	RULE_POOL,	 /* the pool's name matches */
	RULE_LABEL,	 /* a label matches, from its key to its end */
	RULE_LANGUAGE,	 /* the owner's language equals this name from model/frames/languages.h */
	RULE_ENTRY,	 /* what the program called matches: profile_entry_name() */
	RULE_FREED_IN,	 /* a frame of the stack that freed matches: the view freed-by */
	RULE_KINDS,
};

struct rule {
	enum rule_kind kind;
	regex_t regex;
	char *text; /* as it was given */
};

/* One line of a suppression file: leak:PATTERN. */
struct suppression {
	const char *pattern; /* LeakSanitizer syntax: * is any text, ^ and $ anchor */
};

struct filters {
	VECTOR(struct rule) rules;
	VECTOR(struct suppression) suppressions;
	char *suppression_text;	      /* the file's contents; patterns point into it */
	const char *suppression_path; /* owned by the caller */
	bool builtin;		      /* omit memory that libraries keep by design: see builtin.h */
	const char *thread;	      /* a tid, or an extended regex on the name; NULL: all */
	const char *process;	      /* a pid, or an extended regex on the command; NULL: all */
	uint64_t min_size, max_size;  /* bounds of a site's mean request; max 0: no limit */
};

/* For RULE_LABEL, `regex` is KEY or KEY=REGEX. */
int filters_add(struct filters *filters, enum rule_kind kind, const char *regex,
		struct error *error);
/* Reads LeakSanitizer's syntax: "leak:PATTERN" lines, # comments. A path of "builtin" adds the suppressions of
 * builtin.h; "none" disables them. */
int filters_suppress(struct filters *filters, const char *path, struct error *error);
void filters_release(struct filters *filters);
/* Whether every rule of this kind (tags, pools or labels) matches at least one of the texts: the tag's path, the pool's name,
 * or the labels in force. */
bool filters_site_fits(const struct filters *filters, enum rule_kind kind, const char *const *texts,
		       size_t count);
/* Whether the rule matches one of the texts. */
bool filters_rule_fits(const struct rule *rule, const char *const *texts, size_t count);
/* Whether any rule examines the stack. */
bool filters_look_at_stacks(const struct filters *filters);
bool filters_look_at(const struct filters *filters, enum rule_kind kind);
/* Whether the filters can exclude parts of a process. */
bool filters_are_finer_than_processes(const struct filters *filters);
/* Formats all filters as options, "--focus Cache --min-size 1.0 KiB"; in the arena, NULL if out of memory. */
const char *filters_text(const struct filters *filters, struct arena *arena);
/* Whether the pattern occurs in the text, by LeakSanitizer's rules. */
bool suppression_matches(const char *pattern, const char *text);

/* ALL: memory obtained from the system, which contains the pools. DEFAULT means POOL for queries about pools. */
enum query_kinds { KINDS_DEFAULT, KINDS_HEAP, KINDS_MMAP, KINDS_POOL, KINDS_ALL };

struct comparison;

struct query {
	const struct comparison *against; /* NULL: one recording */
	const char *file;		  /* the origin of the profile, as shown */
	const char *
		again; /* the command for further queries; NULL: "heapgauge report"; "": nothing to query */
	size_t limit; /* maximum number of rows; SIZE_MAX: all */

	bool has_cost, has_axis, has_threshold;
	enum cost_id cost;
	const char *second_word; /* a second cost to show, as it was typed; NULL: none */
	enum cost_id second;
	struct moment at, minus; /* kind DEFAULT: not given */
	enum axis_id by;
	enum query_kinds kinds; /* DEFAULT: heap, or the view's choice */
	struct filters filters;
	bool must_match; /* a selection that filters leave empty is an error */

	double threshold_percent; /* rows below this are folded */
	size_t depth;		  /* maximum depth of a tree; 0: all */
	bool callees_first; /* a tree from the allocating function up instead of from main down */
	bool fold_recursion;
	bool fold_libraries;
	struct sources *sources; /* by line: show the text of the lines; NULL: do not */
};

#endif
