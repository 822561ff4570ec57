/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins the variables that a file has symbols for with the pages that the collector saw. What the symbols do not cover is a row of its
 * own, so that the rows add up to the writable memory of the file.
 *
 * The resident bytes of a variable are those of its bytes that lie on resident pages. Memory of threads is inside their stacks or was
 * allocated, so it is not known which of it is resident.
 *
 * Owns nothing; not thread-safe, as names are not.
 */
#include "model/frames/globals.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "format/recording/rows.h"
#include "symbols/symbolizer.h"
#include "util/cleanup.h"
#include "util/search.h"
#include "util/vector.h"

static const char *const section_names[] = {
	[SECTION_DATA] = "data",
	[SECTION_BSS] = "bss",
	[SECTION_RELRO] = "relro",
	[SECTION_TLS] = "tls",
};

/* One file while its variables are listed. */
struct file {
	const struct static_file_row *row;
	const struct static_range_row *ranges;
	size_t range_count;
	uint64_t bytes, resident_bytes, tls_bytes; /* that no variable has taken yet */
	bool resident_known;
};

struct list {
	VECTOR(struct profile_variable) all;
	uint64_t threads;
};

/* The first range that ends after the address. */
static size_t first_range(const struct file *file, uint64_t address)
{
	return FIRST_WHERE(i, file->range_count,
			   file->ranges[i].start + file->ranges[i].bytes > address);
}

/* Adds up the parts of the variable that are in the recorded ranges: all of it, unless the file is another one. */
static void measure(const struct file *file, uint64_t start, uint64_t end,
		    struct profile_variable *variable)
{
	variable->bytes = 0;
	variable->resident_known = true;
	for (size_t i = first_range(file, start); i < file->range_count; i++) {
		const struct static_range_row *r = &file->ranges[i];

		if (r->start >= end)
			break;
		uint64_t bytes = MIN(r->start + r->bytes, end) - MAX(r->start, start);

		variable->bytes += bytes;
		variable->resident_bytes += r->resident == STATIC_RESIDENT ? bytes : 0;
		variable->resident_known &= r->resident != STATIC_UNKNOWN;
	}
}

static bool add_symbol(struct list *list, struct file *file, const struct symbol_variable *symbol)
{
	struct profile_variable variable = {
		.name = symbol->name.function,
		.full = symbol->name.full,
		.file = symbol->name.file,
		.line = symbol->name.line,
		.module = file->row->path,
		.section = section_names[symbol->section],
		.address = symbol->address,
		.copies = 1,
	};

	if (symbol->section == SECTION_TLS) {
		variable.bytes = MIN(symbol->size, file->tls_bytes);
		variable.copies = list->threads;
		file->tls_bytes -= variable.bytes;
	} else {
		measure(file, symbol->address, saturating_add(symbol->address, symbol->size),
			&variable);
		file->bytes = saturating_sub(file->bytes, variable.bytes);
		file->resident_bytes =
			saturating_sub(file->resident_bytes, variable.resident_bytes);
	}
	return variable.bytes == 0 || vector_push(&list->all, variable);
}

static bool add_rest(struct list *list, const struct file *file)
{
	struct profile_variable rest = { .module = file->row->path,
					 .section = "static",
					 .bytes = file->bytes,
					 .copies = 1,
					 .resident_bytes = file->resident_bytes,
					 .resident_known = file->resident_known };
	struct profile_variable tls = { .module = file->row->path,
					.section = "tls",
					.bytes = file->tls_bytes,
					.copies = list->threads };

	return (rest.bytes == 0 || vector_push(&list->all, rest)) &&
	       (tls.bytes == 0 || vector_push(&list->all, tls));
}

static bool add_file(struct list *list, struct file *file, struct names *names)
{
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	struct symbol_variable *symbols = NULL;
	ptrdiff_t count = names_variables(names, file->row->path,
					  span_of(file->row->build_id, file->row->build_id_bytes),
					  &scratch, &symbols);

	file->tls_bytes = file->row->tls_bytes;
	file->resident_known = true;
	for (size_t i = 0; i < file->range_count; i++) {
		const struct static_range_row *r = &file->ranges[i];

		file->bytes = saturating_add(file->bytes, r->bytes);
		file->resident_bytes += r->resident == STATIC_RESIDENT ? r->bytes : 0;
		file->resident_known &= r->resident != STATIC_UNKNOWN;
	}
	for (ptrdiff_t i = 0; i < count; i++)
		if (!add_symbol(list, file, &symbols[i]))
			return false;
	return count >= 0 && add_rest(list, file);
}

int profile_globals(const struct profile_process *process, struct names *names, struct arena *arena,
		    struct profile_globals *ret)
{
	const struct process_rows *rows = process->rows;
	struct list list = { .threads = rows->globals.threads };
	bool done = true;

	for (size_t i = 0, range = 0; done && i < rows->globals.file_count; i++) {
		struct file file = { .row = &rows->globals.files[i],
				     .ranges = rows->globals.ranges + range };

		while (range < rows->globals.range_count && rows->globals.ranges[range].file == i) {
			file.range_count++;
			range++;
		}
		done = add_file(&list, &file, names);
	}
	*ret = (struct profile_globals){
		.at_ns = rows->globals.at_ns,
		.threads = rows->globals.threads,
		.at = arena_copy(arena, list.all.at, list.all.count * sizeof *list.all.at),
		.count = list.all.count,
	};
	vector_release(&list.all);
	return done && ret->at ? 0 : -1;
}
