/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's loop: see agent.h. Owns everything; ends by a signal. */
#include "agent/agent.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/batch.h"
#include "agent/endpoints.h"
#include "agent/metrics.h"
#include "agent/push/outlets.h"
#include "base/checked.h"
#include "serve/serve.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/files.h"

/* How long a process may go unnoticed. */
#define SCAN_MAX_NS (10 * NS_PER_S)
/* A reading that takes longer is at the cost of others. */
#define SLOW_NS (5 * NS_PER_S)
/* A process is read up to this part of the interval early, if one child can then read it with others. */
enum { EARLY_OF = 4 };

/* What Pyroscope accepts by default. Its profiles may have 4 MiB, but its rate limit has a burst of 2 MiB, which a larger one
 * would never pass. */
enum { MAX_SAMPLES = 16000, MAX_BYTES = 2 << 20 };

/* Of a recording: with profile and baseline it must fit into what a child may write (reader.c). */
enum { RECORDING_MAX = 180 << 20 };

struct reading_request agent_request(const struct agent *agent, const struct agent_process *process)
{
	struct reading_request request = { .recorded = process->recorded,
					   .has_ended = process->fate != FATE_RUNS,
					   .names = agent->settings->names,
					   .uid = process->reader_uid,
					   .gid = process->reader_gid,
					   .max_recording_bytes = MIN(agent->settings->keep_bytes,
								      (uint64_t)RECORDING_MAX),
					   .max_samples = MAX_SAMPLES,
					   .max_bytes = MAX_BYTES };

	if (process->fate != FATE_RUNS)
		request.recorded.pid = 0;
	if (process->reader_uid == 0) {
		request.uid = request.gid = (uint32_t)agent->settings->reader_uid;
		request.reads_all_files = process->is_local;
	}
	snprintf(request.version, sizeof request.version, "%s", agent->version);
	if (agent->settings->state)
		snprintf(request.cache, sizeof request.cache, "%s/names/%s%u",
			 agent->settings->state, process->reader_uid == 0 ? "root-" : "",
			 request.uid);
	return request;
}

/* ---- the signal ---- */

static volatile sig_atomic_t stopped;
static int stop_fd =
	-1; /* an event for those who wait: a signal between a check and a wait is not lost */

static void on_signal(int number)
{
	static const uint64_t one = 1;
	int before = errno;

	(void)number;
	stopped = 1;
	(void)!write(stop_fd, &one, sizeof one);
	errno = before;
}

static int catch_signals(struct error *error)
{
	const struct sigaction action = { .sa_handler = on_signal };

	stopped = 0;
	stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (stop_fd < 0)
		return error_errno(error, "cannot catch signals");
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	return 0;
}

/* ---- what a reading changes ---- */

static int compare_paths(const void *left, const void *right)
{
	return strcmp(((const struct reading_tag *)left)->path,
		      ((const struct reading_tag *)right)->path);
}

/* Sanitized, and each path once: a scrape with two equal series is refused as a whole. */
static struct reading_tag *take_tags(const struct reading_parts *parts, uint32_t *ret_count)
{
	uint32_t count = parts->reading->tag_count, kept = 0;
	struct reading_tag *tags = calloc(count + 1, sizeof *tags);

	for (uint32_t i = 0; tags && i < count; i++) {
		tags[i] = parts->tags[i];
		tags[i].path[READING_TEXT - 1] = '\0';
		label_text(tags[i].path, sizeof tags[i].path, parts->tags[i].path);
	}
	if (tags)
		qsort(tags, count, sizeof *tags, compare_paths);
	for (uint32_t i = 0; tags && i < count; i++) {
		if (kept && strcmp(tags[kept - 1].path, tags[i].path) == 0) {
			tags[kept - 1].live_bytes += tags[i].live_bytes;
			tags[kept - 1].live_blocks += tags[i].live_blocks;
			tags[kept - 1].bytes += tags[i].bytes;
			tags[kept - 1].calls += tags[i].calls;
		} else {
			tags[kept++] = tags[i];
		}
	}
	*ret_count = tags ? kept : 0;
	return tags;
}

