/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECORDER_HOOKS_WITHDRAW_H
#define RECORDER_HOOKS_WITHDRAW_H

/* Between these two, names may be withdrawn. Once, while what we forward to is looked for. */
void withdraw_begin(void);
void withdraw_end(void);

/* From now on the loader does not find this name of ours. */
void withdraw(const char *name);
#endif
