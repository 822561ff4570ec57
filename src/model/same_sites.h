/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recorder whose sampling interval changes has a site for each interval: the weight of a sample is the site's. To the reader
 * they are one site, that with the least id. What depends on the interval (variances, weights) is added up over its parts, which
 * are the sites of the rows. Used by the model only.
 */
#ifndef MODEL_SAME_SITES_H
#define MODEL_SAME_SITES_H

#include "format/recording/rows.h"
#include "model/profile.h"

struct same_sites {
	const uint32_t *of;		     /* site id of the rows -> the id it is shown by */
	const struct snapshot_site *changes; /* those of the rows, added up by site ... */
	const uint32_t *changes_at;	     /* ... by snapshot, and one more at the end */
};

/* The process' same; NULL if there are no such sites. Pre: its rows were checked. -1 if out of memory. */
int same_sites_build(struct profile_process *process, struct arena *arena);

static inline uint32_t same_site(const struct profile_process *p, uint32_t row_site)
{
	return p->same ? p->same->of[row_site] : row_site;
}

#endif
