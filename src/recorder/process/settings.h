/* SPDX-License-Identifier: Apache-2.0 */
/* How this process is recorded: as its collector says in the hidden variable, or, for a process that records itself, as the
 * HEAPGAUGE_* variables do. */
#ifndef RECORDER_PROCESS_SETTINGS_H
#define RECORDER_PROCESS_SETTINGS_H

#include <stdbool.h>

#include "base/compiler.h"
#include "format/live/live.h"

extern HIDDEN struct live_settings settings;
extern HIDDEN bool settings_of_collector; /* else of the environment */
extern HIDDEN uint32_t
	settings_unapplied;	  /* variables that are for a collector, and there is none */
extern HIDDEN bool settings_keep; /* the file of the profile stays, whatever the end */

/* Once, at start-up: the program may do with its environment what it likes. False: the process is not to be recorded. */
bool settings_read(void);
#endif
