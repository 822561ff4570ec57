/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/*
 * The collector against a client that speaks the recorder's side by hand: this very program, started again with the
 * word "client". It makes a profile, hands it over, writes a few records and ends in the way that it is told.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "collect/collect.h"
#include "format/recording/recording.h"
#include "live_made.h"
#include "util/files.h"

static char self[4096];
static char folder[] = "/tmp/test_collect.XXXXXX";

/* ---- the client ---- */

enum { CLIENT_BYTES = 64 << 20 };

/* What a hostile one would do otherwise. */
struct deviation {
	bool unsealed, wrong_secret, wrong_size, huge_pages, read_only;
};

static int client_connect(const struct live_settings *settings)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t length = strlen(settings->collector);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path + 1, settings->collector + 1, length - 1);
	if (connect(fd, (struct sockaddr *)&address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) < 0)
		_exit(50);
	return fd;
}

struct client {
	struct made made;
	volatile struct live_control *control;
};

static void client_send(const struct live_settings *settings, int fd, const struct deviation *how)
{
	struct live_hello hello = { .secret = settings->secret };
	struct iovec part = { &hello, sizeof hello };
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr head;
	} rights = { .head = { .cmsg_level = SOL_SOCKET,
			       .cmsg_type = SCM_RIGHTS,
			       .cmsg_len = CMSG_LEN(sizeof fd) } };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = rights.bytes,
				  .msg_controllen = sizeof rights.bytes };
	int connection = client_connect(settings);

	memcpy(hello.magic, LIVE_HELLO_MAGIC, sizeof hello.magic);
	hello.secret.word[1] ^= how->wrong_secret;
	memcpy(CMSG_DATA(&rights.head), &fd, sizeof fd);
	if (sendmsg(connection, &message, MSG_NOSIGNAL) != (ssize_t)sizeof hello)
		_exit(51);
	/* Nobody answers. */
	close(connection);
	close(fd);
}

static int client_memory(const struct deviation *how)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	unsigned huge = how->huge_pages ? MFD_HUGETLB : 0;
	int fd = memfd_create("heapgauge-profile", MFD_CLOEXEC | MFD_ALLOW_SEALING | huge);

	if (fd < 0 && how->huge_pages)
		_exit(7); /* none on this machine */
	if (fd < 0 || ftruncate(fd, CLIENT_BYTES + (huge ? 2 << 20 : LIVE_PAGE)) < 0 ||
	    (!how->unsealed && fcntl(fd, F_ADD_SEALS, seals) < 0))
		_exit(52);
	return fd;
}

/* Makes a profile and hands it over. Exits with a number of its own if something is not as docs/format.md says. */
static void client_start_as(struct client *client, const struct deviation *how)
{
	const char *text = getenv(LIVE_ENV_HANDOVER);
	struct live_settings settings;
	int fd = client_memory(how);
	char *memory;

	if (!text || strlen(text) < LIVE_TICKET_TEXT ||
	    !live_settings_read(text + LIVE_TICKET_TEXT + 1, &settings) ||
	    settings.mode != LIVE_MODE_EXACT || settings.depth_limit == 0)
		_exit(53);
	/* Huge pages are reserved, so that a machine without any refuses them here and not by a SIGBUS. */
	memory = mmap(NULL, CLIENT_BYTES + LIVE_PAGE, PROT_READ | PROT_WRITE,
		      MAP_SHARED | (how->huge_pages ? 0 : MAP_NORESERVE), fd, 0);
	if (memory == MAP_FAILED)
		_exit(how->huge_pages ? 7 : 54);
	client->made.head = (struct live_header *)(void *)memory;
	client->control = (struct live_control *)(void *)(memory + CLIENT_BYTES);
	live_header_init(client->made.head,
			 CLIENT_BYTES + (how->wrong_size ? LIVE_REGION_ALIGN : 0));
	struct live_own *own = &client->made.head->own;

	for (int i = 0; i < LIVE_REGIONS; i++)
		client->made.head->opened[i] = client->made.head->region[i].bytes;
	own->id = (uint64_t)getpid();
	own->ppid = (uint32_t)getppid();
	own->secret = settings.secret;
	snprintf(own->command, sizeof own->command, "%.200s client", self);
	if (readlink("/proc/self/exe", own->exe, sizeof own->exe) < 0)
		_exit(55);
	client->made.head->pid = (uint32_t)getpid();
	if (how->read_only) {
		char path[64];

		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		fd = open(path, O_RDONLY);
	}
	client_send(&settings, fd, how);
	made_start(&client->made, client->made.head);
}

