/* SPDX-License-Identifier: Apache-2.0 */
/* How this process is recorded: set by its collector in the hidden variable or, for a process that records itself, by the
 * HEAPGAUGE_* variables. */
#ifndef RECORDER_PROCESS_SETTINGS_H
#define RECORDER_PROCESS_SETTINGS_H

#include <stdbool.h>

#include "base/compiler.h"
#include "format/live/live.h"

extern HIDDEN struct live_settings settings;
extern HIDDEN bool settings_of_collector;  /* else from the environment */
extern HIDDEN uint32_t settings_unapplied; /* variables that need a collector, but there is none */
extern HIDDEN uint64_t settings_every_ms;  /* take a snapshot that often; 0: never */
extern HIDDEN bool settings_keep;	   /* keep the profile's file however the process ends */

/* Once, at start-up: the program may change its environment later. False: do not record this process. */
bool settings_read(void);
#endif
