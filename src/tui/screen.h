/* SPDX-License-Identifier: Apache-2.0 */
/* Draws on the terminal. The only file that uses ncurses for more than the names of keys. */
#ifndef TUI_SCREEN_H
#define TUI_SCREEN_H

#include "tui/view_state.h"
#include "tui/top_worker.h"

struct screen {
	unsigned rows, columns;
	bool utf8; /* whether non-ASCII characters can be shown */
};

/* Returns -1 with the error set if the terminal cannot be used. */
int screen_open(struct screen *screen, struct error *error);
/* Restores the terminal. */
void screen_close(void);

/* Updates the size, which may have changed. */
void screen_measure(struct screen *screen);
/* Returns a pressed key; -1: none. Does not block. */
int screen_key(void);
/* Returns how many lines of the pane fit. */
size_t screen_page(const struct screen *screen);

/* text NULL: none yet. */
void screen_draw(const struct screen *screen, const struct ui_state *ui,
		 const struct screen_text *text);

#endif