static void client_start(struct client *client)
{
	client_start_as(client, &(struct deviation){ 0 });
}

static void client_work(struct client *client, uint64_t blocks)
{
	struct made *made = &client->made;
	uint32_t module = made_module(made, "/bin/client");
	uint32_t node = made_node(made, 0, made_frame(made, live_frame_pack(module, 0x40, 0)));
	uint32_t record =
		made_counts(made, made_site(made, node, LIVE_KIND_HEAP), 0, 32, blocks, 1);
	struct live_thread *thread;

	made_small_block(made, 0x2000, record, 32, client->control->clock_ms);
	made_append(made, LIVE_THREADS, 1);
	thread = made_at(made, LIVE_THREADS);
	*thread = (struct live_thread){ .tid = (uint32_t)getpid(), .name = "first" };
	*made_slot(made, 0) = (struct live_slot){ .calls = blocks,
						  .bytes = blocks * 32,
						  .frees = 1,
						  .freed_bytes = 32,
						  .tid = (uint32_t)getpid() };
	made->head->peak.state = 1;
}

static void nap(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&time, NULL);
}

static _Noreturn void client_clock(const struct client *client)
{
	uint64_t before = client->control->clock_ms, after;

	nap(50);
	after = client->control->clock_ms;
	_exit(after > before + 10 ? 0 : 62);
}

static int client_signals(void)
{
	sigset_t mask;
	struct sigaction child, pipe_action, interrupt;

	sigprocmask(SIG_BLOCK, NULL, &mask);
	sigaction(SIGCHLD, NULL, &child);
	sigaction(SIGPIPE, NULL, &pipe_action);
	sigaction(SIGUSR1, NULL, &interrupt);
	/* As the test left them: SIGUSR2 blocked, SIGUSR1 ignored, SIGCHLD ignored, SIGPIPE standard. */
	if (!sigismember(&mask, SIGUSR2) || sigismember(&mask, SIGINT) ||
	    sigismember(&mask, SIGCHLD))
		return 70;
	if (child.sa_handler != SIG_IGN || pipe_action.sa_handler != SIG_DFL ||
	    interrupt.sa_handler != SIG_IGN)
		return 71;
	return 0;
}

/* Descriptors above 2 that an exec leaves open. */
static int open_descriptors(void)
{
	int count = 0;

	for (int fd = 3; fd < 1024; fd++) {
		int flags = fcntl(fd, F_GETFD);

		count += flags >= 0 && !(flags & FD_CLOEXEC);
	}
	return count;
}

static int client_descriptors(void)
{
	const char *expected = getenv("TEST_DESCRIPTORS");

	return expected && open_descriptors() == strtol(expected, NULL, 10) ? 0 : 72;
}

static int client_main(const char *what)
{
	struct client client;

	if (strcmp(what, "silent") == 0)
		return 3;
	if (strcmp(what, "signals") == 0)
		return client_signals();
	if (strcmp(what, "descriptors") == 0)
		return client_descriptors();
	client_start_as(&client, &(struct deviation){
					 .unsealed = strcmp(what, "unsealed") == 0,
					 .wrong_secret = strcmp(what, "stranger") == 0,
					 .wrong_size = strcmp(what, "larger") == 0,
					 .huge_pages = strcmp(what, "huge") == 0,
					 .read_only = strcmp(what, "readonly") == 0,
				 });
	if (strcmp(what, "clock") == 0)
		client_clock(&client);
	client_work(&client, 100);
	if (strcmp(what, "named") == 0) {
		prctl(PR_SET_NAME, "renamed");
		nap(250);
	}
	if (strcmp(what, "killed") == 0)
		raise(SIGKILL);
	if (strcmp(what, "stubborn") == 0)
		signal(SIGTERM, SIG_IGN);
	if (strcmp(what, "terminated") == 0 || strcmp(what, "stubborn") == 0)
		nap(20000);
	if (strcmp(what, "family") == 0 && fork() == 0) {
		struct client child;

		/* Outlives its parent. */
		client_start(&child);
		client_work(&child, 50);
		nap(150);
		_exit(9);
	}
	if (strcmp(what, "family") == 0)
		nap(50);
	return 7;
}

