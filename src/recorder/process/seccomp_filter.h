/* SPDX-License-Identifier: Apache-2.0 */
/* What a seccomp filter, which the program is about to install, would do to the system calls that the recorder makes. */
#ifndef RECORDER_PROCESS_SECCOMP_FILTER_H
#define RECORDER_PROCESS_SECCOMP_FILTER_H

#include <linux/filter.h>

/* The groups of our calls (enum sys_group, as bits) of which one would end or stop the program, or wait for somebody
 * else. A call that would merely fail is no harm. program: whatever the program passes to the kernel, valid or not. */
unsigned filter_forbids(const struct sock_fprog *program);
#endif
