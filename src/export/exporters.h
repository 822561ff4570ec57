/* SPDX-License-Identifier: Apache-2.0 */
/* A profile in the words of other tools. An exporter is one file and one row in exporters.c. */
#ifndef EXPORT_EXPORTERS_H
#define EXPORT_EXPORTERS_H

#include <stdio.h>

#include "analysis/result/locations.h"
#include "analysis/result/query.h"
#include "analysis/query/selection.h"
#include "model/profile.h"
#include "util/error.h"

struct export_input {
	const struct profile *profile;
	struct locations *locations;
	const struct query *query;
	const struct selection *selection; /* filters and moment are applied */
};

/* Writes to `out`; a failed write is found by the caller (ferror). 0, or -1 with the error set. */
typedef int exporter_run(const struct export_input *input, FILE *out, struct error *error);

/* Which parts of a question a format can answer to; filters and names are for all. */
enum export_takes {
	TAKES_COST = 1 << 0,
	TAKES_MOMENT = 1 << 1,
	TAKES_LIMIT = 1 << 2,
	TAKES_THRESHOLD = 1 << 3,
	TAKES_NOTHING_SUCH = 1 << 4, /* no format: what is about the shape of a report */
};

struct exporter {
	const char *name;
	const char *help; /* one line, no full stop: what opens it */
	exporter_run *run;
	const char *suffix; /* of a file's name, with its dot */
	const char *lost;   /* what the format cannot carry, as a sentence; NULL: nothing */
	const char *
		errors; /* of a sampled recording: where the errors of its estimates are, as a sentence */
	unsigned takes;		/* enum export_takes */
	enum query_kinds kinds; /* where the question says nothing; DEFAULT: heap */
};

/* Ends with a row whose name is NULL. */
extern const struct exporter exporters[];
const struct exporter *exporter_find(const char *name);

exporter_run export_pprof;
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
