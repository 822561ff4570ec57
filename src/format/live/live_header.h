/* SPDX-License-Identifier: Apache-2.0 */
/* The fixed header of the live profile and the control page after it. Included by format/live/live.h. */
#ifndef FORMAT_LIVE_LIVE_HEADER_H
#define FORMAT_LIVE_LIVE_HEADER_H

#include "format/health.h"
#include "format/live/live.h"
#include "format/live/live_handover.h"
#include "format/live/live_own.h"
#include "format/missed.h"

struct live_span {
	uint64_t at,
		bytes; /* offset in the mapping; multiples of LIVE_PAGE, new ones of LIVE_REGION_ALIGN */
};

/* doc: live_peak
 * The process' live total and its maximum. In a process with one slot its thread alone writes here; later any
 * thread, each field by atomic operations. state = epoch * 2 + rising. docs/format.md describes how the sites' values at the peak are read. */
struct live_peak {
	int64_t total_bytes; /* as flushed by slots, once shared; private to the recorder */
	int64_t peak_bytes;
	uint64_t peak_ms;
	uint64_t batch_bytes;
	uint64_t bound_bytes; /* error bound of the peak; 0 = exact */
	uint32_t shared;      /* 1: more than one slot exists, totals are batched */
	uint32_t pad0;
	uint64_t pad[2];
	/* own cache line: read by every operation, written when an epoch starts */
	uint32_t state;
	uint32_t pad2[15];
};
_Static_assert(sizeof(struct live_peak) == 128, "two cache lines");

/* doc: live_start: a program that the target starts or becomes, or a child of its own: written before it happens, so
 * that the collector knows whom to expect. */
enum { LIVE_STARTS = 32, LIVE_START_PATH = 236 };
struct live_start {
	uint32_t serial; /* counted from 1; stored last, release; 0 = being written */
	uint32_t
		reason; /* enum missed_reason: why it is not recorded, or counts as missed if it never connects */
	uint32_t failed; /* 1: cancelled, nothing was started */
	uint32_t pid;	 /* of the process that execs, in its own namespace; 0 = a new process */
	uint32_t path_bytes;
	char path[LIVE_START_PATH]; /* of the program, its end if it is longer; empty for a fork */
};
_Static_assert(sizeof(struct live_start) == 256, "whole cache lines");

/* doc: live_maps: the anonymous mappings that the program made itself, sorted by address, without overlap. Changed under a lock
 * of the recorder's: `serial` is odd meanwhile, and another one afterwards. */
struct live_map_range {
	uint64_t start, end;
	uint64_t added; /* sequence number, private to the recorder */
	uint32_t counters;
	uint16_t counts; /* private: its end is the end of the mapping */
	uint16_t moving; /* private: mremap is moving it away */
};
_Static_assert(sizeof(struct live_map_range) == 32, "on-disk size");
struct live_maps {
	uint64_t serial;
	uint64_t at, used; /* offset of the first in the profile; count */
};

/* Flags that a reader may ignore. */
enum live_compatible {
	LIVE_MISSES_BLOCKS =
		1, /* not every call was recorded: there may be live blocks that are not in the map */
};

/* doc: live_header: at offset 0. The part up to `region` is written when the memory is made. */
struct live_header {
	char magic[8];
	uint16_t major, minor;
	uint32_t header_bytes; /* sizeof(struct live_header) */
	uint64_t incompatible; /* a reader that does not know a bit set here must refuse it */
	uint64_t compatible;   /* enum live_compatible */
	uint64_t total_bytes;
	char collector
		[LIVE_SOCKET_BYTES]; /* its socket, as in live_settings: where to request a snapshot from */
	struct live_span region[LIVE_REGIONS];

	/* written by the target at start-up */
	uint32_t pid;
	uint32_t granule_shift; /* of small leaves */
	uint32_t depth_limit;
	uint32_t ready;		  /* 1 once everything above is valid, release */
	uint64_t started_mono_ns; /* CLOCK_MONOTONIC */
	char allocator[32];	  /* "glibc", or the file name of the module that defines malloc */

	/* written by the target while it runs */
	_Alignas(64) uint64_t used[LIVE_REGIONS];
	_Alignas(64) uint64_t opened[LIVE_REGIONS]; /* bytes of each region that are writable */
	uint64_t opened_bytes; /* their sum plus this header: the recorder's memory */
	uint64_t map_live_bytes, map_peak_bytes; /* LIVE_KIND_MMAP; under the recorder's map lock */
	uint64_t inherited_frees; /* of blocks from before a fork: expected, so no health counter */
	uint64_t
		starts; /* number of entries written to `start`: the entry of serial n is n % LIVE_STARTS */
	uint64_t pairs; /* pool: the newest live_pairs, release; 0 = none */
	_Alignas(64) struct live_peak peak;
	_Alignas(64) uint64_t health[HEALTH_COUNT]; /* relaxed atomics */
	struct live_own own;			    /* written at start-up, like the second part */
	struct live_maps maps;
	/* Last, so that the data that every process writes fits into one page. */
	_Alignas(64) struct live_start start[LIVE_STARTS];