/* ---- the tests ---- */

static char *output(const char *name)
{
	static char path[128];

	snprintf(path, sizeof path, "%s/%s.hg", folder, name);
	return path;
}

static struct collect_options options_for(const char *what, const char *path)
{
	static char *argv[4];

	argv[0] = self;
	argv[1] = (char *)"client";
	argv[2] = (char *)what;
	argv[3] = NULL;
	return (struct collect_options){ .argv = argv,
					 .output = path,
					 .recorder = "",
					 .version = "test",
					 .depth_limit = 64,
					 .mode = LIVE_MODE_EXACT,
					 .wait_ns = COLLECT_WAIT_ALL };
}

static struct collect_result collect(const char *what)
{
	struct collect_options options = options_for(what, output(what));
	struct collect_result result;
	struct error error = ERROR_INIT;

	if (collect_run(&options, &result, &error) < 0)
		fail_msg("%s", error.message);
	return result;
}

static struct recording load(struct collect_result *result)
{
	struct recording recording = { 0 };
	struct file_map map = FILE_MAP_INIT;
	struct error error = ERROR_INIT;
	struct format_error reason = { "" };

	assert_non_null(result->path);
	if (file_map_open(&map, result->path, &error) < 0)
		fail_msg("%s", error.message);
	if (recording_decode(map.bytes.data, map.bytes.size, &recording, &reason) < 0)
		fail_msg("%s", reason.message);
	file_map_release(&map);
	assert_int_equal(recording.warnings.bad_chunks, 0);
	assert_false(recording.warnings.unfinished);
	collect_result_release(result);
	return recording;
}

static void a_program_that_exits_is_recorded_whole(void **state)
{
	struct collect_result result = collect("exits");
	struct recording recording = load(&result);
	const struct process_rows *p = &recording.processes[0];

	(void)state;
	assert_int_equal(result.end, COLLECT_EXITED);
	assert_int_equal(result.number, 7);
	assert_int_equal(recording.process_count, 1);
	assert_int_equal(p->process.end, END_EXIT);
	assert_int_equal(p->process.exit_code, 7);
	assert_int_equal(p->process.calls, 100);
	assert_int_equal(p->process.bytes, 3200);
	assert_int_equal(p->process.frees, 1);
	assert_int_equal(p->process.peak_bytes, 99 * 32);
	assert_int_equal(recording.run.peak_bytes, 99 * 32);
	assert_int_equal(recording.run.peak_bound_bytes, 0);
	assert_int_equal(p->process.ppid, getpid());
	assert_non_null(strstr(p->process.command, "client"));
	assert_string_equal(p->process.exe, self);
	assert_string_equal(p->modules[1].path, "/bin/client");
	assert_int_equal(p->age_count, 1);
	assert_int_equal(p->ages[0].blocks, 1);
	assert_true(p->process.duration_ns > 0 && p->process.duration_ns < 60000000000);
	assert_true(p->process.peak_rss_bytes > 4096);
	assert_true(p->series_count >= 1);
	assert_int_equal(p->series[p->series_count - 1].calls, 100);
	assert_int_equal(p->series[p->series_count - 1].live_blocks, 99);
	assert_true(p->snapshot_count >= 1);
	assert_int_equal(p->snapshot_sites[p->snapshot_site_count - 1].bytes, 99 * 32);
	recording_release(&recording);
}

