/* SPDX-License-Identifier: Apache-2.0 */
/* links: agent export util base */
/* The options of the HTTP client, and answers that no proper server gives. What one gives is in tests/e2e/agent. */
#include "agent/push/http_client.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/compiler.h"
#include "unit.h"

static atomic_bool go_on;

static void check_refused(struct http_client_options options, const char *why)
{
	struct error err = ERROR_INIT;

	if (!options.url)
		options.url = "http://127.0.0.1";
	options.content_type = "text/plain";
	assert_null(http_client_new(&options, &err));
	if (!strstr(err.message, why))
		fail_msg("%s", err.message);
	assert_null(strstr(err.message, "secret"));
}

static void options_that_cannot_work_are_refused(void **state)
{
	static const char *const no_urls[] = {
		"",
		"host:4040",
		"ftp://host/",
		"file:///etc/passwd",
		"HTTPS://host", /* libcurl would accept it; one spelling is enough */
		"http://host/\r\nX-Header: 1",
		"http://ho st/",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(no_urls); i++)
		check_refused((struct http_client_options){ .url = no_urls[i] }, "not a URL");
	check_refused((struct http_client_options){ .url = "https://me:secret@host/" }, "password");
	check_refused((struct http_client_options){ .url = "https://secret@host" }, "password");
	check_refused((struct http_client_options){ .url = "http:///path" }, "no host");
	check_refused((struct http_client_options){ .url = "http://:80/" }, "no host");
	check_refused((struct http_client_options){ .tenant = "a\nX-Header: b" }, "tenant");
	check_refused((struct http_client_options){ .user = "a:b", .password_file = "p" }, "user");
	check_refused((struct http_client_options){ .user = "a" }, "password file");
	check_refused((struct http_client_options){ .password_file = "p" }, "password file");
	check_refused((struct http_client_options){ .user = "a",
						    .password_file = "p",
						    .token_file = "t" },
		      "not both");
	check_refused((struct http_client_options){ .key_file = "k" }, "certificate file");
}

/* ---- a server of one connection ---- */

struct peer {
	int listener;
	char url[64];
	const char *answer;
	bool endless, silent; /* then sends more, or nothing, until the client goes away */
	pthread_t thread;
};

static void *answer_one(void *context)
{
	struct peer *peer = context;
	int fd = accept(peer->listener, NULL, NULL);
	char request[4096];

	if (fd < 0 || recv(fd, request, sizeof request, 0) <= 0)
		return NULL;
	send(fd, peer->answer, strlen(peer->answer), MSG_NOSIGNAL);
	memset(request, '\a', sizeof request);
	while (peer->endless && send(fd, request, sizeof request, MSG_NOSIGNAL) > 0)
		;
	if (peer->silent)
		(void)!recv(fd, request, 1, 0);
	close(fd);
	return NULL;
}

static void start_peer(struct peer *peer)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof address;

	peer->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(peer->listener, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(listen(peer->listener, 1), 0);
	assert_int_equal(getsockname(peer->listener, (struct sockaddr *)&address, &length), 0);
	snprintf(peer->url, sizeof peer->url, "http://127.0.0.1:%u/x", ntohs(address.sin_port));
	assert_int_equal(pthread_create(&peer->thread, NULL, answer_one, peer), 0);
}

static struct http_reply post(struct peer *peer, uint32_t timeout_ms, const atomic_bool *stop)
{
	struct error err = ERROR_INIT;
	struct http_reply reply;
	struct http_client *client;

	start_peer(peer);
	client = http_client_new(&(struct http_client_options){ .url = peer->url,
								.content_type = "text/plain",
								.timeout_ms = timeout_ms },
				 &err);
	assert_string_equal(err.message, "");
	reply = http_client_post(client, span_of("body", 4), stop);
	http_client_free(client);
	pthread_join(peer->thread, NULL);
	close(peer->listener);
	return reply;
}

static void a_message_is_bounded_and_printable(void **state)
{
	char answer[2000] = "HTTP/1.1 400 Bad\r\nRetry-After: 17\r\nContent-Length: 1000\r\n\r\n"
			    "a\x1b[31m\n\xff";
	size_t used = strlen(answer);
	struct peer peer = { .answer = answer };
	struct http_reply reply;

	(void)state;
	memset(answer + used, 'x', sizeof answer - used - 1);
	reply = post(&peer, 0, &go_on);
	assert_int_equal(reply.outcome, HTTP_ANSWERED);
	assert_int_equal(reply.status, 400);
	assert_int_equal(reply.retry_after_s, 17);
	assert_memory_equal(reply.message, "a?[31m??xxx", 11);
	assert_int_equal(strlen(reply.message), HTTP_REPLY_BYTES - 1);
}

static void an_endless_answer_is_given_up(void **state)
{
	struct peer peer = { .answer = "HTTP/1.1 200 OK\r\n\r\n", .endless = true };

	(void)state;
	assert_int_equal(post(&peer, 0, &go_on).outcome, HTTP_NETWORK);
}

static void an_answer_that_does_not_end_is_given_up_in_time(void **state)
{
	struct peer peer = { .answer = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n12345",
			     .silent = true };
	struct http_reply reply = post(&peer, 300, &go_on);

	(void)state;
	assert_int_equal(reply.outcome, HTTP_NETWORK);
	assert_non_null(strstr(reply.message, "timed out"));
}

static void *set_soon(void *context)
{
	usleep(200000);
	atomic_store((atomic_bool *)context, true);
	return NULL;
}

static void a_transfer_is_stopped_on_request(void **state)
{
	struct peer peer = { .answer = "HTTP/1.1 200 OK\r\n\r\n", .silent = true };
	atomic_bool stop = false;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, set_soon, &stop), 0);
	assert_int_equal(post(&peer, 0, &stop).outcome, HTTP_STOPPED);
	pthread_join(thread, NULL);
}

static void an_answer_that_is_not_http_is_an_error(void **state)
{
	struct peer peer = { .answer = "SSH-2.0-OpenSSH\r\n" };
	struct http_reply reply = post(&peer, 0, &go_on);

	(void)state;
	assert_int_equal(reply.outcome, HTTP_NETWORK);
	assert_string_not_equal(reply.message, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_that_cannot_work_are_refused),
		cmocka_unit_test(a_message_is_bounded_and_printable),
		cmocka_unit_test(an_endless_answer_is_given_up),
		cmocka_unit_test(an_answer_that_does_not_end_is_given_up_in_time),
		cmocka_unit_test(a_transfer_is_stopped_on_request),
		cmocka_unit_test(an_answer_that_is_not_http_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
