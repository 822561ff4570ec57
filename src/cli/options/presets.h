/* SPDX-License-Identifier: Apache-2.0 */
/* The presets of `record --preset`: names for options that belong together. */
#ifndef CLI_OPTIONS_PRESETS_H
#define CLI_OPTIONS_PRESETS_H

enum preset_option { PRESET_MODE, PRESET_PYTHON, PRESET_OPTIONS };

/* A preset sets all of these options, so that it means the same whatever the settings files say. */
struct preset {
	const char *name, *help;
	const char *values[PRESET_OPTIONS];
};
/* Ends with a NULL name. */
extern const struct preset presets[];

/* Pre: a preset of that name exists. */
const struct preset *preset_find(const char *name);

#endif
