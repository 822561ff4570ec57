/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row per key: section, name, type and member. Whatever a row does not know is an error, so that a typo does not wait for
 * its day.
 */
#include "agent/agent_settings.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/compiler.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/files.h"
#include "util/text/ini.h"
#include "util/text/units.h"

enum { SETTINGS_MAX_BYTES = 1 << 20, SECRET_MAX_BYTES = 4096, LABELS_MAX = 20 };

enum type { TYPE_TEXT, TYPE_PATH, TYPE_URL, TYPE_YES, TYPE_DURATION, TYPE_BYTES, TYPE_COUNT };

static const struct row {
	const char *section, *key;
	enum type type;
	size_t offset;
	uint64_t least, most; /* of a duration in ns, bytes or a count */
} rows[] = {
#define MEMBER(name) offsetof(struct agent_settings, name)
	{ "agent", "listen", TYPE_TEXT, MEMBER(listen) },
	{ "agent", "token-file", TYPE_PATH, MEMBER(token_file) },
	{ "agent", "state", TYPE_PATH, MEMBER(state) },
	{ "agent", "interval", TYPE_DURATION, MEMBER(interval_ns), NS_PER_S, 3600 * NS_PER_S },
	{ "agent", "names", TYPE_YES, MEMBER(names) },
	{ "agent", "reader-uid", TYPE_COUNT, MEMBER(reader_uid), 1, UINT32_MAX - 1 },
	{ "agent", "max-processes", TYPE_COUNT, MEMBER(max_processes), 1, 100000 },
	{ "agent", "max-series", TYPE_COUNT, MEMBER(max_series), 100, 10000000 },
	{ "pyroscope", "url", TYPE_URL, MEMBER(url) },
	{ "pyroscope", "token-file", TYPE_PATH, MEMBER(push_token_file) },
	{ "pyroscope", "user", TYPE_TEXT, MEMBER(user) },
	{ "pyroscope", "password-file", TYPE_PATH, MEMBER(password_file) },
	{ "pyroscope", "tenant", TYPE_TEXT, MEMBER(tenant) },
	{ "pyroscope", "ca-file", TYPE_PATH, MEMBER(ca_file) },
	{ "pyroscope", "certificate-file", TYPE_PATH, MEMBER(certificate_file) },
	{ "pyroscope", "key-file", TYPE_PATH, MEMBER(key_file) },
	{ "pyroscope", "timeout", TYPE_DURATION, MEMBER(timeout_ns), NS_PER_S, 600 * NS_PER_S },
	{ "pyroscope", "batch-bytes", TYPE_BYTES, MEMBER(batch_bytes), 0, 64 << 20 },
	{ "files", "folder", TYPE_PATH, MEMBER(folder) },
	{ "files", "max-bytes", TYPE_BYTES, MEMBER(folder_bytes), 1 << 20, 1ull << 50 },
	{ "symbols", "folder", TYPE_PATH, MEMBER(symbols) },
	{ "symbols", "max-bytes", TYPE_BYTES, MEMBER(symbols_bytes), 1 << 20, 1ull << 50 },
	{ "queue", "max-bytes", TYPE_BYTES, MEMBER(queue_bytes), 1 << 20, 1ull << 50 },
	{ "queue", "max-age", TYPE_DURATION, MEMBER(queue_age_ns), 60 * NS_PER_S,
	  7 * 24 * 3600 * NS_PER_S },
	{ "ended", "folders", TYPE_TEXT, MEMBER(leftovers) },
	{ "ended", "keep", TYPE_PATH, MEMBER(keep) },
	{ "ended", "max-bytes", TYPE_BYTES, MEMBER(keep_bytes), 1 << 16, 1ull << 50 },
#undef MEMBER
};

static const struct agent_settings defaults = {
	.listen = "127.0.0.1:9464",
	.interval_ns = 60 * NS_PER_S,
	.names = true,
	.reader_uid = 65534, /* nobody */
	.max_processes = 10000,
	.max_series = 20000, /* 500 processes have 11,000, and room for tags */
	.timeout_ns = 30 * NS_PER_S,
	.folder_bytes = 1ull << 30,
	.symbols_bytes = 4ull << 30,
	.queue_bytes = 256ull << 20,
	.queue_age_ns = 55 * 60 * NS_PER_S, /* Pyroscope refuses profiles older than an hour */
	.keep_bytes = 1ull << 30,
};

