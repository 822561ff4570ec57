/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words -> triggers, and when they fire. A threshold fires when it is passed, and again when the number has been a tenth
 * below it in between; calls fire at every multiple. So every trigger may fire any number of times, and a number that
 * trembles around its limit does not make a snapshot at every tick. Pure.
 */
#include "collect/triggers.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "util/units.h"

static int add(struct triggers *triggers, struct trigger trigger, struct error *error)
{
	return vector_push(&triggers->list, trigger) ? 0 : error_set(error, "out of memory");
}

int triggers_every(struct triggers *triggers, const char *text, struct error *error)
{
	struct trigger trigger = { .kind = TRIGGER_EVERY, .text = text };
	const uint64_t least_ns = 1000000;

	if (!units_parse_duration(text, &trigger.limit) || trigger.limit < least_ns)
		return error_set(error, "--every needs a time such as 10s or 250ms, not '%s'",
				 text);
	return add(triggers, trigger, error);
}

static int signal_number(const char *name)
{
	if (strncmp(name, "SIG", 3) == 0)
		name += 3;
	/* Those that nobody else needs: the others mean something to heapgauge, or to the system. */
	return strcmp(name, "USR1") == 0 ? SIGUSR1 : strcmp(name, "USR2") == 0 ? SIGUSR2 : 0;
}

static bool parse_limit(struct trigger *trigger, const char *text)
{
	char *end;
	double number = strtod(text, &end);

	if (end != text && strcmp(end, "%") == 0) {
		trigger->percent = true;
		trigger->limit = (uint64_t)(number * 100); /* hundredths */
		return number > 0 && number <= 100 && trigger->kind != TRIGGER_CALLS &&
		       trigger->kind != TRIGGER_LIVE;
	}
	if (trigger->kind == TRIGGER_CGROUP)
		return false;
	if (trigger->kind == TRIGGER_CALLS)
		return units_parse_count(text, &trigger->limit) && trigger->limit > 0;
	return units_parse_bytes(text, &trigger->limit) && trigger->limit > 0;
}

int triggers_on(struct triggers *triggers, const char *text, struct error *error)
{
	static const struct {
		const char *name;
		enum trigger_kind kind;
	} words[] = { { "rss>", TRIGGER_RSS },
		      { "cgroup>", TRIGGER_CGROUP },
		      { "live>", TRIGGER_LIVE },
		      { "calls>", TRIGGER_CALLS } };
	struct trigger trigger = { .text = text };

	if (strncmp(text, "signal=", 7) == 0) {
		trigger.kind = TRIGGER_SIGNAL;
		trigger.limit = (uint64_t)signal_number(text + 7);
		if (trigger.limit == 0)
			return error_set(error, "signal= takes USR1 or USR2, not '%s'", text + 7);
		return add(triggers, trigger, error);
	}
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t length = strlen(words[i].name);

		if (strncmp(text, words[i].name, length) != 0)
			continue;
		trigger.kind = words[i].kind;
		if (parse_limit(&trigger, text + length))
			return add(triggers, trigger, error);
	}
	return error_set(
		error,
		"'%s' is no condition; it can be rss>80%%, rss>2GiB, cgroup>90%%, live>2GiB, "
		"calls>1M or signal=USR2",
		text);
}

void triggers_release(struct triggers *triggers)
{
	vector_release(&triggers->list);
}

static uint64_t share_of(uint64_t whole, uint64_t hundredths)
{
	return whole / 10000 * hundredths;
}

/* The limit that counts for this process; 0 = none. */
static uint64_t limit_of(const struct trigger *trigger, const struct trigger_input *input)
{
	if (!trigger->percent)
		return trigger->limit;
	return share_of(trigger->kind == TRIGGER_CGROUP ? input->group_limit_bytes
							: input->memory_bytes,
			trigger->limit);
}

/* At each multiple; those that were missed are one. */
static bool passes_multiple(struct trigger_state *state, uint64_t number, uint64_t step)
{
	uint64_t next = state->next ? state->next : step;

	state->next = next;
	if (number < next)
		return false;
	state->next = number - number % step + step;
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
	case TRIGGER_SIGNAL:
		return false;
	case TRIGGER_RSS:
		number = input->rss_bytes;
		break;
	case TRIGGER_CGROUP:
		number = input->group_bytes;
		break;
	case TRIGGER_LIVE:
		number = input->live_bytes;
		break;
	}
	if (limit == 0)
		return false;
	bool fires = number > limit && !state->fired;

	state->fired = number > limit || (state->fired && number > limit - limit / 10);
	return fires;
}