static void a_killed_program_leaves_its_recording(void **state)
{
	struct collect_result result = collect("killed");
	struct recording recording = load(&result);

	(void)state;
	assert_int_equal(result.end, COLLECT_SIGNALLED);
	assert_int_equal(result.number, SIGKILL);
	assert_int_equal(recording.processes[0].process.end, END_KILLED);
	assert_int_equal(recording.processes[0].process.exit_code, SIGKILL);
	assert_int_equal(recording.processes[0].process.calls, 100);
	recording_release(&recording);
}

static void a_child_that_outlives_the_program_is_waited_for(void **state)
{
	struct collect_result result = collect("family");
	struct recording recording = load(&result);
	uint64_t peak = 99 * 32 + 49 * 32;

	(void)state;
	assert_int_equal(result.number, 7);
	assert_int_equal(recording.process_count, 2);
	/* In the order in which they were seen to have ended: on a busy machine both at once. */
	const struct process_row *first = &recording.processes[0].process,
				 *second = &recording.processes[1].process;
	const struct process_row *parent = first->calls == 100 ? first : second;
	const struct process_row *child = parent == first ? second : first;

	assert_int_equal(parent->calls, 100);
	assert_int_equal(child->calls, 50);
	assert_int_equal(child->ppid, parent->pid);
	assert_int_equal(child->end, END_EXIT);
	/* Both lived together for 50 ms and were sampled every 10: the sum is one moment's, within its bound. */
	assert_true(recording.run.peak_bytes + recording.run.peak_bound_bytes == peak);
	assert_true(recording.run.peak_bytes >= 99 * 32);
	recording_release(&recording);
}

static void a_later_thread_name_replaces_the_first(void **state)
{
	struct collect_result result = collect("named");
	struct recording recording = load(&result);

	(void)state;
	assert_int_equal(recording.processes[0].thread_count, 1);
	assert_string_equal(recording.processes[0].threads[0].name, "renamed");
	assert_true(recording.processes[0].snapshot_count >= 2);
	assert_true(recording.processes[0].series_count >= 10);
	recording_release(&recording);
}

static void a_program_that_never_connects_is_told_of(void **state)
{
	struct collect_result result = collect("silent");

	(void)state;
	assert_false(result.recorded);
	assert_null(result.path);
	assert_int_equal(result.number, 3);
	/* This very program is what was run: in a sanitizer's build that is the better reason. */
	assert_true(strstr(result.reason, "never started the recorder") ||
		    strstr(result.reason, "built with a sanitizer"));
	assert_int_not_equal(access(output("silent"), F_OK), 0);
	collect_result_release(&result);
}

static void expect_client_agrees(const char *what)
{
	struct collect_result result = collect(what);

	if (result.end != COLLECT_EXITED || result.number != 0)
		fail_msg("client %s: end %d, number %d", what, (int)result.end, result.number);
	collect_result_release(&result);
}

/* H1, H7: memory that could be taken away under its reader, and people who were not asked. */
static void memory_that_no_recorder_would_send_is_refused(void **state)
{
	static const char *const kinds[] = { "unsealed", "stranger", "larger", "huge", "readonly" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct collect_result result = collect(kinds[i]);

		assert_int_equal(result.number, 7);
		assert_false(result.recorded);
		assert_null(result.path);
		collect_result_release(&result);
	}
}

static void the_clock_runs(void **state)
{
	(void)state;
	expect_client_agrees("clock");
}

static void no_descriptor_is_left_to_the_program(void **state)
{
	char number[16];

	(void)state;
	snprintf(number, sizeof number, "%d", open_descriptors());
	setenv("TEST_DESCRIPTORS", number, 1);
	expect_client_agrees("descriptors");
}

static void the_program_finds_the_signals_as_we_did(void **state)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, standard = { .sa_handler = SIG_DFL };
	sigset_t set;

	(void)state;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigaction(SIGUSR1, &ignore, NULL);
	sigaction(SIGCHLD, &ignore, NULL);
	expect_client_agrees("signals");
	sigaction(SIGCHLD, &standard, NULL);
	sigaction(SIGUSR1, &standard, NULL);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* Runs the collector in a child, so that it can be sent signals. Returns its status as the parent sees it. */
