/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the rows of a check as text, GitHub annotations, JSON or JUnit XML. All four use the same sentence for a
 * row:
 *
 *	parse_test  peak 71.3 MiB > 64.0 MiB, most of it from Tokenizer::grow (tok.cc:77): 9.8 MiB
 */
#include "cli/check_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/text/json.h"
#include "util/text/printable.h"
#include "util/text/units.h"

enum {
	KEPT_MAX = 20
}; /* Further passing rows are only counted: a test suite has hundreds of processes. */

/* The number, exact if it would look like the limit that it is not. */
static struct units number_text(const struct check_row *row, int64_t number)
{
	enum result_unit unit = check_measures[row->measure].unit;
	struct units value = check_text(row->measure, row->value), exact;

	if (row->value == row->limit || unit == UNIT_COUNT ||
	    strcmp(value.text, check_text(row->measure, row->limit).text) != 0)
		return check_text(row->measure, number);
	snprintf(exact.text, sizeof exact.text, "%.30s B%s",
		 units_count(number < 0 ? 0 : (uint64_t)number).text,
		 unit == UNIT_BYTES ? "" : "/s");
	return exact;
}

static void print_row(FILE *out, const struct check_row *row)
{
	const char *name = check_measures[row->measure].words;

	print_printable(out, row->program);
	if (!row->has_limit) {
		fputs(": ", out);
		print_printable(out, row->why);
		return;
	}
	if (!row->has_value) {
		fprintf(out, "  %s unknown, limit %s: ", name,
			check_text(row->measure, row->limit).text);
		print_printable(out, row->why);
		return;
	}
	fprintf(out, "  %s %s", name, number_text(row, row->value).text);
	if (row->estimate && row->high == INT64_MAX)
		fprintf(out, " (at least %s at 95 %% confidence)",
			check_text(row->measure, row->low).text);
	else if (row->estimate)
		fprintf(out, " (%s to %s at 95 %% confidence)",
			check_text(row->measure, row->low).text,
			check_text(row->measure, row->high).text);
	fprintf(out, " %s %s",
		row->value > row->limit ? ">" : "<=", number_text(row, row->limit).text);
	if (row->has_baseline)
		fprintf(out, " (baseline %s)", check_text(row->measure, row->baseline).text);
	if (row->verdict == CHECK_UNKNOWN) {
		fputs(", but ", out);
		print_printable(out, row->why);
	}
	if (row->responsible_count) {
		fprintf(out, ", %s%s %s ", row->has_baseline ? "+" : "",
			check_text(row->measure, row->responsible[0].value).text,
			row->has_baseline ? "in" : "of it from");
		print_printable(out, row->responsible[0].label);
	}
}

static const char *plural(size_t count)
{
	return count == 1 ? "" : "s";
}

/* Pre: at least one row. */
static void print_headline(FILE *out, const struct check *check)
{
	if (check->broken)
		fprintf(out, "%zu budget%s exceeded", check->broken, plural(check->broken));
	if (check->unknown)
		fprintf(out, "%s%zu budget%s cannot be checked", check->broken ? ", " : "",
			check->unknown, plural(check->unknown));
	if (check->broken || check->unknown)
		return;
	if (check->rows.count == 1)
		fputs("the budget is met", out);
	else
		fprintf(out, "all %zu budgets met", check->rows.count);
}

/* The memory that no budget covers. The caller frees the text; NULL if there is none, or if out of memory. */
static char *mapped_text(const struct check *check)
{
	char *text = NULL;
	size_t size;
	FILE *memory = check->mapped.processes ? open_memstream(&text, &size) : NULL;

	if (!memory)
		return NULL;
	fprintf(memory, "mappings are not part of these budgets: up to %s in ",
		units_bytes(check->mapped.most_bytes).text);
	print_printable(memory, check->mapped.program);
	if (check->mapped.processes > 1)
		fprintf(memory, ", the most of %zu processes", check->mapped.processes);
	fclose(memory);
	return text;
}

