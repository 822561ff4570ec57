/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the rows of one process from what a foreign heap profile says. Running out of memory, or of a limit, is sticky:
 * imported_finish reports it.
 */
#ifndef COLLECT_IMPORT_IMPORTED_ROWS_H
#define COLLECT_IMPORT_IMPORTED_ROWS_H

#include <stdbool.h>

#include "base/span.h"
#include "format/recording/recording.h"
#include "util/error.h"
#include "util/intern.h"
#include "util/numbering.h"
#include "util/vector.h"

/* A file that was mapped. */
struct imported_mapping {
	uint64_t start, end, offset; /* start 0: addresses are those of the ELF file */
	struct span path, build_id;
	uint32_t module; /* its row; 0: no frame is in it yet */
	uint64_t bias;
};

struct imported_number {
	double live, total; /* total: ignored unless the file has totals */
	double live_variance, total_variance;
};

struct imported_rows {
	struct process_rows rows;
	VECTOR(struct module_row) modules;
	VECTOR(uint64_t) frames;
	VECTOR(struct site_row) sites;
	VECTOR(struct site_counters_row) counters;
	VECTOR(struct name_row) names;
	VECTOR(char) texts;
	struct numbering addresses;	 /* of frames without names ... */
	VECTOR(uint32_t) address_frames; /* ... whose frames these are */
	struct numbering nodes, site_nodes;
	struct intern strings; /* with their place in texts */
	uint64_t interval;     /* sampling, in bytes; 0: every block */
	bool unknown_interval; /* whether the numbers are estimates is not known */
	bool has_totals;
	double bytes, total_bytes, blocks, calls; /* sums, before rounding */
	uint64_t raised_bytes, raised_calls;	  /* by rounding */
	uint64_t raised_sites;
	const char *failure;
};

void imported_init(struct imported_rows *r);
void imported_release(struct imported_rows *r);

/* The file of a mapping, whose `bias` is then known. */
const char *imported_path(struct imported_rows *r, struct imported_mapping *mapping);
/* The frame of a code address; `mapping` may be NULL. */
uint32_t imported_frame(struct imported_rows *r, struct imported_mapping *mapping, uint64_t address,
			bool exact);
/* A new frame, whose names are added next, innermost first. */
uint32_t imported_named_frame(struct imported_rows *r, struct imported_mapping *mapping,
			      uint64_t address);
void imported_name(struct imported_rows *r, uint32_t frame, struct span function, struct span file,
		   uint64_t line, bool inlined);
/* The stack that calls from `parent`; 0 is the empty one. */
uint32_t imported_node(struct imported_rows *r, uint32_t parent, uint32_t frame);
/*
 * Adds numbers to the site of that stack. They are rounded so that the sum over all sites is the rounded-down sum, which is what
 * the other tools print.
 */
void imported_site(struct imported_rows *r, uint32_t node, const struct imported_number *bytes,
		   const struct imported_number *blocks, double samples);

/* Moves the rows to *ret. `writer`: what wrote the file. -1 with the error set. */
int imported_finish(struct imported_rows *r, const char *writer, const char *allocator,
		    struct span program, struct recording *ret, struct error *error);

#endif