static void take_health(struct reading *reading)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < reading->health_count; i++) {
		struct reading_health one = reading->health[i];
		bool again = false;

		one.name[sizeof one.name - 1] = '\0';
		label_text(reading->health[kept].name, sizeof one.name, one.name);
		reading->health[kept].count = one.count;
		for (uint32_t j = 0; j < kept; j++)
			again |= strcmp(reading->health[j].name, reading->health[kept].name) == 0;
		kept += !again;
	}
	reading->health_count = kept;
}

/* Keeps a copy of what a good reading found. */
static void take_reading(struct agent_process *process, const struct reading_parts *parts)
{
	struct reading *reading = malloc(sizeof *reading);

	if (!reading)
		return;
	*reading = *parts->reading;
	reading->program[READING_TEXT - 1] = '\0';
	free(process->tags);
	process->tags = take_tags(parts, &reading->tag_count);
	take_health(reading);
	free(process->reading);
	process->reading = reading;
	process->problem[0] = '\0';
}

/* Call with the lock. */
static void note_problem(struct agent *agent, struct agent_process *process, const char *problem)
{
	char text[sizeof process->problem];
	struct buffer line = BUFFER_INIT;

	label_text(text, sizeof text, problem);
	if (strcmp(text, process->problem) == 0)
		return; /* said already */
	memcpy(process->problem, text, sizeof text);
	buffer_printf(&line, "%s: %s", labels_get(&process->labels, "service_name"), text);
	if (buffer_string(&line))
		agent->print(buffer_string(&line));
	buffer_release(&line);
}

/* ---- one process ---- */

/* How much time the profile covers. Of a process that is younger than the interval or the agent, everything is new. */
static void ask_deltas(const struct agent *agent, const struct baseline_head *head,
		       bool has_baseline, uint64_t now_mono_ns, struct reading_request *request)
{
	request->deltas = true;
	request->wants_pprof = true;
	request->has_baseline = has_baseline;
	request->agent_began_ns = agent->started_mono_ns;
	/* Not by the wall clock, which may be set meanwhile. */
	request->interval_ns = has_baseline ? saturating_sub(now_mono_ns, head->at_mono_ns)
					    : agent->settings->interval_ns;
}

/* One process of a batch. */
struct due {
	struct agent_process *process;
	struct baseline_head head;
	uint64_t at_real_ns, at_mono_ns;
	bool is_last;
};

/* parts->reading is NULL if the child failed; the error says why. */
static void count_reading(struct agent *agent, struct agent_process *process,
			  const struct reading_parts *parts, const struct error *error)
{
	const struct reading *reading = parts->reading;

	pthread_mutex_lock(&agent->lock);
	if (reading)
		agent->counts.folded_stacks += reading->folded_stacks;
	if (reading && reading->status == READING_DONE) {
		agent->counts.readings++;
		metrics_count(&agent->processes, process, reading);
		take_reading(process, parts);
	} else if (!reading || reading->status != READING_NOTHING) {
		agent->counts.failed_readings++;
		note_problem(agent, process, reading ? reading->problem : error->message);
	}
	pthread_mutex_unlock(&agent->lock);
}

/* Nothing can be read of it, now or later. */
static void forget_empty(struct agent *agent, struct agent_process *process)
{
	struct error error = ERROR_INIT;

	pthread_mutex_lock(&agent->lock);
	agent->counts.empty++;
	process->problem[0] = '\0';
	if (agent->settings->keep && process_remove_file(process, &error) < 0)
		note_problem(agent, process, error.message);
	process->is_handled = true;
	pthread_mutex_unlock(&agent->lock);
}

/* Opens its profile. False: nothing is left to read. */
static bool has_more(struct agent *agent, struct agent_process *process, const struct due *due,
		     int *ret_fd)
{
	if (due->is_last && (due->head.is_last || process->profile_fd < 0)) {
		process->is_handled = true;
		return false;
	}
	if (due->is_last && process_is_empty(process)) {
		forget_empty(agent, process);
		return false;
	}
	return process_borrow(process, ret_fd); /* else the next scan says what has become of it */
}

/* False: nothing is left to read. */
static bool prepare(struct agent *agent, struct agent_process *process, uint64_t now_ns,
		    struct due *due, struct reading_task *task)
{
	struct reading_request *request = &task->request;
	const struct outlets *outlets = agent->outlets;

