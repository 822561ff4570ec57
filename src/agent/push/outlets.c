/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile and the baseline of the next one are committed together: queue.h says how. Files and recordings are best effort:
 * a failure is reported and counted, and does not stop the push.
 *
 * Owns queue, sender and folders. The loop calls everything but outlets_numbers.
 */
#include "agent/push/outlets.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/push/file_sink.h"
#include "agent/push/pyroscope.h"
#include "agent/push/queue.h"
#include "agent/push/sender.h"
#include "agent/push/symbols.h"
#include "base/compiler.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/files.h"
#include "util/text/units.h"
#include "util/vector.h"

enum { BOOT_ID_BYTES = 37 };

struct outlets {
	const struct agent_settings *settings;
	char *baselines, *queue_folder, *url;
	int lock_fd; /* of the baselines */
	char boot_id[BOOT_ID_BYTES];
	char host[65];
	struct queue *queue;		      /* NULL: nothing is pushed */
	struct sender *sender;		      /* NULL: the same */
	struct file_sink *files, *recordings; /* NULL: not wanted */
	struct symbols *symbols;	      /* the same */
	pthread_mutex_t lock;		      /* of the three above */
};

static bool is_committed(void *context, const char *key, uint64_t serial)
{
	const struct outlets *o = context;
	struct baseline_head head;
	AUTO_CLOSE int fd = baseline_open(o->baselines, key, &head);

	return fd >= 0 && head.serial >= serial;
}

static int open_push(struct outlets *o, struct error *error)
{
	const struct agent_settings *s = o->settings;
	size_t length = strlen(s->url);

	while (length && s->url[length - 1] == '/')
		length--;
	if (asprintf(&o->url, "%.*s" PYROSCOPE_PATH, (int)length, s->url) < 0)
		return error_set(error, "out of memory");
	const struct sender_options options = {
		.http = { .url = o->url,
			  .content_type = PYROSCOPE_CONTENT_TYPE,
			  .tenant = s->tenant,
			  .token_file = s->push_token_file,
			  .user = s->user,
			  .password_file = s->password_file,
			  .ca_file = s->ca_file,
			  .certificate_file = s->certificate_file,
			  .key_file = s->key_file,
			  .timeout_ms = (uint32_t)(s->timeout_ns / NS_PER_MS) },
		.batch_bytes = (size_t)s->batch_bytes,
	};

	o->queue = queue_open(o->queue_folder,
			      (struct queue_limits){ s->queue_bytes, s->queue_age_ns }, error);
	if (!o->queue)
		return -1;
	queue_settle(o->queue, clock_real_ns(), is_committed, o);
	o->sender = sender_start(o->queue, &options, error);
	return o->sender ? 0 : -1;
}

static void read_boot_id(char id[BOOT_ID_BYTES])
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (!file || !fgets(id, BOOT_ID_BYTES, file))
		gethostname(id, BOOT_ID_BYTES - 1);
	if (file)
		(void)fclose(file);
}

static int open_all(struct outlets *o, struct error *error)
{
	const struct agent_settings *s = o->settings;

	o->baselines = path_join(s->state, "baselines");
	o->queue_folder = path_join(s->state, "queue");
	if (!o->baselines || !o->queue_folder)
		return error_set(error, "out of memory");
	read_boot_id(o->boot_id);
	gethostname(o->host, sizeof o->host - 1);
	o->lock_fd = baseline_prepare(o->baselines, error);
	if (o->lock_fd < 0)
		return -1;
	if (s->folder) {
		o->files = file_sink_open(s->folder, o->host, ".pb.gz", s->folder_bytes, error);
		if (!o->files)
			return -1;
	}
	if (s->keep) {
		o->recordings = file_sink_open(s->keep, o->host, ".hg", s->keep_bytes, error);
		if (!o->recordings)
			return -1;
	}
	if (s->symbols) {
		o->symbols = symbols_open(s->symbols, s->symbols_bytes, error);
		if (!o->symbols)
			return -1;
	}
	return s->url ? open_push(o, error) : 0;
}

int outlets_open(const struct agent_settings *settings, struct outlets **ret, struct error *error)
{
	if (!settings->url && !settings->folder && !settings->keep && !settings->symbols)
		return 0;
	*ret = calloc(1, sizeof **ret);
	if (!*ret)
		return error_set(error, "out of memory");
	(*ret)->settings = settings;
	(*ret)->lock_fd = -1;
	pthread_mutex_init(&(*ret)->lock, NULL);
	return open_all(*ret, error);
}

void outlets_close(struct outlets *o)
{
	if (!o)
		return;
	sender_stop(o->sender);
	queue_close(o->queue);
	file_sink_close(o->files);
	file_sink_close(o->recordings);
	symbols_close(o->symbols);
	pthread_mutex_destroy(&o->lock);
	cleanup_close(&o->lock_fd);
	free(o->baselines);
	free(o->queue_folder);
	free(o->url);
	free(o);
}

