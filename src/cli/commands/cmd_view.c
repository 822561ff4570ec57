/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapgauge view: shows the recording as a page in the browser.
 *
 * A server on 127.0.0.1 answers the page's requests until Ctrl-C. The browser is started in the background and
 * never waited for; the URL is always printed, for users without a browser here.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "cli/options/query_options.h"
#include "cli/commands.h"
#include "cli/web/web.h"
#include "collect/kernel/container.h"
#include "serve/page.h"
#include "serve/serve.h"
#include "util/cleanup.h"
#include "util/vector.h"

enum { NICENESS = 10 };
enum view_option {
	OPT_PID = QUERY_COUNT,
	OPT_AGAINST,
	OPT_NO_OPEN,
	OPT_PORT,
	OPT_HOST,
	OPT_SOCKET,
	OPT_SOURCE_MAP
};

static const struct option_row option_rows[] = {
	[OPT_PID] = { "pid", 'p', "PID", "show the running process PID, live, instead of a FILE",
		      .scope = OPTION_TYPED_ONLY },
	[OPT_AGAINST] = { "against", 0, "FILE", "compare with this older recording",
			  .scope = OPTION_TYPED_ONLY },
	[OPT_NO_OPEN] = { "no-open", 0, NULL, "do not start a browser, only print the URL" },
	[OPT_PORT] = { "port", 0, "N", "listen on port N", .group = "Server",
		       .fallback = "a free one", .scope = OPTION_TYPED_ONLY },
	[OPT_HOST] = { "host", 0, "ADDRESS",
		       "listen on ADDRESS; other machines may then reach the server",
		       .group = "Server", .fallback = "127.0.0.1", .scope = OPTION_TYPED_ONLY },
	[OPT_SOCKET] = { "socket", 0, "FILE", "listen on a Unix socket instead, for ssh -L",
			 .group = "Server", .scope = OPTION_TYPED_ONLY },
	[OPT_SOURCE_MAP] = SOURCE_MAP_ROW,
	QUERY_MACHINE_ROWS,
};

struct view_command {
	VECTOR(const char *) paths;
	const char *against;
	pid_t pid;  /* 0: recordings */
	char *root; /* of its container */
	bool no_open, tcp_given;
	struct serve_options serve;
	struct query_options asked;
	struct web web;
};

static int take_port(struct view_command *c, const char *value, struct error *error)
{
	uint64_t port;

	if (options_number("port", value, &port, error) < 0)
		return -1;
	if (port > UINT16_MAX)
		return error_set(error, "--port is at most 65535, not %s", value);
	c->serve.port = (uint16_t)port;
	c->tcp_given = true;
	return 0;
}

static int take_option(void *state, int option, const char *value, struct error *error)
{
	struct view_command *c = state;

	switch (option) {
	case OPTIONS_WORD:
		return vector_push(&c->paths, value) ? 0 : error_set(error, "out of memory");
	case OPT_PID:
		return options_pid("pid", value, &c->pid, error);
	case OPT_AGAINST:
		c->against = value;
		return 0;
	case OPT_NO_OPEN:
		c->no_open = true;
		return 0;
	case OPT_SOURCE_MAP:
		return query_options_sources(&c->asked, value, error);
	case OPT_PORT:
		return take_port(c, value, error);
	case OPT_HOST:
		c->serve.host = value;
		c->tcp_given = true;
		return 0;
	case OPT_SOCKET:
		c->serve.socket_path = value;
		return 0;
	default:
		if (option >= 0 && option < QUERY_COUNT)
			return query_options_take(&c->asked, (enum query_option)option, value,
						  error);
		return error_set(error, "internal error: unhandled option");
	}
}

static int check(void *state, struct error *error)
{
	const struct view_command *c = state;

	if (c->serve.socket_path && c->tcp_given)
		return error_set(error, "either --socket, or --port and --host");
	if (c->pid && c->paths.count)
		return error_set(error, "either --pid or recordings, not both");
	return 0;
}

/* ---- the browser ---- */

static bool has_screen(void)
{
	static const char *const signs[] = { "DISPLAY", "WAYLAND_DISPLAY", "BROWSER" };

	for (size_t i = 0; i < ARRAY_SIZE(signs); i++) {
		const char *value = getenv(signs[i]);

		if (value && *value)
			return true;
	}
	return false;
}

/*
 * Runs the browser in its own session, so that Ctrl-C here does not end it, with its output discarded. The shell in
 * between makes it a child of init, so that it does not become our zombie.
 */
