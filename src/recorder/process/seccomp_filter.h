/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates what a seccomp filter that the program is about to install would do to the recorder's system calls. */
#ifndef RECORDER_PROCESS_SECCOMP_FILTER_H
#define RECORDER_PROCESS_SECCOMP_FILTER_H

#include <linux/filter.h>

/* Returns the groups of our calls (bits of enum sys_group) with a call that would kill or stop the program, or wait for
 * someone else. A call that merely fails is harmless, unless it pretends to have succeeded. program: what the program passes to the kernel, valid or not. */
unsigned filter_forbids(const struct sock_fprog *program);
#endif
