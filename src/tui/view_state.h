/* SPDX-License-Identifier: Apache-2.0 */
/* Which view the user has selected, and how keys change that. Independent of the terminal: a key is a number. */
#ifndef TUI_VIEW_STATE_H
#define TUI_VIEW_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "analysis/result/query.h"
#include "tui/rates.h"
#include "tui/top.h"

enum { FILTER_SIZE = 128 }; /* of the text, with its NUL */

/* Views: the first two are implemented here, the others are analyses of that name. */
enum { VIEW_PROCESSES, VIEW_SITES };
struct top_view {
	const char *name, *help;
	char key;
	bool ordered; /* sorted by the chosen order; else the view has its own */
};
extern const struct top_view top_views[];
/* Returns the number of rows; some may name analyses that do not exist. */
size_t top_view_count(void);
bool top_view_exists(size_t view);

/* What the worker needs to make the text of a view. */
struct view_state {
	uint64_t serial; /* incremented with every change of the members below */
	pid_t pid;
	size_t view, order;
	char filter[FILTER_SIZE];
	bool exact_bytes, utf8, paused;
	uint64_t interval_ns;
	unsigned columns;
	char file[32];		 /* name of the process in reports */
	char report_command[64]; /* the command line that reports on it */
};

/* Sets the process; 0: none yet. */
void view_state_set_process(struct view_state *state, pid_t pid);

/* Converts to a query. Returns -1 with the error set if the filter is invalid. The caller calls filters_release;
 * the strings belong to the state. */
int view_state_query(const struct view_state *state, struct query *ret, struct error *error);
enum rates_order view_state_order(const struct view_state *state);

/* The state of the user interface: the current view, and what only the screen needs. */
struct ui_state {
	struct view_state current;
	size_t first_line; /* first visible line of the pane */
	size_t cursor;	   /* in the list of processes */
	bool help, quit;
	bool typing; /* a filter is being typed, into `typed` */
	char typed[FILTER_SIZE];
};

/* The part of what the screen shows that keys depend on. */
struct shown {
	size_t lines, page;	/* lines in the pane, and lines that fit */
	const pid_t *processes; /* the processes in the list */
	size_t process_count;
};

/* Handles any key; an unknown key changes nothing. */
void ui_handle_key(struct ui_state *ui, int key, const struct shown *shown);

#endif
