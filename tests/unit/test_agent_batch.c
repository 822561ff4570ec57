/* SPDX-License-Identifier: Apache-2.0 */
/* links: agent serve export collect analysis model format util base */
/* One child reads several processes of one owner: which may share it, and what is left if it dies or an owner changes. The
 * profiles are made by hand; the reader, its children and the processes are real. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/batch.h"
#include "agent/reading/reader.h"
#include "live_made_file.h"
#include "unit.h"
#include "util/cleanup.h"

#define TOTAL (1ull << 30)
enum { NOBODY = 65534, COUNT = 3 };

/* A child that waits until it is killed. */
static pid_t start_process(uid_t uid, gid_t gid, int unshared)
{
	int ready[2];
	char byte;

	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();

	if (pid == 0) {
		if ((unshared && unshare(unshared) < 0) ||
		    (gid != getgid() && setresgid(gid, gid, gid) < 0) ||
		    (uid != getuid() && setresuid(uid, uid, uid) < 0))
			_exit(1);
		(void)!write(ready[1], "", 1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void end_process(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---- the reader ---- */

/* A profile of the process with so many live blocks of 100 bytes. */
static int make_profile(pid_t pid, uint64_t calls)
{
	int fd = memfd_create("profile", MFD_CLOEXEC);
	struct made made;

	struct live_header *head = made_in_file(&made, fd, TOTAL);

	head->pid = (uint32_t)pid;
	uint32_t site = made_site(
		&made,
		made_node(&made, 0,
			  made_frame(&made, live_frame_pack(made_module(&made, "/bin/a"), 16, 0))),
		LIVE_KIND_HEAP);

	made_counts(&made, site, 0, 100, calls, 0);
	made_slot(&made, 0)->calls = calls;
	made_slot(&made, 0)->bytes = calls * 100;
	for (int i = 0; i < LIVE_REGIONS; i++)
		head->opened[i] = MIN(head->region[i].bytes, (uint64_t)LIVE_PAGE * 4);
	munmap(head, TOTAL);
	return fd;
}

static struct reading_task make_task(pid_t pid, uid_t uid, gid_t gid, uint64_t calls)
{
	return (struct reading_task){
		.request = { .recorded = { .pid = pid },
			     .held = true,
			     .uid = uid,
			     .gid = gid,
			     .wants_pprof = true,
			     .deltas = true,
			     .max_samples = 1000,
			     .max_bytes = 1 << 20 },
		.profile_fd = make_profile(pid, calls),
		.baseline_fd = -1,
	};
}

static void release(struct reading_task *tasks, struct reader_result *results)
{
	for (size_t i = 0; i < COUNT; i++) {
		reader_result_release(&results[i]);
		close(tasks[i].profile_fd);
	}
}

static void assert_read(const struct reader_result *result, uint64_t calls)
{
	assert_non_null(result->parts.reading);
	assert_string_equal(result->parts.reading->problem, "");
	assert_int_equal(result->parts.reading->status, READING_DONE);
	assert_int_equal(result->parts.reading->calls, calls);
	assert_true(result->parts.pprof.size > 0);
}

static void one_child_reads_several(void **state)
{
	struct error error = ERROR_INIT;
	struct reader reader = { 0 };
	struct reading_task tasks[COUNT];
	struct reader_result results[COUNT];

	(void)state;
	assert_int_equal(reader_start(&reader, -1, &error), 0);
	for (size_t i = 0; i < COUNT; i++)
		tasks[i] = make_task(getpid(), getuid(), getgid(), 10 + i);
	assert_int_equal(reader_read_batch(&reader, tasks, COUNT, results, &error), 0);
	for (size_t i = 0; i < COUNT; i++)
		assert_read(&results[i], 10 + i);
	assert_true(results[0].parts.reading->memory.known);
	assert_true(results[1].parts.reading->memory.known);
	assert_true(reader.cpu_ns > 0);
	release(tasks, results);
	reader_stop(&reader);
}

static void classes_of_memory_are_kept_while_it_hardly_changes(void **state)
{
	const uint64_t then = 640 << 20;
	struct reading_memory before = { .known = 1, .resident_bytes = then }, now = { 0 };

	(void)state;
	before.bytes[READING_RSS] = then + 5;
	before.bytes[READING_HEAP] = 7;
	assert_true(reading_memory_reuse(&before, then + (10 << 20), &now));
	assert_int_equal(now.bytes[READING_RSS], then + (10 << 20) + 5);
	assert_int_equal(now.bytes[READING_HEAP], 7);
	assert_int_equal(now.resident_bytes, then);
	assert_true(reading_memory_reuse(&before, then - (10 << 20), &now));
	assert_int_equal(now.bytes[READING_RSS], then - (10 << 20) + 5);
	/* Slow growth adds up: it is compared with when smaps was read. */
	assert_false(reading_memory_reuse(&now, then + (11 << 20), &now));
	assert_false(reading_memory_reuse(&before, then - (11 << 20), &now));
	assert_false(reading_memory_reuse(&before, 0, &now));
	/* Of a small process 256 KiB are little, whatever part of it. */
	before.resident_bytes = 1 << 20;
	assert_true(reading_memory_reuse(&before, (1 << 20) + (256 << 10), &now));
	assert_false(reading_memory_reuse(&before, (1 << 20) + (257 << 10), &now));
	before.known = 0;
	assert_false(reading_memory_reuse(&before, then, &now));
}

static void classes_of_memory_are_read_again_after_some_readings(void **state)
{
	struct reading_memory memory = { .known = 1, .resident_bytes = 100 };
	unsigned kept = 0;

	(void)state;
	while (reading_memory_reuse(&memory, 100, &memory))
		kept++;
	assert_int_equal(kept, 9);
	memory.age = UINT32_MAX;
	assert_false(reading_memory_reuse(&memory, 100, &memory));
}

/* In the child: what smaps says is of now, what is kept is what was given. */
static void a_reading_uses_the_classes_of_before(void **state)
{
	struct error error = ERROR_INIT;
	struct reader reader = { 0 };
	struct reading_task tasks[COUNT];
	struct reader_result first[COUNT], second[COUNT];

	(void)state;
	assert_int_equal(reader_start(&reader, -1, &error), 0);
	for (size_t i = 0; i < COUNT; i++)
		tasks[i] = make_task(getpid(), getuid(), getgid(), 10 + i);
	assert_int_equal(reader_read_batch(&reader, tasks, COUNT, first, &error), 0);
	assert_int_equal(first[0].parts.reading->memory.age, 0);
	assert_true(first[0].parts.reading->memory.bytes[READING_RSS] > 0);
	tasks[0].request.memory_before = first[0].parts.reading->memory;
	tasks[0].request.memory_before.bytes[READING_HEAP] = 12345;
	assert_int_equal(reader_read_batch(&reader, tasks, COUNT, second, &error), 0);
	assert_int_equal(second[0].parts.reading->memory.age, 1);
	assert_int_equal(second[0].parts.reading->memory.bytes[READING_HEAP], 12345);
	assert_int_equal(second[1].parts.reading->memory.age, 0);
	for (size_t i = 0; i < COUNT; i++)
		reader_result_release(&first[i]);
	release(tasks, second);
	reader_stop(&reader);
}

static pid_t child_of(pid_t pid)
{
	char path[64];
	int child = 0;

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
	FILE *file = fopen(path, "re");

	if (file && fscanf(file, "%d", &child) != 1)
		child = 0;
	if (file)
		(void)fclose(file);
	return child;
}

static bool is_waiting(pid_t pid)
{
	char path[64], state = 0;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	FILE *file = fopen(path, "re");
	bool found = file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1 && state == 'S';

	if (file)
		(void)fclose(file);
	return found;
}

/* Kills the reader's child as soon as it waits: it only does so for a baseline that does not come. */
static void *kill_waiting(void *context)
{
	const struct reader *reader = context;

	for (int seen = 0; seen < 10;) {
		pid_t child = child_of(reader->pid);

		seen = child && is_waiting(child) ? seen + 1 : 0;
		usleep(10000);
		if (seen == 10)
			kill(child, SIGKILL);
	}
	return NULL;
}

static void a_child_that_dies_keeps_what_it_had_read(void **state)
{
	struct error error = ERROR_INIT;
	struct reader reader = { 0 };
	struct reading_task tasks[COUNT];
	struct reader_result results[COUNT];
	pthread_t killer;
	int never[2];

	(void)state;
	assert_int_equal(pipe(never), 0);
	assert_int_equal(reader_start(&reader, -1, &error), 0);
	for (size_t i = 0; i < COUNT; i++)
		tasks[i] = make_task(getpid(), getuid(), getgid(), 10 + i);
	tasks[1].request.has_baseline = true;
	tasks[1].baseline_fd = never[0];
	assert_int_equal(pthread_create(&killer, NULL, kill_waiting, &reader), 0);
	assert_int_equal(reader_read_batch(&reader, tasks, COUNT, results, &error), -1);
	pthread_join(killer, NULL);
	assert_non_null(strstr(error.message, "signal 9"));
	assert_read(&results[0], 10);
	assert_null(results[1].parts.reading);
	assert_null(results[2].parts.reading);
	release(tasks, results);
	close(never[0]);
	close(never[1]);

	/* The reader goes on. */
	for (size_t i = 0; i < COUNT; i++)
		tasks[i] = make_task(getpid(), getuid(), getgid(), 20 + i);
	assert_int_equal(reader_read_batch(&reader, tasks, COUNT, results, &error), 0);
	assert_read(&results[2], 22);
	release(tasks, results);
	reader_stop(&reader);
}

/* Whatever the agent believes: the child looks after it has copied the profile. */
static void a_process_of_another_user_is_left_out(void **state)
{
	struct error error = ERROR_INIT;
	struct reader reader = { 0 };
	struct reading_task tasks[COUNT];
	struct reader_result results[COUNT];

	(void)state;
	if (getuid() != 0)
		skip();
	pid_t nobody = start_process(NOBODY, NOBODY, 0), other = start_process(NOBODY, 1, 0);

	assert_int_equal(reader_start(&reader, -1, &error), 0);
	tasks[0] = make_task(nobody, NOBODY, NOBODY, 10);
	tasks[1] = make_task(getpid(), NOBODY, NOBODY, 11);
	tasks[2] = make_task(other, NOBODY, NOBODY, 12);
	assert_int_equal(reader_read_batch(&reader, tasks, COUNT, results, &error), 0);
	assert_read(&results[0], 10);
	assert_int_equal(results[1].parts.reading->status, READING_OTHER);
	assert_int_equal(results[1].parts.pprof.size, 0);
	assert_int_equal(results[2].parts.reading->status, READING_OTHER);
	release(tasks, results);
	reader_stop(&reader);
	end_process(nobody);
	end_process(other);
}

/* ---- which may share ---- */

static void add(struct processes *processes, struct agent_process *process, pid_t pid, uid_t uid)
{
	*process = (struct agent_process){ .recorded = { .pid = pid },
					   .reader_uid = uid,
					   .reader_gid = uid,
					   .next_ns = 100,
					   .reading = calloc(1, sizeof(struct reading)) };
	assert_non_null(process->reading);
	assert_true(vector_push(&processes->at, process));
}

enum { FIRST, SAME, LATER, NEVER_READ, SLOW, LARGE, SUSPECT, ENDED, NOT_HELD, USER, MOUNTS, ALL };

static void only_the_like_share_a_child(void **state)
{
	struct agent_process all[ALL], *got[READING_BATCH_MAX];
	struct processes processes = { .batch_max = READING_BATCH_MAX };
	pid_t pids[ALL];

	(void)state;
	if (getuid() != 0)
		skip();
	for (int i = 0; i < ALL; i++) {
		pids[i] = start_process(i == USER ? NOBODY : 0, i == USER ? NOBODY : 0,
					i == MOUNTS ? CLONE_NEWNS : 0);
		add(&processes, &all[i], pids[i], i == USER ? NOBODY : 0);
	}
	/* The namespaces of each are looked up for its own reading. */
	for (size_t i = 0; i < ALL; i++)
		assert_int_equal(batch_gather(&processes, i, 0, got), 1);
	all[LATER].next_ns = 200;
	free(TAKE(all[NEVER_READ].reading));
	all[SLOW].reading->cpu_ns = UINT64_MAX;
	all[LARGE].reading->recorder_bytes = 1 << 30;
	all[SUSPECT].is_suspect = true;
	all[ENDED].fate = FATE_KILLED;
	all[NOT_HELD].profile_fd = -1;
	assert_int_equal(batch_gather(&processes, FIRST, 150, got), 2);
	assert_ptr_equal(got[0], &all[FIRST]);
	assert_ptr_equal(got[1], &all[SAME]);
	assert_int_equal(batch_gather(&processes, SAME, 150, got), 2);
	assert_ptr_equal(got[0], &all[SAME]);
	assert_ptr_equal(got[1], &all[FIRST]);
	assert_int_equal(batch_gather(&processes, FIRST, 250, got), 3);
	assert_ptr_equal(got[2], &all[LATER]);
	for (size_t i = NEVER_READ; i < ALL; i++) {
		assert_int_equal(batch_gather(&processes, i, 250, got), 1);
		assert_ptr_equal(got[0], &all[i]);
	}
	for (int i = 0; i < ALL; i++) {
		end_process(pids[i]);
		free(all[i].reading);
	}
	vector_release(&processes.at);
}

static void a_batch_has_a_limit(void **state)
{
	struct agent_process all[READING_BATCH_MAX + 1], *got[READING_BATCH_MAX];
	struct processes processes = { .batch_max = READING_BATCH_MAX };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		add(&processes, &all[i], getpid(), getuid());
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		assert_int_equal(batch_gather(&processes, i, 0, got), 1);
	assert_int_equal(batch_gather(&processes, 0, 150, got), READING_BATCH_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		free(all[i].reading);
	vector_release(&processes.at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_child_reads_several),
		cmocka_unit_test(classes_of_memory_are_kept_while_it_hardly_changes),
		cmocka_unit_test(classes_of_memory_are_read_again_after_some_readings),
		cmocka_unit_test(a_reading_uses_the_classes_of_before),
		cmocka_unit_test(a_child_that_dies_keeps_what_it_had_read),
		cmocka_unit_test(a_process_of_another_user_is_left_out),
		cmocka_unit_test(only_the_like_share_a_child),
		cmocka_unit_test(a_batch_has_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