static const struct row *find_row(const struct ini_entry *entry)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strcmp(rows[i].section, entry->section) == 0 &&
		    strcmp(rows[i].key, entry->key) == 0)
			return &rows[i];
	return NULL;
}

static int unknown(const struct ini_entry *entry, struct error *error)
{
	AUTO(buffer_release) struct buffer keys = BUFFER_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strcmp(rows[i].section, entry->section) == 0)
			buffer_printf(&keys, "%s%s", keys.size ? ", " : "", rows[i].key);
	const char *list = buffer_string(&keys);

	if (!list || !*list)
		return error_set(error,
				 "unknown section [%s]: there are [agent], [labels], [pyroscope], "
				 "[files], [symbols], [queue] and [ended]",
				 entry->section);
	return error_set(error, "[%s] has no '%s': it has %s", entry->section, entry->key, list);
}

static int set_number(const struct row *row, const char *value, uint64_t *to, struct error *error)
{
	bool good = row->type == TYPE_DURATION ? units_parse_duration(value, to)
		    : row->type == TYPE_BYTES  ? units_parse_bytes(value, to)
					       : units_parse_count(value, to);

	if (!good)
		return error_set(error, "'%s' is not %s", value,
				 row->type == TYPE_DURATION ? "a time such as 60s"
				 : row->type == TYPE_BYTES  ? "a size such as 256MiB"
							    : "a number");
	if (*to < row->least || *to > row->most)
		return error_set(error, "'%s' is out of range: %s to %s", value,
				 row->type == TYPE_DURATION ? units_duration(row->least).text
				 : row->type == TYPE_BYTES  ? units_bytes(row->least).text
							    : units_count(row->least).text,
				 row->type == TYPE_DURATION ? units_duration(row->most).text
				 : row->type == TYPE_BYTES  ? units_bytes(row->most).text
							    : units_count(row->most).text);
	return 0;
}

static int set_text(const struct row *row, const char *value, struct arena *arena, const char **to,
		    struct error *error)
{
	if (row->type == TYPE_PATH && value[0] != '/')
		return error_set(error, "'%s' is not an absolute path", value);
	if (row->type == TYPE_URL && strncmp(value, "http://", 7) != 0 &&
	    strncmp(value, "https://", 8) != 0)
		return error_set(error, "'%s' is not an http:// or https:// address", value);
	*to = arena_strdup(arena, value);
	return *to ? 0 : error_set(error, "out of memory");
}

static int set_yes(const char *value, bool *to, struct error *error)
{
	*to = strcmp(value, "yes") == 0;
	return *to || strcmp(value, "no") == 0 ? 0
					       : error_set(error, "'%s' is not yes or no", value);
}

static bool is_label_name(const char *name)
{
	static const char *const taken[] = { "pid", "host", "class", "reason", "tag", "ended" };

	if (!isalpha((unsigned char)name[0]) || strncmp(name, "__", 2) == 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		if (strcmp(name, taken[i]) == 0)
			return false;
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && *name != '_')
			return false;
	return true;
}

static int add_label(struct agent_settings *settings, const struct ini_entry *entry,
		     struct error *error)
{
	struct agent_label label = { arena_strdup(&settings->arena, entry->key),
				     arena_strdup(&settings->arena, entry->value) };

	if (!is_label_name(entry->key))
		return error_set(
			error,
			"'%s' cannot be a label: letters, digits and _ only, a letter first, "
			"and none that the agent sets itself (pid, host, class, reason, tag, "
			"ended)",
			entry->key);
	if (settings->labels.count == LABELS_MAX)
		return error_set(error, "more than %d labels", LABELS_MAX);
	return label.key && label.value && vector_push(&settings->labels, label)
		       ? 0
		       : error_set(error, "out of memory");
}

