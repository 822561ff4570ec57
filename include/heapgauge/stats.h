/* SPDX-License-Identifier: Apache-2.0 */
/* What a program can read of its own numbers while it is recorded, to export them as metrics for instance. Part of <heapgauge/heapgauge.h>, which programs include. */
#ifndef HEAPGAUGE_STATS_H
#define HEAPGAUGE_STATS_H

#include <heapgauge/recorder.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In the sampled mode they are estimates. */
struct hg_numbers {
	uint64_t calls, bytes;	     /* that were allocated */
	uint64_t frees, freed_bytes; /* of those */
	uint64_t live_blocks, live_bytes;
};

struct hg_stats {
	uint32_t mode;	    /* enum hg_mode: how the calling thread is recorded now */
	uint32_t estimated; /* 1: some of the numbers are */
	struct hg_numbers heap;
	uint64_t
		peak_bytes; /* of heap.live_bytes, and by how much more it may have been: 0 = exact */
	uint64_t peak_bound_bytes;
	struct hg_numbers mapped; /* anonymous mappings that the program made itself */
	uint64_t tags, sites; /* how many there are: hg_tags and hg_sites give at most that many */
	uint64_t recorder_bytes; /* what the recorder takes itself */
};

enum { HG_TAG_NAME = 64 };
enum hg_tag_kind { HG_TAG_SCOPE, HG_TAG_POOL, HG_TAG_LABEL };
struct hg_tag_stats {
	char name[HG_TAG_NAME]; /* without those outside; the first 63 bytes */
	uint32_t parent;	/* the one outside, as an index of hg_tags */
	uint32_t kind;		/* enum hg_tag_kind */
	uint64_t visits;
	struct hg_numbers self;	 /* heap blocks that were allocated in it, but in no scope inside */
	struct hg_numbers total; /* and in those inside */
};

enum { HG_SITE_FRAMES = 32 };
struct hg_site_stats {
	const void *frame[HG_SITE_FRAMES]; /* return addresses, innermost first */
	uint32_t frames;		   /* 0: there is no stack, in the mode tags for instance */
	uint32_t tag;			   /* an index of hg_tags; 0 = none */
	struct hg_numbers heap;
};
enum hg_order { HG_BY_LIVE_BYTES, HG_BY_BYTES, HG_BY_CALLS };

/* None of these allocates, or waits for anybody. Threads that run meanwhile may be seen a moment earlier or later. Without the
 * recorder, and where it cannot answer, they give 0 and leave zeros. */

HG_INLINE_ int hg_stats(struct hg_stats *ret)
{
	const struct hg_recorder_ *recorder = hg_recorder_get_();

	memset(ret, 0, sizeof *ret);
	return HG_HAS_(recorder, sites) ? recorder->stats(ret, sizeof *ret) : 0;
}

/* Of one tag by its path: "server/parser". 0: nobody was there yet. */
HG_INLINE_ int hg_tag_stats(const char *path, struct hg_tag_stats *ret)
{
	const struct hg_recorder_ *recorder = hg_recorder_get_();

	memset(ret, 0, sizeof *ret);
	return HG_HAS_(recorder, sites) ? recorder->tag_stats(path, ret) : 0;
}

/* The first `count` tags, each behind the one outside; the first is no tag: what was allocated in none. A name that was never
 * entered on its own has no visits there. Returns how many were given. */
HG_INLINE_ size_t hg_tags(struct hg_tag_stats *ret, size_t count)
{
	const struct hg_recorder_ *recorder = hg_recorder_get_();

	return HG_HAS_(recorder, sites) ? recorder->tags(ret, count) : 0;
}

/* The first `count` stacks by that order. Returns how many were given. */
HG_INLINE_ size_t hg_sites(struct hg_site_stats *ret, size_t count, enum hg_order order)
{
	const struct hg_recorder_ *recorder = hg_recorder_get_();

	return HG_HAS_(recorder, sites) ? recorder->sites(ret, count, (int)order) : 0;
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