static void open_browser(const char *url)
{
	char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" },	   (char[]){ "xdg-open \"$1\" &" },
			 (char[]){ "sh" }, (char *)(uintptr_t)url, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	pid_t pid;

	sigemptyset(&none);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawn_file_actions_init(&actions);
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
	if (posix_spawn(&pid, "/bin/sh", &actions, &attributes, argv, environ) == 0)
		waitpid(pid, NULL, 0);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
}

static void print_where(const struct view_command *c, const struct server *server)
{
	const char *socket = c->serve.socket_path;

	printf("%s%s\n", socket ? "http://localhost:8080" : "", serve_url(server));
	fflush(stdout);
	if (socket)
		cli_error("the URL works on the machine that runs 'ssh -L 8080:%s THIS-MACHINE'",
			  socket);
	else if (getenv("SSH_CONNECTION") && !c->serve.host)
		fprintf(stderr,
			"heapgauge: run 'ssh -L %u:127.0.0.1:%u THIS-MACHINE' on your local "
			"machine first\n",
			serve_port(server), serve_port(server));
	if (serve_is_public(server))
		cli_error(
			"warning: other machines can reach port %u (--host %s); anyone who sees "
			"the URL, which is sent unencrypted, can read the recording and its source "
			"files. Without --host only this machine can; 'ssh -L %u:127.0.0.1:%u "
			"THIS-MACHINE' then connects from another",
			serve_port(server), c->serve.host, serve_port(server), serve_port(server));
	fprintf(stderr, "heapgauge: press Ctrl-C to stop\n");
}

/* ---- until Ctrl-C ---- */

static int serve_until_signal(struct view_command *c, struct error *error)
{
	sigset_t ends;
	int number;

	/* Block the signals in all threads, so that this one can wait for them. */
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &ends, NULL);
	signal(SIGPIPE, SIG_IGN);

	struct server *server = serve_start(&c->serve, error);

	if (!server)
		return -1;
	print_where(c, server);
	if (!c->no_open && !c->serve.socket_path && has_screen())
		open_browser(serve_url_once(server));
	sigwait(&ends, &number);
	/* A request may still be running: a second Ctrl-C ends us without waiting for it. */
	pthread_sigmask(SIG_UNBLOCK, &ends, NULL);
	serve_stop(server);
	return 0;
}

static int show(void *state, const struct common_options *common, struct error *error)
{
	struct view_command *c = state;

	(void)common;
	if (!page_is_built())
		return error_set(error, WEB_NO_PAGE);
	if (c->pid) {
		c->root = container_root(c->pid);
		c->asked.names.root = c->root;
		(void)!nice(NICENESS); /* yield the CPU to the observed process */
	}
	if (c->pid ? web_watch(&c->web, c->pid, c->against, error) < 0
		   : web_open(&c->web, c->paths.at, c->paths.count, c->against, error) < 0)
		return -1;
	c->web.asked = &c->asked;
	c->serve.handler = web_answer;
	c->serve.context = &c->web;
	return serve_until_signal(c, error);
}

static int run_view(int argc, char **argv)
{
	struct view_command c = { .asked = query_options_init() };
	const struct command_steps steps = { take_option, check, show };
	int status = command_run(&command_view, &steps, &c, argc, argv);

	web_release(&c.web);
	query_options_release(&c.asked);
	free(c.root);
	vector_release(&c.paths);
	return status;
}

static const char *const examples[] = {
	"heapgauge view",
	"the newest recording in this folder, in the browser",
	"heapgauge view new.hg --against old.hg",
	"views can also show what changed since old.hg",
	"heapgauge view --pid 4711",
	"a running process, refreshed every second",
	"heapgauge view run.hg --socket /tmp/view.sock",
	"for 'ssh -L 8080:/tmp/view.sock HOST' from another machine",
	NULL,
};

const struct command command_view = {
	.name = "view",
	.usage = "[FILE... | --pid PID] [options]",
	.help = "show a recording in the browser",
	.run = run_view,
	.group = COMMANDS_LOOK,
	.options = option_rows,
	.option_count = ARRAY_SIZE(option_rows),
	.words = WORDS_RECORDING,
	.about =
		"Shows the recordings, or the newest one in this folder, in the browser. Runs until Ctrl-C.\n\n"
		"With --pid it shows a running process that is being recorded (see 'heapgauge list'), refreshed "
		"about once a second while the page is open. The process is neither stopped nor written to. The page "
		"keeps its last state after the process has ended.\n\n"
		"heapgauge serves the page itself, on 127.0.0.1 only, to whoever has the token in the printed URL. "
		"Nothing leaves the machine.",
	.examples = examples,
};
