/* SPDX-License-Identifier: Apache-2.0 */
/* The rule for own code. Pure functions of texts in the recording; any thread. */
#include "model/frames/own_code.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "util/files.h"

enum { REGEX_MAX_BYTES = 256 };

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* Repetition counts make regcomp take memory, back-references make regexec take time, without a bound. */
static bool is_bounded(const char *regex)
{
	if (strlen(regex) > REGEX_MAX_BYTES)
		return false;
	for (const char *at = regex; *at; at++)
		if (*at == '{' || (*at == '\\' && isdigit((unsigned char)at[1])))
			return false;
	return true;
}

static int parse_regex(const char *regex, struct own_rule *ret, struct error *error)
{
	char why[120];

	if (!is_bounded(regex))
		return error_set(error,
				 "'%s' cannot say what is own code: at most %d characters, without "
				 "{} and back-references",
				 regex, REGEX_MAX_BYTES);
	int status = regcomp(&ret->regex, regex, REG_EXTENDED | REG_NOSUB);

	if (status == 0) {
		ret->kind = OWN_REGEX;
		return 0;
	}
	regerror(status, &ret->regex, why, sizeof why);
	return error_set(error, "'%s' is not a regular expression: %s", regex, why);
}

int own_rule_parse(const char *text, struct own_rule *ret, struct error *error)
{
	struct own_rule rule = { .kind = OWN_MODULES };
	const char *of = strchr(text, ':');

	*ret = rule;
	if (!*text || strcmp(text, "modules") == 0)
		return 0;
	if (strcmp(text, "off") == 0) {
		ret->kind = OWN_OFF;
		return 0;
	}
	bool is_root = begins(text, "root:/"), is_regex = begins(text, "regex:");

	if (!of || (!is_root && !is_regex))
		return error_set(error, "'%s' is not a rule for own code", text);
	of++;
	if (is_regex && parse_regex(of, &rule, error) < 0)
		return -1;
	if (is_root)
		rule.kind = OWN_ROOT;
	if (asprintf(&rule.text, "%s%s", of, is_root && of[strlen(of) - 1] != '/' ? "/" : "") < 0) {
		if (is_regex)
			regfree(&rule.regex);
		return error_set(error, "out of memory");
	}
	*ret = rule;
	return 0;
}

void own_rule_release(struct own_rule *rule)
{
	if (rule->kind == OWN_REGEX)
		regfree(&rule->regex);
	free(rule->text);
	*rule = (struct own_rule){ .kind = OWN_MODULES };
}

/* Past so many folders; NULL: it has fewer. */
static const char *past_folders(const char *path, size_t count)
{
	for (; path && count > 0; count--) {
		path = strchr(path, '/');
		path += path != NULL;
	}
	return path;
}

struct span installed_package(const char *file)
{
	/* The package is the last of so many folders. */
	static const struct {
		const char *below;
		size_t folders;
	} places[] = { { "/site-packages/", 1 },
		       { "/dist-packages/", 1 },
		       { "/registry/src/", 2 },
		       { "/git/checkouts/", 2 } };

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		const char *at = strstr(file, places[i].below);
		const char *end =
			at ? past_folders(at + strlen(places[i].below), places[i].folders) : NULL;

		if (end)
			return span_of(file, (size_t)(end - file));
	}
	return span_of(file, 0);
}

bool is_distribution_path(const char *path)
{
	static const char *const folders[] = { "/usr/", "/lib/",       "/lib32/", "/lib64/",
					       "/bin/", "/sbin/",      "/snap/",  "/nix/store/",
					       "/etc/", "/gnu/store/", "[" };

	if (begins(path, "/usr/local/") || begins(path, "/usr/src/"))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (begins(path, folders[i]))
			return true;
	return path[0] == '\0';
}

/* Sources of installed packages, wherever they are: a virtual environment is often inside the project. */
static bool is_library_source(const char *file)
{
	static const char *const parts[] = { "/site-packages/", "/dist-packages/", "/.cargo/",
					     "/registry/src/",	"/rustc/",	   "/rustlib/",
					     "/rust/deps/",	"/git/checkouts/", "/lib/python3.",
					     "/go/pkg/mod/",	"/node_modules/" };

	if (begins(file, "<frozen ") || is_distribution_path(file))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (strstr(file, parts[i]))
			return true;
	return false;
}

