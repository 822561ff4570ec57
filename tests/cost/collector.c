/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/* collector LIBRARY COMMAND...: runs the command with the recorder, in a profile that is small enough for valgrind, and
 * prints what was recorded: "calls N bytes N sites N".
 *
 * `heapgauge record` cannot stand here: valgrind's own program is static, so the recorder's variables would not be
 * handed on to it, and what it runs may map no 64 GiB. The clock stands still, so that two runs count the same
 * instructions. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collect/handover.h"
#include "format/live_read.h"

static int fail(const struct error *error)
{
	fprintf(stderr, "collector: %s\n", error->message);
	return 2;
}

static pid_t start(const struct listener *listener, char **argv)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	setenv("LD_PRELOAD", argv[1], 1);
	setenv(LIVE_ENV_SOCKET, listener->name, 1);
	execvp(argv[2], argv + 2);
	_exit(127);
}

/* COST_MODE: sample or dormant; else exact. */
static enum live_mode mode_asked(void)
{
	const char *asked = getenv("COST_MODE");

	if (asked && strcmp(asked, "sample") == 0)
		return LIVE_MODE_SAMPLE;
	return asked && strcmp(asked, "dormant") == 0 ? LIVE_MODE_DORMANT : LIVE_MODE_EXACT;
}

/* Hands a profile over to whoever connects first. */
static int hand_over(const struct listener *listener, struct profile *profile, struct error *error)
{
	const uint64_t limit = 16ull << 30; /* a profile of 4 GiB */
	union handover_message message;
	pid_t pid;
	int connection = handover_accept(listener->fd[0], &pid);

	if (connection < 0)
		return 0;
	while (handover_receive(connection, &message) == HANDOVER_WAIT)
		usleep(100);
	if (profile->memory == NULL) {
		if (profile_make(profile, limit, "", error) < 0)
			return -1;
		profile->control->mode = mode_asked();
		profile->control->interval = 512 << 10;
		profile->control->depth_limit = LIVE_DEPTH_DEFAULT;
		profile->control->budget_bytes = 2ull << 30;
		if (handover_answer(connection, profile, error) < 0)
			return -1;
	} else if (handover_answer(connection, NULL, error) < 0) {
		return -1;
	}
	close(connection);
	return 0;
}

int main(int argc, char **argv)
{
	struct listener listener = LISTENER_INIT;
	struct profile profile = PROFILE_INIT;
	struct error error = { 0 };
	struct format_error format_error;
	struct process_rows rows;
	int status = 0;

	if (argc < 3)
		return 2;
	if (listener_open(&listener, &error) < 0)
		return fail(&error);
	pid_t child = start(&listener, argv);

	while (waitpid(child, &status, WNOHANG) == 0) {
		struct pollfd waiting = { .fd = listener.fd[0], .events = POLLIN };

		if (poll(&waiting, 1, 20) > 0 && hand_over(&listener, &profile, &error) < 0)
			return fail(&error);
	}
	listener_close(&listener);
	if (profile.memory == NULL || status != 0) {
		fprintf(stderr, "collector: %s\n",
			status ? "the program failed" : "nothing was recorded");
		return 2;
	}
	if (live_read_rows(profile.memory, profile.bytes, &rows, &format_error) < 0) {
		fprintf(stderr, "collector: %s\n", format_error.message);
		return 2;
	}
	printf("calls %llu bytes %llu sites %zu peak %llu own %llu\n",
	       (unsigned long long)rows.process.calls, (unsigned long long)rows.process.bytes,
	       rows.site_count, (unsigned long long)rows.process.peak_bytes,
	       (unsigned long long)((const struct live_header *)profile.memory)->opened_bytes);
	return 0;
}
