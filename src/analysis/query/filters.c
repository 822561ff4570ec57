/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses filter rules: compiles regular expressions once and reads suppressions once. selection.c
 * matches them against stacks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/result/query.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/text/units.h"

/* The regex for a label, from its key to its end; owned by the caller, NULL if out of memory. */
static char *label_regex(const char *text)
{
	char *regex = NULL;

	if (asprintf(&regex, strchr(text, '=') ? "^(%s)$" : "^(%s)=", text) < 0)
		return NULL;
	return regex;
}

/* The regex for exactly this word, which may be "c++"; likewise. */
static char *word_regex(const char *word)
{
	struct buffer regex = BUFFER_INIT;

	buffer_char(&regex, '^');
	for (; *word; word++)
		buffer_printf(&regex, *word == '+' ? "[%c]" : "%c", *word);
	buffer_char(&regex, '$');
	return buffer_take_string(&regex);
}

int filters_add(struct filters *filters, enum rule_kind kind, const char *regex,
		struct error *error)
{
	struct rule rule = { .kind = kind };
	AUTO_FREE char *whole = kind == RULE_LABEL	? label_regex(regex)
				: kind == RULE_LANGUAGE ? word_regex(regex)
							: strdup(regex);

	if (!whole)
		return error_set(error, "out of memory");
	int status = regcomp(&rule.regex, whole, REG_EXTENDED | REG_NOSUB);

	if (status != 0) {
		char why[120];

		regerror(status, &rule.regex, why, sizeof why);
		return error_set(error, "'%s' is not a regular expression: %s", regex, why);
	}
	rule.text = strdup(regex);
	if (!rule.text || !vector_push(&filters->rules, rule)) {
		regfree(&rule.regex);
		free(rule.text);
		return error_set(error, "out of memory");
	}
	return 0;
}

bool filters_rule_fits(const struct rule *rule, const char *const *texts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (regexec(&rule->regex, texts[i], 0, NULL, 0) == 0)
			return true;
	return false;
}

bool filters_site_fits(const struct filters *filters, enum rule_kind kind, const char *const *texts,
		       size_t count)
{
	for (size_t i = 0; i < filters->rules.count; i++) {
		const struct rule *rule = &filters->rules.at[i];

		if (rule->kind == kind && !filters_rule_fits(rule, texts, count))
			return false;
	}
	return true;
}

/* About what a site has beside its stack. */
static bool is_about_sites(enum rule_kind kind)
{
	return kind == RULE_TAG || kind == RULE_POOL || kind == RULE_LABEL || kind == RULE_ENTRY ||
	       kind == RULE_FREED_IN;
}

bool filters_look_at(const struct filters *filters, enum rule_kind kind)
{
	for (size_t i = 0; i < filters->rules.count; i++)
		if (filters->rules.at[i].kind == kind)
			return true;
	return false;
}

bool filters_look_at_stacks(const struct filters *filters)
{
	for (size_t i = 0; i < filters->rules.count; i++) {
		if (!is_about_sites(filters->rules.at[i].kind))
			return true;
	}
	return filters->suppressions.count > 0 || filters->builtin;
}

void filters_release(struct filters *filters)
{
	for (size_t i = 0; i < filters->rules.count; i++) {
		regfree(&filters->rules.at[i].regex);
		free(filters->rules.at[i].text);
	}
	vector_release(&filters->rules);
	vector_release(&filters->suppressions);
	free(filters->suppression_text);
	filters->suppression_text = NULL;
}

bool filters_are_finer_than_processes(const struct filters *f)
{
	return f->rules.count || f->suppressions.count || f->builtin || f->thread || f->min_size ||
	       f->max_size;
}

static const char *join(struct arena *arena, const char *before, const char *option,
			const char *value)
{
	if (!before)
		return NULL;
	return arena_printf(arena, "%s%s--%s %s", before, *before ? " " : "", option, value);
}

