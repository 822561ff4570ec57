/* SPDX-License-Identifier: Apache-2.0 */
/* What a person looks at, and how keys change it. No terminal here: a key is a number. */
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

/* Views: the first two are our own, the others are analyses of that name. */
enum { VIEW_PROCESSES, VIEW_SITES };
struct top_view {
	const char *name, *help;
	char key;
	bool ordered; /* by the number that was chosen; else it has an order of its own */
};
extern const struct top_view top_views[];
/* How many rows; some may be of analyses that there are not. */
size_t top_view_count(void);
bool top_view_exists(size_t view);

struct question {
	uint64_t serial; /* moves with every change of what is below */
	pid_t pid;
	size_t view, order;
	char filter[QUESTION_TEXT];
	bool exact_bytes, utf8, paused;
	uint64_t interval_ns;
	unsigned columns;
	char file[32],
		again[64]; /* what the process is called, and what to type to ask about it elsewhere */
};

/* Of which process; 0 = none yet. */
void question_process(struct question *question, pid_t pid);

/* The question in the analyses' words. -1 with the error set if the filter is none. filters_release is the caller's; texts are
 * the question's. */
int question_query(const struct question *question, struct query *ret, struct error *error);
enum rates_order question_order(const struct question *question);

/* The person's side: the question, and what only the screen needs. */
struct looking {
	struct question question;
	size_t first_line; /* of the pane */
	size_t cursor;	   /* among the processes to choose from */
	bool help, quit;
	bool typing; /* a filter, to `typed` */
	char typed[QUESTION_TEXT];
};

/* What the screen shows, as far as keys depend on it. */
struct shown {
	size_t lines, page;	/* of the pane */
	const pid_t *processes; /* to choose from */
	size_t process_count;
};

/* Any key; one that means nothing changes nothing. */
void looking_press(struct looking *looking, int key, const struct shown *shown);

#endif
