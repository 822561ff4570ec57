/* SPDX-License-Identifier: Apache-2.0 */
/* Rows about the files that a process has loaded: part of rows.h. */
#ifndef FORMAT_RECORDING_ROWS_LOADED_H
#define FORMAT_RECORDING_ROWS_LOADED_H

#include <stddef.h>
#include <stdint.h>

/* doc: chunk_modules. Row 0 is "no module". */
struct module_row {
	char *path; /* "" when unknown */
	uint64_t start, end, bias;
	uint64_t mapped_ns, unmapped_ns; /* since the process' start; unmapped 0 = never */
	uint8_t build_id[32];
	uint32_t build_id_bytes;
};

/* doc: chunk_static: writable data of a loaded file, where its global variables are. */
struct static_file_row {
	char *path;
	uint64_t tls_bytes; /* of one thread */
	uint8_t build_id[32];
	uint32_t build_id_bytes;
};
/* A piece of it, by ELF virtual address. Rows ascend by file, then by address, and do not overlap. */
enum static_resident { STATIC_ABSENT = 0, STATIC_RESIDENT = 1, STATIC_UNKNOWN = 2 };
struct static_range_row {
	uint32_t file, resident; /* enum static_resident */
	uint64_t start, bytes;
};
struct static_rows {
	uint64_t at_ns, threads; /* when they were read, and the threads then */
	struct static_file_row *files;
	struct static_range_row *ranges;
	size_t file_count, range_count;
};

#endif