int outlets_baseline(const struct outlets *o, const struct agent_process *process,
		     struct baseline_head *ret)
{
	return baseline_open(o->baselines, process_key(process).text, ret);
}

/* ---- sending ---- */

/* "ended" says in one query what killed processes held: only their last profile has it. */
static int encode_push(const struct outlets *o, const struct agent_process *process,
		       const struct baseline_head *baseline, struct span pprof, struct buffer *out,
		       struct error *error)
{
	struct pyroscope_label labels[READING_LABELS_MAX + 1];
	const char *ended = process_fate_name(process->fate);
	size_t count = 0;

	/* The store has a limit of its own, and adds two. */
	for (size_t i = 0; i < process->labels.count && count < PYROSCOPE_LABELS_MAX - 3; i++)
		labels[count++] = (struct pyroscope_label){ process->labels.at[i].key,
							    process->labels.at[i].value };
	if (ended && process->fate != FATE_EXITED)
		labels[count++] = (struct pyroscope_label){ "ended", ended };
	const struct pyroscope_source source = { .machine = o->boot_id,
						 .pid = process->id,
						 .start_time = process->uid,
						 .serial = baseline->serial };

	return pyroscope_encode(labels, count, pyroscope_id(&source), pprof, out, error);
}

static int push(struct outlets *o, const struct agent_process *process,
		const struct reading_parts *parts, const struct baseline_head *baseline,
		struct error *error)
{
	AUTO(buffer_release) struct buffer request = BUFFER_INIT;
	const struct process_key own = process_key(process);
	const char *key = own.text;
	uint64_t serial = baseline->serial;

	if (encode_push(o, process, baseline, parts->pprof, &request, error) < 0 ||
	    queue_prepare(o->queue, key, serial, baseline->at_real_ns, buffer_span(&request),
			  error) < 0)
		return -1;
	if (baseline_write(o->baselines, key, *baseline, parts->baseline, error) < 0) {
		queue_discard(o->queue, key, serial);
		return -1;
	}
	if (queue_commit(o->queue, key, serial, clock_real_ns(), error) < 0)
		return -1;
	sender_wake(o->sender);
	return 0;
}

static int write_file(struct outlets *o, struct file_sink *sink,
		      const struct agent_process *process, uint64_t serial, struct span bytes,
		      struct error *error)
{
	const struct file_sink_profile profile = {
		.service = labels_get(&process->labels, "service_name"),
		.pid = process->recorded.pid ? (uint64_t)process->recorded.pid : process->id,
		.serial = serial,
		.at_ns = clock_real_ns(),
		.bytes = bytes,
	};

	pthread_mutex_lock(&o->lock);
	int status = file_sink_write(sink, &profile, error);

	pthread_mutex_unlock(&o->lock);
	return status;
}

int outlets_send(struct outlets *o, const struct agent_process *process,
		 const struct reading_parts *parts, struct baseline_head baseline,
		 struct error *error)
{
	int written = 0, sent;

	if (o->files)
		written = write_file(o, o->files, process, baseline.serial, parts->pprof, error);
	sent = o->queue ? push(o, process, parts, &baseline, error)
			: baseline_write(o->baselines, process_key(process).text, baseline,
					 parts->baseline, error);
	return written < 0 || sent < 0 ? -1 : 0;
}

/* ---- killed processes ---- */

bool outlets_keeps(const struct outlets *o)
{
	return o->recordings != NULL;
}

int outlets_keep(struct outlets *o, const struct agent_process *process,
		 const struct reading_parts *parts, struct error *error)
{
	if (parts->recording.size == 0) {
		pthread_mutex_lock(&o->lock);
		file_sink_count_failed(o->recordings);
		pthread_mutex_unlock(&o->lock);
	}
	if (parts->recording.size == 0 && parts->reading->left_out_recording_bytes)
		return error_set(error,
				 "its recording of %s is larger than what may be kept: use "
				 "'heapgauge report' with the file that it left",
				 units_bytes(parts->reading->left_out_recording_bytes).text);
	if (parts->recording.size == 0)
		return error_set(error, "its recording could not be made");
	if (write_file(o, o->recordings, process, 1, parts->recording, error) < 0)
		return -1;
	/* Its memory is needed; what it had is in the recording. */
	return process_remove_file(process, error);
}

/* ---- symbols ---- */

bool outlets_wants_modules(const struct outlets *o)
{
	return o->symbols != NULL;
}

void outlets_offer_modules(struct outlets *o, const struct agent_process *process,
			   const struct reading_parts *parts)
{
	for (uint32_t i = 0; o->symbols && i < parts->reading->module_count; i++) {
		struct reading_module module = parts->modules[i];
		bool copied;

		module.build_id[sizeof module.build_id - 1] = '\0';
		module.path[sizeof module.path - 1] = '\0';
		pthread_mutex_lock(&o->lock);
		copied = symbols_offer(o->symbols, process->recorded.pid, module.build_id,
				       module.path);
		pthread_mutex_unlock(&o->lock);
		if (copied)
			return; /* the next one with the next reading */
	}
}