const char *filters_text(const struct filters *f, struct arena *arena)
{
	static const char *const options[RULE_KINDS] = {
		[RULE_FOCUS] = "focus",	  [RULE_IGNORE] = "ignore",
		[RULE_MODULE] = "module", [RULE_NOT_MODULE] = "not-module",
		[RULE_TAG] = "tag",	  [RULE_POOL] = "pool",
		[RULE_LABEL] = "label",	  [RULE_LANGUAGE] = "language",
		[RULE_ENTRY] = "entry",	  [RULE_FREED_IN] = "freed-in",
	};
	const char *text = "";

	for (size_t i = 0; i < f->rules.count; i++)
		text = join(arena, text, options[f->rules.at[i].kind], f->rules.at[i].text);
	if (f->thread)
		text = join(arena, text, "thread", f->thread);
	if (f->process)
		text = join(arena, text, "process", f->process);
	if (f->min_size)
		text = join(arena, text, "min-size", units_bytes(f->min_size).text);
	if (f->max_size)
		text = join(arena, text, "max-size", units_bytes(f->max_size).text);
	if (f->builtin)
		text = join(arena, text, "suppressions", "builtin");
	if (f->suppression_path)
		text = join(arena, text, "suppressions", f->suppression_path);
	return text;
}

static char *trim(char *line)
{
	while (*line == ' ' || *line == '\t')
		line++;
	size_t length = strlen(line);

	while (length && strchr(" \t\r", line[length - 1]))
		line[--length] = '\0';
	return line;
}

int filters_suppress(struct filters *filters, const char *path, struct error *error)
{
	struct file_map map = FILE_MAP_INIT;

	if (strcmp(path, "builtin") == 0 || strcmp(path, "none") == 0) {
		filters->builtin = path[0] == 'b';
		return 0;
	}
	if (filters->suppression_text)
		return error_set(error, "one file of suppressions at a time");
	if (file_map_open(&map, path, error) < 0)
		return -1;
	char *text = strndup((const char *)map.bytes.data, map.bytes.size);

	file_map_release(&map);
	if (!text)
		return error_set(error, "out of memory");
	filters->suppression_text = text;
	filters->suppression_path = path;
	size_t number = 1;

	for (char *line = text, *next; line; line = next, number++) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		line = trim(line);
		if (!line[0] || line[0] == '#')
			continue;
		if (strncmp(line, "leak:", 5) != 0 || !line[5])
			return error_set(error,
					 "%s, line %zu: 'leak:PATTERN' is expected, not '%s'", path,
					 number, line);
		if (!vector_push(&filters->suppressions, ((struct suppression){ line + 5 })))
			return error_set(error, "out of memory");
	}
	return 0;
}

/* Finds a piece of a pattern (without '*') in the text; NULL if absent. */
static const char *find_piece(const char *text, const char *piece, size_t length)
{
	for (;; text++) {
		if (strncmp(text, piece, length) == 0)
			return text;
		if (!*text)
			return NULL;
	}
}

bool suppression_matches(const char *pattern, const char *text)
{
	bool anchored = pattern[0] == '^';

	pattern += anchored;
	while (*pattern) {
		if (*pattern == '*') {
			anchored = false;
			pattern++;
			continue;
		}
		if (pattern[0] == '$' && !pattern[1])
			return !*text || !anchored;
		size_t length = strcspn(pattern, "*");
		bool to_end = pattern[length] == '\0' && pattern[length - 1] == '$';

		length -= to_end;
		if (to_end) {
			size_t rest = strlen(text);

			return rest >= length && (!anchored || rest == length) &&
			       memcmp(text + rest - length, pattern, length) == 0;
		}
		const char *at = find_piece(text, pattern, length);

		if (!at || (anchored && at != text))
			return false;
		text = at + length;
		pattern += length;
		anchored = true;
		/* The next piece must follow immediately, unless a '*' comes first. */
	}
	return true;
}
