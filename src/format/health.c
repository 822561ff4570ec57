/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names and words of the health counters, made from the one list in health.h so that the recorder, the recording
 * and every report agree. Constant data, compiled into the recorder too: no relocation needs more than the loader does
 * anyway, and nothing here is called.
 */
#include "format/health.h"

const struct health_row health_rows[HEALTH_COUNT] = {
#define HEALTH_ROW(name, text) [HEALTH_##name] = { #name, text },
	HEALTH_COUNTERS(HEALTH_ROW)
#undef HEALTH_ROW
};
