/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker thread. It owns the last profile, the counters of the reading before it, the names and the totals; the
 * view state and the newest text are shared under one lock. It sleeps while the view state is unchanged and no
 * reading is due.
 *
 * Readings take at most a twentieth of the time, however often they are requested, and a fifth including the
 * analysis. Invariant: names refer only to the process of the current profile.
 */
#include "tui/top_worker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "analysis/analyses.h"
#include "base/checked.h"
#include "render/renderers.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/text/units.h"

enum { READ_SHARE = 20, MAKE_SHARE = 5, TIMEOUT_MS = 200, FRAMES_SHOWN = 8 };

struct top_worker {
	struct top_source source;
	pthread_t thread;
	int event_fd;
	pthread_mutex_t lock; /* protects the next four */
	pthread_cond_t changed;
	struct view_state state;
	struct screen_text *text; /* not fetched yet */
	bool stop;

	/* private to the thread */
	pid_t pid; /* the process of the members below; 0: none */
	struct profile *profile;
	struct reading *now, *before; /* counters of `profile`, and of the previous one */
	struct names *names;
	struct totals totals;
	struct error problem; /* of the last reading; "": none */
	uint64_t due_ns;
};

void screen_text_free(struct screen_text *p)
{
	if (!p)
		return;
	free(p->title);
	for (size_t i = 0; i < TOTALS_LINES; i++)
		free(p->head[i]);
	free(p->pane);
	free(p->lines);
	free(p->processes);
	free(p->process_lines);
	free(p->problem);
	free(p);
}

/* ---- reading ---- */

static void forget(struct top_worker *w)
{
	profile_free(w->profile);
	reading_free(w->now);
	reading_free(w->before);
	names_free(w->names);
	w->profile = NULL;
	w->now = w->before = NULL;
	w->names = NULL;
	w->totals = (struct totals){ 0 };
	w->problem = ERROR_INIT;
	w->due_ns = 0;
}

/* Keeps the last profile if no new one can be read. */
static void take_reading(struct top_worker *w)
{
	struct error problem = ERROR_INIT;
	struct profile *profile;
	struct reading *reading;

	if (!w->names)
		w->names = w->source.names(w->source.context, w->pid, &problem);
	profile = w->names ? w->source.read(w->source.context, w->pid, &problem) : NULL;
	reading = profile && profile->process_count ? reading_keep(profile) : NULL;
	w->problem = problem;
	if (!reading) {
		profile_free(profile);
		return;
	}
	names_forget(w->names);
	profile_free(w->profile);
	reading_free(w->before);
	w->profile = profile;
	w->before = w->now;
	w->now = reading;
	totals_add(&w->totals, &profile->processes[0]);
}

/* ---- rendering as text ---- */

static int keep_bytes(void *context, struct span bytes, struct error *error)
{
	struct buffer *out = context;

	buffer_append(out, bytes.data, bytes.size);
	return out->failed ? error_set(error, "out of memory") : 0;
}

static int render(const struct result *result, const struct view_state *state, struct buffer *pane,
		  struct error *error)
{
	const struct render_options options = { .exact_bytes = state->exact_bytes,
						.columns = state->columns,
						.stack_frames = FRAMES_SHOWN,
						.utf8 = state->utf8 };
	struct render_output out = { .write = keep_bytes, .context = pane };
	int status = render_text(result, &options, &out, error);

	buffer_release(&out.buffer);
	return status;
}

static struct result *analyse(const struct top_worker *w, struct locations *locations,
			      const struct view_state *state, struct error *error)
{
	struct query query = { 0 };
	struct result *result = NULL;

	if (view_state_query(state, &query, error) < 0)
		result = NULL;
	else if (state->view == VIEW_SITES)
		result = rates_sites(w->profile, locations, &query, w->before,
				     view_state_order(state), error);
	else
		result = analysis_answer(analysis_find(top_views[state->view].name), w->profile,
					 locations, &query, error);
	filters_release(&query.filters);
	return result;
}

