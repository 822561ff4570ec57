/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings and tickets as text: hexadecimal numbers, each followed by a comma, then socket, folder, ranks, OpenTelemetry keys and the wrapped
 * functions, which may contain commas and so come last.
 *
 * Compiled into the recorder too: no libc, no allocation. Pure functions, any thread.
 */
#include "format/live/live_handover.h"

#include "base/compiler.h"

static const char digits[] = "0123456789abcdef";

static char *write_digits(char *to, uint64_t value, int count)
{
	for (int shift = 4 * (count - 1); shift >= 0; shift -= 4)
		*to++ = digits[value >> shift & 15];
	return to;
}

/* NULL: no digit, or more than 64 bits. */
static const char *read_digits(const char *from, int most, uint64_t *ret)
{
	const char *at = from;
	uint64_t value = 0;

	for (; at - from < most; at++) {
		if (*at >= '0' && *at <= '9')
			value = value << 4 | (uint64_t)(*at - '0');
		else if (*at >= 'a' && *at <= 'f')
			value = value << 4 | (uint64_t)(*at - 'a' + 10);
		else
			break;
	}
	*ret = value;
	return at > from ? at : NULL;
}

static char *write_number(char *to, uint64_t value)
{
	int count = 1;

	while (count < 16 && value >> 4 * count != 0)
		count++;
	return write_digits(to, value, count);
}

void live_ticket_write(char to[static LIVE_TICKET_TEXT], struct live_ticket ticket)
{
	write_digits(write_digits(to, ticket.profile, 16), ticket.serial, 8);
}

bool live_ticket_read(const char *from, struct live_ticket *ret)
{
	uint64_t profile = 0, serial = 0;

	if (read_digits(from, 16, &profile) != from + 16 ||
	    read_digits(from + 16, 8, &serial) != from + LIVE_TICKET_TEXT)
		return false;
	*ret = (struct live_ticket){ .profile = profile, .serial = (uint32_t)serial };
	return true;
}

/* The numbers, in the order of the text. */
#define NUMBERS(s)                                                                                 \
	{                                                                                          \
		&(s)->secret.word[0], &(s)->secret.word[1], &(s)->mode, &(s)->mode_on,             \
			&(s)->interval, &(s)->depth_limit, &(s)->cpu_millionths,                   \
			&(s)->budget_bytes, &(s)->budget_limit_bytes, &(s)->stack_least_bytes,     \
			&(s)->stack_most_bytes, &(s)->follow_fork, &(s)->follow_exec,              \
			&(s)->exact_peak, &(s)->python_domains, &(s)->python_tasks,                \
			&(s)->free_sites, &(s)->time_calls, &(s)->hold_exit, &(s)->core,           \
			&(s)->total_bytes, &(s)->hooks.program, &(s)->hooks.mallctl,               \
			&(s)->hooks.realloc, &(s)->hooks.free, &(s)->hooks.sdallocx,               \
			&(s)->hooks.usable, &(s)->hooks.pages, &(s)->hooks.pages_bytes,            \
			&(s)->hooks.entry, &(s)->hooks.entry_bytes, &(s)->hooks.add_new,           \
			&(s)->hooks.remove_new, &(s)->hooks.add_delete, &(s)->hooks.remove_delete  \
	}

static char *write_text(char *to, const char *text, char end)
{
	while (*text)
		*to++ = *text++;
	*to++ = end;
	return to;
}

void live_settings_write(char to[static LIVE_SETTINGS_TEXT + 1],
			 const struct live_settings *settings)
{
	const uint64_t *const numbers[] = NUMBERS(settings);

	_Static_assert(ARRAY_SIZE(numbers) <= LIVE_SETTINGS_NUMBERS,
		       "LIVE_SETTINGS_TEXT has room for them");
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		to = write_number(to, *numbers[i]);
		*to++ = ',';
	}
	to = write_text(to, settings->collector, ',');
	to = write_text(to, settings->folder, ',');
	to = write_text(to, settings->ranks, ',');
	to = write_text(to, settings->otel_labels, ',');
	(void)write_text(to, settings->wraps, 0);
}

/* Reads text up to `end`; NULL: it is too long, or `end` is missing. */
static const char *read_text(const char *from, char *to, size_t bytes, char end)
{
	for (size_t i = 0; i < bytes; i++, from++) {
		if (*from == end) {
			to[i] = 0;
			return from + 1;
		}
		if (*from == 0)
			return NULL;
		to[i] = *from;
	}
	return NULL;
}

bool live_settings_read(const char *from, struct live_settings *ret)
{
	uint64_t *const numbers[] = NUMBERS(ret);

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		from = read_digits(from, 16, numbers[i]);
		if (from == NULL || *from++ != ',')
			return false;
	}
	from = read_text(from, ret->collector, sizeof ret->collector, ',');
	if (from != NULL)
		from = read_text(from, ret->folder, sizeof ret->folder, ',');
	if (from != NULL)
		from = read_text(from, ret->ranks, sizeof ret->ranks, ',');
	if (from != NULL)
		from = read_text(from, ret->otel_labels, sizeof ret->otel_labels, ',');
	return from != NULL && read_text(from, ret->wraps, sizeof ret->wraps, 0) != NULL;
}
