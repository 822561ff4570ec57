/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Environment and settings files: see settings.h.
 *
 * A file is checked as a whole, not only the section in use, so that a mistake shows at once and not months later.
 * A file in the current folder that another user could have written is not read: a command run in /tmp must not
 * obey a stranger's file.
 *
 * The arena below owns all returned values; it lives as long as the process and grows with the size of the files.
 */
#include "cli/options/settings.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "cli/commands.h"
#include "util/arena.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/text/ini.h"
#include "util/vector.h"

#define PREFIX "HEAPGAUGE_"
#define ALL "all"

enum { FILE_MAX_BYTES = 1 << 20, NAMES_MAX = 512 };

static struct arena kept;

struct file {
	const char *path, *shown;
	bool of_folder;
	struct ini ini;
};

/* Variables with these names mean something else. Kubernetes sets PORT and SERVICE_ for a service named
 * heapgauge. */
static bool is_reserved(const char *name)
{
	static const char *const names[] = { "SOCKET", "RECORDER", "VERIFY", "PAGER", "PORT" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return strncmp(name, "PORT_", 5) == 0 || strncmp(name, "SERVICE_", 8) == 0;
}

bool settings_variable(const struct option_row *row, char room[SETTINGS_VARIABLE_BYTES])
{
	size_t at = sizeof PREFIX - 1;

	if (!row->name || row->scope == OPTION_TYPED_ONLY)
		return false;
	memcpy(room, PREFIX, at);
	for (const char *c = row->name; *c; c++) {
		if (at + 1 >= SETTINGS_VARIABLE_BYTES)
			return false;
		room[at++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
	}
	room[at] = 0;
	return !is_reserved(room + sizeof PREFIX - 1);
}

/* Returns the path of the user's file, whether or not it exists. The caller frees it; NULL if there is no home. */
static char *user_file(void)
{
	const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	char *path = NULL;
	int printed = -1;

	if (base && base[0] == '/') /* the XDG specification says to ignore relative paths */
		printed = asprintf(&path, "%s/heapgauge/config.ini", base);
	else if (home && *home)
		printed = asprintf(&path, "%s/.config/heapgauge/config.ini", home);
	return printed < 0 ? NULL : path;
}

/* ---- names that exist ---- */

struct names {
	const char *at[NAMES_MAX];
	size_t count;
};

static void names_add(struct names *names, const struct option_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (rows[i].name && names->count < NAMES_MAX)
			names->at[names->count++] = rows[i].name;
}

/* Returns the option names of the command, or of all commands if it is NULL. */
static struct names option_names(const struct command *command)
{
	struct names names = { .count = 0 };

	for (size_t i = 0; commands[i]; i++)
		if (!command || commands[i] == command)
			names_add(&names, commands[i]->options, commands[i]->option_count);
	names_add(&names, common_rows, common_row_count);
	return names;
}

static const struct option_row *row_of(const struct command *command, const char *key)
{
	for (size_t i = 0; i < common_row_count; i++)
		if (strcmp(common_rows[i].name, key) == 0)
			return &common_rows[i];
	for (size_t c = 0; commands[c]; c++) {
		const struct command *candidate = commands[c];

		if (command && candidate != command)
			continue;
		for (size_t i = 0; i < candidate->option_count; i++)
			if (candidate->options[i].name &&
			    strcmp(candidate->options[i].name, key) == 0)
				return &candidate->options[i];
	}
	return NULL;
}

/* ---- files ---- */

static int unknown_section(const struct file *file, const struct ini_entry *entry,
			   struct error *error)
{
	const char *names[64] = { ALL };

	if (!entry->section[0])
		return error_set(error,
				 "%s:%u: '%s' is outside any section: put [all] or a command such "
				 "as [report] above it",
				 file->shown, entry->line, entry->key);
	for (size_t i = 0; commands[i] && i + 1 < ARRAY_SIZE(names); i++)
		names[i + 1] = commands[i]->group == COMMANDS_HIDDEN ? NULL : commands[i]->name;
	const char *near = nearest_name(entry->section, names, ARRAY_SIZE(names));

	if (near)
		return error_set(error, "%s:%u: unknown section [%s]; did you mean [%s]?",
				 file->shown, entry->line, entry->section, near);
	return error_set(error, "%s:%u: unknown section [%s]", file->shown, entry->line,
			 entry->section);
}

static int unknown_key(const struct file *file, const struct ini_entry *entry,
		       const struct command *command, struct error *error)
{
	struct names names = option_names(command);
	const char *near = nearest_name(entry->key, names.at, names.count);

	error_set(error, "%s:%u: %s has %s option '%s'", file->shown, entry->line,
		  command ? command->name : "no command", command ? "no" : "an", entry->key);
	if (near) {
		struct error first = *error;

		error_set(error, "%s; did you mean '%s'?", first.message, near);
	}
	return -1;
}

static int check_entry(const struct file *file, const struct ini_entry *entry, struct error *error)
{
	const struct command *command = command_find(entry->section);
	const struct option_row *row;

	if (!command && strcmp(entry->section, ALL) != 0)
		return unknown_section(file, entry, error);
	row = row_of(command, entry->key);
	if (!row)
		return unknown_key(file, entry, command, error);
	if (row->scope == OPTION_TYPED_ONLY)
		return error_set(error, "%s:%u: '%s' can only be given on the command line",
				 file->shown, entry->line, entry->key);
	if (row->scope == OPTION_NOT_IN_FOLDER && file->of_folder)
		return error_set(error,
				 "%s:%u: '%s' cannot be set in a folder's .heapgauge.ini: set it "
				 "on the command line, in a variable or in your own config.ini",
				 file->shown, entry->line, entry->key);
	return 0;
}

/* Returns false if the file is to be skipped: it does not exist, is not a regular file, or may not be accessed. */
static bool is_there(const struct file *file)
{
	struct stat status;

	if (stat(file->path, &status) < 0)
		return errno != ENOENT && errno != ENOTDIR && errno != EACCES;
	return S_ISREG(status.st_mode);
}

/* Returns false if the file is to be skipped: another user owns it or could have written it. */
static bool is_trusted(const struct file *file, const struct stat *status)
{
	const char *reason = NULL;

	if (file->of_folder && status->st_uid != geteuid() && status->st_uid != 0)
		reason = "it belongs to another user";
	else if (file->of_folder && (status->st_mode & S_IWOTH))
		reason = "it is writable by others";
	if (reason)
		cli_error("%s is not read: %s", file->shown, reason);
	return !reason;
}

static int file_load(struct file *file, struct error *error)
{
	AUTO(buffer_release) struct buffer text = BUFFER_INIT;
	struct stat status;

	if (!file->path || !is_there(file))
		return 0;
	AUTO_CLOSE int fd = file_open_regular(file->path, &status, error);

	if (fd >= 0 && !is_trusted(file, &status))
		return 0;
	if (fd < 0 || file_read_all(fd, FILE_MAX_BYTES, file->path, &text, error) < 0)
		return error_wrap(error, "cannot read the settings");
	if (ini_parse(&file->ini, buffer_span(&text), file->shown, &kept, error) < 0)
		return -1;
	for (size_t i = 0; i < file->ini.count; i++)
		if (check_entry(file, &file->ini.entries[i], error) < 0)
			return -1;
	return 0;
}

/* ---- the environment ---- */

/* Rejects a variable whose name is a likely typo of an option's. Other variables may belong to other programs. */
static int check_environment(struct error *error)
{
	struct names names = option_names(NULL);

	for (char **variable = environ; *variable; variable++) {
		size_t prefix = sizeof PREFIX - 1, length = strcspn(*variable, "=");
		char name[SETTINGS_VARIABLE_BYTES], known[SETTINGS_VARIABLE_BYTES];
		const char *nearest = NULL;
		bool is_known = false;

		if (strncmp(*variable, PREFIX, prefix) != 0 || length >= sizeof name)
			continue;
		snprintf(name, sizeof name, "%.*s", (int)length, *variable);
		for (size_t i = 0; i < names.count && !is_known; i++) {
			const struct option_row row = { .name = names.at[i] };
			size_t distance;

			if (!settings_variable(&row, known))
				continue;
			distance = edit_distance(name + prefix, known + prefix);
			is_known = distance == 0;
			if (distance <= (length - prefix < 8 ? 1 : 2))
				nearest = names.at[i];
		}
		if (is_known || !nearest || is_reserved(name + prefix))
			continue;
		settings_variable(&(struct option_row){ .name = nearest }, known);
		return error_set(error, "%s in the environment is not an option; did you mean %s?",
				 name, known);
	}
	return 0;
}

/* ---- which value applies ---- */

struct value_list {
	VECTOR(struct option_value) values;
};

static bool push(struct value_list *list, size_t row, const char *value, const char *origin,
		 struct error *error)
{
	struct option_value item = { row, value, origin };

	if (origin && vector_push(&list->values, item))
		return true;
	error_set(error, "out of memory");
	return false;
}

/* Collects all values for the row in a section. Returns their number, or -1. */
static int push_section(struct value_list *list, const struct file *file, const char *section,
			size_t row, const char *name, struct error *error)
{
	int count = 0;

	for (size_t i = 0; i < file->ini.count; i++) {
		const struct ini_entry *entry = &file->ini.entries[i];

		if (strcmp(entry->section, section) != 0 || strcmp(entry->key, name) != 0)
			continue;
		if (!push(list, row, entry->value,
			  arena_printf(&kept, "%s:%u", file->shown, entry->line), error))
			return -1;
		count++;
	}
	return count;
}

static int push_row(struct value_list *list, const struct options *o, size_t index,
		    const struct file *files, size_t file_count, struct error *error)
{
	const struct option_row *row = options_row(o, index);
	char variable[SETTINGS_VARIABLE_BYTES];
	const char *value;

	if (!row->name || row->scope == OPTION_TYPED_ONLY)
		return 0;
	value = settings_variable(row, variable) ? getenv(variable) : NULL;
	if (value && *value)
		return push(list, index, value, arena_strdup(&kept, variable), error) ? 0 : -1;
	for (size_t i = 0; i < file_count; i++) {
		int found = push_section(list, &files[i], o->argv[0], index, row->name, error);

		if (found == 0)
			found = push_section(list, &files[i], ALL, index, row->name, error);
		if (found != 0)
			return found < 0 ? -1 : 0;
	}
	return 0;
}

static bool was_given(const struct options *o, size_t index)
{
	return index < o->row_count ? o->given >> index & 1
				    : o->common_given >> (index - o->row_count) & 1;
}

int settings_for(struct options *o, struct error *error)
{
	AUTO_FREE char *user = user_file();
	struct file files[] = {
		{ .path = SETTINGS_FOLDER_FILE, .shown = SETTINGS_FOLDER_FILE, .of_folder = true },
		{ .path = user, .shown = user },
	};
	struct value_list list = { 0 };
	int status = check_environment(error);

	for (size_t i = 0; i < ARRAY_SIZE(files) && status == 0; i++)
		status = file_load(&files[i], error);
	for (size_t i = 0; i < o->row_count + common_row_count && status == 0; i++)
		if (!was_given(o, i))
			status = push_row(&list, o, i, files, ARRAY_SIZE(files), error);
	if (status == 0 && list.values.count) {
		o->settings = arena_copy(&kept, list.values.at,
					 list.values.count * sizeof *list.values.at);
		o->setting_count = o->settings ? list.values.count : 0;
		if (!o->settings)
			status = error_set(error, "out of memory");
	}
	vector_release(&list.values);
	return status;
}
