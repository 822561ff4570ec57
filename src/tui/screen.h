/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal: what is drawn where. The only file that talks to ncurses about anything but the names of keys. */
#ifndef TUI_SCREEN_H
#define TUI_SCREEN_H

#include "tui/question.h"
#include "tui/reader.h"

struct screen {
	unsigned rows, columns;
	bool utf8; /* what is not ASCII can be shown */
};

/* -1 with the error set if this terminal cannot be drawn on. */
int screen_open(struct screen *screen, struct error *error);
/* Leaves the terminal as it was. */
void screen_close(void);

/* The size may have changed. */
void screen_measure(struct screen *screen);
/* A key that was pressed; -1: none. Does not wait. */
int screen_key(void);
/* Lines of the pane that fit. */
size_t screen_page(const struct screen *screen);

/* picture: NULL = none yet. */
void screen_draw(const struct screen *screen, const struct looking *looking,
		 const struct picture *picture);

#endif
