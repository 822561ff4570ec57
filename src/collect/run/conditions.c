/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the conditions before the program runs. A condition that this kernel can never evaluate is rejected; one that cannot
 * become true in this environment, or is evaluated on estimates, is reported.
 *
 * No state. Called once, before the loop, in its thread.
 */
#include <stdio.h>

#include "collect/kernel/stack_guards.h"
#include "collect/run/collector.h"
#include "util/text/units.h"

static void report_estimates(const struct collect_options *options, uint64_t interval)
{
	static const enum trigger_kind kinds[] = { TRIGGER_LIVE, TRIGGER_SITE, TRIGGER_GROWTH };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const struct trigger *trigger = triggers_find(&options->triggers, kinds[i]);
		char sentence[256];

		if (!trigger)
			continue;
		snprintf(sentence, sizeof sentence,
			 "%s is checked against estimates: one block per %s is recorded",
			 trigger->text, units_bytes(interval).text);
		options->say(options->context, false, sentence);
		return; /* one report is enough */
	}
}

static void report_stacks(const struct collect_options *options)
{
	const struct trigger *trigger = triggers_find(&options->triggers, TRIGGER_STACK);
	char sentence[256];

	if (!trigger || !stack_guards_are_hidden())
		return;
	snprintf(sentence, sizeof sentence,
		 "%s cannot become true here for threads of a program with glibc 2.42 or newer: "
		 "only Linux 6.16 tells where their stacks begin",
		 trigger->text);
	options->say(options->context, false, sentence);
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
			"%s cannot be checked here: this kernel has no /proc/pressure/memory (boot "
			"with psi=1 if it supports that)",
			pressure->text);
	if (!options->say)
		return 0;
	if (group && cgroups_memory(cgroups, pid).limit_bytes == 0) {
		snprintf(sentence, sizeof sentence,
			 "%s cannot become true here: no control group limits the memory",
			 group->text);
		options->say(options->context, false, sentence);
	}
	report_stacks(options);
	if (interval)
		report_estimates(options, interval);
	return 0;
}
