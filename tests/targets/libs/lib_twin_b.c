/* SPDX-License-Identifier: Apache-2.0 */
/* flags: -shared */
/* One of two libraries that t_dlopen_reuse loads in turn at the same address. */
#include "lib_twin.h"

TWIN(twin_b, 112)