/* Where projects keep copies of other projects' sources. */
static bool is_third_party_folder(const char *name, size_t size)
{
	static const char *const names[] = { "third_party", "third-party", "thirdparty",
					     "3rdparty",    "vendor",	   "vendored",
					     "external",    "externals",   "extern",
					     "deps",	    "subprojects", "_deps" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strlen(names[i]) == size && memcmp(name, names[i], size) == 0)
			return true;
	return false;
}

/* The part of the path below the folders that it shares with the program; NULL: it shares none. */
static const char *below_shared(const char *file, const char *exe)
{
	size_t shared = 0;

	for (size_t i = 0; file[i] && file[i] == exe[i]; i++)
		if (file[i] == '/')
			shared = i + 1;
	return shared > 1 ? file + shared : NULL;
}

/* Only folders inside of the project count: it may be in one itself. */
static bool is_third_party(const struct own_rule *rule, const struct own_frame *f)
{
	bool has_root = rule->kind == OWN_ROOT && begins(f->file, rule->text);
	const char *at = has_root ? f->file + strlen(rule->text) : below_shared(f->file, f->exe);

	for (const char *end; at && (end = strchr(at, '/')) != NULL; at = end + 1)
		if (is_third_party_folder(at, (size_t)(end - at)))
			return true;
	return false;
}

bool is_python_interpreter(const char *path)
{
	const char *name = path_base(path);

	if (strncmp(name, "libpython", 9) == 0)
		return true;
	if (strncmp(name, "python", 6) != 0)
		return false;
	name += 6;
	return name[strspn(name, "0123456789.td")] == '\0';
}

static bool is_python(const struct own_frame *f)
{
	return f->language && strcmp(f->language, "python") == 0;
}

/* Installed by a distribution or not, it is not the project. */
static bool is_interpreter(const char *exe)
{
	return begins(path_base(exe), "python");
}

/* The interpreter, its library and its extension modules. */
static bool is_of_interpreter(const struct own_frame *f)
{
	const char *base = path_base(f->module);

	return is_interpreter(f->exe) &&
	       (strcmp(f->module, f->exe) == 0 || begins(base, "python") ||
		begins(base, "libpython") || strstr(f->module, "/lib/python3."));
}

/* Without a rule that names the project. The module of a Python function is its file. */
static bool is_of_own_module(const struct own_frame *f)
{
	if (is_python(f))
		return true;
	return !is_of_interpreter(f) &&
	       (!is_distribution_path(f->module) || strcmp(f->module, f->exe) == 0);
}

static bool is_below_root(const char *root, const struct own_frame *f)
{
	/* "<string>" is a program on the command line. */
	if (f->file && (f->file[0] == '/' || f->file[0] == '<'))
		return begins(f->file, root) || f->file[0] == '<';
	return begins(f->module, root);
}

bool own_rule_covers(const struct own_rule *rule, const struct own_frame *f)
{
	if (rule->kind == OWN_OFF)
		return false;
	if (rule->kind == OWN_REGEX)
		return regexec(&rule->regex, f->function, 0, NULL, 0) == 0 ||
		       (f->file && regexec(&rule->regex, f->file, 0, NULL, 0) == 0) ||
		       regexec(&rule->regex, f->module, 0, NULL, 0) == 0;
	/* A file without a folder is known only by the module that it is in. */
	if (f->file && (f->file[0] == '/' || f->file[0] == '<') &&
	    (is_library_source(f->file) || is_third_party(rule, f)))
		return false;
	/* Of a tree of processes, programs from elsewhere have no sources in the project. */
	return rule->kind == OWN_ROOT && begins(f->exe, rule->text) && !is_interpreter(f->exe)
		       ? is_below_root(rule->text, f)
		       : is_of_own_module(f);
}

char *own_rule_describe(const struct own_rule *rule)
{
	char *text = NULL;
	int status = -1;

	switch (rule->kind) {
	case OWN_ROOT:
		status = asprintf(&text, "source files below %s", rule->text);
		break;
	case OWN_REGEX:
		status = asprintf(&text, "frames that match %s", rule->text);
		break;
	case OWN_OFF:
		return strdup("none: --no-own");
	case OWN_MODULES:
		return strdup("the program, and modules that no distribution brought");
	}
	return status < 0 ? NULL : text;
}
