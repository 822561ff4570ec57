/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /metrics is made from the last readings. /debug/pprof/... reads the process anew, cumulative as Go's profiles are. Several
 * requests run at once: the lock is held only to look a process up, and the reader does one reading at a time.
 */
#include "agent/endpoints.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "agent/metrics.h"
#include "agent/push/outlets.h"
#include "base/compiler.h"
#include "collect/kernel/procfs.h"
#include "serve/reply.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/text/json.h"

enum { OWN_MAX = 48 };

/* ---- /metrics ---- */

static double seconds(struct timeval time)
{
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

/* With the reader and its children, which do most of the work. */
static double cpu_seconds(const struct agent *agent)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return seconds(usage.ru_utime) + seconds(usage.ru_stime) +
	       (double)agent->reader.cpu_ns / (double)NS_PER_S;
}

static size_t own_numbers(const struct agent *agent, struct metrics_own *own)
{
	AUTO_CLOSE int statm = procfs_statm_open(getpid());
	size_t count = 0, unreadable = 0, unheld = 0;

	for (size_t i = 0; i < agent->processes.at.count; i++) {
		unreadable += agent->processes.at.at[i]->problem[0] != '\0' &&
			      !agent->processes.at.at[i]->is_handled;
		unheld += process_is_unheld(agent->processes.at.at[i]);
	}
	const struct metrics_own first[] = {
		{ "heapgauge_agent_processes", "Recorded processes that the agent knows.", false,
		  NULL, NULL, (double)agent->processes.at.count },
		{ "heapgauge_agent_unreadable_processes",
		  "Recorded processes whose last reading failed.", false, NULL, NULL,
		  (double)unreadable },
		{ "heapgauge_agent_hidden_processes",
		  "Processes that the kernel does not let the agent look at.", false, NULL, NULL,
		  (double)agent->processes.hidden },
		{ "heapgauge_agent_left_out_processes", "Recorded processes beyond max-processes.",
		  false, NULL, NULL, (double)agent->processes.left_out },
		{ "heapgauge_agent_refused_processes",
		  "Processes whose profile is not on a tmpfs, where recorders make them.", false,
		  NULL, NULL, (double)agent->processes.refused },
		{ "heapgauge_agent_unheld_processes",
		  "Processes that are read, but whose last profile is lost if they are killed: the "
		  "agent has too few descriptors to hold it.",
		  false, NULL, NULL, (double)unheld },
		{ "heapgauge_agent_readings_total", "Readings of processes.", true, "result", "ok",
		  (double)agent->counts.readings },
		{ "heapgauge_agent_readings_total", "", true, "result", "failed",
		  (double)agent->counts.failed_readings },
		{ "heapgauge_agent_folded_stacks_total",
		  "Small stacks that were folded into their callers to meet a store's limits.",
		  true, NULL, NULL, (double)agent->counts.folded_stacks },
		{ "heapgauge_agent_ended_processes_total", "Processes that ended, by how.", true,
		  "ended", "exited", (double)agent->counts.ended[FATE_EXITED] },
		{ "heapgauge_agent_ended_processes_total", "", true, "ended", "killed",
		  (double)agent->counts.ended[FATE_KILLED] },
		{ "heapgauge_agent_ended_processes_total", "", true, "ended", "oom",
		  (double)agent->counts.ended[FATE_OOM] },
		{ "heapgauge_agent_empty_profiles_total",
		  "Processes that ended before they had recorded anything.", true, NULL, NULL,
		  (double)agent->counts.empty },
		{ "heapgauge_agent_cpu_seconds_total", "CPU time of the agent and its readings.",
		  true, NULL, NULL, cpu_seconds(agent) },
		{ "heapgauge_agent_resident_bytes", "Resident memory of the agent.", false, NULL,
		  NULL, (double)procfs_rss(statm) },
	};

	memcpy(own, first, sizeof first);
	count = ARRAY_SIZE(first);
	return count + outlets_numbers(agent->outlets, own + count, OWN_MAX - count);
}

