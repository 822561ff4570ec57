/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   title, reversed
 *   totals, three lines
 *   title of the pane, reversed
 *   the pane
 *   keys, a prompt or an error
 *
 * Redraws everything each time; ncurses sends the differences. A screen that is too small shows as much as fits,
 * from the top. Owns the terminal between open and close; one thread.
 */
#include "tui/screen.h"

#include <langinfo.h>
#include <locale.h>
#include <ncurses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "base/compiler.h"
#include "util/text/printable.h"
#include "util/terminal.h"

enum {
	TITLE_ROW = 0,
	HEAD_ROW = 1,
	PANE_TITLE_ROW = HEAD_ROW + TOTALS_LINES,
	PANE_ROW,
	LINE_MAX_ = 512,
	ESCAPE_MS = 25, /* how long ESC may still be the start of another key */
};

/* Sets only the character encoding: numbers look the same everywhere. If the locale is not installed, the
 * encoding is taken from its name. */
static bool take_locale(void)
{
	if (!terminal_of(STDOUT_FILENO).utf8) {
		setlocale(LC_CTYPE, "C");
		return false;
	}
	if (setlocale(LC_CTYPE, "") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0)
		return true;
	return setlocale(LC_CTYPE, "C.UTF-8") != NULL;
}

int screen_open(struct screen *s, struct error *error)
{
	const char *name = getenv("TERM");

	*s = (struct screen){ .utf8 = take_locale() };
	/* Use the size of the terminal, not what COLUMNS and LINES said at the start. */
	unsetenv("COLUMNS");
	unsetenv("LINES");
	if (!newterm(NULL, stdout, stdin))
		return error_set(
			error,
			"this terminal cannot position the cursor (TERM is %s); 'heapgauge report "
			"--pid PID' writes the same as text",
			name && name[0] ? name : "not set");
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(ESCAPE_MS);
	curs_set(0);
	screen_measure(s);
	return 0;
}

void screen_close(void)
{
	endwin();
}

void screen_measure(struct screen *s)
{
	int rows, columns;

	getmaxyx(stdscr, rows, columns);
	/* A terminal that became narrower may have wrapped the old lines. */
	clearok(stdscr,
		s->rows != (unsigned)MAX(rows, 1) || s->columns != (unsigned)MAX(columns, 1));
	s->rows = (unsigned)MAX(rows, 1);
	s->columns = (unsigned)MAX(columns, 1);
}

int screen_key(void)
{
	int key = getch();

	return key == ERR ? -1 : key;
}

size_t screen_page(const struct screen *s)
{
	return s->rows > PANE_ROW + 1 ? s->rows - PANE_ROW - 1 : 0;
}

/* Draws one row, cut at the edge of the screen. Characters that cannot be shown become '?'. */
static void put(const struct screen *s, size_t row, const char *text, attr_t look)
{
	wchar_t wide[LINE_MAX_];
	mbstate_t state = { 0 };
	size_t count = 0, width = MIN((size_t)s->columns, (size_t)LINE_MAX_ - 1);

	if (row >= s->rows)
		return;
	for (size_t left = strlen(text); left > 0 && count < width;) {
		size_t step = mbrtowc(&wide[count], text, left, &state);

		if (step == 0 || step > left) {
			step = 1;
			state = (mbstate_t){ 0 };
			wide[count] = L'?';
		}
		if (!printable_character((uint32_t)wide[count]))
			wide[count] = L'?';
		count++;
		text += step;
		left -= step;
	}
	while (look & A_REVERSE && count < width)
		wide[count++] = L' ';
	attrset(look);
	mvaddnwstr((int)row, 0, wide, (int)count);
	attrset(A_NORMAL);
}

