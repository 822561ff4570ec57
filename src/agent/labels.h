/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The labels of a process: who it is for a store. From the settings, its environment, its control group and its program. All
 * but the settings come from the process itself, which may claim anything; pid and host are always true.
 */
#ifndef AGENT_LABELS_H
#define AGENT_LABELS_H

#include <stddef.h>
#include <sys/types.h>

#include "agent/agent_settings.h"
#include "agent/reading/reading.h"

struct label {
	char key[64], value[READING_TEXT];
};
struct labels {
	struct label at[READING_LABELS_MAX]; /* sorted by key, unique, no value empty */
	size_t count;
};

/* `program` is its name if nothing else names the service, `machine` the host name that the process sees; "": unknown. Text that is not UTF-8 or moves a cursor is replaced. */
void labels_of(struct labels *ret, pid_t pid, const char *program, const char *machine,
	       const struct agent_settings *settings);
/* Sets one; an empty value removes it. Dropped if there are too many. */
void labels_set(struct labels *labels, const char *key, const char *value);
/* NULL: none. */
const char *labels_get(const struct labels *labels, const char *key);

/* Copies what a stranger wrote: valid UTF-8 without control characters, cut at a character. */
void label_text(char *to, size_t room, const char *text);

/* "pod1234abcd-..." in the path of a control group, without "pod": the uid that Kubernetes gave. False: none. Pure. */
bool labels_pod_uid(const char *groups, char *to, size_t room);

#endif
