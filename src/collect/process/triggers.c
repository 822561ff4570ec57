/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses and evaluates triggers. A threshold fires when it is exceeded, and again once the value has dropped a tenth below it
 * in between; calls fire at every multiple; growth fires each time that a site has grown by the limit. So every trigger may
 * fire any number of times, and a value that oscillates around its limit does not cause a snapshot at every tick. Pure.
 */
#include "collect/process/triggers.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "util/text/units.h"

static int add(struct triggers *triggers, struct trigger trigger, struct error *error)
{
	return vector_push(&triggers->list, trigger) ? 0 : error_set(error, "out of memory");
}

#define LEAST_TIME_NS 1000000ull

int triggers_every(struct triggers *triggers, const char *text, struct error *error)
{
	struct trigger trigger = { .kind = TRIGGER_EVERY, .text = text };

	if (!units_parse_duration(text, &trigger.limit) || trigger.limit < LEAST_TIME_NS)
		return error_set(error, "--every needs a time such as 10s or 250ms, not '%s'",
				 text);
	return add(triggers, trigger, error);
}

void trigger_name(const struct trigger *trigger, char *ret, size_t bytes)
{
	bool is_bare = trigger->kind == TRIGGER_EVERY && strncmp(trigger->text, "every=", 6) != 0;

	snprintf(ret, bytes, "%s%s", is_bare ? "every=" : "", trigger->text);
}

static int signal_number(const char *name)
{
	if (strncmp(name, "SIG", 3) == 0)
		name += 3;
	/* The only ones that are free: the others have a meaning for heapgauge or the system. */
	return strcmp(name, "USR1") == 0 ? SIGUSR1 : strcmp(name, "USR2") == 0 ? SIGUSR2 : 0;
}

static bool parse_percent(struct trigger *trigger, const char *text)
{
	char *end;
	double number = strtod(text, &end);

	trigger->percent = end != text && strcmp(end, "%") == 0;
	if (trigger->percent && number > 0 && number <= 100)
		trigger->limit = (uint64_t)(number * 100);
	return trigger->percent;
}

/* "50MiB/min", "1GiB/10min" */
static bool parse_growth(struct trigger *trigger, const char *text)
{
	const char *slash = strchr(text, '/');
	char size[32], time[32];

	if (!slash || !slash[1])
		return false;
	bool one = slash[1] < '0' || slash[1] > '9';

	return snprintf(size, sizeof size, "%.*s", (int)(slash - text), text) < (int)sizeof size &&
	       snprintf(time, sizeof time, "%s%s", one ? "1" : "", slash + 1) < (int)sizeof time &&
	       units_parse_bytes(size, &trigger->limit) &&
	       units_parse_duration(time, &trigger->window_ns) &&
	       trigger->window_ns >= 1000 * LEAST_TIME_NS;
}

static bool parse_limit(struct trigger *trigger, const char *text)
{
	switch (trigger->kind) {
	case TRIGGER_CGROUP:
	case TRIGGER_PRESSURE:
	case TRIGGER_PRESSURE_FULL:
	case TRIGGER_SYSTEM:
		return parse_percent(trigger, text);
	case TRIGGER_RSS:
		return parse_percent(trigger, text) || units_parse_bytes(text, &trigger->limit);
	case TRIGGER_CALLS:
		return units_parse_count(text, &trigger->limit);
	case TRIGGER_EVERY:
		return units_parse_duration(text, &trigger->limit) &&
		       trigger->limit >= LEAST_TIME_NS;
	case TRIGGER_SIGNAL:
		trigger->limit = (uint64_t)signal_number(text);
		return true;
	case TRIGGER_GROWTH:
		return parse_growth(trigger, text);
	default:
		return units_parse_bytes(text, &trigger->limit);
	}
}

