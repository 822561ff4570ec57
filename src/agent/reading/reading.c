/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs in a child of the reader: see reader.h. Copies the first profile with the agent's privileges, then gives them up before it
 * decodes anything: from there on a hostile profile, or a hostile file with symbols, can do what its owner can. What needs
 * privileges for the other processes is opened before that; their profiles are copied later, from descriptors, into memory that
 * is there already.
 *
 * State: one child's.
 */
#include "agent/reading/reading.h"

#include <fcntl.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/reading/heap_profile.h"
#include "agent/reading/privileges.h"
#include "base/checked.h"
#include "base/cursor.h"
#include "collect/attach/inspect.h"
#include "collect/kernel/cgroup.h"
#include "collect/kernel/container.h"
#include "collect/kernel/procfs.h"
#include "collect/kernel/smaps.h"
#include "collect/kernel/stack_guards.h"
#include "collect/profile/profile_copy.h"
#include "model/build.h"
#include "model/tags.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/files.h"

enum { BASELINE_MAX = 64 << 20, SMAPS_MAX = 64 << 20, MALLOC_KEPT_BYTES = 32 << 20 };

struct output {
	struct reading reading;
	struct reading_tag tags[READING_TAGS_MAX];
	struct reading_module modules[READING_MODULES_MAX];
	struct heap_profile profile;
	void *recording;
	size_t recording_bytes;
};

/* Where the files of the container are; "": of no container. A descriptor, because another user may not follow /proc/PID/root. */
struct container_files {
	int fd;
	char path[64];
};

/* One child. */
struct batch {
	bool is_dropped;	   /* its privileges are */
	struct procfs_owner owner; /* if so, of whose processes it may read more */
	/* Of each process, from before. */
	struct {
		int smaps, pagemap; /* -1: none, or not needed */
		struct reading_memory memory;
		struct cgroup_memory limit;
		struct container_files files;
	} opened[READING_BATCH_MAX];
	struct output out; /* of the present one */
};

bool reading_memory_reuse(const struct reading_memory *before, uint64_t resident_bytes,
			  struct reading_memory *ret)
{
	enum { READINGS_MAX = 10, CHANGE_OF = 64, CHANGE_MIN = 256 << 10 };
	const uint64_t then = before->resident_bytes;
	const uint64_t change =
		then > resident_bytes ? then - resident_bytes : resident_bytes - then;
	uint64_t *resident = &ret->bytes[READING_RSS];

	if (!before->known || before->age >= READINGS_MAX - 1 || resident_bytes == 0 ||
	    change > MAX(then / CHANGE_OF, (uint64_t)CHANGE_MIN))
		return false;
	*ret = *before;
	ret->age++;
	*resident = resident_bytes > then ? saturating_add(*resident, change)
					  : saturating_sub(*resident, change);
	return true;
}

static enum profile_copy_parts parts_of(const struct reading_request *request)
{
	return request->wants_recording ? PROFILE_COPY_ALL : PROFILE_COPY_SUMS;
}

static void fail(struct reading *reading, enum reading_status status, const struct error *error)
{
	reading->status = status;
	snprintf(reading->problem, sizeof reading->problem, "%s", error->message);
}

/* ---- with privileges ---- */

static struct container_files open_container(pid_t pid)
{
	AUTO_FREE char *root = pid ? container_root(pid) : NULL;
	struct container_files files = { root ? open(root, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1,
					 "" };

