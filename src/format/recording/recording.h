/* SPDX-License-Identifier: Apache-2.0 */
/* The recording (.hg): a header, then chunks. Each chunk has a type, the process it belongs to, a checksum and a zstd payload.
 * A file truncated at any byte opens up to its last complete chunk; unknown optional chunks are skipped and counted. */
#ifndef FORMAT_RECORDING_RECORDING_H
#define FORMAT_RECORDING_RECORDING_H

#include "base/compiler.h"
#include "format/recording/rows.h"

/* Bad data does not fail an open: it is counted here and shown under every report. */
struct recording_warnings {
	uint64_t cut_bytes;	 /* after the last complete chunk */
	uint64_t bad_chunks;	 /* wrong checksum or content: left out */
	uint64_t unknown_chunks; /* newer than this program: left out */
	int unfinished;		 /* no end chunk: the collector did not finish */
	uint64_t raised_sites; /* imported: a total was below what is live, and was raised to it */
};

/* process_row.imported: read from a heap profile of another tool, which has no times, frees, lifetimes, sizes or threads, and with
 * LIVE_ONLY no totals either. */
enum imported { NOT_IMPORTED, IMPORTED_LIVE_ONLY, IMPORTED_WITH_TOTALS };
/* process_row.mode of one that does not say whether it was sampled. */
#define IMPORTED_MODE_UNKNOWN UINT32_MAX

struct recording {
	struct run_row run;
	struct process_rows *processes;
	size_t process_count;
	struct recording_warnings warnings;
};

/* Bytes of the rows of a process, without texts. */
uint64_t process_rows_bytes(const struct process_rows *rows);

/* On failure `message` (error may be NULL) gets the reason as text. All functions return 0, or -1 with `ret` unchanged. */
struct format_error {
	char message[256];
};
PRINTF_LIKE(2, 3) int format_fail(struct format_error *error, const char *format, ...); /* -1 */

int recording_decode(const void *bytes, size_t length, struct recording *ret,
		     struct format_error *error);
void recording_release(struct recording *recording);

/* Encodes a whole recording into malloc'd memory. */
int recording_encode(const struct recording *recording, void **ret_bytes, size_t *ret_length,
		     struct format_error *error);

/* The same one process at a time, so that only its rows need to be in memory. add and finish return 0 or -1; finish returns
 * malloc'd bytes that the caller frees. */
struct recording_writer;
struct recording_writer *recording_writer_new(void);
void recording_writer_free(struct recording_writer *writer);
int recording_writer_add(struct recording_writer *writer, const struct process_rows *rows,
			 struct format_error *error);
/* The bytes written so far, which are a recording without its end; valid until the next call. */
const void *recording_writer_bytes(const struct recording_writer *writer, size_t *ret_length);
int recording_writer_finish(struct recording_writer *writer, const struct run_row *run,
			    void **ret_bytes, size_t *ret_length, struct format_error *error);
#endif
