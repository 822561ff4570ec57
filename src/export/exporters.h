/* SPDX-License-Identifier: Apache-2.0 */
/* Converts a profile to the formats of other tools. An exporter is one file and one row in exporters.c. */
#ifndef EXPORT_EXPORTERS_H
#define EXPORT_EXPORTERS_H

#include <stdio.h>

#include "analysis/result/locations.h"
#include "analysis/result/query.h"
#include "analysis/query/selection.h"
#include "model/profile.h"
#include "util/error.h"

/* For a store that gets a profile once per interval: what pprof has beside the numbers. */
struct export_label {
	const char *key, *value;
};
struct export_interval {
	uint64_t at_real_ns, duration_ns;
	const struct export_label *labels; /* of every sample */
	size_t label_count;
	bool only_usual_types; /* no variances */
	bool unnamed; /* native frames are addresses, for a store that names them by build-id */
	const char *comment; /* NULL: none */
};

struct export_input {
	const struct profile *profile;
	struct locations *locations;
	const struct query *query;
	const struct selection *selection;	/* with filters and moment applied */
	const struct export_interval *interval; /* NULL: the whole recording */
};

/* Writes to `out`; the caller checks for write errors (ferror). 0, or -1 with the error set. */
typedef int exporter_run(const struct export_input *input, FILE *out, struct error *error);

/* The parts of a query that a format supports; all support filters and names. */
enum export_takes {
	TAKES_COST = 1 << 0,
	TAKES_MOMENT = 1 << 1,
	TAKES_LIMIT = 1 << 2,
	TAKES_THRESHOLD = 1 << 3,
	TAKES_NOTHING_SUCH = 1 << 4, /* supported by no format: parts that concern only reports */
};

struct exporter {
	const char *name;
	const char *help; /* one line, no full stop: the tools that open it */
	exporter_run *run;
	const char *suffix; /* of the file name, including the dot */
	const char *lost;   /* what the format cannot represent, as a sentence; NULL: nothing */
	const char
		*errors; /* for a sampled recording: where its standard errors are, as a sentence */
	unsigned takes;	 /* enum export_takes */
	enum query_kinds kinds; /* default kinds; DEFAULT: heap */
	bool needs_run;		/* has lifetimes or frees: not of a heap profile of another tool */
};

/* Terminated by a row whose name is NULL. */
extern const struct exporter exporters[];
const struct exporter *exporter_find(const char *name);

exporter_run export_pprof;
exporter_run export_otlp;
exporter_run export_folded;
exporter_run export_speedscope;
exporter_run export_dot;
exporter_run export_dot_tags;
exporter_run export_gprof2dot;
exporter_run export_callgrind;
exporter_run export_massif;
exporter_run export_dhat;
exporter_run export_heaptrack;
exporter_run export_csv;
exporter_run export_jsonl;

#endif
