/* SPDX-License-Identifier: Apache-2.0 */
/* What the user is looking at, and how keys change it. Independent of the terminal: a key is a number. */
#ifndef TUI_QUESTION_H
#define TUI_QUESTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "analysis/result/query.h"
#include "analysis/views/rates.h"
#include "tui/top.h"

enum { QUESTION_TEXT = 128 };

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

struct question {
	uint64_t serial; /* incremented with every change of the members below */
	pid_t pid;
	size_t view, order;
	char filter[QUESTION_TEXT];
	bool exact_bytes, utf8, paused;
	uint64_t interval_ns;
	unsigned columns;
	char file[32],
		again[64]; /* name of the process in reports, and the command line that reports on it */
};

/* Sets the process; 0: none yet. */
void question_process(struct question *question, pid_t pid);

/* Converts to a query. Returns -1 with the error set if the filter is invalid. The caller calls filters_release;
 * the texts are owned by the question. */
int question_query(const struct question *question, struct query *ret, struct error *error);
enum rates_order question_order(const struct question *question);

/* The state of the user interface: the question, and what only the screen needs. */
struct looking {
	struct question question;
	size_t first_line; /* first visible line of the pane */
	size_t cursor;	   /* in the list of processes */
	bool help, quit;
	bool typing; /* a filter is being typed, into `typed` */
	char typed[QUESTION_TEXT];
};

/* The part of what the screen shows that keys depend on. */
struct shown {
	size_t lines, page;	/* lines in the pane, and lines that fit */
	const pid_t *processes; /* the processes in the list */
	size_t process_count;
};

/* Handles any key; an unknown key changes nothing. */
void looking_press(struct looking *looking, int key, const struct shown *shown);

#endif
