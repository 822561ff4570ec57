/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses budgets and checks a recording against them. Used by `check`, and by `record --check`, which records and
 * checks in one step.
 */
#include "cli/budgets.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "cli/check_report.h"
#include "cli/commands.h"
#include "cli/open.h"
#include "cli/options/words.h"
#include "model/build.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/output_file.h"
#include "util/text/ini.h"
#include "util/text/units.h"

enum { BUDGETS_MAX_BYTES = 1 << 20 };

int budget_set(struct budget *budget, enum check_measure measure, const char *value,
	       struct error *error)
{
	const struct check_measure_row *row = &check_measures[measure];
	size_t length = strlen(value);
	uint64_t number;
	char text[64];

	if (row->unit == UNIT_BYTES_RATE && length > 2 && strcmp(value + length - 2, "/s") == 0)
		length -= 2;
	if (length >= sizeof text)
		return error_set(error, "%s: '%s' is not a number", row->key, value);
	memcpy(text, value, length);
	text[length] = '\0';
	if (!units_parse_bytes(text, &number) || number > INT64_MAX)
		return error_set(error, "%s needs a number such as %s, not '%s'", row->key,
				 row->unit == UNIT_COUNT ? "1000" : "64MiB", value);
	budget->has[measure] = true;
	budget->limit[measure] = (int64_t)number;
	return 0;
}

static int set_by_key(struct budget *budget, const struct ini_entry *entry, const char *path,
		      struct error *error)
{
	const char *keys[CHECK_MEASURES];

	for (enum check_measure m = 0; m < CHECK_MEASURES; m++) {
		keys[m] = check_measures[m].key;
		if (strcmp(entry->key, keys[m]) != 0)
			continue;
		struct error reason = ERROR_INIT;

		if (budget_set(budget, m, entry->value, &reason) == 0)
			return 0;
		return error_set(error, "%s:%u: %s", path, entry->line, reason.message);
	}
	const char *near = nearest_name(entry->key, keys, CHECK_MEASURES);

	if (near)
		return error_set(error, "%s:%u: unknown budget '%s'; did you mean '%s'?", path,
				 entry->line, entry->key, near);
	return error_set(error, "%s:%u: unknown budget '%s'", path, entry->line, entry->key);
}

int budgets_read(struct budgets *budgets, const char *path, struct error *error)
{
	struct buffer text = BUFFER_INIT;
	struct ini ini;
	int status = file_read_stream(path, BUDGETS_MAX_BYTES, &text, error);

	if (status == 0)
		status = ini_parse(&ini, buffer_span(&text), path, &budgets->arena, error);
	for (size_t i = 0; status == 0 && i < ini.count; i++) {
		const struct ini_entry *entry = &ini.entries[i];
		const char *section = entry->section && entry->section[0] ? entry->section : "*";
		struct budget *last =
			budgets->list.count ? &budgets->list.at[budgets->list.count - 1] : NULL;

		if (!last || strcmp(last->pattern, section) != 0) {
			const struct budget added = { .pattern = section };

			if (!vector_push(&budgets->list, added)) {
				status = error_set(error, "out of memory");
				break;
			}
			last = &budgets->list.at[budgets->list.count - 1];
		}
		status = set_by_key(last, entry, path, error);
	}
	if (status == 0 && ini.count == 0)
		status = error_set(error, "%s has no budget: add a line such as max-peak = 64MiB",
				   path);
	if (status == 0 && !vector_push(&budgets->files, path))
		status = error_set(error, "out of memory");
	buffer_release(&text);
	return status;
}

void budgets_release(struct budgets *budgets)
{
	vector_release(&budgets->list);
	vector_release(&budgets->files);
	arena_release(&budgets->arena);
}

static int print_check(const struct check_command *c, const struct check *check,
		       struct error *error)
{
	const char *inputs[] = { c->recording, c->baseline, c->query.filters.suppression_path };
	AUTO(output_file_abort) struct output_file junit = OUTPUT_FILE_INIT;
	int status = 0;

	if (c->junit && (output_file_check(c->junit, c->budgets->files.at, c->budgets->files.count,
					   error) < 0 ||
			 output_file_open(&junit, c->junit, inputs, ARRAY_SIZE(inputs), error) < 0))
		return -1;
	if (strcmp(c->format, "json") == 0)
		status = check_print_json(c->out, check);
	else if (strcmp(c->format, "github") == 0)
		check_print_github(c->out, check);
	else
		check_print_text(c->out, check);
	if (status < 0)
		return error_set(error, "out of memory");
	if (!c->junit)
		return 0;
	check_print_junit(junit.stream, check);
	return output_file_commit(&junit, error);
}

static int run_check(const struct check_command *c, const struct profile *profile,
		     const struct profile *baseline, struct error *error)
{
	const struct check_options options = { .budgets = c->budgets->list.at,
					       .budget_count = c->budgets->list.count,
					       .baseline = baseline,
					       .tolerance = c->tolerance,
					       .tolerance_bytes = c->tolerance_bytes,
					       .query = &c->query };
	struct names *names = names_new(&c->names);
	struct locations *locations = names ? locations_new(names) : NULL;
	struct check check = { 0 };
	int status = -1;

	if (!locations)
		error_set(error, "out of memory");
	else
		status = check_run(&check, profile, locations, &options, error);
	if (status == 0)
		status = print_check(c, &check, error);
	if (status == 0)
		status = check.broken ? 1 : check.unknown ? 2 : 0;
	check_release(&check);
	locations_free(locations);
	names_free(names);
	return status;
}

struct check_command check_command_make(struct budgets *budgets, FILE *out)
{
	return (struct check_command){
		.format = "text",
		.budgets = budgets,
		.query = { .filters = { .builtin = true } },
		.names = { .use_symbols = true, .use_store = true, .style = NAMES_SHORT },
		.out = out,
	};
}

void check_command_release(struct check_command *c)
{
	filters_release(&c->query.filters);
	free(c->sites);
}

int check_recording(const struct check_command *c, struct error *error)
{
	struct profile *profile = recording_open(c->recording, error);
	struct profile *baseline = NULL;
	int status = -1;

	if (profile && c->baseline)
		baseline = recording_open(c->baseline, error);
	if (baseline && profile_own_like(profile, baseline, error) < 0) {
		profile_free(profile);
		profile = NULL;
	}
	if (c->budgets->has_given && !vector_push(&c->budgets->list, c->budgets->given)) {
		error_set(error, "out of memory");
	} else if (profile && (baseline || !c->baseline)) {
		status = run_check(c, profile, baseline, error);
	}
	profile_free(profile);
	profile_free(baseline);
	if (status >= 0)
		return status;
	cli_report(error);
	return 2;
}
