/* SPDX-License-Identifier: Apache-2.0 */
/* See record_values.h. The recorder silently ignores what it cannot use, so it is checked here, before the program runs. */
#include "cli/options/record_values.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "cli/options/options.h"
#include "format/live/live_handover.h"
#include "util/text/units.h"

int record_take_budget(struct collect_options *collect, const char *value, struct error *error)
{
	uint64_t bytes;
	char *end;
	double percent = strtod(value, &end);

	if (end != value && strcmp(end, "%") == 0) {
		if (!(percent > 0 && percent <= 100))
			return error_set(error,
					 "--budget takes more than 0%% and at most 100%%, not %s",
					 value);
		collect->cpu_millionths = (uint32_t)(percent * 1e4) + 1;
		return 0;
	}
	if (!units_parse_bytes(value, &bytes) || bytes == 0)
		return error_set(
			error,
			"--budget takes a size such as 64MiB, or a share such as 0.5%%, not %s",
			value);
	collect->budget_bytes = bytes;
	return 0;
}

int record_take_wait(struct collect_options *collect, const char *value, struct error *error)
{
	if (strcmp(value, "all") == 0)
		collect->wait_ns = COLLECT_WAIT_ALL;
	else if (!units_parse_duration(value, &collect->wait_ns))
		return error_set(error, "--wait takes a time such as 10s, or all, not %s", value);
	return 0;
}

int record_take_duration(struct collect_options *collect, const char *value, struct error *error)
{
	if (!units_parse_duration(value, &collect->duration_ns) || collect->duration_ns == 0)
		return error_set(error, "--duration takes a time such as 30s, not %s", value);
	return 0;
}

int record_take_otel_labels(struct collect_options *collect, const char *value, struct error *error)
{
	size_t keys = 0;

	for (const char *at = value; *at;) {
		size_t bytes = strcspn(at, ",");

		if (bytes == 0 || memchr(at, ';', bytes) || memchr(at, '=', bytes))
			return error_set(
				error, "--otel-labels takes keys such as http.route,tenant, not %s",
				value);
		keys++;
		at += bytes + (at[bytes] == ',');
	}
	if (keys == 0 || keys > LIVE_OTEL_KEYS || strlen(value) >= LIVE_OTEL_BYTES)
		return error_set(error, "--otel-labels takes 1 to %d keys of %d bytes in total",
				 LIVE_OTEL_KEYS, LIVE_OTEL_BYTES - 1);
	collect->otel_labels = value;
	return 0;
}

int record_take_time_calls(struct collect_options *collect, const char *value, struct error *error)
{
	int how = PR_TSC_ENABLE;

	if (options_number("time-calls", value, &collect->time_calls, error) < 0)
		return -1;
	if (collect->time_calls == 0 || collect->time_calls > LIVE_TIME_CALLS_MAX)
		return error_set(error, "--time-calls takes 1 to %d, not %s", LIVE_TIME_CALLS_MAX,
				 value);
	/* Programs inherit it. A kernel that does not know the request leaves it enabled. */
	if (prctl(PR_GET_TSC, &how) == 0 && how != PR_TSC_ENABLE)
		return error_set(error, "--time-calls reads the time-stamp counter, which is "
					"disabled here (prctl PR_SET_TSC)");
	return 0;
}

int record_take_only_exe(regex_t *regex, struct collect_options *collect, const char *value,
			 struct error *error)
{
	char why[120];

	if (collect->only_exe)
		regfree(regex);
	collect->only_exe = NULL;
	int status = regcomp(regex, value, REG_EXTENDED | REG_NOSUB);

	if (status != 0) {
		regerror(status, regex, why, sizeof why);
		return error_set(error, "--only-exe takes a regular expression, not '%s': %s",
				 value, why);
	}
	collect->only_exe = regex;
	return 0;
}
