/* SPDX-License-Identifier: Apache-2.0 */
/* Announcing who begins: a program that this process starts or becomes, a child that it has. The collector, which reads
 * this, thus knows of those who never reach it. Memory only: works where nothing else does. */
#ifndef RECORDER_PROCESS_PROCESS_LOG_H
#define RECORDER_PROCESS_PROCESS_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "format/live/live_handover.h"
#include "format/missed.h"

/* Returns the announcement's number; 0 = there is no profile to write to. path: NULL = a child. becomes: the calling
 * process itself turns into the program. Any thread, also a fork's or vfork's child: then it is its parent's profile
 * that is written to. */
uint32_t process_log_publish(enum missed_reason reason, const char *path, bool becomes);

/* Nothing was started after all. */
void process_log_retract(uint32_t number);

/* What a process says to be known as the announced one. */
struct live_ticket process_log_ticket(uint32_t number);
#endif
