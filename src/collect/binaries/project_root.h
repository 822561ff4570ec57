/* SPDX-License-Identifier: Apache-2.0 */
/* The project that a program belongs to. */
#ifndef COLLECT_BINARIES_PROJECT_ROOT_H
#define COLLECT_BINARIES_PROJECT_ROOT_H

/* Returns the rule for own code that follows from where the program is (looked up like execvp does): "root:FOLDER" in a git
 * repository, else "modules". The reader's model/frames/own_code.h explains them. The caller frees it; NULL: out of memory. */
char *project_rule(const char *program);

#endif
