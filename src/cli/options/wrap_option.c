/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks what the user wants wrapped before the program runs: the recorder silently ignores what it cannot parse.
 * Rejects functions that the recorder interposes itself, since their blocks are already recorded.
 */
#include "cli/options/wrap_option.h"

#include <stdio.h>
#include <string.h>

#include "base/compiler.h"

static bool is_ours(struct wrap_text name)
{
	static const char *const ours[] = { "malloc",	"free",		  "calloc",
					    "realloc",	"reallocarray",	  "aligned_alloc",
					    "memalign", "posix_memalign", "valloc",
					    "pvalloc" };

	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		if (strlen(ours[i]) == name.bytes && memcmp(ours[i], name.at, name.bytes) == 0)
			return true;
	return false;
}

static int check(const char *text, const char *value, struct error *error)
{
	struct wraps wraps = { .text = text };
	struct wrap_item item;
	size_t count = 0;

	while (wraps_next(&wraps, &item)) {
		if (!item.rest.bytes && is_ours(item.name))
			return error_set(error,
					 "--wrap: %.*s is already recorded and needs no wrapping",
					 (int)item.name.bytes, item.name.at);
		if (++count > WRAPS_MAX)
			return error_set(error, "--wrap: more than %d functions", WRAPS_MAX);
	}
	if (wraps.wrong)
		return error_set(
			error,
			"--wrap takes KIND:FUNCTION pairs such as malloc:my_alloc,free:my_free, "
			"not %s; KIND is malloc, free, calloc, realloc, reallocarray, "
			"aligned_alloc, memalign, posix_memalign, valloc, pvalloc, strdup or strndup",
			value);
	return 0;
}

int wrap_option_add(struct wrap_option *option, const char *value, bool is_prefix,
		    struct error *error)
{
	size_t used = strlen(option->text);
	int more;

	if (*value == '\0' || strpbrk(value, is_prefix ? "*;,:=" : "*;"))
		return is_prefix ? error_set(error,
					     "--wrap-prefix takes a prefix such as my_, not %s",
					     value)
				 : check("?", value, error);
	more = snprintf(option->text + used, sizeof option->text - used, "%s%s%s", used ? ";" : "",
			value, is_prefix ? "*" : "");
	if (more < 0 || (size_t)more >= sizeof option->text - used)
		return error_set(error, "--wrap: more than %d bytes of names", WRAPS_TEXT_MAX);
	return check(option->text, value, error);
}
