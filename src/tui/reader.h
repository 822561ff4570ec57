/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and analyses in a thread of its own, so that keys always respond: naming the frames of a large program may
 * take seconds. Its output is a picture: text, ready to be drawn.
 */
#ifndef TUI_READER_H
#define TUI_READER_H

#include "tui/question.h"
#include "tui/totals.h"

struct picture {
	uint64_t serial;	  /* of the question that this answers */
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
void picture_free(struct picture *picture);

struct reader;

/* Starts at once. `source` must outlive it. Returns NULL with the error set. */
struct reader *reader_new(const struct top_source *source, const struct question *question,
			  struct error *error);
/* Stops the thread. Waits briefly; if the thread takes longer, it is leaked, and the process should exit soon. */
void reader_free(struct reader *reader);

/* The descriptor is readable when there is a new picture. */
int reader_fd(const struct reader *reader);
/* Returns the newest picture, owned by the caller; NULL: none since the last call. */
struct picture *reader_take(struct reader *reader);
/* Sets a new question. */
void reader_ask(struct reader *reader, const struct question *question);

#endif
