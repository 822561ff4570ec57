/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and analyses in a thread of its own, so that the keys are never late: naming the frames of a large program may take
 * seconds. What it made is a picture: text, ready to be drawn.
 */
#ifndef TUI_READER_H
#define TUI_READER_H

#include "tui/question.h"
#include "tui/totals.h"

struct picture {
	uint64_t serial;	  /* of the question that it answers */
	char *title;		  /* which process; NULL: none yet */
	char *head[TOTALS_LINES]; /* NULL: no process yet */
	char *pane;		  /* what the lines point into */
	char **lines;
	size_t line_count;
	pid_t *processes;      /* of VIEW_PROCESSES: by number of the process ... */
	size_t *process_lines; /* ... and the line that it is in */
	size_t process_count;
	char *problem; /* in words; NULL: none */
};
void picture_free(struct picture *picture);

struct reader;

/* Begins at once. `source` outlives it. NULL with the error set. */
struct reader *reader_new(const struct top_source *source, const struct question *question,
			  struct error *error);
/* Gives up what it does; waits for a moment, and if it takes longer leaves it behind: then the process is to end soon. */
void reader_free(struct reader *reader);

/* Readable when there is a new picture. */
int reader_fd(const struct reader *reader);
/* The newest picture, which is the caller's; NULL: none since the last. */
struct picture *reader_take(struct reader *reader);
/* The question changed. */
void reader_ask(struct reader *reader, const struct question *question);

#endif
