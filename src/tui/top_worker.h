/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker thread of `heapgauge top` reads the profile and runs the analysis, so that keys always respond: naming the frames
 * of a large program may take seconds. Its output is a screen_text, ready to be drawn.
 */
#ifndef TUI_TOP_WORKER_H
#define TUI_TOP_WORKER_H

#include "tui/view_state.h"
#include "tui/totals.h"

struct screen_text {
	uint64_t serial;	  /* of the view_state that it was made for */
	char *title;		  /* names the process; NULL: none yet */
	char *head[TOTALS_LINES]; /* NULL: no process yet */
	char *pane;		  /* the text that the lines point into */
	char **lines;
	size_t line_count;
	pid_t *processes;      /* for VIEW_PROCESSES: the pids ... */
	size_t *process_lines; /* ... and the line of each */
	size_t process_count;
	char *problem; /* an error message; NULL: none */
};
void screen_text_free(struct screen_text *text);

struct top_worker;

/* Starts at once. `source` must outlive it. Returns NULL with the error set. */
struct top_worker *top_worker_new(const struct top_source *source, const struct view_state *state,
				  struct error *error);
/* Stops the thread. Waits briefly; if the thread takes longer, it is leaked, and the process should exit soon. */
void top_worker_free(struct top_worker *worker);

/* The descriptor is readable when there is a new text. */
int top_worker_fd(const struct top_worker *worker);
/* Returns the newest text, owned by the caller; NULL: none since the last call. */
struct screen_text *top_worker_take(struct top_worker *worker);
/* Requests the text of another view. */
void top_worker_set_state(struct top_worker *worker, const struct view_state *state);

#endif
