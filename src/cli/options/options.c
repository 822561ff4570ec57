/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses options from rows: see options.h.
 *
 * getopt_long is not used because it keeps global state, prints by itself, accepts abbreviations (so that a new
 * option can change the meaning of an old spelling) and cannot suggest the nearest option.
 *
 * The command line is parsed first, then the settings, and only for options that were not given. So a flag can be
 * switched off (--quiet=no), and --help works however broken a settings file is.
 */
#include "cli/options/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/compiler.h"
#include "util/cleanup.h"

enum { NAME_MAX_BYTES = 32 };

enum common_option { COMMON_HELP, COMMON_COLOR, COMMON_NO_PAGER, COMMON_NO_CONFIG };

static const char *const when_names[] = {
	[WHEN_AUTO] = "auto", [WHEN_ALWAYS] = "always", [WHEN_NEVER] = "never", NULL
};

const struct option_row common_rows[] = {
	[COMMON_HELP] = { "help", 'h', NULL, "show this help", .group = "Global options",
			  .scope = OPTION_TYPED_ONLY },
	[COMMON_COLOR] = { "color", 0, "WHEN", "use colours", .choices = WORDS(when_names),
			   .group = "Global options", .fallback = "auto" },
	[COMMON_NO_PAGER] = { "no-pager", 0, NULL,
			      "do not page output that is longer than the screen",
			      .group = "Global options" },
	[COMMON_NO_CONFIG] = { "no-config", 0, NULL,
			       "ignore HEAPGAUGE_ variables and settings files",
			       .group = "Global options", .scope = OPTION_TYPED_ONLY },
};
const size_t common_row_count = ARRAY_SIZE(common_rows);

/* Only for messages: one thread parses one command line. */
static _Thread_local const char *origin_of_last;

const char *options_origin(void)
{
	return origin_of_last;
}

struct options options_over(const struct option_row *rows, size_t row_count, int argc, char **argv)
{
	ASSERT(row_count <= OPTIONS_MAX);
	return (struct options){
		.rows = rows, .row_count = row_count, .argc = argc, .argv = argv, .at = 1
	};
}

const struct option_row *options_row(const struct options *o, size_t index)
{
	return index < o->row_count ? &o->rows[index] : &common_rows[index - o->row_count];
}

static size_t all_count(const struct options *o)
{
	return o->row_count + common_row_count;
}

static int unknown_option(const struct options *o, const char *name, struct error *error)
{
	const char *names[OPTIONS_MAX + ARRAY_SIZE(common_rows)] = { 0 };

	for (size_t i = 0; i < all_count(o); i++)
		names[i] = options_row(o, i)->name;
	const char *near = nearest_name(name, names, ARRAY_SIZE(names));

	if (near)
		error_set(error, "unknown option --%s; did you mean --%s?", name, near);
	else
		error_set(error, "unknown option --%s", name);
	return OPTIONS_ERROR;
}

/* Parses yes (*ret true) or no; anything else is an error. */
static int parse_flag(const char *name, const char *text, bool *ret, struct error *error)
{
	static const char *const yes[] = { "yes", "true", "on", "1" };
	static const char *const no[] = { "no", "false", "off", "0" };

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
		if (strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0) {
			*ret = strcasecmp(text, yes[i]) == 0;
			return 0;
		}
	}
	return error_set(error, "--%s takes yes or no, not '%s'", name, text);
}

static int check_choice(const struct option_row *row, const char *value, struct error *error)
{
	const char *comma = row->takes_two ? strchr(value, ',') : NULL;

	if (comma) {
		AUTO_FREE char *first = strndup(value, (size_t)(comma - value));

		if (!first)
			return error_set(error, "out of memory");
		if (check_choice(row, first, error) < 0)
			return -1;
		value = comma + 1;
	}
	if (!row->choices.rows || words_have(&row->choices, value))
		return 0;
	const char *near = words_nearest(&row->choices, value);

	if (near)
		return error_set(error, "--%s does not take '%s'; did you mean '%s'?", row->name,
				 value, near);
	return error_set(error, "--%s does not take '%s'", row->name, value);
}

/* Checks a value for a row, whatever its source. Returns the index of the row, OPTIONS_END if there is nothing
 * to return to the caller, or OPTIONS_ERROR. */
static int accept(struct options *o, size_t index, const char *text, const char **value,
		  struct error *error)
{
	const struct option_row *row = options_row(o, index);
	bool on = true;

