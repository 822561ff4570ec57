/* SPDX-License-Identifier: Apache-2.0 */
/* The attribute keys that OpenTelemetry labels are made of: record --otel-labels. A thread's context refers to a key by its index in
 * a table, which the SDK publishes for the whole process (OpenTelemetry's process context, OTEP 4719) and may append to. */
#ifndef RECORDER_OTEL_KEY_TABLE_H
#define RECORDER_OTEL_KEY_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

extern HIDDEN uint32_t otel_key_count; /* of the requested keys; 0: nothing is to be read */

/* Call at start-up and in a forked child, which publishes a table of its own. */
void otel_keys_start(const char *requested);

/* A requested key. */
const char *otel_key(uint32_t i);

/* True if the key's index is this one. */
bool otel_key_is(uint32_t i, uint8_t index);

/* The number of keys in the table; 0: none is published. */
uint32_t otel_keys_known(void);

/* The program gives a mapping a name: the last step of publishing the table, and of each change. Reads it. Inside a hook. */
void otel_mapping_is_named(uintptr_t mapping, uintptr_t name);
#endif
