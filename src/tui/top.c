/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main loop: handles keys and new texts of the worker. It blocks only in poll, so that q and Ctrl-C always work.
 *
 * Signals: SIGINT, SIGTERM and SIGHUP end it like q, with the terminal restored. Only one instance per process.
 */
#include "tui/top.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "tui/view_state.h"
#include "tui/top_worker.h"
#include "tui/screen.h"

static volatile sig_atomic_t asked_to_end;

static void note_signal(int number)
{
	(void)number;
	asked_to_end = 1;
}

/* The signals that end us, and SIGWINCH, which ncurses handles. They are unblocked only during the poll, so that
 * none is lost between the check for it and the wait. */
struct signals {
	struct sigaction saved[3];
	sigset_t before;
};
static const int ends[] = { SIGINT, SIGTERM, SIGHUP };

static void signals_take(struct signals *signals)
{
	struct sigaction action = { .sa_handler = note_signal };
	sigset_t held;

	sigemptyset(&action.sa_mask);
	sigemptyset(&held);
	sigaddset(&held, SIGWINCH);
	asked_to_end = 0;
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		sigaddset(&held, ends[i]);
		sigaction(ends[i], &action, &signals->saved[i]);
	}
	sigprocmask(SIG_BLOCK, &held, &signals->before);
}

static void signals_give_back(const struct signals *signals)
{
	sigprocmask(SIG_SETMASK, &signals->before, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		sigaction(ends[i], &signals->saved[i], NULL);
}

/* Handles all pending keys. */
static void press_keys(struct ui_state *ui, struct screen *screen, const struct screen_text *p)
{
	const struct shown shown = { .lines = p ? p->line_count : 0,
				     .page = screen_page(screen),
				     .processes = p ? p->processes : NULL,
				     .process_count = p ? p->process_count : 0 };
	int key;

	while (!ui->quit && (key = screen_key()) >= 0)
		ui_handle_key(ui, key, &shown);
	screen_measure(screen);
	if (ui->current.columns != screen->columns) {
		ui->current.columns = screen->columns;
		ui->current.serial++;
	}
}

/* Keeps the cursor on its process: the list changes between looking at it and pressing Enter. */
static void follow_process(struct ui_state *ui, const struct screen_text *before,
			   const struct screen_text *p)
{
	pid_t pid =
		before && ui->cursor < before->process_count ? before->processes[ui->cursor] : 0;

	for (size_t i = 0; pid && i < p->process_count; i++)
		if (p->processes[i] == pid)
			ui->cursor = i;
	if (p->process_count)
		ui->cursor = MIN(ui->cursor, p->process_count - 1);
}

/* Scrolls back if the new text is too short for the current position. */
static void keep_inside(struct ui_state *ui, const struct screen_text *p, size_t page)
{
	size_t last = p->line_count > page ? p->line_count - page : 0;

	ui->first_line = MIN(ui->first_line, last);
}

static void loop(struct ui_state *ui, struct screen *screen, struct top_worker *worker,
		 const sigset_t *waiting)
{
	struct screen_text *text = NULL;

	while (!ui->quit && !asked_to_end) {
		struct pollfd polls[] = { { .fd = STDIN_FILENO, .events = POLLIN },
					  { .fd = top_worker_fd(worker), .events = POLLIN } };
		uint64_t serial = ui->current.serial;

		screen_draw(screen, ui, text);
		int ready = ppoll(polls, ARRAY_SIZE(polls), NULL, waiting);

		if (ready < 0) {
			if (errno != EINTR)
				break;
			polls[0].revents = polls[1].revents = 0;
		}
		if (polls[0].revents & (POLLHUP | POLLERR | POLLNVAL))
			break;
		press_keys(ui, screen, text);
		if (ui->current.serial != serial)
			top_worker_set_state(worker, &ui->current);
		if (polls[1].revents & POLLIN) {
			struct screen_text *newer = top_worker_take(worker);

			if (newer) {
				follow_process(ui, text, newer);
				keep_inside(ui, newer, screen_page(screen));
				screen_text_free(text);
				text = newer;
			}
		}
	}
	screen_text_free(text);
}

static size_t find_order(const char *name)
{
	for (size_t i = 0; name && top_orders[i].name; i++)
		if (strcmp(top_orders[i].name, name) == 0)
			return i;
	return 0;
}

int top_run(const struct top_options *options, struct error *error)
{
	struct ui_state ui = { .current = { .view = options->pid ? VIEW_SITES : VIEW_PROCESSES,
					    .order = find_order(options->order),
					    .exact_bytes = options->exact_bytes,
					    .interval_ns = options->interval_ns } };
	struct signals signals;
	struct screen screen;
	struct top_worker *worker;

	view_state_set_process(&ui.current, options->pid);
	if (options->filter)
		strncpy(ui.current.filter, options->filter, FILTER_SIZE - 1);
	signals_take(&signals);
	if (screen_open(&screen, error) < 0) {
		signals_give_back(&signals);
		return -1;
	}
	ui.current.utf8 = screen.utf8;
	ui.current.columns = screen.columns;
	worker = top_worker_new(&options->source, &ui.current, error);
	if (worker)
		loop(&ui, &screen, worker, &signals.before);
	screen_close();
	top_worker_free(worker);
	signals_give_back(&signals);
	return worker ? 0 : -1;
}
