/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that read recordings: every view of `heapgauge report`, as tables.
 *
 *	struct hg_error error;
 *	struct hg_profile *profile = hg_profile_open("run.hg", &error);
 *	const char *options[] = { "--view", "sites", "--cost", "peak", "--limit=10" };
 *	struct hg_report *report = hg_profile_report(profile, options, 5, &error);
 *	const struct hg_table *sites = hg_report_rows(report);
 *
 *	for (size_t row = 0; row < hg_table_row_count(sites); row++)
 *		hg_table_row(sites, row, cells);	// one for each column
 *
 * A program can also write a report about itself, at any time: hg_profile_open_process(getpid(), ...), and hg_report_write.
 *
 * Columns have the names, meanings and units of docs/json.md. Link with libheapgauge-profile (`pkg-config --libs
 * heapgauge-profile`). It prints nothing and reads no settings. Different threads may use different profiles at the same time, but a
 * profile with its reports is for one thread at a time.
 *
 * The library changes no signal handlers and no environment variables. It reads recordings of up to 1 GiB into memory. libdw maps
 * executables and debug files: if one is truncated while its functions are named, the program gets a SIGBUS. */
#ifndef HEAPGAUGE_PROFILE_H
#define HEAPGAUGE_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One sentence that says what failed, why, and what to do. Where a function takes one, NULL is allowed. */
enum { HG_ERROR_BYTES = 512 };
struct hg_error {
	char message[HG_ERROR_BYTES];
};

struct hg_profile;
struct hg_report;
struct hg_table;

/* A recording, or the file that a process which records itself keeps. NULL with the error set if it cannot be read. */
struct hg_profile *hg_profile_open(const char *path, struct hg_error *error);
/* A running process as it is now; later changes need another call. Needs the right to ptrace it. */
struct hg_profile *hg_profile_open_process(int pid, struct hg_error *error);
/* After all its reports were freed. NULL is allowed. */
void hg_profile_close(struct hg_profile *profile);

/* `options` are those of `heapgauge report`, as typed: "--view", "leaks", "--limit=5". The same defaults hold; all rows are given
 * unless --limit says otherwise. NULL with the error set if the options, or the recording, do not allow an answer. */
struct hg_report *hg_profile_report(struct hg_profile *profile, const char *const *options,
				    size_t option_count, struct hg_error *error);
/* Writes it to a descriptor as `heapgauge report` does. format: "text", "markdown", "json" or "csv". For people, choose the option
 * "--names=short", and a --limit. 0, or -1 with the error set. */
int hg_report_write(const struct hg_report *report, const char *format, int fd,
		    struct hg_error *error);
/* With all its tables and texts. NULL is allowed. */
void hg_report_free(struct hg_report *report);

/* The rows of the view, and its head: a table of one row. Both belong to the report. */
const struct hg_table *hg_report_rows(const struct hg_report *report);
const struct hg_table *hg_report_head(const struct hg_report *report);

/* What a row is, in the plural: "sites". */
const char *hg_table_name(const struct hg_table *table);
size_t hg_table_row_count(const struct hg_table *table);
size_t hg_table_column_count(const struct hg_table *table);
/* NULL if there is no such column. An estimate's standard error is in the next column, NAME_error. */
const char *hg_table_column_name(const struct hg_table *table, size_t column);
/* "bytes", "ns", "ms", "count", "per second", "bytes per second", "id", "text", "flag"; of tables in a cell "stack",
 * "distribution", "record" or "series". */
const char *hg_table_column_unit(const struct hg_table *table, size_t column);

enum hg_cell_type {
	HG_CELL_UNKNOWN = 0, /* null in the JSON: not known, or it does not apply */
	HG_CELL_TEXT,
	HG_CELL_UNSIGNED,
	HG_CELL_SIGNED,
	HG_CELL_DOUBLE,
	HG_CELL_FLAG, /* as.number is 0 or 1 */
	HG_CELL_TABLE, /* a stack, innermost frame first; a distribution; a record: a table of one row; a series */
};
struct hg_cell {
	uint32_t type; /* enum hg_cell_type */
	uint32_t reserved;
	union {
		const char *text; /* the report's; UTF-8 if the names in the recording are */
		uint64_t number;
		int64_t change;
		double real;
		const struct hg_table *table; /* the report's */
	} as;
};

/* Fills one cell for each column. 0, or -1 if there is no such row or memory is exhausted. */
int hg_table_row(const struct hg_table *table, size_t row, struct hg_cell *cells);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
