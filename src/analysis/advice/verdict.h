/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict on a process, in a few sentences: whether memory was left behind, who holds the peak, and what else stands out.
 *
 * "Growing" is claimed only with a proven trend (trend.h). Other memory that was not freed is stated as such: many healthy
 * programs leave it to the kernel.
 */
#ifndef ANALYSIS_ADVICE_VERDICT_H
#define ANALYSIS_ADVICE_VERDICT_H

#include "analysis/advice/findings.h"

/* Adds the sentence "verdict", those of the largest owners, and the result's member `verdict`, for which it must have space. Its kind is
 * "growing", "unclear" (not freed, and it piled up in a short run), "kept" (not freed), "freed" or "live" (it still runs).
 * False if out of memory. */
bool verdict_describe(struct sentences *sentences, struct locations *locations,
		      const struct profile *profile, const struct profile_process *process,
		      const struct findings *findings);

/* Adds "rose: at most 10 MiB in the first third of the run, ..." if the resident set rose in each third; else returns false. */
bool words_rss_rose(struct words *words, const struct profile_process *process);

/* " at exit", " when it was killed": when what is left was left, of a process that has ended. */
const char *when_it_ended(const struct profile_process *process);

#endif