static int draw_view(const struct top_worker *w, const struct view_state *state,
		     struct buffer *pane, struct error *error)
{
	struct locations *locations = locations_new(w->names);
	struct result *result = NULL;
	int status = -1;

	if (locations)
		result = analyse(w, locations, state, error);
	else
		error_set(error, "out of memory");
	if (result)
		status = render(result, state, pane, error);
	result_free(result);
	locations_free(locations);
	return status;
}

/* Takes the pids from the list; they are its first column. */
static bool keep_processes(const struct result *list, struct screen_text *p)
{
	const struct result_table *t = &list->table;

	p->processes = calloc(t->row_count + 1, sizeof *p->processes);
	p->process_lines = calloc(t->row_count + 1, sizeof *p->process_lines);
	if (!p->processes || !p->process_lines)
		return false;
	for (size_t i = 0; i < t->row_count; i++)
		p->processes[i] = (pid_t)t->values[i * t->column_count].number;
	p->process_count = t->row_count;
	return true;
}

static int draw_processes(const struct top_worker *w, const struct view_state *state,
			  struct screen_text *p, struct buffer *pane, struct error *error)
{
	const struct result *list = NULL;
	struct listing *listing = w->source.list(w->source.context, &list, error);
	int status = listing ? render(list, state, pane, error) : -1;

	if (status == 0 && !keep_processes(list, p))
		status = error_set(error, "out of memory");
	listing_free(listing);
	return status;
}

/* Drops empty lines at the top. */
static bool split_lines(struct screen_text *p)
{
	char *text = p->pane + strspn(p->pane, "\n"), *rest = text;
	size_t count = 0, process = 0;

	for (const char *at = text; *at; at++)
		count += *at == '\n';
	p->lines = calloc(count + 1, sizeof *p->lines);
	if (!p->lines)
		return false;
	for (char *line; p->line_count < count && (line = strsep(&rest, "\n"));) {
		if (process < p->process_count && strtol(line, NULL, 10) == p->processes[process])
			p->process_lines[process++] = p->line_count;
		p->lines[p->line_count++] = line;
	}
	p->process_count = MIN(p->process_count, process);
	return true;
}

static void draw_head(const struct top_worker *w, const struct view_state *state,
		      struct screen_text *p)
{
	const struct profile_process *process = &w->profile->processes[0];

	for (size_t i = 0; i < TOTALS_LINES; i++) {
		AUTO(buffer_release) struct buffer line = BUFFER_INIT;

		totals_line(&w->totals, process, i, state->exact_bytes, state->utf8, &line);
		p->head[i] = buffer_take_string(&line);
	}
	if (asprintf(&p->title, "%d  %s  %s  %s", (int)w->pid, process->mode,
		     units_duration(process->duration_ns).text, process->command) < 0)
		p->title = NULL;
}

static struct screen_text *draw(const struct top_worker *w, const struct view_state *state)
{
	AUTO(buffer_release) struct buffer pane = BUFFER_INIT;
	struct screen_text *p = calloc(1, sizeof *p);
	struct error error = w->problem;
	int status = 0;

	if (!p)
		return NULL;
	p->serial = state->serial;
	if (w->profile)
		draw_head(w, state, p);
	if (state->view == VIEW_PROCESSES) {
		error = ERROR_INIT;
		status = draw_processes(w, state, p, &pane, &error);
	} else if (w->profile) {
		struct error wrong = ERROR_INIT;

		status = draw_view(w, state, &pane, &wrong);
		if (status < 0)
			error = wrong;
	}
	p->problem = error.message[0] ? strdup(error.message) : NULL;
	p->pane = status == 0 ? buffer_take_string(&pane) : strdup("");
	if (!p->pane || !split_lines(p)) {
		screen_text_free(p);
		return NULL;
	}
	return p;
}

/* ---- the thread ---- */

