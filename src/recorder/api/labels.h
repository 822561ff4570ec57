/* SPDX-License-Identifier: Apache-2.0 */
/* Labels: a request, a tenant, a phase, as "key=value". A label is a tag like any other, but at most one label per key is
 * active at a time, and the number of values per key is bounded. */
#ifndef RECORDER_API_LABELS_H
#define RECORDER_API_LABELS_H

#include "recorder/slot.h"

void labels_reset(void);

/* Changes a tag to the one with the label added, replacing a label of the same key if no scope was entered since. value
 * NULL or empty: removes it. False: no memory, or too deep; the tag stays. Inside a hook. */
bool labels_with(struct slot *slot, uint32_t *tag, const char *key, const char *value);

/* The tag of the label below the root, of the value "other" if its key has had too many, which is counted. 0 = no memory. Inside a hook. */
uint32_t labels_name(struct slot *slot, const char *key, const char *value);
#endif
