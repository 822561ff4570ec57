/* SPDX-License-Identifier: Apache-2.0 */
/* What an image knows about single blocks of a site, as values: the path that leads to one, and their types. */
#ifndef ANALYSIS_RESULT_PATH_VALUE_H
#define ANALYSIS_RESULT_PATH_VALUE_H

#include "analysis/result/build.h"

/* The root, if it has a name, and the path from it to the block that retains most; both unknown if there is none. False if out of memory. */
bool path_value(struct result *result, struct locations *locations,
		const struct profile_process *process, site_id site, struct result_value *ret_root,
		struct result_value *ret_path);
/* The type that most of its bytes have. False if out of memory. */
bool site_type_value(struct result *result, const struct profile_process *process, site_id site,
		     struct result_value *ret);
/* A type as people write it; in the arena; NULL if out of memory. */
const char *type_label(struct arena *arena, const struct profile_process *process, uint32_t type);

#endif