static void answer_metrics(struct agent *agent, const struct serve_request *request,
			   struct serve_answer *answer)
{
	bool openmetrics = strstr(request->accept, "application/openmetrics-text") != NULL;
	struct metrics_own own[OWN_MAX];

	pthread_mutex_lock(&agent->lock);
	size_t count = own_numbers(agent, own);

	metrics_write(&answer->body, &agent->processes, own, count, openmetrics);
	pthread_mutex_unlock(&agent->lock);
	answer->type = openmetrics ? reply_openmetrics : reply_metrics;
}

/* ---- /debug/pprof/heap?pid=4711 ---- */

static const char *param(const struct serve_request *request, const char *name)
{
	for (size_t i = 0; i < request->param_count; i++)
		if (strcmp(request->params[i].name, name) == 0)
			return request->params[i].value;
	return NULL;
}

/* The only one if there is just one. */
static struct agent_process *asked_process(const struct agent *agent, const char *pid)
{
	struct agent_process *only = NULL;
	char *end;

	if (pid) {
		long number = strtol(pid, &end, 10);

		return *pid && !*end && number > 0
			       ? processes_find(&agent->processes, (pid_t)number)
			       : NULL;
	}
	for (size_t i = 0; i < agent->processes.at.count; i++) {
		struct agent_process *p = agent->processes.at.at[i];

		if (p->fate == FATE_RUNS && only)
			return NULL;
		if (p->fate == FATE_RUNS)
			only = p;
	}
	return only;
}

static void send_reading(struct serve_answer *answer, int status,
			 const struct reader_result *result, const struct error *error)
{
	const struct reading *reading = status == 0 ? result->parts.reading : NULL;
	char problem[sizeof reading->problem];

	if (!reading) {
		serve_refuse(answer, 502, "%s", error->message);
	} else if (reading->status != READING_DONE) {
		label_text(problem, sizeof problem, reading->problem);
		serve_refuse(answer, reading->status == READING_NOTHING ? 404 : 502, "%s", problem);
	} else {
		buffer_append(&answer->body, result->parts.pprof.data, result->parts.pprof.size);
		answer->type = reply_pprof;
	}
}

static void answer_pprof(struct agent *agent, const struct serve_request *request,
			 struct serve_answer *answer)
{
	struct error error = ERROR_INIT;
	struct reader_result result;
	struct reading_request reading;
	AUTO_CLOSE int fd = -1;
	bool is_gone = false, is_stale = false;

	pthread_mutex_lock(&agent->lock);
	const struct agent_process *process = asked_process(agent, param(request, "pid"));
	size_t known = agent->processes.at.count;

	if (process) {
		reading = agent_request(agent, process);
		reading.wants_pprof = true;
		reading.shows_allocations = strcmp(request->path, "/debug/pprof/allocs") == 0;
		is_gone = !process_borrow(process, &fd);
		is_stale = process_is_replaced(process);
		reading.held = fd >= 0;
		reading.label_count = (uint32_t)process->labels.count;
		for (size_t i = 0; i < process->labels.count; i++) {
			memcpy(reading.labels[i].key, process->labels.at[i].key,
			       sizeof reading.labels[i].key);
			memcpy(reading.labels[i].value, process->labels.at[i].value,
			       sizeof reading.labels[i].value);
		}
	}
	pthread_mutex_unlock(&agent->lock);
	if (!process || is_gone) {
		serve_refuse(answer, 404,
			     param(request, "pid")
				     ? "no recorded process has this pid: / lists them"
			     : known ? "which process? Add ?pid=PID: / lists them"
				     : "no process is recorded");
		return;
	}
	if (is_stale) {
		serve_refuse(answer, 503,
			     "process %d has ended or runs another program: try again in 10 s",
			     (int)reading.recorded.pid);
		return;
	}
	send_reading(answer, reader_read(&agent->reader, &reading, fd, -1, &result, &error),
		     &result, &error);
	reader_result_release(&result);
}