int triggers_on(struct triggers *triggers, const char *text, bool writes, struct error *error)
{
	static const struct {
		const char *name;
		enum trigger_kind kind;
	} words[] = {
		{ "rss>", TRIGGER_RSS },	   { "cgroup>", TRIGGER_CGROUP },
		{ "pressure>", TRIGGER_PRESSURE }, { "pressure-full>", TRIGGER_PRESSURE_FULL },
		{ "live>", TRIGGER_LIVE },	   { "site>", TRIGGER_SITE },
		{ "growth>", TRIGGER_GROWTH },	   { "calls>", TRIGGER_CALLS },
		{ "every=", TRIGGER_EVERY },	   { "signal=", TRIGGER_SIGNAL },
		{ "stack>", TRIGGER_STACK },	   { "vm>", TRIGGER_VM },
		{ "system>", TRIGGER_SYSTEM },
	};
	struct trigger trigger = { .text = text, .writes = writes };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t length = strlen(words[i].name);

		if (strncmp(text, words[i].name, length) != 0)
			continue;
		trigger.kind = words[i].kind;
		if (parse_limit(&trigger, text + length) && trigger.limit > 0)
			return add(triggers, trigger, error);
		if (trigger.kind == TRIGGER_SIGNAL)
			return error_set(error, "signal= takes USR1 or USR2, not '%s'",
					 text + length);
	}
	return error_set(error, "'%s' is not a condition; use %s", text, TRIGGER_WORDS);
}

int triggers_pages_on(struct triggers *triggers, const char *text, struct error *error)
{
	bool peak = strcmp(text, "peak") == 0;

	if (peak || strcmp(text, "end") == 0)
		return add(triggers,
			   (struct trigger){ .kind = peak ? TRIGGER_PEAK : TRIGGER_END,
					     .text = text,
					     .reads_pages = true },
			   error);
	if (triggers_on(triggers, text, false, error) < 0)
		return -1;
	triggers->list.at[triggers->list.count - 1].reads_pages = true;
	return 0;
}

void triggers_release(struct triggers *triggers)
{
	vector_release(&triggers->list);
}

const struct trigger *triggers_find(const struct triggers *triggers, enum trigger_kind kind)
{
	for (size_t i = 0; i < triggers->list.count; i++)
		if (triggers->list.at[i].kind == kind)
			return &triggers->list.at[i];
	return NULL;
}

bool triggers_ask_sites(const struct triggers *triggers)
{
	return triggers_find(triggers, TRIGGER_SITE) || triggers_find(triggers, TRIGGER_GROWTH);
}

bool triggers_ask_scan(const struct triggers *triggers)
{
	return triggers_ask_sites(triggers) || triggers_find(triggers, TRIGGER_STACK);
}

bool triggers_write(const struct triggers *triggers)
{
	for (size_t i = 0; i < triggers->list.count; i++)
		if (triggers->list.at[i].writes)
			return true;
	return false;
}

bool triggers_read_pages(const struct triggers *triggers)
{
	for (size_t i = 0; i < triggers->list.count; i++)
		if (triggers->list.at[i].reads_pages)
			return true;
	return false;
}

void trigger_state_release(struct trigger_state *state)
{
	vector_release(&state->sites);
}

static uint64_t share_of(uint64_t whole, uint64_t hundredths)
{
	return whole / 10000 * hundredths;
}

/* The limit for this process; 0 = none. */
static uint64_t limit_of(const struct trigger *trigger, const struct trigger_input *input)
{
	if (!trigger->percent || trigger->kind == TRIGGER_PRESSURE ||
	    trigger->kind == TRIGGER_PRESSURE_FULL)
		return trigger->limit;
	if (trigger->kind == TRIGGER_SYSTEM)
		return share_of(input->system_bytes, trigger->limit);
	return share_of(trigger->kind == TRIGGER_CGROUP ? input->group_limit_bytes
							: input->memory_bytes,
			trigger->limit);
}

/* Fires at each multiple; skipped multiples count as one. */
static bool passes_multiple(struct trigger_state *state, uint64_t number, uint64_t step)
{
	uint64_t next = state->next ? state->next : step;

	state->next = next;
	if (number < next)
		return false;
	state->next = number - number % step + step;
	return true;
}

static bool passes(bool *fired, struct trigger_range number, uint64_t limit)
{
	bool fires = number.least > limit && !*fired;

	*fired = number.least > limit || (*fired && number.most > limit - limit / 10);
	return fires;
}