	*value = NULL;
	if (row->argument) {
		if (check_choice(row, text, error) < 0)
			return OPTIONS_ERROR;
		*value = text;
	} else if (text && parse_flag(row->name, text, &on, error) < 0) {
		return OPTIONS_ERROR;
	}
	if (index < o->row_count)
		return on ? (int)index : OPTIONS_END;
	switch ((enum common_option)(index - o->row_count)) {
	case COMMON_HELP:
		return on ? OPTIONS_HELP : OPTIONS_END;
	case COMMON_COLOR:
		for (size_t i = 0; text && when_names[i]; i++)
			if (strcmp(text, when_names[i]) == 0)
				o->common.color = (enum option_when)i;
		break;
	case COMMON_NO_PAGER:
		o->common.no_pager = on;
		break;
	case COMMON_NO_CONFIG:
		o->common.no_config = on;
		break;
	}
	return OPTIONS_END;
}

/* `attached` is a value in the same word, or NULL. */
static int take_option(struct options *o, size_t index, const char *attached, const char **value,
		       struct error *error)
{
	const struct option_row *row = options_row(o, index);

	if (row->argument && !attached)
		attached = row->if_omitted;
	if (row->argument && !attached) {
		if (o->at >= o->argc) {
			error_set(error, "--%s needs a value: %s", row->name, row->argument);
			return OPTIONS_ERROR;
		}
		attached = o->argv[o->at++];
	}
	if (index < o->row_count)
		o->given |= UINT64_C(1) << index;
	else
		o->common_given |= UINT64_C(1) << (index - o->row_count);
	return accept(o, index, attached, value, error);
}

static int long_option(struct options *o, const char *word, const char **value, struct error *error)
{
	char name[NAME_MAX_BYTES];
	const char *equals = strchr(word, '=');
	size_t length = equals ? (size_t)(equals - word) : strlen(word);

	if (length >= sizeof name) {
		error_set(error, "unknown option --%s", word);
		return OPTIONS_ERROR;
	}
	memcpy(name, word, length);
	name[length] = 0;
	for (size_t i = 0; i < all_count(o); i++) {
		const char *candidate = options_row(o, i)->name;

		if (candidate && strcmp(candidate, name) == 0)
			return take_option(o, i, equals ? equals + 1 : NULL, value, error);
	}
	return unknown_option(o, name, error);
}

static int short_option(struct options *o, const char *word, const char **value,
			struct error *error)
{
	for (size_t i = 0; i < all_count(o); i++) {
		const struct option_row *row = options_row(o, i);

		if (!row->letter || row->letter != word[0])
			continue;
		if (row->argument || !word[1])
			return take_option(o, i, word[1] ? word + 1 : NULL, value, error);
		error_set(error, "-%c takes no value: -%s", word[0], word);
		return OPTIONS_ERROR;
	}
	error_set(error, "unknown option -%c", word[0]);
	return OPTIONS_ERROR;
}

static int next_setting(struct options *o, const char **value, struct error *error)
{
	const struct option_value *setting;

	if (!o->asked_settings) {
		o->asked_settings = true;
		if (!o->common.no_config && o->read_settings && o->read_settings(o, error) < 0)
			return OPTIONS_ERROR;
	}
	while (o->setting_at < o->setting_count) {
		setting = &o->settings[o->setting_at++];
		origin_of_last = setting->origin;
		int got = accept(o, setting->row, setting->value, value, error);

		if (got != OPTIONS_END)
			return got;
	}
	origin_of_last = NULL;
	return OPTIONS_END;
}

static int next_word(struct options *o, const char **value, struct error *error)
{
	int got;

	if (o->program_follows) {
		got = next_setting(o, value, error);
		if (got != OPTIONS_END)
			return got;
	}
	*value = o->argv[o->at++];
	return OPTIONS_WORD;
}

int options_next(struct options *o, const char **value, struct error *error)
{
	origin_of_last = NULL;
	*value = NULL;
	while (o->at < o->argc) {
		const char *word = o->argv[o->at];
		int got;

		if (!o->words_only && strcmp(word, "--") == 0) {
			o->words_only = true;
			o->at++;
			continue;
		}
		if (o->words_only || word[0] != '-' || !word[1])
			return next_word(o, value, error);
		o->at++;
		got = word[1] == '-' ? long_option(o, word + 2, value, error)
				     : short_option(o, word + 1, value, error);
		if (got != OPTIONS_END)
			return got;
	}
	return next_setting(o, value, error);
}

int options_number(const char *name, const char *text, uint64_t *ret, struct error *error)
{
	char *end;

	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)text[0]) || *end || errno)
		return error_set(error, "--%s needs a number, not '%s'", name, text);
	*ret = value;
	return 0;
}

int options_once(const char **slot, const char *what, const char *value, struct error *error)
{
	if (*slot)
		return error_set(error, "one %s at a time: '%s' or '%s'?", what, *slot, value);
	*slot = value;
	return 0;
}

int options_pid(const char *name, const char *text, pid_t *ret, struct error *error)
{
	uint64_t pid = 0;

	if (options_number(name, text, &pid, error) < 0)
		return -1;
	if (pid == 0 || pid > INT32_MAX)
		return error_set(error, "--%s takes a process id, not %s", name, text);
	*ret = (pid_t)pid;
	return 0;
}
