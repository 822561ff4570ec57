/* SPDX-License-Identifier: Apache-2.0 */
/* What a process that records itself leaves when it exits, if it was asked to: its summary (HEAPGAUGE_REPORT), and a recording
 * (HEAPGAUGE_OUTPUT). Another process makes both, with the command heapgauge. */
#ifndef RECORDER_PROCESS_EXIT_REPORT_H
#define RECORDER_PROCESS_EXIT_REPORT_H

#include <stdbool.h>

#include "base/compiler.h"

extern HIDDEN bool exit_report_wanted;

/* Reads the two variables, and what the program may have changed by the time it exits. Start-up only. */
void exit_report_start(void);

/* Closes the duplicate of stderr in a forked child: a daemon that closes stderr tells its caller so that it is ready. */
void exit_report_forked(void);

/* Makes them and waits for it, EXIT_REPORT_SECONDS at most. profile: the file of the profile, "" if it is only in memory. Once per process,
 * by one thread. */
void exit_report_make(const char *profile);
#endif
