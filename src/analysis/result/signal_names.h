/* SPDX-License-Identifier: Apache-2.0 */
/* Names of signals without their SIG: glibc has sigabbrev_np from 2.32 on, and musl has none. */
#ifndef ANALYSIS_RESULT_SIGNAL_NAMES_H
#define ANALYSIS_RESULT_SIGNAL_NAMES_H

#include <signal.h>
#include <stdint.h>

#include "base/compiler.h"

/* Returns NULL for a number without a name: a real-time signal, or garbage from a file. */
static inline const char *signal_name(uint32_t number)
{
	static const char *const names[] = {
		[SIGHUP] = "HUP",	[SIGINT] = "INT",	[SIGQUIT] = "QUIT",
		[SIGILL] = "ILL",	[SIGTRAP] = "TRAP",	[SIGABRT] = "ABRT",
		[SIGBUS] = "BUS",	[SIGFPE] = "FPE",	[SIGKILL] = "KILL",
		[SIGUSR1] = "USR1",	[SIGSEGV] = "SEGV",	[SIGUSR2] = "USR2",
		[SIGPIPE] = "PIPE",	[SIGALRM] = "ALRM",	[SIGTERM] = "TERM",
		[SIGSTKFLT] = "STKFLT", [SIGCHLD] = "CHLD",	[SIGCONT] = "CONT",
		[SIGSTOP] = "STOP",	[SIGTSTP] = "TSTP",	[SIGTTIN] = "TTIN",
		[SIGTTOU] = "TTOU",	[SIGURG] = "URG",	[SIGXCPU] = "XCPU",
		[SIGXFSZ] = "XFSZ",	[SIGVTALRM] = "VTALRM", [SIGPROF] = "PROF",
		[SIGWINCH] = "WINCH",	[SIGIO] = "IO",		[SIGPWR] = "PWR",
		[SIGSYS] = "SYS",
	};

	return number < ARRAY_SIZE(names) ? names[number] : NULL;
}

#endif