static void put_pane_title(const struct screen *s, const struct ui_state *ui,
			   const struct screen_text *p)
{
	const struct view_state *state = &ui->current;
	size_t page = screen_page(s), lines = p ? p->line_count : 0;
	char text[LINE_MAX_], place[64] = "";
	int length;

	if (lines > page)
		snprintf(place, sizeof place, "%zu-%zu of %zu ", ui->first_line + 1,
			 MIN(ui->first_line + page, lines), lines);
	length = snprintf(text, sizeof text, " %s%s%s%s%s%s", top_views[state->view].name,
			  top_views[state->view].ordered ? "  by " : "",
			  top_views[state->view].ordered ? top_orders[state->order].name : "",
			  state->filter[0] ? "  only /" : "", state->filter,
			  state->filter[0] ? "/" : "");
	if (length > 0 && s->columns > (size_t)length + strlen(place) && s->columns < sizeof text)
		snprintf(text + length, sizeof text - (size_t)length, "%*s",
			 (int)(s->columns - (size_t)length), place);
	put(s, PANE_TITLE_ROW, text, A_REVERSE);
}

static bool is_chosen(const struct ui_state *ui, const struct screen_text *p, size_t line)
{
	return ui->current.view == VIEW_PROCESSES && ui->cursor < p->process_count &&
	       p->process_lines[ui->cursor] == line;
}

static void put_pane(const struct screen *s, const struct ui_state *ui, const struct screen_text *p)
{
	size_t page = screen_page(s);

	for (size_t i = 0; i < page && ui->first_line + i < p->line_count; i++) {
		size_t line = ui->first_line + i;

		put(s, PANE_ROW + i, p->lines[line], is_chosen(ui, p, line) ? A_REVERSE : A_NORMAL);
	}
}

static void put_foot(const struct screen *s, const struct ui_state *ui, const struct screen_text *p)
{
	char text[LINE_MAX_];

	if (ui->typing) {
		snprintf(text, sizeof text, "filter by function or file (regex): %s_", ui->typed);
		put(s, s->rows - 1, text, A_BOLD);
	} else if (p && p->problem) {
		snprintf(text, sizeof text, "! %s", p->problem);
		put(s, s->rows - 1, text, A_BOLD);
	} else if (ui->current.view == VIEW_PROCESSES) {
		put(s, s->rows - 1, "Enter open   Up Down select   ? help   q quit", A_DIM);
	} else {
		put(s, s->rows - 1,
		    "? help  Tab view  < > sort  / filter  Space pause  b bytes  o others  q quit",
		    A_DIM);
	}
}

static void put_help(const struct screen *s)
{
	static const char *const moving[] = {
		"Tab      next view; Shift-Tab previous view",
		"< >      sort by the next or the previous number",
		"/        only stacks with a function or file matching a regular expression",
		"Space    pause: freeze the data; all views still work",
		"b        exact byte counts",
		"+ -      read twice or half as often",
		"Up Down PgUp PgDn Home End   move",
		"q Ctrl-C quit",
	};
	static const struct top_view none = { "", "", ' ' };
	char text[LINE_MAX_];
	size_t row = 0;

	put(s, row++, " heapgauge top: keys", A_REVERSE);
	for (size_t i = 0; i < ARRAY_SIZE(moving); i++)
		put(s, row++, moving[i], A_NORMAL);
	/* Both tables side by side: the help must fit 24 rows. */
	put(s, row++, " views                                                    orders",
	    A_REVERSE);
	for (size_t order = 0, view = 0; top_orders[order].name; order++, view++) {
		while (view < top_view_count() && !top_view_exists(view))
			view++;
		const struct top_view *v = view < top_view_count() ? &top_views[view] : &none;

		snprintf(text, sizeof text, "%c  %-9s %-44.44s %c  %-9s", v->key, v->name, v->help,
			 top_orders[order].key, top_orders[order].name);
		put(s, row++, text, A_NORMAL);
	}
	put(s, s->rows - 1, "press any key to return", A_DIM);
}

void screen_draw(const struct screen *s, const struct ui_state *ui, const struct screen_text *p)
{
	char text[LINE_MAX_];

	erase();
	if (ui->help) {
		put_help(s);
		refresh();
		return;
	}
	snprintf(text, sizeof text, " heapgauge top%s  %s", ui->current.paused ? "  PAUSED" : "",
		 p && p->title ? p->title : "");
	put(s, TITLE_ROW, text, A_REVERSE);
	for (size_t i = 0; p && i < TOTALS_LINES; i++)
		if (p->head[i])
			put(s, HEAD_ROW + i, p->head[i], A_NORMAL);
	put_pane_title(s, ui, p);
	if (p)
		put_pane(s, ui, p);
	put_foot(s, ui, p);
	refresh();
}
