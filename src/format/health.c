/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names and texts of the health counters, generated from the list in health.h so that the recorder, the recording and every
 * report agree. Constant data, compiled into the recorder too: needs only the loader's usual relocations, and nothing here is
 * called.
 */
#include "format/health.h"

const struct health_row health_rows[HEALTH_COUNT] = {
#define HEALTH_ROW(name, text) [HEALTH_##name] = { #name, text },
	HEALTH_COUNTERS(HEALTH_ROW)
#undef HEALTH_ROW
};