void check_print_text(FILE *out, const struct check *check)
{
	size_t kept = check->rows.count - check->broken - check->unknown;

	fputs("heapgauge: ", out);
	print_headline(out, check);
	fputc('\n', out);
	for (size_t i = 0; i < check->rows.count; i++) {
		const struct check_row *row = &check->rows.at[i];

		if (row->verdict == CHECK_OK && kept > KEPT_MAX)
			continue;
		fputs(row->verdict == CHECK_OK ? "  ok  " : "  !   ", out);
		print_row(out, row);
		fputc('\n', out);
		for (size_t k = 1; k < row->responsible_count; k++) {
			fprintf(out, "        %s ",
				check_text(row->measure, row->responsible[k].value).text);
			print_printable(out, row->responsible[k].label);
			fputc('\n', out);
		}
	}
	if (kept > KEPT_MAX && kept < check->rows.count)
		fprintf(out, "  ok  %zu others\n", kept);
	AUTO_FREE char *mapped = mapped_text(check);

	if (mapped)
		fprintf(out, "      %s\n", mapped);
}

/* The caller frees the text; NULL if out of memory. */
static char *row_text(const struct check_row *row)
{
	char *text = NULL;
	size_t size;
	FILE *memory = open_memstream(&text, &size);

	if (memory) {
		print_row(memory, row);
		fclose(memory);
	}
	return text;
}

/* A GitHub workflow command ends at the end of the line and uses % as its escape; a property also ends at a
 * comma or colon. */
static void print_escaped(FILE *out, const char *text, const char *special)
{
	for (const char *c = text; c && *c; c++) {
		if (strchr(special, *c))
			fprintf(out, "%%%02X", (unsigned char)*c);
		else
			fputc(*c, out);
	}
}

/* Returns the path relative to the repository, as annotations need it; NULL if the file is outside it. */
static const char *path_in_workspace(const char *path)
{
	const char *given = getenv("GITHUB_WORKSPACE");
	AUTO_FREE char *workspace = given ? strdup(given) : getcwd(NULL, 0);
	size_t length = workspace ? strlen(workspace) : 0;

	if (path[0] != '/')
		return path;
	if (length == 0 || strncmp(path, workspace, length) != 0 || path[length] != '/')
		return NULL;
	return path + length + 1;
}

/* Prints "file=src/tok.cc,line=77," if the source location of the responsible stack is known. */
static void print_location(FILE *out, const struct check_row *row)
{
	const char *file = row->responsible_count ? row->responsible[0].file : NULL;
	const char *path = file ? path_in_workspace(file) : NULL;

	if (!path)
		return;
	fputs("file=", out);
	print_escaped(out, path, "%\r\n:,");
	fprintf(out, ",line=%u,", row->responsible[0].line);
}

void check_print_github(FILE *out, const struct check *check)
{
	for (size_t i = 0; i < check->rows.count; i++) {
		const struct check_row *row = &check->rows.at[i];

		if (row->verdict == CHECK_OK)
			continue;
		AUTO_FREE char *text = row_text(row);

		fprintf(out, "::%s ", row->verdict == CHECK_BROKEN ? "error" : "warning");
		print_location(out, row);
		fputs("title=heapgauge::", out);
		print_escaped(out, text, "%\r\n");
		fputc('\n', out);
	}
	if (!check->broken && !check->unknown) {
		fputs("::notice title=heapgauge::", out);
		print_headline(out, check);
		fputc('\n', out);
	}
	AUTO_FREE char *mapped = mapped_text(check);

	if (mapped) {
		fputs("::notice title=heapgauge::", out);
		print_escaped(out, mapped, "%\r\n");
		fputc('\n', out);
	}
}

static const char *verdict_name(enum check_verdict verdict)
{
	static const char *const names[] = { "ok", "broken", "unknown" };

	return names[verdict];
}

static void put_number(struct json *j, const char *key, bool is_known, int64_t value)
{
	json_key(j, key);
	if (is_known)
		json_i64(j, value);
	else
		json_null(j);
}

