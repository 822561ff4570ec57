/* SPDX-License-Identifier: Apache-2.0 */
/* The recorded processes of this machine as a result: what `list` writes and `top` lets one choose from. */
#ifndef CLI_LIST_PROCESSES_H
#define CLI_LIST_PROCESSES_H

#include "analysis/views/listing.h"
#include "model/names.h"
#include "util/error.h"

/* Fills the listing, which is new, and ends it. NULL with the error set. */
const struct result *list_processes(struct listing *listing, const struct names_options *names,
				    struct error *error);

#endif
