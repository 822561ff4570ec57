/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats and parses quantities with integer arithmetic: the result must not depend on the locale,
 * and must be right for 2^64 - 1. Rounds half up before the unit is chosen, so that 1,048,575 bytes
 * are "1.0 MiB" and not "1024.0 KiB". Pure.
 */
#include "util/text/units.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/checked.h"

/* value in tenths of unit, rounded half up; exact for all 64-bit values. */
static uint64_t tenths_of(uint64_t value, uint64_t unit)
{
	uint64_t whole = value / unit, rest = value % unit;
	__extension__ unsigned __int128 tenths = ((unsigned __int128)rest * 10 + unit / 2) / unit;

	return whole * 10 + (uint64_t)tenths;
}

/* One decimal in the largest unit that gives at least 1.0; plain below the first. */
static struct units scaled(uint64_t value, uint64_t step, const char *plain,
			   const char *const *names, size_t count)
{
	struct units u;
	uint64_t unit = step;
	size_t i = 0;

	if (value < step) {
		snprintf(u.text, sizeof u.text, "%" PRIu64 "%s", value, plain);
		return u;
	}
	while (i + 1 < count && tenths_of(value, unit) >= step * 10) {
		unit *= step;
		i++;
	}
	snprintf(u.text, sizeof u.text, "%" PRIu64 ".%" PRIu64 " %s", tenths_of(value, unit) / 10,
		 tenths_of(value, unit) % 10, names[i]);
	return u;
}

struct units units_bytes(uint64_t bytes)
{
	static const char *const names[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };

	return scaled(bytes, 1024, " B", names, ARRAY_SIZE(names));
}

struct units units_bytes_change(int64_t bytes)
{
	uint64_t size = magnitude(bytes);
	struct units plain = units_bytes(size), u;

	snprintf(u.text, sizeof u.text, "%s%.30s",
		 bytes > 0   ? "+"
		 : bytes < 0 ? "-"
			     : "",
		 plain.text);
	return u;
}

struct units units_count(uint64_t count)
{
	struct units u;
	char digits[24];
	size_t length = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, count);
	char *out = u.text;

	for (size_t i = 0; i < length; i++) {
		if (i > 0 && (length - i) % 3 == 0)
			*out++ = ',';
		*out++ = digits[i];
	}
	*out = '\0';
	return u;
}

struct units units_count_short(uint64_t count)
{
	static const char *const names[] = { "k", "M", "G", "T", "P", "E" };

	return scaled(count, 1000, "", names, ARRAY_SIZE(names));
}

struct units units_duration(uint64_t ns)
{
	static const char *const names[] = { "us", "ms", "s" };
	const uint64_t second = 1000000000;
	uint64_t seconds = ns / second + (ns % second >= second / 2);
	struct units u;

	if (tenths_of(ns, second) < 600)
		return scaled(ns, 1000, " ns", names, ARRAY_SIZE(names));
	if (seconds < 3600)
		snprintf(u.text, sizeof u.text, "%" PRIu64 " min %02" PRIu64 " s", seconds / 60,
			 seconds % 60);
	else if (seconds < 86400)
		snprintf(u.text, sizeof u.text, "%" PRIu64 " h %02" PRIu64 " min", seconds / 3600,
			 seconds / 60 % 60);
	else
		snprintf(u.text, sizeof u.text, "%" PRIu64 " d %02" PRIu64 " h", seconds / 86400,
			 seconds / 3600 % 24);
	return u;
}

struct units units_percent(uint64_t part, uint64_t whole)
{
	struct units u = { "-" };
	__extension__ unsigned __int128 tenths;

	if (whole == 0)
		return u;
	tenths = ((unsigned __int128)part * 1000 + whole / 2) / whole;
	snprintf(u.text, sizeof u.text, "%" PRIu64 ".%u %%", (uint64_t)(tenths / 10),
		 (unsigned)(tenths % 10));
	return u;
}

/* The multiplier of a suffix, or 0. */
static uint64_t multiplier(const char *suffix)
{
	static const char letters[] = "KMGTPE";
	const char *letter;
	uint64_t base, result = 1;

	if (*suffix == '\0' || strcasecmp(suffix, "B") == 0)
		return 1;
	letter = strchr(letters, toupper((unsigned char)*suffix));
	if (!letter)
		return 0;
	if (suffix[1] == '\0' || strcasecmp(suffix + 1, "iB") == 0)
		base = 1024;
	else if (strcasecmp(suffix + 1, "B") == 0)
		base = 1000;
	else
		return 0;
	for (ptrdiff_t i = 0; i <= letter - letters; i++)
		result *= base;
	return result;
}

bool units_parse_bytes(const char *text, uint64_t *ret_bytes)
{
	uint64_t whole = 0, numerator = 0, denominator = 1, unit, bytes;
	const char *at = text;
	__extension__ unsigned __int128 fraction;

	if (!isdigit((unsigned char)*at))
		return false;
	for (; isdigit((unsigned char)*at); at++)
		if (!checked_mul(whole, 10u, &whole) ||
		    !checked_add(whole, (unsigned)(*at - '0'), &whole))
			return false;
	if (*at == '.' && !isdigit((unsigned char)at[1]))
		return false;
	if (*at == '.')
		/* Digits beyond 18 are less than a byte even in EiB. */
		for (at++; isdigit((unsigned char)*at); at++)
			if (denominator < 1000000000000000000u) {
				numerator = numerator * 10 + (unsigned)(*at - '0');
				denominator *= 10;
			}
	if (*at == ' ')
		at++;
	unit = multiplier(at);
	if (unit == 0 || !checked_mul(whole, unit, &bytes))
		return false;
	fraction = (unsigned __int128)numerator * unit / denominator;
	if (!checked_add(bytes, (uint64_t)fraction, &bytes))
		return false;
	*ret_bytes = bytes;
	return true;
}

struct unit_word {
	const char *name;
	double factor;
};

/* Parses a number followed by a unit. */
static bool parse_scaled(const char *text, const struct unit_word *units, size_t count,
			 uint64_t *ret)
{
	char *end;

	errno = 0;
	double value = strtod(text, &end);

	if (end == text || errno || !isfinite(value) || value < 0)
		return false;
	while (*end == ' ')
		end++;
	for (size_t i = 0; i < count; i++)
		if (strcmp(end, units[i].name) == 0) {
			if (value * units[i].factor > 9e18)
				return false;
			*ret = (uint64_t)(value * units[i].factor + 0.5);
			return true;
		}
	return false;
}

bool units_parse_duration(const char *text, uint64_t *ret_ns)
{
	static const struct unit_word units[] = { { "", 1e9 },	  { "s", 1e9 },	   { "ms", 1e6 },
						  { "us", 1e3 },  { "min", 6e10 }, { "m", 6e10 },
						  { "h", 3.6e12 } };

	return parse_scaled(text, units, ARRAY_SIZE(units), ret_ns);
}

bool units_parse_count(const char *text, uint64_t *ret_count)
{
	static const struct unit_word units[] = {
		{ "", 1 }, { "k", 1e3 }, { "K", 1e3 }, { "M", 1e6 }, { "G", 1e9 }
	};

	return parse_scaled(text, units, ARRAY_SIZE(units), ret_count);
}
