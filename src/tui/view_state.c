/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns keys into a query. Pure: the same state and key give the same state, so that everything is tested without a
 * terminal. The help shows the rows of both tables.
 */
#include "tui/view_state.h"

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

enum rates_order view_state_order(const struct view_state *state)
{
	switch (state->order) {
	case ORDER_GROWTH:
		return RATES_BY_GROWTH;
	case ORDER_NOW:
		return RATES_BY_CALLS;
	default:
		return RATES_BY_COST;
	}
}

int view_state_query(const struct view_state *state, struct query *ret, struct error *error)
{
	enum { ROWS = 500 };

	*ret = (struct query){ .limit = ROWS,
			       .has_cost = top_views[state->view].ordered,
			       .file = state->file,
			       .again = state->report_command };
	if (ret->has_cost && view_state_order(state) == RATES_BY_COST &&
	    cost_parse(top_orders[state->order].name, &ret->cost, &ret->at, error) < 0)
		return -1;
	return state->filter[0] ? filters_add(&ret->filters, RULE_FOCUS, state->filter, error) : 0;
}

void view_state_set_process(struct view_state *state, pid_t pid)
{
	state->pid = pid;
	snprintf(state->file, sizeof state->file, "process %d", (int)pid);
	snprintf(state->report_command, sizeof state->report_command, "heapgauge report --pid %d",
		 (int)pid);
}

static void change(struct ui_state *ui)
{
	ui->current.serial++;
	ui->first_line = 0;
}

static void show_view(struct ui_state *ui, size_t view)
{
	if (view != VIEW_PROCESSES && ui->current.pid == 0)
		return; /* a process must be chosen first */
	ui->current.view = view;
	change(ui);
}

static bool press_letter(struct ui_state *ui, int key)
{
	for (size_t i = 0; top_views[i].name; i++)
		if (key == top_views[i].key && top_view_exists(i)) {
			show_view(ui, i);
			return true;
		}
	for (size_t i = 0; top_orders[i].name; i++)
		if (key == top_orders[i].key) {
			ui->current.order = i;
			change(ui);
			return true;
		}
	return false;
}

/* Moves to the next or previous view; the list of processes is not among them. */
static void step_view(struct ui_state *ui, size_t step)
{
	size_t count = top_view_count(), view = ui->current.view;

	do
		view = (view + step) % count;
	while (view == VIEW_PROCESSES || !top_view_exists(view));
	show_view(ui, view);
}

static void step_order(struct ui_state *ui, size_t step)
{
	ui->current.order = (ui->current.order + step) % ORDER_COUNT;
	change(ui);
}

static void press_typing(struct ui_state *ui, int key)
{
	size_t length = strlen(ui->typed);

	switch (key) {
	case '\n':
	case '\r':
	case KEY_ENTER:
		ui->typing = false;
		memcpy(ui->current.filter, ui->typed, sizeof ui->typed);
		change(ui);
		break;
	case ESCAPE:
		ui->typing = false;
		break;
	case KEY_BACKSPACE:
	case RUBOUT:
	case '\b':
		while (length > 0 && ((unsigned char)ui->typed[--length] & 0xc0) == 0x80)
			; /* removes a multibyte character as a whole */
		ui->typed[length] = '\0';
		break;
	case CTRL_U:
		ui->typed[0] = '\0';
		break;
	default:
		if (key >= ' ' && key < 256 && length + 1 < sizeof ui->typed) {
			ui->typed[length] = (char)key;
			ui->typed[length + 1] = '\0';
		}
	}
}

static void scroll_to(struct ui_state *ui, size_t line, const struct shown *shown)
{
	size_t last = shown->lines > shown->page ? shown->lines - shown->page : 0;

	ui->first_line = MIN(line, last);
}

static size_t less(size_t from, size_t by)
{
	return from > by ? from - by : 0;
}

static void press_moving(struct ui_state *ui, int key, const struct shown *shown)
{
	bool choosing = ui->current.view == VIEW_PROCESSES && shown->process_count > 0;
	size_t at = choosing ? ui->cursor : ui->first_line;
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
		ui->cursor = MIN(at, shown->process_count - 1);
	else
		scroll_to(ui, at, shown);
}

static void open_process(struct ui_state *ui, const struct shown *shown)
{
	if (ui->current.view != VIEW_PROCESSES || ui->cursor >= shown->process_count)
		return;
	view_state_set_process(&ui->current, shown->processes[ui->cursor]);
	ui->current.filter[0] = '\0';
	ui->current.paused = false;
	show_view(ui, VIEW_SITES);
}

static void press_plain(struct ui_state *ui, int key, const struct shown *shown)
{
	struct view_state *state = &ui->current;

	switch (key) {
	case 'q':
		ui->quit = true;
		return;
	case '?':
		ui->help = true;
		return;
	case ' ':
		state->paused = !state->paused;
		state->serial++;
		return;
	case 'b':
		state->exact_bytes = !state->exact_bytes;
		state->serial++;
		return;
	case '/':
		ui->typing = true;
		memcpy(ui->typed, state->filter, sizeof ui->typed);
		return;
	case '\t':
	case KEY_BTAB:
		step_view(ui, key == '\t' ? 1 : top_view_count() - 1);
		return;
	case '>':
	case '<':
		step_order(ui, key == '>' ? 1 : ORDER_COUNT - 1);
		return;
	case '+':
	case '-':
		state->interval_ns = key == '+' ? MAX(state->interval_ns / 2, INTERVAL_MIN_NS)
						: MIN(state->interval_ns * 2, INTERVAL_MAX_NS);
		state->serial++;
		return;
	case '\n':
	case '\r':
	case KEY_ENTER:
		open_process(ui, shown);
		return;
	default:
		if (!press_letter(ui, key))
			press_moving(ui, key, shown);
	}
}

void ui_handle_key(struct ui_state *ui, int key, const struct shown *shown)
{
	if (key == CTRL_C)
		ui->quit = true;
	else if (key == CTRL_L || key == KEY_RESIZE)
		ui->current.serial++; /* forces a redraw */
	else if (ui->typing)
		press_typing(ui, key);
	else if (ui->help) {
		ui->help = false; /* any key closes the help, but q still quits */
		ui->quit = key == 'q';
	} else
		press_plain(ui, key, shown);
}
