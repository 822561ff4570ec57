/* SPDX-License-Identifier: Apache-2.0 */
/* Labels: a request, a tenant, a phase, as "key=value". A label is a tag like any other, but at most one of a key counts at
 * a time, and the values of a key are bounded. */
#ifndef RECORDER_API_LABELS_H
#define RECORDER_API_LABELS_H

#include "recorder/slot.h"

void labels_reset(void);

/* Turns a tag into that with the label: in the place of another of the same key, if no scope was entered since that. value
 * NULL or empty: without it. False: no memory, or too deep; the tag stays. Inside a hook. */
bool labels_with(struct slot *slot, uint32_t *tag, const char *key, const char *value);
#endif