static int collect_in_child(const char *what, unsigned signals, int number)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		struct collect_options options = options_for(what, output(what));
		struct collect_result result;
		struct error error = ERROR_INIT;

		if (collect_run(&options, &result, &error) < 0)
			_exit(99);
		_exit(result.end == COLLECT_LEFT	? 40
		      : result.end == COLLECT_SIGNALLED ? 50 + result.number
							: 98);
	}
	for (unsigned i = 0; i < signals; i++) {
		nap(300);
		kill(pid, number);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void a_signal_to_the_collector_alone_is_passed_on(void **state)
{
	(void)state;
	assert_int_equal(collect_in_child("terminated", 1, SIGTERM), 50 + SIGTERM);
	assert_int_equal(access(output("terminated"), R_OK), 0);
}

static void the_second_signal_leaves_with_what_there_is(void **state)
{
	struct collect_result result = { .path = strdup(output("stubborn")) };
	struct recording recording;

	(void)state;
	assert_int_equal(collect_in_child("stubborn", 2, SIGTERM), 40);
	recording = load(&result);
	assert_int_equal(recording.processes[0].process.end, END_RUNNING);
	assert_int_equal(recording.processes[0].process.calls, 100);
	kill((pid_t)recording.processes[0].process.pid, SIGKILL);
	recording_release(&recording);
}

static void a_program_that_is_not_there_is_127_and_one_that_cannot_run_126(void **state)
{
	struct collect_options options = options_for("exits", output("missing"));
	struct collect_result result;
	struct error error = ERROR_INIT;
	char *missing[] = { (char *)"./not-there", NULL }, *data[] = { folder, NULL };

	(void)state;
	options.argv = missing;
	assert_int_equal(collect_run(&options, &result, &error), -1);
	assert_int_equal(result.end, COLLECT_NOT_STARTED);
	assert_int_equal(result.number, 127);
	assert_string_equal(error.message, "cannot run ./not-there: No such file or directory");
	options.argv = data;
	assert_int_equal(collect_run(&options, &result, &error), -1);
	assert_int_equal(result.number, 126);
}

static void a_folder_that_cannot_be_written_is_said_before_the_program_runs(void **state)
{
	struct collect_options options = options_for("exits", "/proc/nowhere/x.hg");
	struct collect_result result;
	struct error error = ERROR_INIT;

	(void)state;
	assert_int_equal(collect_run(&options, &result, &error), -1);
	assert_int_equal(result.end, COLLECT_NOT_STARTED);
	assert_int_equal(result.number, 125);
	assert_non_null(strstr(error.message, "/proc/nowhere"));
	options.output = "/proc/nowhere/";
	assert_int_equal(collect_run(&options, &result, &error), -1);
	assert_non_null(strstr(error.message, "there is no directory /proc/nowhere"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_that_exits_is_recorded_whole),
		cmocka_unit_test(a_killed_program_leaves_its_recording),
		cmocka_unit_test(a_child_that_outlives_the_program_is_waited_for),
		cmocka_unit_test(a_later_thread_name_replaces_the_first),
		cmocka_unit_test(a_program_that_never_connects_is_told_of),
		cmocka_unit_test(memory_that_no_recorder_would_send_is_refused),
		cmocka_unit_test(the_clock_runs),
		cmocka_unit_test(no_descriptor_is_left_to_the_program),
		cmocka_unit_test(the_program_finds_the_signals_as_we_did),
		cmocka_unit_test(a_signal_to_the_collector_alone_is_passed_on),
		cmocka_unit_test(the_second_signal_leaves_with_what_there_is),
		cmocka_unit_test(a_program_that_is_not_there_is_127_and_one_that_cannot_run_126),
		cmocka_unit_test(a_folder_that_cannot_be_written_is_said_before_the_program_runs),
	};
	static const char *const names[] = { "exits", "killed",	     "family",	 "named",
					     "clock", "descriptors", "stubborn", "terminated" };
	int status;

	if (argc == 3 && strcmp(argv[1], "client") == 0)
		return client_main(argv[2]);
	if (!realpath("/proc/self/exe", self) || !mkdtemp(folder))
		return 1;
	status = cmocka_run_group_tests(tests, NULL, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		unlink(output(names[i]));
	rmdir(folder);
	return status;
}