int check_print_json(FILE *out, const struct check *check)
{
	struct buffer buffer = BUFFER_INIT;
	struct json j = json_to(&buffer, JSON_PRETTY);

	json_object(&j);
	json_field_schema(&j);
	json_field_u64(&j, "broken", check->broken);
	json_field_u64(&j, "unknown", check->unknown);
	put_number(&j, "mapped_bytes", check->mapped.known, (int64_t)check->mapped.most_bytes);
	json_key(&j, "budgets");
	json_array(&j);
	for (size_t i = 0; i < check->rows.count; i++) {
		const struct check_row *row = &check->rows.at[i];

		json_object(&j);
		json_field_string(&j, "program", row->program);
		json_field_u64(&j, "pid", row->pid);
		json_field_string(&j, "measure",
				  row->has_measure ? check_measures[row->measure].name : NULL);
		json_field_string(&j, "verdict", verdict_name(row->verdict));
		put_number(&j, "value", row->has_value, row->value);
		put_number(&j, "limit", row->has_limit, row->limit);
		if (row->estimate) {
			json_field_double(&j, "value_error", round(row->error));
			json_field_i64(&j, "low", row->low);
			json_key(&j, "high");
			if (row->high == INT64_MAX)
				json_null(&j);
			else
				json_i64(&j, row->high);
		}
		if (row->has_baseline)
			json_field_i64(&j, "baseline", row->baseline);
		json_field_string(&j, "reason", row->why);
		json_key(&j, "responsible_sites");
		json_array(&j);
		for (size_t k = 0; k < row->responsible_count; k++) {
			json_object(&j);
			json_field_string(&j, "label", row->responsible[k].label);
			json_field_string(&j, "file", row->responsible[k].file);
			if (row->responsible[k].file)
				json_field_u64(&j, "line", row->responsible[k].line);
			json_field_i64(&j, "value", row->responsible[k].value);
			json_end_object(&j);
		}
		json_end_array(&j);
		json_end_object(&j);
	}
	json_end_array(&j);
	json_end_object(&j);
	int status = buffer.failed ? -1 : 0;

	if (status == 0)
		fwrite(buffer.data, 1, buffer.size, out);
	buffer_release(&buffer);
	return status;
}

static void print_xml(FILE *out, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '&':
			fputs("&amp;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		default:
			fputc((unsigned char)*text < 0x20 ? ' ' : *text, out);
		}
	}
}

void check_print_junit(FILE *out, const struct check *check)
{
	fprintf(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"heapgauge\" "
		"tests=\"%zu\" failures=\"%zu\" errors=\"%zu\">\n",
		check->rows.count, check->broken, check->unknown);
	for (size_t i = 0; i < check->rows.count; i++) {
		const struct check_row *row = &check->rows.at[i];
		const char *element = row->verdict == CHECK_BROKEN ? "failure" : "error";
		AUTO_FREE char *text = row_text(row);

		fputs("  <testcase classname=\"", out);
		print_xml(out, row->program);
		fprintf(out, "\" name=\"%s\"",
			row->has_measure ? check_measures[row->measure].key : "recorded");
		if (row->responsible_count && row->responsible[0].file) {
			const char *path = path_in_workspace(row->responsible[0].file);

			fputs(" file=\"", out);
			print_xml(out, path ? path : row->responsible[0].file);
			fprintf(out, "\" line=\"%u\"", row->responsible[0].line);
		}
		if (row->verdict == CHECK_OK) {
			fputs("/>\n", out);
			continue;
		}
		fprintf(out, ">\n    <%s message=\"", element);
		print_xml(out, text ? text : "");
		fprintf(out, "\"/>\n  </testcase>\n");
	}
	AUTO_FREE char *mapped = mapped_text(check);

	if (mapped) {
		fputs("  <system-out>", out);
		print_xml(out, mapped);
		fputs("</system-out>\n", out);
	}
	fputs("</testsuite>\n", out);
}
