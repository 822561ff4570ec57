/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader thread. It owns the last profile, the counters of the reading before it, the names and the totals; the
 * question and the newest picture are shared under one lock. It sleeps while no question is new and no reading is
 * due.
 *
 * Readings take at most a twentieth of the time, however often they are requested, and a fifth including the
 * analysis. Invariant: names refer only to the process of the current profile.
 */
#include "tui/reader.h"

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

struct reader {
	struct top_source source;
	pthread_t thread;
	int event_fd;
	pthread_mutex_t lock; /* protects the next four */
	pthread_cond_t changed;
	struct question question;
	struct picture *picture; /* not fetched yet */
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

void picture_free(struct picture *p)
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

static void forget(struct reader *r)
{
	profile_free(r->profile);
	reading_free(r->now);
	reading_free(r->before);
	names_free(r->names);
	r->profile = NULL;
	r->now = r->before = NULL;
	r->names = NULL;
	r->totals = (struct totals){ 0 };
	r->problem = ERROR_INIT;
	r->due_ns = 0;
}

/* Keeps the last profile if no new one can be read. */
static void take_reading(struct reader *r)
{
	struct error problem = ERROR_INIT;
	struct profile *profile;
	struct reading *reading;

	if (!r->names)
		r->names = r->source.names(r->source.context, r->pid, &problem);
	profile = r->names ? r->source.read(r->source.context, r->pid, &problem) : NULL;
	reading = profile && profile->process_count ? reading_keep(profile) : NULL;
	r->problem = problem;
	if (!reading) {
		profile_free(profile);
		return;
	}
	names_forget(r->names);
	profile_free(r->profile);
	reading_free(r->before);
	r->profile = profile;
	r->before = r->now;
	r->now = reading;
	totals_add(&r->totals, &profile->processes[0]);
}

/* ---- rendering as text ---- */

static int keep_bytes(void *context, struct span bytes, struct error *error)
{
	struct buffer *out = context;

	buffer_append(out, bytes.data, bytes.size);
	return out->failed ? error_set(error, "out of memory") : 0;
}

static int render(const struct result *result, const struct question *q, struct buffer *pane,
		  struct error *error)
{
	const struct render_options options = { .exact_bytes = q->exact_bytes,
						.columns = q->columns,
						.stack_frames = FRAMES_SHOWN,
						.utf8 = q->utf8 };
	struct render_output out = { .write = keep_bytes, .context = pane };
	int status = render_text(result, &options, &out, error);

	buffer_release(&out.buffer);
	return status;
}

static struct result *analyse(const struct reader *r, struct locations *locations,
			      const struct question *q, struct error *error)
{
	struct query query = { 0 };
	struct result *result = NULL;

	if (question_query(q, &query, error) < 0)
		result = NULL;
	else if (q->view == VIEW_SITES)
		result = rates_sites(r->profile, locations, &query, r->before, question_order(q),
				     error);
	else
		result = analysis_answer(analysis_find(top_views[q->view].name), r->profile,
					 locations, &query, error);
	filters_release(&query.filters);
	return result;
}

static int draw_view(const struct reader *r, const struct question *q, struct buffer *pane,
		     struct error *error)
{
	struct locations *locations = locations_new(r->names);
	struct result *result = NULL;
	int status = -1;

	if (locations)
		result = analyse(r, locations, q, error);
	else
		error_set(error, "out of memory");
	if (result)
		status = render(result, q, pane, error);
	result_free(result);
	locations_free(locations);
	return status;
}

/* Takes the pids from the list; they are its first column. */
static bool keep_processes(const struct result *list, struct picture *p)
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

static int draw_processes(const struct reader *r, const struct question *q, struct picture *p,
			  struct buffer *pane, struct error *error)
{
	const struct result *list = NULL;
	struct listing *listing = r->source.list(r->source.context, &list, error);
	int status = listing ? render(list, q, pane, error) : -1;

	if (status == 0 && !keep_processes(list, p))
		status = error_set(error, "out of memory");
	listing_free(listing);
	return status;
}

/* Drops empty lines at the top. */
static bool split_lines(struct picture *p)
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

static void draw_head(const struct reader *r, const struct question *q, struct picture *p)
{
	const struct profile_process *process = &r->profile->processes[0];

	for (size_t i = 0; i < TOTALS_LINES; i++) {
		AUTO(buffer_release) struct buffer line = BUFFER_INIT;

		totals_line(&r->totals, process, i, q->exact_bytes, q->utf8, &line);
		p->head[i] = buffer_take_string(&line);
	}
	if (asprintf(&p->title, "%d  %s  %s  %s", (int)r->pid, process->mode,
		     units_duration(process->duration_ns).text, process->command) < 0)
		p->title = NULL;
}

static struct picture *draw(const struct reader *r, const struct question *q)
{
	AUTO(buffer_release) struct buffer pane = BUFFER_INIT;
	struct picture *p = calloc(1, sizeof *p);
	struct error error = r->problem;
	int status = 0;