static void wait_until(struct top_worker *w, uint64_t due_ns)
{
	struct timespec until = { .tv_sec = (time_t)(due_ns / NS_PER_S),
				  .tv_nsec = (long)(due_ns % NS_PER_S) };

	pthread_cond_timedwait(&w->changed, &w->lock, &until);
}

/* Waits for the next state; returns false to stop. */
static bool next_state(struct top_worker *w, uint64_t last_serial, struct view_state *ret)
{
	pthread_mutex_lock(&w->lock);
	while (!w->stop && w->state.serial == last_serial &&
	       (w->state.paused || clock_monotonic_ns() < w->due_ns))
		if (w->state.paused)
			pthread_cond_wait(&w->changed, &w->lock);
		else
			wait_until(w, w->due_ns);
	*ret = w->state;
	pthread_mutex_unlock(&w->lock);
	return !w->stop;
}

static void publish(struct top_worker *w, struct screen_text *text)
{
	uint64_t one = 1;

	if (!text)
		return; /* out of memory: keep the last text */
	pthread_mutex_lock(&w->lock);
	screen_text_free(w->text);
	w->text = text;
	pthread_mutex_unlock(&w->lock);
	(void)!write(w->event_fd, &one, sizeof one);
}

static void update(struct top_worker *w, const struct view_state *state)
{
	uint64_t began_ns = clock_monotonic_ns(), read_ns;
	bool due = !state->paused && began_ns >= w->due_ns;

	if (state->pid != w->pid) {
		forget(w);
		w->pid = state->pid;
		due = true;
	}
	if (due && w->pid && state->view != VIEW_PROCESSES)
		take_reading(w);
	read_ns = clock_monotonic_ns() - began_ns;
	publish(w, draw(w, state));
	if (!due)
		return;
	uint64_t made_ns = clock_monotonic_ns() - began_ns;
	uint64_t rest_ns = MAX(read_ns * READ_SHARE, made_ns * MAKE_SHARE);

	w->due_ns = began_ns + MAX(state->interval_ns, rest_ns);
}

static void *run(void *context)
{
	struct top_worker *w = context;
	uint64_t last_serial = UINT64_MAX;
	struct view_state state;

	while (next_state(w, last_serial, &state)) {
		update(w, &state);
		last_serial = state.serial;
	}
	return NULL;
}

struct top_worker *top_worker_new(const struct top_source *source, const struct view_state *state,
				  struct error *error)
{
	struct top_worker *w = calloc(1, sizeof *w);
	pthread_condattr_t monotonic;
	sigset_t all, saved;

	if (!w) {
		error_set(error, "out of memory");
		return NULL;
	}
	w->source = *source;
	w->state = *state;
	w->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&w->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	/* Signals are handled by the main loop, except SIGBUS: util/files.h. */
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	errno = w->event_fd < 0 ? errno : pthread_create(&w->thread, NULL, run, w);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	if (w->event_fd >= 0 && errno == 0)
		return w;
	error_errno(error, "cannot start a thread");
	if (w->event_fd >= 0)
		close(w->event_fd);
	free(w);
	return NULL;
}

void top_worker_free(struct top_worker *w)
{
	struct timespec until;

	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += TIMEOUT_MS * 1000000L;
	until.tv_sec += until.tv_nsec / (long)NS_PER_S;
	until.tv_nsec %= (long)NS_PER_S;
	if (pthread_timedjoin_np(w->thread, NULL, &until) != 0)
		return;
	forget(w);
	screen_text_free(w->text);
	close(w->event_fd);
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

int top_worker_fd(const struct top_worker *w)
{
	return w->event_fd;
}

struct screen_text *top_worker_take(struct top_worker *w)
{
	struct screen_text *text;
	uint64_t count;

	(void)!read(w->event_fd, &count, sizeof count);
	pthread_mutex_lock(&w->lock);
	text = TAKE(w->text);
	pthread_mutex_unlock(&w->lock);
	return text;
}

void top_worker_set_state(struct top_worker *w, const struct view_state *state)
{
	pthread_mutex_lock(&w->lock);
	w->state = *state;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
}