	*due = (struct due){ .process = process,
			     .at_real_ns = clock_real_ns(),
			     .at_mono_ns = clock_monotonic_ns(),
			     .is_last = process->fate != FATE_RUNS };
	*task = (struct reading_task){
		.request = agent_request(agent, process),
		.profile_fd = -1,
		.baseline_fd = outlets ? outlets_baseline(outlets, process, &due->head) : -1,
	};
	process->next_ns = now_ns + agent->settings->interval_ns;
	if (!has_more(agent, process, due, &task->profile_fd)) {
		cleanup_close(&task->baseline_fd);
		return false;
	}
	request->held = task->profile_fd >= 0;
	if (process->reading)
		request->memory_before = process->reading->memory;
	if (!outlets)
		return true;
	ask_deltas(agent, &due->head, task->baseline_fd >= 0, due->at_mono_ns, request);
	request->wants_recording =
		due->is_last && process->fate != FATE_EXITED && outlets_keeps(outlets);
	request->wants_modules = !due->is_last && outlets_wants_modules(outlets);
	return true;
}

/* Sends what was read. */
static void finish(struct agent *agent, struct due *due, const struct reading_task *task,
		   const struct reading_parts *parts, struct error *error)
{
	struct agent_process *process = due->process;

	count_reading(agent, process, parts, error);
	if (parts->reading && parts->reading->status == READING_DONE && agent->outlets) {
		outlets_offer_modules(agent->outlets, process, parts);
		due->head.serial++;
		due->head.at_real_ns = due->at_real_ns;
		due->head.at_mono_ns = due->at_mono_ns;
		due->head.is_last = due->is_last;
		if (outlets_send(agent->outlets, process, parts, due->head, error) < 0 ||
		    (task->request.wants_recording &&
		     outlets_keep(agent->outlets, process, parts, error) < 0)) {
			pthread_mutex_lock(&agent->lock);
			note_problem(agent, process, error->message);
			pthread_mutex_unlock(&agent->lock);
		}
	}
	process->is_handled = due->is_last;
}

static void release_task(struct reading_task *task, struct reader_result *result)
{
	reader_result_release(result);
	cleanup_close(&task->baseline_fd);
	cleanup_close(&task->profile_fd);
}

static void read_alone(struct agent *agent, struct agent_process *process, uint64_t now_ns)
{
	struct error error = ERROR_INIT;
	struct due due;
	struct reading_task task;
	struct reader_result result;

	if (!prepare(agent, process, now_ns, &due, &task))
		return;
	int status = reader_read_batch(&agent->reader, &task, 1, &result, &error);

	if (status == 0 || !stopped)
		finish(agent, &due, &task, &result.parts, &error);
	release_task(&task, &result);
}

struct batch {
	struct agent_process *processes[READING_BATCH_MAX];
	struct due due[READING_BATCH_MAX];
	struct reading_task tasks[READING_BATCH_MAX];
	struct reader_result results[READING_BATCH_MAX];
};

/* Those that the child did not get to are read again, each alone: a hostile profile costs no reading but its own. */
static void read_together(struct agent *agent, struct batch *batch, size_t gathered,
			  uint64_t now_ns)
{
	struct error error = ERROR_INIT;
	size_t count = 0;
	bool has_failed;

	for (size_t i = 0; i < gathered; i++) {
		if (!prepare(agent, batch->processes[i], now_ns, &batch->due[count],
			     &batch->tasks[count]))
			continue;
		batch->processes[count++] = batch->processes[i];
	}
	if (count == 0)
		return;
	has_failed =
		reader_read_batch(&agent->reader, batch->tasks, count, batch->results, &error) < 0;
	for (size_t i = 0; i < count; i++) {
		const struct reading_parts *parts = &batch->results[i].parts;
		bool is_read = parts->reading && parts->reading->status != READING_OTHER;

		if (is_read) {
			finish(agent, &batch->due[i], &batch->tasks[i], parts, &error);
		} else if (has_failed && !parts->reading) {
			batch->processes[i]->is_suspect = true;
			has_failed = false;
		}
		release_task(&batch->tasks[i], &batch->results[i]);
		if (!is_read && !stopped)
			read_alone(agent, batch->processes[i], now_ns);
	}
}

