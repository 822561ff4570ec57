/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns keys into a query. Pure: the same state and key give the same state, so that everything is tested without a
 * terminal. The help shows the rows of both tables.
 */
#include "tui/question.h"

#include <ncurses.h>
#include <stdio.h>
#include <string.h>

#include "analysis/analyses.h"
#include "base/compiler.h"
#include "util/clock.h"

enum { ESCAPE = 27, RUBOUT = 127, CTRL_C = 3, CTRL_L = 12, CTRL_U = 21 };
#define INTERVAL_MIN_NS (100 * NS_PER_MS)
#define INTERVAL_MAX_NS (60000 * NS_PER_MS)

const struct top_view top_views[] = {
	[VIEW_PROCESSES] = { "processes", "recorded processes: Enter selects one", 'o' },
	[VIEW_SITES] = { "sites", "stacks that allocated, with current rates", 's', true },
	{ "tree", "call tree", 't', true },
	{ "threads", "allocations of each thread", 'h', true },
	{ "functions", "functions, with all that they call", 'f', true },
	{ "sizes", "requested sizes", 'z' },
	{ "lifetimes", "how long blocks live", 'i' },
	{ "types", "C++ and Rust types", 'y', true },
	{ "tags", "tags set by the program", 'g', true },
	{ "health", "what was lost, and what recording costs", 'e' },
	{ NULL, NULL, 0 },
};

size_t top_view_count(void)
{
	return ARRAY_SIZE(top_views) - 1;
}

bool top_view_exists(size_t view)
{
	return view <= VIEW_SITES || analysis_find(top_views[view].name);
}

/* The costs, and two orders that only a running process has. */
const struct top_order top_orders[] = {
	{ "live", "live bytes", 'L' },
	{ "growth", "growth of live bytes per second", 'G' },
	{ "now", "current calls per second", 'N' },
	{ "peak", "live bytes at the peak", 'P' },
	{ "blocks", "live blocks", 'B' },
	{ "calls", "all calls so far", 'C' },
	{ "total", "all bytes so far", 'T' },
	{ "temporary", "freed before the next call", 'Y' },
	{ "max", "largest live size so far", 'M' },
	{ "waste", "internal fragmentation", 'W' },
	{ "lifetime", "total lifetime of freed blocks", 'I' },
	{ "realloc", "bytes copied by realloc", 'R' },
	{ NULL, NULL, 0 },
};
enum { ORDER_GROWTH = 1, ORDER_NOW = 2, ORDER_COUNT = ARRAY_SIZE(top_orders) - 1 };

enum rates_order question_order(const struct question *q)
{
	switch (q->order) {
	case ORDER_GROWTH:
		return RATES_BY_GROWTH;
	case ORDER_NOW:
		return RATES_BY_CALLS;
	default:
		return RATES_BY_COST;
	}
}

int question_query(const struct question *q, struct query *ret, struct error *error)
{
	enum { ROWS = 500 };

	*ret = (struct query){ .limit = ROWS,
			       .has_cost = top_views[q->view].ordered,
			       .file = q->file,
			       .again = q->again };
	if (ret->has_cost && question_order(q) == RATES_BY_COST &&
	    cost_parse(top_orders[q->order].name, &ret->cost, &ret->at, error) < 0)
		return -1;
	return q->filter[0] ? filters_add(&ret->filters, RULE_FOCUS, q->filter, error) : 0;
}

void question_process(struct question *q, pid_t pid)
{
	q->pid = pid;
	snprintf(q->file, sizeof q->file, "process %d", (int)pid);
	snprintf(q->again, sizeof q->again, "heapgauge report --pid %d", (int)pid);
}

static void change(struct looking *l)
{
	l->question.serial++;
	l->first_line = 0;
}

static void look_at(struct looking *l, size_t view)
{
	if (view != VIEW_PROCESSES && l->question.pid == 0)
		return; /* a process must be chosen first */
	l->question.view = view;
	change(l);
}

static bool press_letter(struct looking *l, int key)
{
	for (size_t i = 0; top_views[i].name; i++)
		if (key == top_views[i].key && top_view_exists(i)) {
			look_at(l, i);
			return true;
		}
	for (size_t i = 0; top_orders[i].name; i++)
		if (key == top_orders[i].key) {
			l->question.order = i;
			change(l);
			return true;
		}
	return false;
}