	if (!p)
		return NULL;
	p->serial = q->serial;
	if (r->profile)
		draw_head(r, q, p);
	if (q->view == VIEW_PROCESSES) {
		error = ERROR_INIT;
		status = draw_processes(r, q, p, &pane, &error);
	} else if (r->profile) {
		struct error wrong = ERROR_INIT;

		status = draw_view(r, q, &pane, &wrong);
		if (status < 0)
			error = wrong;
	}
	p->problem = error.message[0] ? strdup(error.message) : NULL;
	p->pane = status == 0 ? buffer_take_string(&pane) : strdup("");
	if (!p->pane || !split_lines(p)) {
		picture_free(p);
		return NULL;
	}
	return p;
}

/* ---- the thread ---- */

static void wait_until(struct reader *r, uint64_t due_ns)
{
	struct timespec until = { .tv_sec = (time_t)(due_ns / NS_PER_S),
				  .tv_nsec = (long)(due_ns % NS_PER_S) };

	pthread_cond_timedwait(&r->changed, &r->lock, &until);
}

/* Waits for the next question; returns false to stop. */
static bool next_question(struct reader *r, uint64_t answered, struct question *ret)
{
	pthread_mutex_lock(&r->lock);
	while (!r->stop && r->question.serial == answered &&
	       (r->question.paused || clock_monotonic_ns() < r->due_ns))
		if (r->question.paused)
			pthread_cond_wait(&r->changed, &r->lock);
		else
			wait_until(r, r->due_ns);
	*ret = r->question;
	pthread_mutex_unlock(&r->lock);
	return !r->stop;
}

static void publish(struct reader *r, struct picture *picture)
{
	uint64_t one = 1;

	if (!picture)
		return; /* out of memory: keep the last picture */
	pthread_mutex_lock(&r->lock);
	picture_free(r->picture);
	r->picture = picture;
	pthread_mutex_unlock(&r->lock);
	(void)!write(r->event_fd, &one, sizeof one);
}

static void answer(struct reader *r, const struct question *q)
{
	uint64_t began_ns = clock_monotonic_ns(), read_ns;
	bool due = !q->paused && began_ns >= r->due_ns;

	if (q->pid != r->pid) {
		forget(r);
		r->pid = q->pid;
		due = true;
	}
	if (due && r->pid && q->view != VIEW_PROCESSES)
		take_reading(r);
	read_ns = clock_monotonic_ns() - began_ns;
	publish(r, draw(r, q));
	if (!due)
		return;
	uint64_t made_ns = clock_monotonic_ns() - began_ns;
	uint64_t rest_ns = MAX(read_ns * READ_SHARE, made_ns * MAKE_SHARE);

	r->due_ns = began_ns + MAX(q->interval_ns, rest_ns);
}

static void *run(void *context)
{
	struct reader *r = context;
	uint64_t answered = UINT64_MAX;
	struct question question;

	while (next_question(r, answered, &question)) {
		answer(r, &question);
		answered = question.serial;
	}
	return NULL;
}

struct reader *reader_new(const struct top_source *source, const struct question *question,
			  struct error *error)
{
	struct reader *r = calloc(1, sizeof *r);
	pthread_condattr_t monotonic;
	sigset_t all, saved;

	if (!r) {
		error_set(error, "out of memory");
		return NULL;
	}
	r->source = *source;
	r->question = *question;
	r->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&r->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&r->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	/* Signals are handled by the main loop, except SIGBUS: util/files.h. */
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	errno = r->event_fd < 0 ? errno : pthread_create(&r->thread, NULL, run, r);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	if (r->event_fd >= 0 && errno == 0)
		return r;
	error_errno(error, "cannot start a thread");
	if (r->event_fd >= 0)
		close(r->event_fd);
	free(r);
	return NULL;
}

void reader_free(struct reader *r)
{
	struct timespec until;

	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	r->stop = true;
	pthread_cond_signal(&r->changed);
	pthread_mutex_unlock(&r->lock);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += TIMEOUT_MS * 1000000L;
	until.tv_sec += until.tv_nsec / (long)NS_PER_S;
	until.tv_nsec %= (long)NS_PER_S;
	if (pthread_timedjoin_np(r->thread, NULL, &until) != 0)
		return;
	forget(r);
	picture_free(r->picture);
	close(r->event_fd);
	pthread_cond_destroy(&r->changed);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

int reader_fd(const struct reader *r)
{
	return r->event_fd;
}

struct picture *reader_take(struct reader *r)
{
	struct picture *picture;
	uint64_t count;

	(void)!read(r->event_fd, &count, sizeof count);
	pthread_mutex_lock(&r->lock);
	picture = TAKE(r->picture);
	pthread_mutex_unlock(&r->lock);
	return picture;
}

void reader_ask(struct reader *r, const struct question *question)
{
	pthread_mutex_lock(&r->lock);
	r->question = *question;
	pthread_cond_signal(&r->changed);
	pthread_mutex_unlock(&r->lock);
}