static struct agent_rest *rest_of(struct agent *agent, uint32_t uid)
{
	struct agent_rest *oldest = &agent->rests[0];

	for (size_t i = 0; i < ARRAY_SIZE(agent->rests); i++) {
		if (agent->rests[i].until_ns && agent->rests[i].uid == uid)
			return &agent->rests[i];
		if (agent->rests[i].until_ns < oldest->until_ns)
			oldest = &agent->rests[i];
	}
	*oldest = (struct agent_rest){ .uid = uid };
	return oldest;
}

/* A user whose readings take long gets half of the time at most, however many processes there are. */
static void read_fairly(struct agent *agent, struct batch *batch, size_t first, uint64_t now_ns)
{
	struct agent_process *process = agent->processes.at.at[first];
	uint64_t before_ns = clock_monotonic_ns();
	struct agent_rest *rest = rest_of(agent, process->reader_uid);

	if (rest->until_ns > before_ns) {
		process->next_ns = rest->until_ns;
		return;
	}
	size_t count =
		batch_gather(&agent->processes, first,
			     now_ns + agent->settings->interval_ns / EARLY_OF, batch->processes);

	if (count == 1)
		read_alone(agent, process, now_ns);
	else
		read_together(agent, batch, count, now_ns);
	uint64_t after_ns = clock_monotonic_ns();

	if (after_ns - before_ns >= SLOW_NS)
		rest->until_ns = after_ns + (after_ns - before_ns);
}

/* Readings after the first are spread over the interval. */
static void read_due(struct agent *agent, uint64_t now_ns)
{
	AUTO_FREE struct batch *batch = malloc(sizeof *batch);

	for (size_t i = 0; batch && i < agent->processes.at.count && !stopped; i++) {
		struct agent_process *process = agent->processes.at.at[i];
		bool is_first = !process->reading;

		if (process->is_handled || process->next_ns > now_ns)
			continue;
		read_fairly(agent, batch, i, now_ns);
		if (is_first && process->reading && process->fate == FATE_RUNS)
			process->next_ns = now_ns + agent->settings->interval_ns / 2 +
					   process->id % (agent->settings->interval_ns / 2);
	}
}

/* ---- the loop ---- */

static uint64_t next_scan(const struct agent *agent)
{
	return agent->scanned_ns + MIN(SCAN_MAX_NS, agent->settings->interval_ns);
}

static uint64_t next_event(const struct agent *agent, uint64_t now_ns)
{
	uint64_t next = next_scan(agent);

	for (size_t i = 0; i < agent->processes.at.count; i++)
		if (!agent->processes.at.at[i]->is_handled)
			next = MIN(next, agent->processes.at.at[i]->next_ns);
	return MAX(next, now_ns + 10 * NS_PER_MS);
}

static void count_ends(struct agent *agent)
{
	for (size_t i = 0; i < agent->processes.at.count; i++) {
		const struct agent_process *p = agent->processes.at.at[i];

		if (p->is_handled && !p->is_counted) {
			agent->counts.ended[p->fate]++;
			agent->processes.at.at[i]->is_counted = true;
		}
	}
}

static void scan(struct agent *agent, uint64_t now_ns)
{
	struct error error = ERROR_INIT;

	pthread_mutex_lock(&agent->lock);
	if (processes_scan(&agent->processes, now_ns, &error) < 0)
		agent->print(error.message);
	pthread_mutex_unlock(&agent->lock);
	agent->scanned_ns = now_ns;
}

static void sweep(struct agent *agent)
{
	pthread_mutex_lock(&agent->lock);
	count_ends(agent);
	processes_sweep(&agent->processes);
	pthread_mutex_unlock(&agent->lock);
	if (agent->outlets)
		outlets_sweep(agent->outlets, &agent->processes);
}

static void loop(struct agent *agent)
{
	agent->scanned_ns = 0;
	while (!stopped) {
		uint64_t now_ns = clock_monotonic_ns();

		if (now_ns >= next_scan(agent) || agent->scanned_ns == 0) {
			scan(agent, now_ns);
			read_due(agent, now_ns);
			sweep(agent);
		} else {
			read_due(agent, now_ns);
		}
		now_ns = clock_monotonic_ns();
		struct pollfd stop = { .fd = stop_fd, .events = POLLIN };

		poll(&stop, 1, (int)((next_event(agent, now_ns) - now_ns) / NS_PER_MS) + 1);
	}
}

