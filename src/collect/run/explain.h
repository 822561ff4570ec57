/* SPDX-License-Identifier: Apache-2.0 */
/* Why a program may not be recordable, from its file alone. */
#ifndef COLLECT_RUN_EXPLAIN_H
#define COLLECT_RUN_EXPLAIN_H

#include <stddef.h>

/* The reason in words, for a program that ran and was never heard from. `program` is looked up as execvp does. */
void explain_silence(const char *program, char *ret, size_t room);

#endif
