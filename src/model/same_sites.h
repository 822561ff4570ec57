/* SPDX-License-Identifier: Apache-2.0 */
/*
 * If the sampling interval changes, the recorder creates a site per interval, since the weight of a sample belongs to the site.
 * The model merges them into one site, with the smallest id. Numbers that depend on the interval (variances, weights) are summed
 * over its parts, which are the sites of the rows. Used by the model only.
 */
#ifndef MODEL_SAME_SITES_H
#define MODEL_SAME_SITES_H

#include "format/recording/rows.h"
#include "model/profile.h"

struct same_sites {
	const uint32_t *of;		     /* site id of the rows -> merged site id */
	const uint32_t *next;		     /* -> the next one that is merged with it; 0: none */
	const struct snapshot_site *changes; /* the changes of the rows, summed by site ... */
	const uint32_t *changes_at;	     /* ... by snapshot, plus one element at the end */
};

/* Sets the process' `same`; NULL if there are no such sites. Pre: its rows were checked. -1 if out of memory. */
int same_sites_build(struct profile_process *process, struct arena *arena);

static inline uint32_t same_site(const struct profile_process *p, uint32_t row_site)
{
	return p->same ? p->same->of[row_site] : row_site;
}
/* All parts of a merged site: for (part = site; part; part = same_site_next(process, part)). */
static inline uint32_t same_site_next(const struct profile_process *p, uint32_t part)
{
	return p->same ? p->same->next[part] : 0;
}
/* The merged site; NULL: it has neither calls nor frees. */
const struct profile_site *same_site_find(const struct profile_process *process, uint32_t row_site);

#endif
