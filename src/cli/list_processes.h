/* SPDX-License-Identifier: Apache-2.0 */
/* The recorded processes of this machine as a result: `list` prints it, `top` lets the user choose from it. */
#ifndef CLI_LIST_PROCESSES_H
#define CLI_LIST_PROCESSES_H

#include "analysis/views/listing.h"
#include "model/frames/names.h"
#include "util/error.h"

/* Fills and finishes a new listing. Returns NULL with the error set on failure. */
const struct result *list_processes(struct listing *listing, const struct names_options *names,
				    struct error *error);

#endif