/* ---- */

struct wanted {
	VECTOR(struct process_key) keys; /* sorted */
};

/* Its text is at its beginning, so that a text alone can be searched for. */
static int compare_keys(const void *left, const void *right)
{
	return strcmp(left, right);
}

static bool is_wanted(void *context, const char *key)
{
	const struct wanted *wanted = context;

	return bsearch(key, wanted->keys.at, wanted->keys.count, sizeof *wanted->keys.at,
		       compare_keys) != NULL;
}

void outlets_sweep(struct outlets *o, const struct processes *processes)
{
	struct wanted wanted = { 0 };

	if (vector_reserve(&wanted.keys, processes->at.count + 1)) {
		for (size_t i = 0; i < processes->at.count; i++)
			wanted.keys.at[wanted.keys.count++] = process_key(processes->at.at[i]);
		qsort(wanted.keys.at, wanted.keys.count, sizeof *wanted.keys.at, compare_keys);
		baseline_sweep(o->baselines, is_wanted, &wanted);
	}
	vector_release(&wanted.keys);
}

/* ---- metrics ---- */

static void add(struct metrics_own *own, size_t room, size_t *count, struct metrics_own one)
{
	if (*count < room)
		own[(*count)++] = one;
}

static void add_sender(struct outlets *o, struct metrics_own *own, size_t room, size_t *count)
{
	struct sender_counters sent = sender_counters(o->sender);

	for (int i = 0; i < SENDER_CLASSES; i++)
		add(own, room, count,
		    (struct metrics_own){ "heapgauge_agent_pushes_total",
					  "Requests to the store, by how they ended.", true,
					  "result", sender_class_name((enum sender_class)i),
					  (double)sent.requests[i] });
	add(own, room, count,
	    (struct metrics_own){ "heapgauge_agent_pushed_profiles_total",
				  "Profiles that the store accepted.", true, NULL, NULL,
				  (double)sent.sent_items });
	add(own, room, count,
	    (struct metrics_own){ "heapgauge_agent_pushed_bytes_total",
				  "Bytes of the requests that the store accepted.", true, NULL,
				  NULL, (double)sent.sent_bytes });
	add(own, room, count,
	    (struct metrics_own){ "heapgauge_agent_last_push_timestamp_seconds",
				  "When the store last accepted something; 0 if never.", false,
				  NULL, NULL, (double)sent.last_success_ns / (double)NS_PER_S });
}

static void add_queue(struct outlets *o, struct metrics_own *own, size_t room, size_t *count)
{
	struct queue_counters queue = queue_counters(o->queue);

	add(own, room, count,
	    (struct metrics_own){ "heapgauge_agent_queue_profiles",
				  "Profiles that wait to be sent.", false, NULL, NULL,
				  (double)queue.items });
	add(own, room, count,
	    (struct metrics_own){ "heapgauge_agent_queue_bytes", "Their bytes on disk.", false,
				  NULL, NULL, (double)queue.bytes });
	for (int i = 0; i < QUEUE_DROPS; i++)
		add(own, room, count,
		    (struct metrics_own){ "heapgauge_agent_dropped_profiles_total",
					  "Profiles that were not delivered, by reason.", true,
					  "reason", queue_drop_name((enum queue_drop)i),
					  (double)queue.dropped[i] });
}

static void add_files(const struct file_sink *sink, const char *kind, struct metrics_own *own,
		      size_t room, size_t *count)
{
	if (!sink)
		return;
	struct file_sink_counters files = file_sink_counters(sink);

	add(own, room, count,
	    (struct metrics_own){ "heapgauge_agent_failed_files_total",
				  "Files that could not be written.", true, "kind", kind,
				  (double)files.failed });
}

static void add_symbols(const struct symbols *symbols, struct metrics_own *own, size_t room,
			size_t *count)
{
	if (!symbols)
		return;
	struct symbols_counters counters = symbols_counters(symbols);

	add(own, room, count,
	    (struct metrics_own){ "heapgauge_agent_symbol_files_total",
				  "Files with symbols, by whether they were kept.", true, "result",
				  "kept", (double)counters.files });
	add(own, room, count,
	    (struct metrics_own){ "heapgauge_agent_symbol_files_total", "", true, "result",
				  "refused", (double)counters.refused });
}

size_t outlets_numbers(struct outlets *o, struct metrics_own *own, size_t room)
{
	size_t count = 0;

	if (!o)
		return 0;
	if (o->queue) {
		add_sender(o, own, room, &count);
		add_queue(o, own, room, &count);
	}
	pthread_mutex_lock(&o->lock);
	add_files(o->files, "profile", own, room, &count);
	add_files(o->recordings, "recording", own, room, &count);
	add_symbols(o->symbols, own, room, &count);
	pthread_mutex_unlock(&o->lock);
	return count;
}
