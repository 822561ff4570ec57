/* SPDX-License-Identifier: Apache-2.0 */
/* The fork and exec log: programs that this process starts or execs, and its children. The collector reads it and so
 * knows of processes that never reach it. Memory only: works where nothing else does. */
#ifndef RECORDER_PROCESS_PROCESS_LOG_H
#define RECORDER_PROCESS_PROCESS_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "format/live/live_handover.h"
#include "format/missed.h"

/* Returns the entry's number; 0 = no profile to write to. path: NULL = a child. becomes: the calling process execs the
 * program. Any thread, also a fork or vfork child, which writes to its parent's profile. */
uint32_t process_log_publish(enum missed_reason reason, const char *path, bool becomes);

/* Call if nothing was started after all. */
void process_log_retract(uint32_t number);

/* The ticket by which a process identifies itself as the logged one. */
struct live_ticket process_log_ticket(uint32_t number);
#endif
