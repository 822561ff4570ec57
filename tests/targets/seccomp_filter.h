/* SPDX-License-Identifier: Apache-2.0 */
/* A seccomp filter that allows a list of system calls and answers all others by one action. */
#ifndef SECCOMP_FILTER_H
#define SECCOMP_FILTER_H
#include "target.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { FILTER_MOST = 64 };

static inline void seccomp_allow_only(const int *calls, size_t count, unsigned otherwise)
{
	struct sock_filter code[FILTER_MOST * 2 + 2];
	unsigned short n = 0;

	CHECK(count <= FILTER_MOST);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < count; i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							 (unsigned)calls[i], 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
	struct sock_fprog program = { n, code };
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}
#endif
