/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECORDER_HOOKS_UNEXPORT_H
#define RECORDER_HOOKS_UNEXPORT_H

/* Call unexport only between these two. Done once, while `next` is being filled in. */
void unexport_begin(void);
void unexport_end(void);

/* Hides our definition of a name from the loader. */
void unexport(const char *name);
#endif