/* ---- start and end ---- */

static int make_folders(const struct agent_settings *settings, struct error *error)
{
	AUTO_FREE char *names = settings->state ? path_join(settings->state, "names") : NULL;

	if (!settings->state)
		return 0;
	if (mkdir(settings->state, 0711) < 0 && errno != EEXIST)
		return error_errno(error, "cannot create %s", settings->state);
	/* Each user has a folder in it: privileges_make_folder. */
	if (names && mkdir(names, 0711) < 0 && errno != EEXIST)
		return error_errno(error, "cannot create %s", names);
	return names && chmod(names, 0711) == 0
		       ? 0
		       : error_errno(error, "cannot use %s/names", settings->state);
}

static struct server *start_server(struct agent *agent, const char *token, char **host,
				   struct error *error)
{
	struct serve_options options = { .is_api = true,
					 .bearer = token,
					 .public_path = ENDPOINT_HEALTH,
					 .handler = endpoints_answer,
					 .context = agent };

	return endpoints_listen(agent->settings->listen, &options, host, error) < 0
		       ? NULL
		       : serve_start(&options, error);
}

/* Port 0 of the settings is any: says which. */
static void print_start(const struct agent *agent, const struct server *server)
{
	struct buffer line = BUFFER_INIT;
	const char *listen = agent->settings->listen;

	if (!server)
		buffer_text(&line, "the agent runs; it listens nowhere");
	else if (serve_port(server))
		buffer_printf(&line, "the agent listens on http://%.*s:%u",
			      (int)(strrchr(listen, ':') - listen), listen, serve_port(server));
	else
		buffer_printf(&line, "the agent listens on %s", listen);
	if (buffer_string(&line))
		agent->print(buffer_string(&line));
	buffer_release(&line);
}

static int run_with_server(struct agent *agent, struct error *error)
{
	AUTO_FREE char *token = NULL;
	AUTO_FREE char *host = NULL;
	struct server *server = NULL;
	bool serves = strcmp(agent->settings->listen, "none") != 0;

	if (agent->settings->token_file) {
		token = agent_secret_read(agent->settings->token_file, error);
		if (!token)
			return -1;
	}
	if (serves) {
		server = start_server(agent, token, &host, error);
		if (!server)
			return -1;
	}
	print_start(agent, server);
	loop(agent);
	if (server)
		serve_stop(server);
	return 0;
}

/* It holds a descriptor of each process; the usual soft limit of 1,024 is for programs that use select(). */
static void raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

int agent_run(const struct agent_settings *settings, const char *version, agent_print *print,
	      struct error *error)
{
	struct agent agent = { .settings = settings,
			       .version = version,
			       .print = print,
			       .started_mono_ns = clock_monotonic_ns() };
	int status;

	raise_limit();
	if (make_folders(settings, error) < 0 || catch_signals(error) < 0 ||
	    reader_start(&agent.reader, stop_fd, error) < 0)
		return -1;
	pthread_mutex_init(&agent.lock, NULL);
	processes_init(&agent.processes, settings);
	status = outlets_open(settings, &agent.outlets, error);
	if (status == 0)
		status = run_with_server(&agent, error);
	outlets_close(agent.outlets);
	processes_release(&agent.processes);
	pthread_mutex_destroy(&agent.lock);
	reader_stop(&agent.reader);
	return status;
}

int agent_check(const struct agent_settings *settings, struct error *error)
{
	const char *const secrets[] = { settings->token_file, settings->push_token_file,
					settings->password_file };
	const char *const files[] = { settings->ca_file, settings->certificate_file,
				      settings->key_file };
	struct serve_options options = { 0 };
	AUTO_FREE char *host = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(secrets); i++) {
		AUTO_FREE char *secret = secrets[i] ? agent_secret_read(secrets[i], error) : NULL;

		if (secrets[i] && !secret)
			return -1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (files[i] && access(files[i], R_OK) < 0)
			return error_errno(error, "cannot read %s", files[i]);
	if (strcmp(settings->listen, "none") != 0 &&
	    endpoints_listen(settings->listen, &options, &host, error) < 0)
		return -1;
	return make_folders(settings, error);
}
