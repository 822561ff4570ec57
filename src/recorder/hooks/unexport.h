/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECORDER_HOOKS_UNEXPORT_H
#define RECORDER_HOOKS_UNEXPORT_H

/* Between these two, names may be unexported. Once, while what we forward to is looked up. */
void unexport_begin(void);
void unexport_end(void);

/* From now on the loader does not find this name of ours. */
void unexport(const char *name);
#endif