static bool has_grown(uint64_t number, uint64_t before)
{
	return number > saturating_add(before, before / 20);
}

/* A peak that grows slowly is not read at every step. Its blocks may be written to only later: then as they become resident. */
static bool passes_peak(struct trigger_state *state, uint64_t live_bytes, uint64_t rss_bytes)
{
	if (live_bytes < state->next ||
	    !(has_grown(live_bytes, state->next) || has_grown(rss_bytes, state->next_rss)))
		return false;
	state->next = live_bytes;
	state->next_rss = rss_bytes;
	return true;
}

bool trigger_fires(const struct trigger *trigger, struct trigger_state *state,
		   const struct trigger_input *input)
{
	uint64_t limit = limit_of(trigger, input), number = 0;

	switch (trigger->kind) {
	case TRIGGER_EVERY:
		return passes_multiple(state, input->at_ns, limit);
	case TRIGGER_CALLS:
		return passes_multiple(state, input->calls, limit);
	case TRIGGER_PEAK:
		return passes_peak(state, input->live_bytes.least, input->rss_bytes);
	case TRIGGER_END:
		return true;
	case TRIGGER_SIGNAL:
	case TRIGGER_SITE:
	case TRIGGER_GROWTH:
		return false;
	case TRIGGER_PRESSURE:
		number = input->some_pressure;
		break;
	case TRIGGER_PRESSURE_FULL:
		number = input->full_pressure;
		break;
	case TRIGGER_RSS:
		number = input->rss_bytes;
		break;
	case TRIGGER_CGROUP:
		number = input->group_bytes;
		break;
	case TRIGGER_LIVE:
		return limit != 0 && passes(&state->fired, input->live_bytes, limit);
	case TRIGGER_VM:
		number = input->vm_bytes;
		break;
	case TRIGGER_SYSTEM:
		number = input->system_used_bytes;
		break;
	case TRIGGER_STACK:
		number = input->stack_bytes;
		break;
	}
	return limit != 0 && passes(&state->fired, trigger_range_of(number, 0), limit);
}

/* ---- by site ---- */

/* Adds new sites with 0 bytes; if the first scan comes later than the window, their earlier size is unknown and the present one
 * is used. */
static bool make_room(const struct trigger *trigger, struct trigger_state *state,
		      const struct trigger_range *held, size_t count, uint64_t at_ns)
{
	size_t known = state->sites.count;
	bool unknown = known == 0 && at_ns > trigger->window_ns;

	if (count > known && !vector_reserve(&state->sites, count - known))
		return false;
	for (size_t i = known; i < count; i++) {
		uint64_t before = unknown ? held[i].most : 0;

		state->sites.at[i] = (struct trigger_site){ { before, before }, false };
	}
	state->sites.count = MAX(count, known);
	return true;
}

/* After it has fired, the site must grow by the limit again. */
static bool grows(struct trigger_site *site, struct trigger_range held, uint64_t limit)
{
	if (saturating_sub(held.least, MIN(site->least[0], site->least[1])) > limit) {
		site->least[0] = site->least[1] = held.most;
		return true;
	}
	site->least[0] = MIN(site->least[0], held.most);
	return false;
}

bool trigger_fires_by_site(const struct trigger *trigger, struct trigger_state *state,
			   const struct trigger_range *held, size_t count, uint64_t at_ns)
{
	bool fires = false, turns = at_ns >= state->next;

	if (!make_room(trigger, state, held, count, at_ns))
		return false;
	for (size_t i = 1; i < count; i++) {
		struct trigger_site *site = &state->sites.at[i];

		if (trigger->kind == TRIGGER_SITE) {
			fires = passes(&site->fired, held[i], trigger->limit) || fires;
			continue;
		}
		fires = grows(site, held[i], trigger->limit) || fires;
		if (turns) {
			site->least[1] = site->least[0];
			site->least[0] = held[i].most;
		}
	}
	if (turns)
		state->next = at_ns + trigger->window_ns / 2;
	return fires;
}
