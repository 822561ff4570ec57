/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces those functions of musl in `next` that call another of the family by name, and so would reach our hooks again. */
#ifndef RECORDER_HOOKS_COMPOSED_H
#define RECORDER_HOOKS_COMPOSED_H

#include "recorder/hooks/next.h"

/* While `next` is being filled in; libc: a function of libc. */
void composed_replace(struct next *found, const void *libc);
#endif
