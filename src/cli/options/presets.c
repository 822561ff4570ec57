/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TABLE of presets, one row each. The help starts with the options of the preset, written once in the row, so
 * that it always matches what the preset does. No state.
 */
#include "cli/options/presets.h"

#include <stddef.h>
#include <string.h>

#define PRESET(name, mode, python, help)                                                           \
	{                                                                                          \
		name, "--mode " mode " --python " python ": " help,                                \
		{                                                                                  \
			mode, python                                                               \
		}                                                                                  \
	}

const struct preset presets[] = {
	PRESET("python", "exact", "native",
	       "Python and native functions on one stack; objects in the interpreter's arenas are "
	       "not distinguished"),
	PRESET("python-only", "exact", "malloc",
	       "every block in one heap, as Python's allocator is malloc; see report --frames python"),
	PRESET("python-domains", "exact", "domains",
	       "every block of Python's own allocators, as pools"),
	PRESET("python-sampled", "sample", "native", "for production, at very low cost"),
	{ NULL, NULL, { NULL } },
};

const struct preset *preset_find(const char *name)
{
	const struct preset *preset = presets;

	while (preset->name && strcmp(name, preset->name) != 0)
		preset++;
	return preset;
}
