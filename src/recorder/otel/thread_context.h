/* SPDX-License-Identifier: Apache-2.0 */
/* Labels samples with attributes of OpenTelemetry's thread context (OTEP 4947): record --otel-labels.
 *
 * An SDK exports the thread-local variable otel_thread_ctx_v1, which points to the record of what the thread is doing, NULL while there is
 * none. Only the thread itself changes it, and it does so like one that signal handlers may interrupt. */
#ifndef RECORDER_OTEL_THREAD_CONTEXT_H
#define RECORDER_OTEL_THREAD_CONTEXT_H

#include <stdint.h>

#include "recorder/otel/key_table.h"
#include "recorder/slot.h"

/* Call at start-up and in a forked child. keys: separated by commas or semicolons; "": no labels. */
void otel_start(const char *keys);

/* Look for the variable: in all objects, and in the one that contains an address. Objects must be relocated. Inside a hook. */
void otel_visit_all(void);
void otel_visit(uintptr_t address);

/* Returns the tag with the labels of the calling thread's context added, for a sample. Inside a hook. */
uint32_t otel_tag(struct slot *slot, uint32_t tag);
#endif
