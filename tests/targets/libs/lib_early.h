/* SPDX-License-Identifier: Apache-2.0 */
/* Between lib_early and t_constructors. */
#ifndef LIB_EARLY_H
#define LIB_EARLY_H
#include "target.h"

enum { EARLY_BLOCKS = 40 };
extern struct truth early_truth;
extern void
	*early_block[EARLY_BLOCKS]; /* of i * 10 + 1 bytes, taken by the library's constructor */
extern void (*early_library_end)(void); /* called last of all by the library's destructor */
#endif
