/* SPDX-License-Identifier: Apache-2.0 */
/* What a program says about the recording itself: on, off, how, and moments that have a name. Part of <heapgauge/heapgauge.h>, which programs include. */
#ifndef HEAPGAUGE_CONTROL_H
#define HEAPGAUGE_CONTROL_H

#include <heapgauge/recorder.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- control. What was allocated while nothing was recorded counts nowhere, also when it is freed later; what was
 * recorded ends when it is freed, whatever the mode is by then. Other threads follow within a MiB of their own
 * allocations ---- */

HG_INLINE_ void hg_stop(enum hg_where where)
{
	const struct hg_recorder_ *recorder = hg_recorder_get_();

	if (HG_HAS_(recorder, go))
		recorder->go(0, where);
}

/* Goes on as before hg_stop; a program that began dormant, as whoever records said. */
HG_INLINE_ void hg_start(enum hg_where where)
{
	const struct hg_recorder_ *recorder = hg_recorder_get_();

	if (HG_HAS_(recorder, go))
		recorder->go(1, where);
}

/* For the whole process. */
HG_INLINE_ void hg_mode(enum hg_mode mode)
{
	const struct hg_recorder_ *recorder = hg_recorder_get_();

	if (HG_HAS_(recorder, turn))
		recorder->turn((int)mode);
}

/* Stacks only of blocks of [least, most] bytes; the others are counted without one. 0 and SIZE_MAX: of all. */
HG_INLINE_ void hg_stacks(size_t least, size_t most)
{
	const struct hg_recorder_ *recorder = hg_recorder_get_();

	if (HG_HAS_(recorder, stacks))
		recorder->stacks(least, most);
}

/* ---- moments: `heapgauge report --at snap:NAME`, and the view snapshots ---- */

/* A name on the time line. */
HG_INLINE_ void hg_mark(const char *name)
{
	const struct hg_recorder_ *recorder = hg_recorder_get_();

	if (HG_HAS_(recorder, mark))
		recorder->mark(HG_MARK_, name);
}

/* What every stack holds now; as often as wanted. The program does not wait. */
HG_INLINE_ void hg_snapshot(const char *name)
{
	const struct hg_recorder_ *recorder = hg_recorder_get_();

	if (HG_HAS_(recorder, mark))
		recorder->mark(HG_SNAPSHOT_, name);
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
