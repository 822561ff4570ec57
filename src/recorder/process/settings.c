/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the settings. The environment of a privileged program is not trusted: it is not even read.
 *
 * Owns: the settings, which a forked child inherits. */
#include "recorder/process/settings.h"

#include "base/checked.h"
#include "recorder/process/exec.h"
#include "recorder/sampling/sampler.h"
#include "recorder/sys.h"
#include "recorder/text.h"

enum { MILLIONTHS_OF_PERCENT = 10000 };

struct live_settings settings;
bool settings_of_collector, settings_keep;
uint32_t settings_unapplied;
uint64_t settings_every_ms;

static void count_unapplied(bool is_valid)
{
	settings_unapplied += !is_valid;
}

static uint64_t read_number(const char **text)
{
	uint64_t value = 0;

	for (; **text >= '0' && **text <= '9'; ++*text)
		value = saturating_add(saturating_mul(value, 10), (uint64_t)(**text - '0'));
	return value;
}

static bool skip_letter(const char **text, char letter)
{
	bool there = (**text | 32) == letter;

	*text += there;
	return there;
}

/* Reads "64MiB", "64M", "64MB", "512B", "65536": as on the command line, but without fractions. */
static uint64_t read_size(const char **text)
{
	static const char letters[] = "kmgt";
	uint64_t value = read_number(text), base = 1024;
	unsigned powers = 0;

	for (unsigned i = 0; letters[i] && powers == 0; i++)
		powers = skip_letter(text, letters[i]) ? i + 1 : 0;
	if (powers > 0 && ((*text)[0] | 32) == 'i' && ((*text)[1] | 32) == 'b')
		*text += 2;
	else if (skip_letter(text, 'b'))
		base = 1000;
	for (; powers > 0; powers--)
		value = saturating_mul(value, base);
	return value;
}

/* Returns 0 if the text is not a size. */
static uint64_t size_of(const char *text)
{
	uint64_t size = read_size(&text);

	return *text == 0 ? size : 0;
}

/* Reads "0.5%". Returns 0 if the text is not a share. */
static uint64_t read_millionths(const char **text)
{
	uint64_t unit = MILLIONTHS_OF_PERCENT, millionths;

	millionths = saturating_mul(read_number(text), unit);
	if (**text == '.')
		++*text;
	for (; **text >= '0' && **text <= '9'; ++*text)
		millionths = saturating_add(millionths, (uint64_t)(**text - '0') * (unit /= 10));
	if (**text != '%')
		return 0;
	++*text;
	return millionths;
}

static bool ends_part(const char *text)
{
	return *text == 0 || *text == ',';
}

/* Takes one part of the budget, and returns its end. */
static const char *take_budget_part(const char *text)
{
	const char *share_end = text, *size_end = text;
	uint64_t millionths = read_millionths(&share_end), bytes = read_size(&size_end);

	if (millionths > 0 && ends_part(share_end))
		settings.cpu_millionths = MIN(millionths, (uint64_t)UINT32_MAX);
	else if (bytes > 0 && ends_part(size_end))
		settings.budget_bytes = settings.budget_limit_bytes = bytes;
	else
		count_unapplied(false);
	while (!ends_part(text))
		text++;
	return text;
}

/* "16MiB", "0.5%", or both, separated by a comma. */
static void take_budget(const char *text)
{
	while (*text) {
		text = take_budget_part(text);
		text += *text == ',';
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
	uint64_t value = read_number(&text);

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (text_is(text, units[i].name))
			return saturating_mul(value, units[i].ms);
	}
	return 0;
}

/* Returns the number of the word in the list, or `none` for an empty text and for another word, which is counted. */
static uint32_t word_of(const char *text, const char *const *words, uint32_t count, uint32_t none)
{
	for (uint32_t i = 0; i < count; i++) {
		if (text_is(text, words[i]))
			return i;
	}
	count_unapplied(text[0] == 0);
	return none;
}

static uint32_t mode_of(const char *text)
{
	static const char *const words[] = {
		[LIVE_MODE_DORMANT] = "dormant",
		[LIVE_MODE_TAGS] = "tags",
		[LIVE_MODE_SAMPLE] = "sample",
		[LIVE_MODE_EXACT] = "exact",
	};

	return word_of(text, words, ARRAY_SIZE(words), LIVE_MODE_EXACT);
}

static bool flag_of(const char *variable)
{
	static const char *const words[] = { "0", "1", "no", "yes", "false", "true", "off", "on" };

	return word_of(exec_variable(variable), words, ARRAY_SIZE(words), 0) % 2;
}

/* True if Python's allocators are recorded. */
static bool domains_of(const char *text)
{
	enum { NATIVE, DOMAINS, MALLOC };
	static const char *const words[] = { "native", "domains", "malloc" };
	uint32_t word = word_of(text, words, ARRAY_SIZE(words), NATIVE);

	count_unapplied(word != MALLOC); /* sets PYTHONMALLOC, before the program starts */
	return word == DOMAINS;
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
	static const char *const of_record[] = { "HEAPGAUGE_ON", "HEAPGAUGE_WRITE_ON",
						 "HEAPGAUGE_OUTPUT" };
	const char *time_calls = exec_variable(LIVE_ENV_TIME_CALLS);
	const char *depth_text = exec_variable(LIVE_ENV_DEPTH);
	const char *interval_text = exec_variable(LIVE_ENV_INTERVAL);
	const char *every = exec_variable(LIVE_ENV_EVERY);
	uint64_t depth = size_of(depth_text), interval = size_of(interval_text);
	bool has_depth = depth >= 1 && depth <= LIVE_DEPTH_MAX;
	bool has_interval = interval >= SAMPLE_INTERVAL_MIN && interval <= SAMPLE_INTERVAL_MAX;

	settings_unapplied = 0;
	take_budget(exec_variable(LIVE_ENV_BUDGET));
	settings.mode = mode_of(exec_variable(LIVE_ENV_MODE));
	settings.interval = has_interval ? interval : SAMPLE_INTERVAL_DEFAULT;
	settings.depth_limit = has_depth ? depth : LIVE_DEPTH_DEFAULT;
	count_unapplied(has_interval || interval_text[0] == 0);
	count_unapplied(has_depth || depth_text[0] == 0);
	settings.follow_fork = 1;
	settings.python_domains = domains_of(exec_variable(LIVE_ENV_PYTHON));
	settings.python_tasks = flag_of(LIVE_ENV_PYTHON_TASKS);
	settings.free_sites = flag_of(LIVE_ENV_FREE_SITES);
	settings.core = flag_of(LIVE_ENV_CORE);
	settings.time_calls = MIN(size_of(time_calls), (uint64_t)LIVE_TIME_CALLS_MAX);
	count_unapplied(settings.time_calls > 0 || time_calls[0] == 0 || text_is(time_calls, "0"));
	settings_keep = flag_of(LIVE_ENV_KEEP);
	for (unsigned i = 0; i < ARRAY_SIZE(of_record); i++)
		settings_unapplied += exec_variable(of_record[i])[0] != 0;
	count_unapplied(take_text(settings.otel_labels, sizeof settings.otel_labels,
				  exec_variable(LIVE_ENV_OTEL_LABELS)));
	count_unapplied(
		take_text(settings.wraps, sizeof settings.wraps, exec_variable(LIVE_ENV_WRAP)));
	settings_every_ms = milliseconds_of(every);
	count_unapplied(settings_every_ms > 0 || every[0] == 0);
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
