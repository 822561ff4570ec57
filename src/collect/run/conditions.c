/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is to be said of conditions before anything runs: one that this kernel can never judge is refused; one that cannot come
 * true as things are, or is judged by estimates, is reported.
 *
 * No state. Called once, before the loop, in its thread.
 */
#include <stdio.h>

#include "collect/run/collector.h"
#include "util/units.h"

static void report_estimates(const struct collect_options *options, uint64_t interval)
{
	static const enum trigger_kind kinds[] = { TRIGGER_LIVE, TRIGGER_SITE, TRIGGER_GROWTH };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const struct trigger *trigger = triggers_find(&options->triggers, kinds[i]);
		char sentence[256];

		if (!trigger)
			continue;
		snprintf(sentence, sizeof sentence,
			 "%s is judged by estimates: one block in %s is recorded", trigger->text,
			 units_bytes(interval).text);
		options->say(options->context, false, sentence);
		return; /* once is enough */
	}
}

int collector_check_triggers(const struct collect_options *options, const struct cgroups *cgroups,
			     pid_t pid, uint64_t interval, struct error *error)
{
	const struct triggers *triggers = &options->triggers;
	const struct trigger *pressure = triggers_find(triggers, TRIGGER_PRESSURE);
	const struct trigger *group = triggers_find(triggers, TRIGGER_CGROUP);
	char sentence[256];

	if (!pressure)
		pressure = triggers_find(triggers, TRIGGER_PRESSURE_FULL);
	if (pressure && !cgroups_pressure(cgroups, pid).known)
		return error_set(
			error,
			"%s cannot be judged here: this kernel keeps no account of pressure, "
			"there is no /proc/pressure/memory (boot with psi=1, if it has that)",
			pressure->text);
	if (!options->say)
		return 0;
	if (group && cgroups_memory(cgroups, pid).limit_bytes == 0) {
		snprintf(sentence, sizeof sentence,
			 "%s will not come true as things are: no control group limits the memory",
			 group->text);
		options->say(options->context, false, sentence);
	}
	if (interval)
		report_estimates(options, interval);
	return 0;
}
