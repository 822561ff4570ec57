/* SPDX-License-Identifier: Apache-2.0 */
/* Watches a set of configuration files: each round parses a base file and an overlay, and merges both into one object. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct member {
	char *key;
	char *value;
};

struct object {
	struct member *members;
	size_t count;
	size_t capacity;
};

struct parser {
	const char *cursor;
	char *token;
	size_t token_size;
};

static double seconds_now(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static struct member *object_find(struct object *object, const char *key)
{
	for (size_t i = 0; i < object->count; i++)
		if (strcmp(object->members[i].key, key) == 0)
			return &object->members[i];
	return NULL;
}

static struct member *object_add(struct object *object, const char *key)
{
	if (object->count == object->capacity) {
		object->capacity = object->capacity ? object->capacity * 2 : 8;
		object->members =
			realloc(object->members, object->capacity * sizeof *object->members);
	}
	struct member *member = &object->members[object->count++];
	member->key = strdup(key);
	member->value = NULL;
	return member;
}

static __attribute__((noinline)) void object_set(struct object *object, const char *key,
						 const char *value)
{
	struct member *member = object_find(object, key);
	if (!member)
		member = object_add(object, key);
	member->value = strdup(value);
	if (!member->value)
		abort();
}

static void object_clear(struct object *object)
{
	for (size_t i = 0; i < object->count; i++) {
		free(object->members[i].key);
		free(object->members[i].value);
	}
	free(object->members);
	memset(object, 0, sizeof *object);
}

static void skip_blanks(struct parser *parser)
{
	parser->cursor += strspn(parser->cursor, " \n\t,:");
}

static __attribute__((noinline)) bool parse_string(struct parser *parser)
{
	skip_blanks(parser);
	if (*parser->cursor != '"')
		return false;
	const char *start = ++parser->cursor;
	while (*parser->cursor != '"')
		parser->cursor += *parser->cursor == '\\' ? 2 : 1;
	size_t length = (size_t)(parser->cursor++ - start);
	if (length + 1 > parser->token_size) {
		parser->token_size = length + 64;
		parser->token = realloc(parser->token, parser->token_size);
	}
	memcpy(parser->token, start, length);
	parser->token[length] = '\0';
	return true;
}

static __attribute__((noinline)) void parse_into(struct object *object, const char *text)
{
	struct parser parser = { .cursor = text + 1 };
	char key[128];
	while (parse_string(&parser)) {
		snprintf(key, sizeof key, "%s", parser.token);
		if (!parse_string(&parser))
			break;
		object_set(object, key, parser.token);
	}
	free(parser.token);
}

static char *compose_file(int first, int last, unsigned version)
{
	size_t size = 64 + (size_t)(last - first) * 500, used = 1;
	char *text = malloc(size);
	text[0] = '{';
	for (int i = first; i < last; i++) {
		int padding = 120 + (i * 37) % 260;
		used += (size_t)snprintf(text + used, size - used,
					 "\"section.key%d\": \"v%u:%0*d\",\n", i, version, padding,
					 i);
	}
	snprintf(text + used, size - used, "}");
	return text;
}

static __attribute__((noinline)) size_t merge_once(unsigned version)
{
	struct object settings = { 0 };
	char *base = compose_file(0, 60, version);
	char *overlay = compose_file(25, 60, version + 1);
	parse_into(&settings, base);
	parse_into(&settings, overlay);
	free(base);
	free(overlay);
	size_t count = settings.count;
	object_clear(&settings);
	return count;
}

int main(int argc, char **argv)
{
	double end = seconds_now() + (argc > 1 ? atof(argv[1]) : 4.0);
	struct timespec pause = { .tv_nsec = 9000000 };
	for (unsigned version = 1; seconds_now() < end; version++) {
		if (merge_once(version) != 60)
			return 1;
		nanosleep(&pause, NULL);
	}
	return 0;
}
