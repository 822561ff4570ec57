/* SPDX-License-Identifier: Apache-2.0 */
/*
 * print_report FILE|PID [OPTION]...: what <heapgauge/profile.h> gives, as JSON: { "name": ..., "head": {...}, "rows": [...] }.
 *
 * Compiled by tests as any user would, against what was installed. An error is printed on stderr, and the status is 1.
 */
#include <ctype.h>
#include <heapgauge/profile.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_table(const struct hg_table *table, const char *unit);

static void print_text(const char *text)
{
	putchar('"');
	for (; *text; text++)
		if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else if ((unsigned char)*text < ' ')
			printf("\\u%04x", *text);
		else
			putchar(*text);
	putchar('"');
}

static void print_cell(const struct hg_cell *cell, const char *unit)
{
	switch ((enum hg_cell_type)cell->type) {
	case HG_CELL_UNKNOWN:
		printf("null");
		break;
	case HG_CELL_TEXT:
		print_text(cell->as.text);
		break;
	case HG_CELL_UNSIGNED:
		printf("%" PRIu64, cell->as.number);
		break;
	case HG_CELL_SIGNED:
		printf("%" PRId64, cell->as.change);
		break;
	case HG_CELL_DOUBLE:
		printf("%.9g", cell->as.real);
		break;
	case HG_CELL_FLAG:
		printf(cell->as.number ? "true" : "false");
		break;
	case HG_CELL_TABLE:
		print_table(cell->as.table, unit);
		break;
	}
}

static void print_row(const struct hg_table *table, size_t row, int bare)
{
	size_t columns = hg_table_column_count(table);
	struct hg_cell *cells = calloc(columns + 1, sizeof *cells);

	if (!cells || hg_table_row(table, row, cells) < 0)
		exit(2);
	printf(bare ? "" : "{");
	for (size_t i = 0; i < columns; i++) {
		if (!bare)
			printf("%s\"%s\": ", i ? ", " : "", hg_table_column_name(table, i));
		print_cell(&cells[i], hg_table_column_unit(table, i));
	}
	printf(bare ? "" : "}");
	free(cells);
}

/* A record is an object, a series a list of numbers, all else a list of objects. */
static void print_table(const struct hg_table *table, const char *unit)
{
	int record = strcmp(unit, "record") == 0, series = strcmp(unit, "series") == 0;

	printf(record ? "" : "[");
	for (size_t row = 0; row < hg_table_row_count(table); row++) {
		printf(row ? ",\n" : "");
		print_row(table, row, series);
	}
	printf(record ? "" : "]");
}

static int fail(const struct hg_error *error)
{
	fprintf(stderr, "%s\n", error->message);
	return 1;
}

static int is_number(const char *text)
{
	return text[0] && text[strspn(text, "0123456789")] == '\0';
}

int main(int argc, char **argv)
{
	struct hg_error error;
	struct hg_profile *profile = is_number(argv[1])
					     ? hg_profile_open_process(atoi(argv[1]), &error)
					     : hg_profile_open(argv[1], &error);

	if (!profile)
		return fail(&error);
	struct hg_report *report =
		hg_profile_report(profile, (const char *const *)argv + 2, (size_t)argc - 2, &error);

	if (!report) {
		hg_profile_close(profile);
		return fail(&error);
	}
	printf("{\"name\": ");
	print_text(hg_table_name(hg_report_rows(report)));
	printf(", \"head\": ");
	print_table(hg_report_head(report), "record");
	printf(", \"rows\": ");
	print_table(hg_report_rows(report), "rows");
	printf("}\n");
	hg_report_free(report);
	hg_profile_close(profile);
	return 0;
}
