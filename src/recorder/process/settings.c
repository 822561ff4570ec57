/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the settings. The environment of a privileged program is not trusted: it is not even read.
 *
 * Owns: the settings, which a forked child inherits. */
#include "recorder/process/settings.h"

#include "recorder/process/exec.h"
#include "recorder/process/exit_report.h"
#include "recorder/sampling/sampler.h"
#include "recorder/sys.h"
#include "recorder/text.h"

enum { MILLIONTHS_OF_PERCENT = 10000 };

struct live_settings settings;
bool settings_of_collector, settings_keep;
uint32_t settings_unapplied;
uint64_t settings_every_ms;

/* "64MiB", "64M", "512B", "65536": as on the command line, but without fractions. 0: invalid. */
static uint64_t size_of(const char *text)
{
	static const char units[] = "KMGT";
	uint64_t value = 0;

	for (; *text >= '0' && *text <= '9' && value < 1ull << 40; text++)
		value = value * 10 + (uint64_t)(*text - '0');
	for (unsigned i = 0; units[i]; i++) {
		if ((*text & ~32) == units[i])
			return value << 10 * (i + 1);
	}
	return *text == 0 || *text == ',' || *text == 'B' ? value : 0;
}

/* A value that is not understood is one that is not set, but reports say so. */
static void count_unapplied(const char *text, bool is_valid)
{
	settings_unapplied += text[0] != 0 && !is_valid;
}

/* "16MiB", "0.5%", or both, separated by a comma. */
static void take_budget(const char *text)
{
	while (*text) {
		uint64_t millionths = 0, unit = MILLIONTHS_OF_PERCENT;
		const char *at = text;

		for (; *at >= '0' && *at <= '9' && millionths < 1u << 30; at++)
			millionths =
				millionths * 10 + (uint64_t)(*at - '0') * MILLIONTHS_OF_PERCENT;
		if (*at == '.')
			at++;
		for (; *at >= '0' && *at <= '9'; at++)
			millionths += (uint64_t)(*at - '0') * (unit /= 10);
		if (*at == '%')
			settings.cpu_millionths = MIN(millionths, (uint64_t)UINT32_MAX);
		else
			settings.budget_bytes = settings.budget_limit_bytes = size_of(text);
		count_unapplied(text, *at == '%' ? millionths > 0 : size_of(text) > 0);
		while (*at && *at != ',')
			at++;
		text = *at ? at + 1 : at;
	}
}

/* "250ms", "10s", "5min", "1h": as on the command line, but without fractions. 0: invalid. */
static uint64_t milliseconds_of(const char *text)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} units[] = {
		{ "ms", 1 }, { "s", 1000 }, { "min", 60000 }, { "m", 60000 }, { "h", 3600000 }
	};
	uint64_t value = 0;

	for (; *text >= '0' && *text <= '9' && value < 1ull << 32; text++)
		value = value * 10 + (uint64_t)(*text - '0');
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (text_begins(text, units[i].name) && text[__builtin_strlen(units[i].name)] == 0)
			return value * units[i].ms;
	}
	return 0;
}

/* The first letter suffices: all differ. */
static uint32_t mode_of(const char *name)
{
	switch (name[0]) {
	case 'd':
		return LIVE_MODE_DORMANT;
	case 't':
		return LIVE_MODE_TAGS;
	case 's':
		return LIVE_MODE_SAMPLE;
	default:
		count_unapplied(name, name[0] == 'e');
		return LIVE_MODE_EXACT;
	}
}

/* False, and nothing copied, if the text is too long. */
static bool take_text(char *to, size_t room, const char *text)
{
	size_t bytes = __builtin_strlen(text);

	if (bytes >= room)
		return false;
	__builtin_memcpy(to, text, bytes + 1);
	return true;
}

static void read_environment(void)
{
	/* These need a collector. */
	static const char *const of_record[] = { "HEAPGAUGE_ON", "HEAPGAUGE_WRITE_ON" };
	const char *python = exec_variable(LIVE_ENV_PYTHON);
	const char *time_calls = exec_variable(LIVE_ENV_TIME_CALLS);
	uint64_t depth = size_of(exec_variable(LIVE_ENV_DEPTH));
	uint64_t interval = size_of(exec_variable(LIVE_ENV_INTERVAL));
	bool has_depth = depth >= 1 && depth <= LIVE_DEPTH_MAX;
	bool has_interval = interval >= SAMPLE_INTERVAL_MIN && interval <= SAMPLE_INTERVAL_MAX;

	settings_unapplied = python[0] == 'm'; /* sets PYTHONMALLOC, before the program starts */
	take_budget(exec_variable(LIVE_ENV_BUDGET));
	settings.mode = mode_of(exec_variable(LIVE_ENV_MODE));
	settings.interval = has_interval ? interval : SAMPLE_INTERVAL_DEFAULT;
	settings.depth_limit = has_depth ? depth : LIVE_DEPTH_DEFAULT;
	count_unapplied(exec_variable(LIVE_ENV_INTERVAL), has_interval);
	count_unapplied(exec_variable(LIVE_ENV_DEPTH), has_depth);
	settings.follow_fork = 1;
	settings.python_domains = python[0] == 'd';
	settings.python_tasks = exec_variable(LIVE_ENV_PYTHON_TASKS)[0] == '1';
	settings.free_sites = exec_variable(LIVE_ENV_FREE_SITES)[0] == '1';
	settings.core = exec_variable(LIVE_ENV_CORE)[0] == '1';
	settings.time_calls = MIN(size_of(time_calls), (uint64_t)LIVE_TIME_CALLS_MAX);
	count_unapplied(time_calls, settings.time_calls > 0 || time_calls[0] == '0');
	settings_keep = exec_variable(LIVE_ENV_KEEP)[0] == '1';
	for (unsigned i = 0; i < ARRAY_SIZE(of_record); i++)
		settings_unapplied += exec_variable(of_record[i])[0] != 0;
	take_text(settings.otel_labels, sizeof settings.otel_labels,
		  exec_variable(LIVE_ENV_OTEL_LABELS));
	take_text(settings.wraps, sizeof settings.wraps, exec_variable(LIVE_ENV_WRAP));
	settings_every_ms = milliseconds_of(exec_variable(LIVE_ENV_EVERY));
	count_unapplied(exec_variable(LIVE_ENV_EVERY), settings_every_ms > 0);
	exit_report_start();
	if (!take_text(settings.folder, sizeof settings.folder, exec_variable(LIVE_ENV_DIR)))
		settings.folder[0] = '?'; /* not an absolute path: not used, and reported */
}

bool settings_read(void)
{
	if (sys_auxiliary(AT_SECURE) != 0 || exec_is_disabled())
		return false;
	const char *handover = exec_handover();

	settings_of_collector = handover != NULL;
	if (!settings_of_collector) {
		read_environment();
		return true;
	}
	settings_keep = true; /* the collector removes it */
	return live_settings_read(handover, &settings);
}
