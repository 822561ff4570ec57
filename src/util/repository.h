/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UTIL_REPOSITORY_H
#define UTIL_REPOSITORY_H

/*
 * Returns the root of the git repository that contains the folder, an absolute path; never "/". Ignores repositories of other
 * users, except root's. The caller frees it; NULL: there is none, or out of memory.
 */
char *repository_of(const char *folder);

#endif
