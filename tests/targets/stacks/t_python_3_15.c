/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -Wl,-E */
#define VERSION 4
#include "stacks/python_state.h"
