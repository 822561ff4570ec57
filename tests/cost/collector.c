/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/* collector LIBRARY COMMAND...: runs the command with the recorder, in a profile that is small enough for valgrind, and
 * prints what was recorded: "calls N bytes N sites N".
 *
 * `heapgauge record` cannot stand here: valgrind's own program is static, so the recorder's variables would not be
 * handed on to it, and what it runs may map no 64 GiB. The clock stands still, so that two runs count the same
 * instructions: at COST_CLOCK_MS, or at the beginning. COST_FREE_SITES and COST_TIME_CALLS are settings of the same names. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collect/run/handover.h"
#include "collect/profile/live_profile.h"
#include "format/live/live_read.h"

static int fail(const struct error *error)
{
	fprintf(stderr, "collector: %s\n", error->message);
	return 2;
}

static enum live_mode mode_asked(void);

static uint64_t number_asked(const char *variable)
{
	const char *asked = getenv(variable);

	return asked ? strtoull(asked, NULL, 10) : 0;
}

static pid_t start(const struct listener *listener, char **argv)
{
	struct live_settings settings = { .secret = listener->secret,
					  .mode = mode_asked(),
					  .interval = 512 << 10,
					  .depth_limit = LIVE_DEPTH_DEFAULT,
					  .free_sites = number_asked("COST_FREE_SITES"),
					  .time_calls = number_asked("COST_TIME_CALLS"),
					  .budget_bytes = 2ull << 30,
					  .total_bytes = 4ull << 30 };
	char text[LIVE_TICKET_TEXT + 1 + LIVE_SETTINGS_TEXT + 1] = "";
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	snprintf(settings.collector, sizeof settings.collector, "%s", listener->name);
	live_ticket_write(text, (struct live_ticket){ 0 });
	text[LIVE_TICKET_TEXT] = ',';
	live_settings_write(text + LIVE_TICKET_TEXT + 1, &settings);
	setenv("LD_PRELOAD", argv[1], 1);
	setenv(LIVE_ENV_HANDOVER, text, 1);
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

/* Takes the profile of whoever connects first. */
static int take(const struct listener *listener, struct live_profile *profile, struct error *error)
{
	union handover_message message;
	int fd = -1, pid_fd;
	pid_t pid;
	int connection = handover_accept(listener->fd[0], &pid, &pid_fd);

	if (connection < 0)
		return 0;
	while (handover_receive(connection, &listener->secret, &message, &fd) == HANDOVER_WAIT)
		usleep(100);
	close(connection);
	if (fd < 0 || profile->head)
		return 0;
	const char *clock_ms = getenv("COST_CLOCK_MS");

	if (live_profile_take(profile, fd, error) < 0)
		return -1;
	if (clock_ms)
		live_profile_write_clock(profile, strtoull(clock_ms, NULL, 10));
	return 0;
}

int main(int argc, char **argv)
{
	struct listener listener = LISTENER_INIT;
	struct live_profile profile = LIVE_PROFILE_INIT;
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

		if (poll(&waiting, 1, 20) > 0 && take(&listener, &profile, &error) < 0)
			return fail(&error);
	}
	listener_close(&listener);
	if (!profile.head || status != 0) {
		fprintf(stderr, "collector: %s\n",
			status ? "the program failed" : "nothing was recorded");
		return 2;
	}
	if (live_profile_load(&profile, PROFILE_COPY_ALL, true, &error) < 0)
		return fail(&error);
	if (live_read_rows(profile.memory, profile.bytes, NULL, LIVE_MODE_EXACT, &rows,
			   &format_error) < 0) {
		fprintf(stderr, "collector: %s\n", format_error.message);
		return 2;
	}
	printf("calls %llu bytes %llu sites %zu peak %llu own %llu\n",
	       (unsigned long long)rows.process.calls, (unsigned long long)rows.process.bytes,
	       rows.site_count, (unsigned long long)rows.process.peak_bytes,
	       (unsigned long long)((const struct live_header *)profile.memory)->opened_bytes);
	return 0;
}
