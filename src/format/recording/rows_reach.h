/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of an image, as part of a profile (format/recording/rows.h). */
#ifndef FORMAT_RECORDING_ROWS_REACH_H
#define FORMAT_RECORDING_ROWS_REACH_H

#include <stddef.h>
#include <stdint.h>

#include "format/reach.h"

/* doc: chunk_reach: what still refers to the blocks, at the moment of an image; all members are columns in this order. */
struct reach_row {
	uint64_t blocks, bytes; /* that were followed: all live blocks of the heap */
	uint64_t in_flight;	/* blocks that were being allocated or freed */
	uint64_t references;	/* between blocks, and from roots */
	uint64_t heap_read_bytes, root_read_bytes, unreadable_bytes;
	uint64_t stopped_ns; /* how long the process was stopped */
	uint64_t taken;	     /* enum reach_taken */
};
/* The blocks of a site in one class. */
struct reach_site_row {
	uint32_t site, class; /* enum reach_class */
	uint64_t blocks, bytes;
	uint64_t interior_blocks; /* that only pointers into the middle of blocks lead to */
};
/* What would be freed if all blocks of the site were. */
struct retained_row {
	uint32_t site;
	uint32_t
		holder; /* 1 + the root behind the block that retains most; 0 = it is unreachable */
	uint64_t offset; /* 1 + where in the root the path to this block begins; 0 = unknown */
	uint64_t bytes;
};
/* A block, or several alike, on the path from the root to the block of the site that retains most. */
struct path_row {
	uint32_t site;	 /* whose path it is; its rows are in order, from the root on */
	uint32_t from;	 /* the site of the block; 0 = blocks that are left out */
	uint32_t type;	 /* 1 + its type; 0 = unknown */
	uint64_t offset; /* 1 + where in it the pointer to the next is; 0 = unknown */
	uint64_t blocks; /* one behind the other */
};
/* A class with virtual functions. */
struct reach_type_row {
	uint64_t retained_bytes; /* that would be freed if all its objects were */
	char *name;		 /* mangled, without the prefix of symbols: "N2ns5ClassE" */
};
/* The blocks of a site that begin with an object of the type. */
struct site_type_row {
	uint32_t site, type;
	uint64_t blocks, bytes, unreachable_bytes;
};
/* A root: a global variable, the stack of a thread, a mapping. */
struct holder_row {
	uint32_t class;		/* enum reach_class */
	uint64_t blocks, bytes; /* that only it holds */
	char *name;		/* "variable (module)"; "" = unknown */
};

struct image_rows {
	struct reach_row *reach;	    /* one row, or NULL */
	struct reach_site_row *reach_sites; /* by site, then by class */
	struct retained_row *retained;	    /* by site */
	struct holder_row *holders;	    /* by retained bytes */
	struct path_row *paths;		    /* by site, then in the order of the path */
	struct reach_type_row *types;
	struct site_type_row *site_types; /* by site, then by type */
	size_t reach_count, reach_site_count, retained_count, holder_count;
	size_t path_count, type_count, site_type_count;
};
void image_rows_release(struct image_rows *rows);

#endif
