/* SPDX-License-Identifier: Apache-2.0 */
/* What the program reads of its own numbers: <heapgauge/stats.h>. Inside a hook. */
#ifndef RECORDER_API_STATS_H
#define RECORDER_API_STATS_H

#include <heapgauge/stats.h>

#include "recorder/slot.h"

void stats_reset(void);
void stats_recover(struct slot *slot);

struct hg_stats stats_read(struct slot *slot);
/* False: there is no such tag, or nobody was ever in it. *ret is zero before. */
bool stats_of_tag(const char *path, struct hg_tag_stats *ret);
size_t stats_of_tags(struct hg_tag_stats *ret, size_t count);
size_t stats_of_sites(struct slot *slot, struct hg_site_stats *ret, size_t count,
		      enum hg_order order);
#endif