/* Moves to the next or previous view; the list of processes is not among them. */
static void turn_view(struct looking *l, size_t step)
{
	size_t count = top_view_count(), view = l->question.view;

	do
		view = (view + step) % count;
	while (view == VIEW_PROCESSES || !top_view_exists(view));
	look_at(l, view);
}

static void turn_order(struct looking *l, size_t step)
{
	l->question.order = (l->question.order + step) % ORDER_COUNT;
	change(l);
}

static void press_typing(struct looking *l, int key)
{
	size_t length = strlen(l->typed);

	switch (key) {
	case '\n':
	case '\r':
	case KEY_ENTER:
		l->typing = false;
		memcpy(l->question.filter, l->typed, sizeof l->typed);
		change(l);
		break;
	case ESCAPE:
		l->typing = false;
		break;
	case KEY_BACKSPACE:
	case RUBOUT:
	case '\b':
		while (length > 0 && ((unsigned char)l->typed[--length] & 0xc0) == 0x80)
			; /* removes a multibyte character as a whole */
		l->typed[length] = '\0';
		break;
	case CTRL_U:
		l->typed[0] = '\0';
		break;
	default:
		if (key >= ' ' && key < 256 && length + 1 < sizeof l->typed) {
			l->typed[length] = (char)key;
			l->typed[length + 1] = '\0';
		}
	}
}

static void scroll_to(struct looking *l, size_t line, const struct shown *shown)
{
	size_t last = shown->lines > shown->page ? shown->lines - shown->page : 0;

	l->first_line = MIN(line, last);
}

static size_t less(size_t from, size_t by)
{
	return from > by ? from - by : 0;
}

static void press_moving(struct looking *l, int key, const struct shown *shown)
{
	bool choosing = l->question.view == VIEW_PROCESSES && shown->process_count > 0;
	size_t at = choosing ? l->cursor : l->first_line;
	size_t page = choosing ? 1 : MAX(shown->page, (size_t)2) - 1;

	switch (key) {
	case KEY_UP:
	case 'k':
		at = less(at, 1);
		break;
	case KEY_DOWN:
	case 'j':
		at++;
		break;
	case KEY_PPAGE:
		at = less(at, page);
		break;
	case KEY_NPAGE:
		at += page;
		break;
	case KEY_HOME:
		at = 0;
		break;
	case KEY_END:
		at = choosing ? shown->process_count : shown->lines;
		break;
	default:
		return;
	}
	if (choosing)
		l->cursor = MIN(at, shown->process_count - 1);
	else
		scroll_to(l, at, shown);
}

static void choose(struct looking *l, const struct shown *shown)
{
	if (l->question.view != VIEW_PROCESSES || l->cursor >= shown->process_count)
		return;
	question_process(&l->question, shown->processes[l->cursor]);
	l->question.filter[0] = '\0';
	l->question.paused = false;
	look_at(l, VIEW_SITES);
}

static void press_plain(struct looking *l, int key, const struct shown *shown)
{
	struct question *q = &l->question;

	switch (key) {
	case 'q':
		l->quit = true;
		return;
	case '?':
		l->help = true;
		return;
	case ' ':
		q->paused = !q->paused;
		q->serial++;
		return;
	case 'b':
		q->exact_bytes = !q->exact_bytes;
		q->serial++;
		return;
	case '/':
		l->typing = true;
		memcpy(l->typed, q->filter, sizeof l->typed);
		return;
	case '\t':
	case KEY_BTAB:
		turn_view(l, key == '\t' ? 1 : top_view_count() - 1);
		return;
	case '>':
	case '<':
		turn_order(l, key == '>' ? 1 : ORDER_COUNT - 1);
		return;
	case '+':
	case '-':
		q->interval_ns = key == '+' ? MAX(q->interval_ns / 2, INTERVAL_MIN_NS)
					    : MIN(q->interval_ns * 2, INTERVAL_MAX_NS);
		q->serial++;
		return;
	case '\n':
	case '\r':
	case KEY_ENTER:
		choose(l, shown);
		return;
	default:
		if (!press_letter(l, key))
			press_moving(l, key, shown);
	}
}

void looking_press(struct looking *l, int key, const struct shown *shown)
{
	if (key == CTRL_C)
		l->quit = true;
	else if (key == CTRL_L || key == KEY_RESIZE)
		l->question.serial++; /* forces a redraw */
	else if (l->typing)
		press_typing(l, key);
	else if (l->help) {
		l->help = false; /* any key closes the help, but q still quits */
		l->quit = key == 'q';
	} else
		press_plain(l, key, shown);
}