	if (files.fd >= 0)
		snprintf(files.path, sizeof files.path, "/proc/self/fd/%d", files.fd);
	return files;
}

static void open_memory(struct batch *batch, const struct reading_request *request, size_t index)
{
	pid_t pid = request->recorded.pid;
	AUTO_CLOSE int statm = procfs_statm_open(pid);
	uint64_t resident_bytes = procfs_rss(statm);
	struct reading_memory *memory = &batch->opened[index].memory;

	*memory = (struct reading_memory){ .resident_bytes = resident_bytes };
	if (reading_memory_reuse(&request->memory_before, resident_bytes, memory))
		return;
	batch->opened[index].smaps = open(procfs_path(pid, "smaps").text, O_RDONLY | O_CLOEXEC);
	batch->opened[index].pagemap = pagemap_open(pid);
}

static void open_all(struct batch *batch, const struct reading_task *tasks, size_t count)
{
	AUTO(cgroups_release) struct cgroups groups = { 0 };

	cgroups_init(&groups, "");
	for (size_t i = 0; i < count; i++) {
		pid_t pid = tasks[i].request.recorded.pid;

		batch->opened[i].smaps = batch->opened[i].pagemap = -1;
		batch->opened[i].files.fd = -1;
		if (tasks[i].request.has_ended)
			continue;
		open_memory(batch, &tasks[i].request, i);
		batch->opened[i].limit = cgroups_memory(&groups, pid);
		if (tasks[i].request.names)
			batch->opened[i].files = open_container(pid);
	}
}

/* ---- with or without: the kernel checks at opening ---- */

/* Classes of resident memory. Not known for a process that has ended, or of another user if we have no privileges. */
static void read_memory(int fd, int pagemap, struct reading_memory *ret)
{
	AUTO(buffer_release) struct buffer text = BUFFER_INIT;
	AUTO(smaps_release) struct smaps smaps = { 0 };
	struct memory_row row = { 0 };

	if (fd < 0 || file_read_all(fd, SMAPS_MAX, "smaps", &text, NULL) < 0 || text.size == 0 ||
	    !buffer_string(&text) || !smaps_parse((char *)text.data, &smaps) ||
	    !stack_guards_find(pagemap, &smaps))
		return;
	smaps_sum(&smaps, &row);
	ret->known = true;
	ret->bytes[READING_RSS] = row.rss_bytes;
	ret->bytes[READING_HEAP] = row.heap_bytes;
	ret->bytes[READING_ANONYMOUS] = row.anonymous_bytes;
	ret->bytes[READING_STACK] = row.stack_bytes;
	ret->bytes[READING_FILE] = row.file_bytes;
	ret->bytes[READING_SHARED] = row.shared_bytes;
	ret->bytes[READING_SWAP] = row.swap_bytes;
	ret->bytes[READING_RECORDER] = row.own_bytes;
}

/* ---- without ---- */

static int compare_tags(const void *left, const void *right)
{
	const struct reading_tag *a = left, *b = right;

	if (a->live_bytes != b->live_bytes)
		return a->live_bytes > b->live_bytes ? -1 : 1;
	return strcmp(a->path, b->path);
}

/* The largest by live bytes. A site's tag is looked up once for each tag, since paths are long to build. */
static void read_tags(const struct profile_process *process, struct output *out)
{
	size_t count = profile_tag_count(process);
	AUTO_FREE struct reading_tag *all = calloc(count + 1, sizeof *all);
	AUTO(arena_release) struct arena arena = ARENA_INIT;

	if (count == 0 || !all)
		return;
	for (size_t i = 0; i < process->site_count; i++) {
		const struct profile_site *site = &process->sites[i];
		struct reading_tag *tag = &all[site->tag.v];

		if (site->kind != PROFILE_HEAP || site->tag.v >= count || tag_id_is_none(site->tag))
			continue;
		if (!tag->path[0]) {
			const char *path = profile_tag_path(process, site->tag, &arena);

			snprintf(tag->path, sizeof tag->path, "%s", path && *path ? path : "?");
		}
		tag->live_bytes += site->numbers.live_bytes;
		tag->live_blocks += site->numbers.live_blocks;
		tag->bytes += site->numbers.bytes;
		tag->calls += site->numbers.calls;
	}
	qsort(all, count, sizeof *all, compare_tags);
	for (size_t i = 0; i < count && out->reading.tag_count < READING_TAGS_MAX; i++)
		if (all[i].path[0])
			out->tags[out->reading.tag_count++] = all[i];
}

static void read_modules(const struct profile_process *process, struct output *out)
{
	for (size_t i = 1;
	     i < process->module_count && out->reading.module_count < READING_MODULES_MAX; i++) {
		const struct profile_module *module = &process->modules[i];
		struct reading_module *to = &out->modules[out->reading.module_count];

		if (module->build_id.size == 0 ||
		    module->build_id.size >= sizeof to->build_id / 2 ||
		    strlen(module->path) >= sizeof to->path)
			continue;
		for (size_t j = 0; j < module->build_id.size; j++)
			snprintf(to->build_id + 2 * j, 3, "%02x", module->build_id.data[j]);
		memcpy(to->path, module->path, strlen(module->path) + 1);
		out->reading.module_count++;
	}
}

static void read_numbers(const struct profile *profile, struct reading *reading)
{
	const struct profile_process *p = &profile->processes[0];

	snprintf(reading->program, sizeof reading->program, "%s", path_base(p->exe));
	snprintf(reading->mode, sizeof reading->mode, "%s", p->mode);
	snprintf(reading->allocator, sizeof reading->allocator, "%s", p->allocator);
	reading->started_real_ns = p->started_real_ns;
	reading->duration_ns = p->duration_ns;
	/* Counted, not estimated, also in a sampled process. */
	reading->calls = p->all_calls;
	reading->bytes = p->all_bytes;
	reading->frees = p->frees;
	reading->freed_bytes = p->freed_bytes;
	reading->live_bytes = p->live_bytes;
	reading->live_blocks = p->live_blocks;
	reading->peak_bytes = p->peak_bytes;
	reading->live_error = sqrt(fmax(p->sums.live_bytes_variance, 0));
	reading->interval = p->interval;
	reading->samples = p->samples;
	reading->stacks = p->stacks;
	reading->threads = p->threads;
	reading->mmap_live_bytes = p->mmap_live_bytes;
	reading->recorder_bytes = p->own_bytes;
	for (size_t i = 0; i < p->health.count && i < READING_HEALTH_MAX; i++) {
		struct reading_health *h = &reading->health[reading->health_count++];

		snprintf(h->name, sizeof h->name, "%s", p->health.at[i].name);
		h->count = p->health.at[i].count;
	}
	uint64_t explained =
		saturating_add(saturating_add(p->live_bytes, p->sums.live_fragmentation_bytes),
			       p->mmap_live_bytes);

	reading->unexplained_bytes =
		saturating_sub(saturating_add(reading->memory.bytes[READING_HEAP],
					      reading->memory.bytes[READING_ANONYMOUS]),
			       explained);
}

/* Whether it has done everything since the agent could know it. The agent's age is taken after that of the process. */
static bool is_new(const struct reading_request *request, uint64_t duration_ns)
{
	return duration_ns <
	       MAX(request->interval_ns, clock_monotonic_ns() - request->agent_began_ns);
}

static int make_pprof(const struct reading_request *request, const struct profile *profile,
		      int baseline_fd, const char *root, struct output *out, struct error *error)
{
	AUTO(buffer_release) struct buffer baseline = BUFFER_INIT;
	struct export_label labels[READING_LABELS_MAX];

	if (request->has_baseline &&
	    file_read_all(baseline_fd, BASELINE_MAX, "the baseline", &baseline, error) < 0)
		return -1;
	for (uint32_t i = 0; i < request->label_count && i < READING_LABELS_MAX; i++)
		labels[i] =
			(struct export_label){ request->labels[i].key, request->labels[i].value };
	if (request->cache[0])
		setenv("XDG_CACHE_HOME", request->cache, 1);
	const struct heap_profile_options options = {
		.deltas = request->deltas,
		.first = request->shows_allocations ? COST_TOTAL : COST_LIVE,
		.baseline = { request->has_baseline, is_new(request, out->reading.duration_ns),
			      buffer_span(&baseline) },
		.max_samples = request->max_samples,
		.max_bytes = request->max_bytes,
		.interval = { .at_real_ns = out->reading.at_real_ns,
			      .duration_ns = request->deltas ? request->interval_ns
							     : out->reading.duration_ns,
			      .labels = labels,
			      .label_count =
				      MIN(request->label_count, (uint32_t)READING_LABELS_MAX),
			      .only_usual_types = request->deltas,
			      .unnamed = !request->names },
		.names = { .use_symbols = request->names,
			   .use_store = request->cache[0] != '\0',
			   .style = NAMES_SHORT,
			   .workers = 1,
			   .root = *root ? root : NULL },
	};
	int status = heap_profile_make(profile, &options, &out->profile, error);

	out->reading.profile_samples = out->profile.samples;
	out->reading.folded_stacks = out->profile.folded_stacks;
	out->reading.folded_bytes = out->profile.folded_bytes;
	return status;
}

static int give_up(struct batch *batch, const struct reading_request *request, struct error *error)
{
	if (batch->is_dropped) {
		if (privileges_are_of(request, &batch->owner))
			return 0;
		batch->out.reading.status = READING_OTHER;
		return error_set(error, "it has another owner");
	}
	if (request->cache[0])
		privileges_make_folder(request);
	if (!privileges_drop(request, &batch->owner))
		return error_errno(error, "cannot become the user of the process");
	batch->is_dropped = true;
	return 0;
}

static int decode(const struct reading_request *request, const struct profile_copy *copied,
		  int baseline_fd, const char *root, struct output *out, struct error *error)
{
	struct recording recording = { 0 };
	struct format_error reason = { "" };

	if (inspect_copied(copied, parts_of(request), !request->has_ended, request->version,
			   &recording, error) < 0)
		return -1;
	if (request->wants_recording &&
	    recording_encode(&recording, &out->recording, &out->recording_bytes, &reason) < 0) {
		recording_release(&recording);
		return error_set(error, "%s", reason.message);
	}
	if (out->recording_bytes > request->max_recording_bytes) {
		out->reading.left_out_recording_bytes = out->recording_bytes;
		out->recording_bytes = 0;
	}
	struct profile *profile = profile_new(&recording, error);

	if (!profile)
		return -1;
	read_numbers(profile, &out->reading);
	read_tags(&profile->processes[0], out);
	if (request->wants_modules)
		read_modules(&profile->processes[0], out);
	int status = request->wants_pprof
			     ? make_pprof(request, profile, baseline_fd, root, out, error)
			     : 0;

	profile_free(profile);
	return status;
}

static void read_process(struct batch *batch, struct reading_task *task, size_t index)
{
	const struct reading_request *request = &task->request;
	struct output *out = &batch->out;
	struct error error = ERROR_INIT;
	AUTO(profile_copy_release) struct profile_copy copied = PROFILE_COPY_INIT;
	int status;

	out->reading.at_real_ns = clock_real_ns();
	out->reading.cgroup_limit_bytes = batch->opened[index].limit.limit_bytes;
	out->reading.cgroup_usage_bytes = batch->opened[index].limit.usage_bytes;
	out->reading.memory = batch->opened[index].memory;
	read_memory(batch->opened[index].smaps, batch->opened[index].pagemap, &out->reading.memory);
	cleanup_close(&batch->opened[index].smaps);
	cleanup_close(&batch->opened[index].pagemap);
	copied.fd = TAKE_FD(task->profile_fd);
	copied.pid = request->recorded.pid;
	status = request->has_ended ? profile_copy_take_held(&copied, parts_of(request), &error)
				    : profile_copy_take(&copied, &request->recorded,
							parts_of(request), &error);
	if (status == 0)
		status = give_up(batch, request, &error);
	if (status == 0)
		status = decode(request, &copied, task->baseline_fd,
				batch->opened[index].files.path, out, &error);
	cleanup_close(&batch->opened[index].files.fd);
	if (status == 0)
		out->reading.status = READING_DONE;
	else if (out->reading.status != READING_OTHER)
		fail(&out->reading,
		     status == PROFILE_COPY_NOTHING ? READING_NOTHING : READING_FAILED, &error);
}

static void write_output(struct output *out, int to)
{
	struct reading *reading = &out->reading;

	reading->pprof_bytes = reading->status == READING_DONE ? out->profile.pprof.size : 0;
	reading->baseline_bytes = reading->status == READING_DONE ? out->profile.baseline.size : 0;
	reading->recording_bytes = out->recording_bytes;
	const struct span parts[] = {
		span_of(reading, sizeof *reading),
		span_of(out->tags, reading->tag_count * sizeof *out->tags),
		span_of(out->modules, reading->module_count * sizeof *out->modules),
		span_of(out->profile.pprof.data, reading->pprof_bytes),
		span_of(out->profile.baseline.data, reading->baseline_bytes),
		span_of(out->recording, reading->recording_bytes),
	};

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (file_write_all(to, parts[i], "the reading", NULL) < 0)
			(void)!ftruncate(to, 0);
	heap_profile_release(&out->profile);
	free(TAKE(out->recording));
	out->recording_bytes = 0;
}

void reading_write_all(struct reading_task *tasks, size_t count)
{
	struct batch *batch = calloc(1, sizeof *batch);

	if (!batch)
		return; /* empty files say that it failed */
	/* What one process needed serves the next: memory that goes back to the kernel has to be zeroed again. */
	mallopt(M_MMAP_THRESHOLD, MALLOC_KEPT_BYTES);
	mallopt(M_TRIM_THRESHOLD, MALLOC_KEPT_BYTES);
	open_all(batch, tasks, count);
	for (size_t i = 0; i < count; i++) {
		uint64_t before_ns = clock_thread_cpu_ns();

		batch->out.reading = (struct reading){ 0 };
		read_process(batch, &tasks[i], i);
		batch->out.reading.cpu_ns = clock_thread_cpu_ns() - before_ns;
		write_output(&batch->out, tasks[i].out);
	}
	free(batch);
}

bool reading_parse(struct span bytes, struct reading_parts *ret)
{
	struct cursor at = cursor_over(bytes);
	struct span head = cursor_bytes(&at, sizeof *ret->reading);

	if (at.failed)
		return false;
	ret->reading = (const struct reading *)(const void *)head.data;
	if (ret->reading->tag_count > READING_TAGS_MAX ||
	    ret->reading->health_count > READING_HEALTH_MAX ||
	    ret->reading->module_count > READING_MODULES_MAX ||
	    !memchr(ret->reading->problem, 0, sizeof ret->reading->problem))
		return false;
	ret->tags = (const struct reading_tag *)(const void *)cursor_bytes(
			    &at, ret->reading->tag_count * sizeof *ret->tags)
			    .data;
	ret->modules = (const struct reading_module *)(const void *)cursor_bytes(
			       &at, ret->reading->module_count * sizeof *ret->modules)
			       .data;
	ret->pprof = cursor_bytes(&at, ret->reading->pprof_bytes);
	ret->baseline = cursor_bytes(&at, ret->reading->baseline_bytes);
	ret->recording = cursor_bytes(&at, ret->reading->recording_bytes);
	return !at.failed && cursor_left(&at) == 0;
}