	/* doc: live_top: the block map's top level: area number + 1 for each 4 GiB */
	_Alignas(4096) uint32_t top[LIVE_TOP_ENTRIES];
};
/* Without `top`, which is nine tenths of the header. */
#define LIVE_FRONT_BYTES offsetof(struct live_header, top)
/* The number of entries of `top`, given the size of a header that was made here or elsewhere. */
static inline size_t live_top_entries(uint64_t header_bytes)
{
	uint64_t entries = (header_bytes - LIVE_FRONT_BYTES) / sizeof(uint32_t);

	return entries < LIVE_TOP_ENTRIES_MAX ? entries : LIVE_TOP_ENTRIES_MAX;
}
_Static_assert(sizeof(struct live_header) % LIVE_PAGE == 0, "regions begin on a page");
_Static_assert(offsetof(struct live_header, start) <= LIVE_PAGE, "one page for a short process");

/* doc: live_control: the page behind the profile, at total_bytes. The target fills it when it begins; then the collector writes
 * clock, budget and mode through its descriptor, or the target alone where there is none. */
enum live_mode {
	LIVE_MODE_DORMANT = 0,
	LIVE_MODE_TAGS = 1, /* every block by its tag, without stacks */
	LIVE_MODE_SAMPLE = 2,
	LIVE_MODE_EXACT = 3,
};
/* What happens at the end of a process of which an image is wanted. */
enum live_exit {
	LIVE_EXIT_AT_ONCE = 0,
	LIVE_EXIT_HELD = 1,	/* it shall wait */
	LIVE_EXIT_WAITING = 2,	/* it waits: written by the target */
	LIVE_EXIT_RELEASED = 3, /* it may end */
	LIVE_EXIT_TAKEN = 4,	/* the collector has noticed that it waits */
};
struct live_control {
	char magic[8]; /* LIVE_CONTROL_MAGIC */
	uint64_t
		clock_ms; /* live_clock of the time since the profile was created; updated at about 1 kHz */
	uint32_t at_exit;	 /* enum live_exit */
	uint32_t mode;		 /* enum live_mode */
	uint32_t depth_limit;	 /* maximum number of frames; 1..LIVE_DEPTH_MAX */
	uint32_t cpu_millionths; /* share of CPU time that sampling may use; 0 = unlimited */
	uint64_t budget_bytes;
	uint64_t budget_limit_bytes; /* up to this, at least live heap / LIVE_BUDGET_OF_HEAP */
	uint32_t pad2;
	uint32_t exact_peak;  /* 1: exact peak even with several threads, at a cost */
	uint32_t follow_fork; /* 1: a forked child creates its own profile */
	uint32_t
		follow_exec; /* 1: the programs that this one execs or starts are given the recorder too */
	uint64_t
		interval; /* LIVE_MODE_SAMPLE: the sampling interval, average bytes between samples; 0 = default */
	uint64_t saved_read; /* LIVE_SAVED: entries before this may be overwritten */
	uint64_t stack_least_bytes,
		stack_most_bytes; /* smaller and larger blocks get no stack; most 0 = no limit */
	uint32_t mode_on;	  /* mode in which a dormant program starts recording; 0 = exact */
	uint32_t mode_after;
	/* A mode set by another process is a lease: it ends at lease_until_ms unless it is renewed. 0 = none. */
	uint64_t lease_until_ms;
	uint64_t interval_after;
	uint64_t pad3;
};
_Static_assert(sizeof(struct live_control) == 128, "on-disk size");
/* After it in the page: the wrapped functions, in the syntax of format/wraps.h; zero-terminated. */
enum { LIVE_WRAPS_AT = 1024 };
static inline const char *live_control_wraps(const struct live_control *control)
{
	return (const char *)control + LIVE_WRAPS_AT;
}
#define LIVE_CONTROL_MAGIC "HGCTRL\r\n"
enum { LIVE_DEPTH_DEFAULT = 256, LIVE_DEPTH_MAX = 1024 };

/* Lays out the regions in total_bytes and fills in the header up to `region`. total_bytes is rounded down to pages. Returns 0,
 * or -1 if total_bytes is below LIVE_TOTAL_MIN. */
#define LIVE_TOTAL_MIN (16ull << 20)
#define LIVE_TOTAL_DEFAULT (64ull << 30)
int live_header_init(struct live_header *header, uint64_t total_bytes);
/* The size of the region's entries, in which `used` counts. */
size_t live_entry_bytes(enum live_region region);

/* True for a live profile in a format that this version does not read. */
bool live_header_is_of_other_format(const struct live_header *header);
/* Validates the size and regions of an untrusted header: magic, version, flags, every region inside [header_bytes,
 * mapped_bytes) and no overlap. Returns NULL or the reason as text. */
const char *live_header_check(const struct live_header *header, uint64_t mapped_bytes);
/* Validates only the regions, for a reader that has copied them: the target may write the header at any time. */
const char *live_regions_check(const struct live_span region[LIVE_REGIONS], uint64_t header_bytes,
			       uint64_t mapped_bytes);
#endif