/* ---- the rest ---- */

static void answer_list(struct agent *agent, const struct serve_request *request,
			struct serve_answer *answer)
{
	(void)request;
	answer->type = reply_text;
	buffer_printf(&answer->body, "heapgauge agent %s\n\n/metrics\n/targets\n/healthz\n",
		      agent->version);
	pthread_mutex_lock(&agent->lock);
	for (size_t i = 0; i < agent->processes.at.count; i++) {
		const struct agent_process *p = agent->processes.at.at[i];

		if (p->fate != FATE_RUNS)
			continue;
		for (int heap = 1; heap >= 0; heap--)
			buffer_printf(&answer->body, "/debug/pprof/%s?pid=%d\t%s%s%s\n",
				      heap ? "heap" : "allocs", (int)p->recorded.pid,
				      labels_get(&p->labels, "service_name"),
				      p->problem[0] ? ": " : "", p->problem);
	}
	pthread_mutex_unlock(&agent->lock);
}

/* Targets for tools that scrape profiles, as Prometheus' HTTP service discovery describes them. */
static void answer_targets(struct agent *agent, const struct serve_request *request,
			   struct serve_answer *answer)
{
	struct json j = json_to(&answer->body, JSON_PRETTY);
	char pid[24];

	(void)request;
	json_array(&j);
	pthread_mutex_lock(&agent->lock);
	for (size_t i = 0; i < agent->processes.at.count; i++) {
		const struct agent_process *p = agent->processes.at.at[i];

		if (p->fate != FATE_RUNS)
			continue;
		snprintf(pid, sizeof pid, "%d", (int)p->recorded.pid);
		json_object(&j);
		json_key(&j, "targets");
		json_array(&j);
		json_string(&j, agent->settings->listen);
		json_end_array(&j);
		json_key(&j, "labels");
		json_object(&j);
		json_field_string(&j, "__param_pid", pid);
		for (size_t l = 0; l < p->labels.count; l++)
			json_field_string(&j, p->labels.at[l].key, p->labels.at[l].value);
		json_end_object(&j);
		json_end_object(&j);
	}
	pthread_mutex_unlock(&agent->lock);
	json_end_array(&j);
}

static void answer_health(struct agent *agent, const struct serve_request *request,
			  struct serve_answer *answer)
{
	(void)agent;
	(void)request;
	answer->type = reply_text;
	buffer_text(&answer->body, "ok\n");
}

void endpoints_answer(void *context, const struct serve_request *request,
		      struct serve_answer *answer)
{
	static const struct {
		const char *path;
		void (*answer)(struct agent *agent, const struct serve_request *request,
			       struct serve_answer *answer);
	} rows[] = {
		{ "/", answer_list },
		{ "/metrics", answer_metrics },
		{ "/targets", answer_targets },
		{ ENDPOINT_HEALTH, answer_health },
		{ "/debug/pprof/heap", answer_pprof },
		{ "/debug/pprof/allocs", answer_pprof },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (strcmp(request->path, rows[i].path) != 0)
			continue;
		rows[i].answer(context, request, answer);
		return;
	}
	serve_refuse(answer, 404, "there is no %s: / lists what there is", request->path);
}

int endpoints_listen(const char *listen, struct serve_options *ret, char **ret_host,
		     struct error *error)
{
	const char *colon = strrchr(listen, ':');
	char *end;

	if (strncmp(listen, "unix:", 5) == 0) {
		ret->socket_path = listen + 5;
		return 0;
	}
	unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;

	if (!colon || !colon[1] || *end || port > UINT16_MAX)
		return error_set(error, "[agent] listen = %s is not ADDRESS:PORT", listen);
	bool bracket = listen[0] == '[' && colon[-1] == ']';

	*ret_host = strndup(listen + bracket, (size_t)(colon - listen) - (bracket ? 2 : 0));
	ret->host = *ret_host;
	ret->port = (uint16_t)port;
	return *ret_host ? 0 : error_set(error, "out of memory");
}
