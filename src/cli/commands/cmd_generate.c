/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapgauge generate: generates man pages and completion from the rows of the commands. The build runs it once and
 * installs its output; users may run `source <(heapgauge generate bash)`. It is hidden from the help.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/generate/generate.h"
#include "util/cleanup.h"

enum value_kind value_kind_of(const struct option_row *row)
{
	if (!row->argument)
		return VALUE_NONE;
	if (row->choices.rows)
		return VALUE_WORDS;
	if (strcmp(row->argument, "FILE") == 0)
		return VALUE_FILE;
	if (strcmp(row->argument, "FOLDER") == 0)
		return VALUE_FOLDER;
	return strcmp(row->argument, "PID") == 0 ? VALUE_PID : VALUE_OTHER;
}

const struct option_row *row_walk_next(struct row_walk *walk)
{
	size_t own = walk->command->option_count;

	while (walk->at < own + common_row_count) {
		size_t at = walk->at++;
		const struct option_row *row =
			at < own ? &walk->command->options[at] : &common_rows[at - own];

		if (row->name)
			return row;
	}
	return NULL;
}

void put_escaped(FILE *out, const char *text, const char *special)
{
	for (; *text; text++) {
		if (strchr(special, *text))
			fputc('\\', out);
		fputc(*text, out);
	}
}

static const struct shell {
	const char *name;
	void (*write)(FILE *out);
	const char *file; /* relative to the folder of `generate all` */
} shells[] = {
	{ "bash", generate_bash, "bash/heapgauge" },
	{ "zsh", generate_zsh, "zsh/_heapgauge" },
	{ "fish", generate_fish, "fish/heapgauge.fish" },
};

/* Creates FOLDER/FILE and its parent folders. */
static FILE *create(const char *folder, const char *file, struct error *error)
{
	AUTO_FREE char *path = NULL;
	FILE *out;

	if (asprintf(&path, "%s/%s", folder, file) < 0) {
		path = NULL;
		error_set(error, "out of memory");
		return NULL;
	}
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (mkdir(path, 0777) < 0 && errno != EEXIST) {
			error_errno(error, "cannot make the folder %s", path);
			return NULL;
		}
		*slash = '/';
	}
	out = fopen(path, "we");
	if (!out)
		error_errno(error, "cannot write %s", path);
	return out;
}

static int finish(FILE *out, const char *file, struct error *error)
{
	int failed = ferror(out);

	return fclose(out) != 0 || failed ? error_errno(error, "cannot write %s", file) : 0;
}

static int write_page(const char *folder, const struct command *command, struct error *error)
{
	char file[96];
	FILE *out;

	snprintf(file, sizeof file, "man1/heapgauge%s%s.1", command ? "-" : "",
		 command ? command->name : "");
	out = create(folder, file, error);
	if (!out)
		return -1;
	generate_man(out, command);
	return finish(out, file, error);
}

static int write_all(const char *folder, struct error *error)
{
	if (write_page(folder, NULL, error) < 0)
		return -1;
	for (size_t i = 0; commands[i]; i++)
		if (commands[i]->group != COMMANDS_HIDDEN &&
		    write_page(folder, commands[i], error) < 0)
			return -1;
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++) {
		FILE *out = create(folder, shells[i].file, error);

		if (!out)
			return -1;
		shells[i].write(out);
		if (finish(out, shells[i].file, error) < 0)
			return -1;
	}
	return 0;
}

static int generate_one(const char *kind, const char *word)
{
	const struct command *command = word ? command_find(word) : NULL;

	for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
		if (strcmp(kind, shells[i].name) == 0) {
			shells[i].write(stdout);
			return CLI_OK;
		}
	if (strcmp(kind, "man") != 0)
		return cli_usage_error("generate", "there is nothing called '%s' to generate",
				       kind);
	if (word && !command)
		return cli_unknown_command(word);
	generate_man(stdout, command);
	return CLI_OK;
}

static int run_generate(int argc, char **argv)
{
	struct options options = options_over(NULL, 0, argc, argv);
	const char *words[2] = { 0 };
	struct error error = ERROR_INIT;
	const char *value;
	size_t count = 0;
	int got;

	while ((got = options_next(&options, &value, &error)) != OPTIONS_END) {
		if (got == OPTIONS_HELP)
			return command_show_help(&command_generate);
		if (got != OPTIONS_WORD || count == ARRAY_SIZE(words))
			return cli_usage_error("generate", "%s",
					       got == OPTIONS_WORD ? "too many arguments"
								   : error.message);
		words[count++] = value;
	}
	if (count == 0)
		return cli_usage_error("generate", "missing argument: man, bash, zsh, fish or all");
	if (strcmp(words[0], "all") != 0)
		return generate_one(words[0], words[1]);
	if (!words[1])
		return cli_usage_error("generate",
				       "missing FOLDER: 'generate all' writes into a folder");
	if (write_all(words[1], &error) < 0) {
		cli_error("%s", error.message);
		return CLI_FAILED;
	}
	return CLI_OK;
}

const struct command command_generate = {
	.name = "generate",
	.usage = "man [COMMAND] | bash | zsh | fish | all FOLDER",
	.help = "write man pages and shell completion",
	.run = run_generate,
	.group = COMMANDS_HIDDEN,
	.about = "Writes a man page, or completion for a shell, to stdout; or all of them into a "
		 "folder.",
};
