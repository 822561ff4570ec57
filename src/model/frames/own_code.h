/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which frames are the project's own code, as opposed to libraries and the language's runtime.
 *
 * The rule is decided when a program is recorded and stored in the recording, so that a report does not depend on the
 * reader's machine. As text:
 *
 *	root:/home/me/project	source files below this folder, which holds .git
 *	regex:REGEX		frames whose function, file or module matches
 *	modules			modules that no distribution brought
 *	off			no frame is preferred
 *
 * "" is "modules". Sources in folders of installed packages (site-packages, a Rust registry, /usr/include), and in folders of the
 * project for copies of others (third_party, vendor), are never the project's own, except by a regex. A program that a distribution
 * brought is its own project, unless it is an interpreter.
 */
#ifndef MODEL_FRAMES_OWN_CODE_H
#define MODEL_FRAMES_OWN_CODE_H

#include <regex.h>
#include <stdbool.h>

#include "base/span.h"
#include "util/error.h"

enum own_kind { OWN_MODULES, OWN_ROOT, OWN_REGEX, OWN_OFF };

struct own_rule {
	enum own_kind kind;
	char *text; /* of the root, with a final '/', or of the regex; else NULL */
	regex_t regex;
};

/* A frame, as far as the rule looks at it. */
struct own_frame {
	const char *function, *file, *module; /* file NULL: unknown */
	const char *language;		      /* model/frames/languages.h; NULL: unknown */
	const char *exe;		      /* of the process */
};

/* Sets the error if the text is no rule: of a regex also if matching it might take unbounded time or memory, because the
 * text may come from a hostile file. */
int own_rule_parse(const char *text, struct own_rule *ret, struct error *error);
void own_rule_release(struct own_rule *rule);

bool own_rule_covers(const struct own_rule *rule, const struct own_frame *frame);

/* The folder of the installed package that a source file is in, with its final '/': of Python's site-packages, or of a crate from
 * a registry or a repository. Empty: none. */
struct span installed_package(const char *file);

/* "python3", "python3.12", "libpython3.12.so.1.0"; not "python3-config". */
bool is_python_interpreter(const char *path);

/* Whether a package of the distribution brought the file, by its path. */
bool is_distribution_path(const char *path);

/* Describes the rule: "source files below /home/me/project". The caller frees it; NULL: out of memory. */
char *own_rule_describe(const struct own_rule *rule);

#endif
