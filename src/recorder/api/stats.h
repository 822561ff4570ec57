/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics that the program reads about itself: <heapgauge/stats.h>. Inside a hook. */
#ifndef RECORDER_API_STATS_H
#define RECORDER_API_STATS_H

#include <heapgauge/stats.h>

#include "recorder/slot.h"

void stats_reset(void);
void stats_recover(struct slot *slot);

struct hg_stats stats_read(struct slot *slot);
/* False: no such tag, or it was never entered. The caller zeroes *ret. */
bool stats_of_tag(const char *path, struct hg_tag_stats *ret);
size_t stats_of_tags(struct hg_tag_stats *ret, size_t count);
size_t stats_of_sites(struct slot *slot, struct hg_site_stats *ret, size_t count,
		      enum hg_order order);
#endif