static int take_entry(struct agent_settings *settings, const struct ini_entry *entry,
		      struct error *error)
{
	const struct row *row = find_row(entry);
	char *member = (char *)settings + (row ? row->offset : 0);

	if (strcmp(entry->section, "labels") == 0)
		return add_label(settings, entry, error);
	if (!row)
		return unknown(entry, error);
	if (!entry->value[0])
		return error_set(error, "'%s' has no value", entry->key);
	switch (row->type) {
	case TYPE_TEXT:
	case TYPE_PATH:
	case TYPE_URL:
		return set_text(row, entry->value, &settings->arena, (const char **)(void *)member,
				error);
	case TYPE_YES:
		return set_yes(entry->value, (bool *)(void *)member, error);
	case TYPE_DURATION:
	case TYPE_BYTES:
	case TYPE_COUNT:
		return set_number(row, entry->value, (uint64_t *)(void *)member, error);
	}
	return -1;
}

static int check_whole(const struct agent_settings *s, struct error *error)
{
	bool here = strncmp(s->listen, "127.", 4) == 0 ||
		    strncmp(s->listen, "localhost:", 10) == 0 ||
		    strncmp(s->listen, "[::1]:", 6) == 0 || strncmp(s->listen, "unix:/", 6) == 0 ||
		    strcmp(s->listen, "none") == 0;

	if (!here && !s->token_file)
		return error_set(error,
				 "[agent] listen = %s lets other machines ask: set token-file, or "
				 "listen on 127.0.0.1",
				 s->listen);
	if (strcmp(s->listen, "none") != 0 && !strchr(s->listen, ':'))
		return error_set(error, "[agent] listen = %s has no port: write %s:9464", s->listen,
				 s->listen);
	if ((s->url || s->folder || s->keep || s->symbols) && !s->state)
		return error_set(
			error,
			"[%s] needs a folder for what was sent and what waits: set [agent] "
			"state",
			s->url	     ? "pyroscope"
			: s->folder  ? "files"
			: s->symbols ? "symbols"
				     : "ended");
	if (s->user && !s->password_file)
		return error_set(error, "[pyroscope] user needs password-file");
	if (s->user && s->push_token_file)
		return error_set(error, "[pyroscope] has both a token-file and a user: set one");
	if (!s->certificate_file != !s->key_file)
		return error_set(error, "[pyroscope] needs both certificate-file and key-file");
	return 0;
}

int agent_settings_read(struct agent_settings *ret, const char *path, struct error *error)
{
	AUTO(buffer_release) struct buffer text = BUFFER_INIT;
	struct ini ini;

	*ret = defaults;
	ret->path = path;
	if (!path)
		return 0;
	if (file_read(path, SETTINGS_MAX_BYTES, &text, error) < 0 ||
	    ini_parse(&ini, buffer_span(&text), path, &ret->arena, error) < 0)
		return -1;
	for (size_t i = 0; i < ini.count; i++)
		if (take_entry(ret, &ini.entries[i], error) < 0)
			return error_wrap(error, "%s:%u", path, ini.entries[i].line);
	return check_whole(ret, error) < 0 ? error_wrap(error, "%s", path) : 0;
}

void agent_settings_release(struct agent_settings *settings)
{
	vector_release(&settings->labels);
	arena_release(&settings->arena);
}

char *agent_secret_read(const char *path, struct error *error)
{
	AUTO(buffer_release) struct buffer text = BUFFER_INIT;
	struct stat status;
	AUTO_CLOSE int fd = file_open_regular(path, &status, error);

	if (fd < 0)
		return NULL;
	if (status.st_mode & (S_IRWXO | S_IWGRP)) {
		error_set(error, "%s may be used by others: run 'chmod 600 %s'", path, path);
		return NULL;
	}
	if (file_read_all(fd, SECRET_MAX_BYTES, path, &text, error) < 0)
		return NULL;
	char *secret = buffer_take_string(&text);

	if (secret)
		secret[strcspn(secret, "\r\n")] = '\0';
	if (secret && secret[0])
		return secret;
	error_set(error, secret ? "%s is empty" : "out of memory", path);
	free(secret);
	return NULL;
}
