/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main loop: handles keys and new pictures. It blocks only in poll, so that q and Ctrl-C always work.
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
#include "tui/question.h"
#include "tui/reader.h"
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
static void press_keys(struct looking *l, struct screen *screen, const struct picture *p)
{
	const struct shown shown = { .lines = p ? p->line_count : 0,
				     .page = screen_page(screen),
				     .processes = p ? p->processes : NULL,
				     .process_count = p ? p->process_count : 0 };
	int key;

	while (!l->quit && (key = screen_key()) >= 0)
		looking_press(l, key, &shown);
	screen_measure(screen);
	if (l->question.columns != screen->columns) {
		l->question.columns = screen->columns;
		l->question.serial++;
	}
}

/* Keeps the cursor on its process: the list changes between looking at it and pressing Enter. */
static void follow_process(struct looking *l, const struct picture *before, const struct picture *p)
{
	pid_t pid = before && l->cursor < before->process_count ? before->processes[l->cursor] : 0;

	for (size_t i = 0; pid && i < p->process_count; i++)
		if (p->processes[i] == pid)
			l->cursor = i;
	if (p->process_count)
		l->cursor = MIN(l->cursor, p->process_count - 1);
}

/* Scrolls back if the new picture is too short for the current position. */
static void keep_inside(struct looking *l, const struct picture *p, size_t page)
{
	size_t last = p->line_count > page ? p->line_count - page : 0;

	l->first_line = MIN(l->first_line, last);
}

static void loop(struct looking *l, struct screen *screen, struct reader *reader,
		 const sigset_t *waiting)
{
	struct picture *picture = NULL;

	while (!l->quit && !asked_to_end) {
		struct pollfd polls[] = { { .fd = STDIN_FILENO, .events = POLLIN },
					  { .fd = reader_fd(reader), .events = POLLIN } };
		uint64_t serial = l->question.serial;

		screen_draw(screen, l, picture);
		int ready = ppoll(polls, ARRAY_SIZE(polls), NULL, waiting);

		if (ready < 0) {
			if (errno != EINTR)
				break;
			polls[0].revents = polls[1].revents = 0;
		}
		if (polls[0].revents & (POLLHUP | POLLERR | POLLNVAL))
			break;
		press_keys(l, screen, picture);
		if (l->question.serial != serial)
			reader_ask(reader, &l->question);
		if (polls[1].revents & POLLIN) {
			struct picture *newer = reader_take(reader);

			if (newer) {
				follow_process(l, picture, newer);
				keep_inside(l, newer, screen_page(screen));
				picture_free(picture);
				picture = newer;
			}
		}
	}
	picture_free(picture);
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
	struct looking looking = { .question = { .view = options->pid ? VIEW_SITES : VIEW_PROCESSES,
						 .order = find_order(options->order),
						 .exact_bytes = options->exact_bytes,
						 .interval_ns = options->interval_ns } };
	struct signals signals;
	struct screen screen;
	struct reader *reader;

	question_process(&looking.question, options->pid);
	if (options->filter)
		strncpy(looking.question.filter, options->filter, QUESTION_TEXT - 1);
	signals_take(&signals);
	if (screen_open(&screen, error) < 0) {
		signals_give_back(&signals);
		return -1;
	}
	looking.question.utf8 = screen.utf8;
	looking.question.columns = screen.columns;
	reader = reader_new(&options->source, &looking.question, error);
	if (reader)
		loop(&looking, &screen, reader, &signals.before);
	screen_close();
	reader_free(reader);
	signals_give_back(&signals);
	return reader ? 0 : -1;
}
