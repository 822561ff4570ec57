/* SPDX-License-Identifier: Apache-2.0 */
/* links: serve util base microhttpd */
/* The server with a handler of its own: who is let in, what is kept, and how data get into a page. */
#include "unit.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/compiler.h"
#include "serve/guard.h"
#include "serve/http.h"
#include "serve/response_cache.h"
#include "serve/page.h"
#include "serve/serve.h"
#include "serve/unauthenticated.h"
#include "util/cleanup.h"

/* ---- guard ---- */

static struct guard made_guard(const char *host, bool any_address)
{
	struct guard guard;

	assert_true(guard_init(&guard, host, any_address));
	return guard;
}

static enum guard_verdict verdict(struct guard *g, const char *path, const char *host,
				  const char *origin, const char *cookie, const char *token)
{
	return guard_check(g, &(struct guard_request){ .path = path,
						       .host = host,
						       .origin = origin,
						       .cookie = cookie,
						       .token = token });
}

static void secrets_are_all_different(void **state)
{
	struct guard a = made_guard(NULL, false), b = made_guard(NULL, false);
	const char *const all[] = { a.cookie, a.token, a.once, b.cookie, b.token, b.once };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		assert_int_equal(strlen(all[i]), 32);
		assert_int_equal(strspn(all[i], "0123456789abcdef"), 32);
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(all[i], all[j]);
	}
	assert_string_not_equal(a.cookie_name, b.cookie_name);
}

static void a_cookie_passes_and_a_token_enters(void **state)
{
	struct guard g = made_guard(NULL, false);

	(void)state;
	assert_int_equal(verdict(&g, "/x", "localhost", NULL, g.cookie, NULL), GUARD_PASS);
	assert_int_equal(verdict(&g, "/x", "localhost", NULL, NULL, NULL), GUARD_NO_COOKIE);
	assert_int_equal(verdict(&g, "/", "localhost", NULL, NULL, g.token), GUARD_ENTER);
	assert_int_equal(verdict(&g, "/", "localhost", NULL, NULL, g.token), GUARD_ENTER);
	assert_int_equal(verdict(&g, "/", "localhost", NULL, NULL, g.cookie), GUARD_NO_COOKIE);
	assert_int_equal(verdict(&g, "/x", "localhost", NULL, NULL, g.token), GUARD_NO_COOKIE);
	assert_int_equal(verdict(&g, "/", "localhost", NULL, g.cookie, "stale"), GUARD_ENTER);
}

static void a_token_for_once_is_spent_by_its_own_visitor_only(void **state)
{
	struct guard g = made_guard(NULL, false);

	(void)state;
	assert_int_equal(verdict(&g, "/", "evil.example", NULL, NULL, g.once), GUARD_CROSS_SITE);
	assert_int_equal(verdict(&g, "/", "localhost", "http://evil.example", NULL, g.once),
			 GUARD_CROSS_SITE);
	assert_int_equal(verdict(&g, "/", "localhost", NULL, NULL, g.once), GUARD_ENTER);
	assert_int_equal(verdict(&g, "/", "localhost", NULL, NULL, g.once), GUARD_NO_COOKIE);
}

static void names_are_ours_or_foreign(void **state)
{
	struct guard local = made_guard("127.0.0.1", false), named = made_guard("box", false),
		     any = made_guard("localhost", true);

	(void)state;
	assert_int_equal(verdict(&local, "/", "box:80", NULL, local.cookie, NULL),
			 GUARD_CROSS_SITE);
	assert_int_equal(verdict(&named, "/", "BOX:80", NULL, named.cookie, NULL), GUARD_PASS);
	assert_int_equal(verdict(&named, "/", "box.evil", NULL, named.cookie, NULL),
			 GUARD_CROSS_SITE);
	assert_int_equal(verdict(&local, "/", "192.0.2.1", NULL, local.cookie, NULL),
			 GUARD_CROSS_SITE);
	assert_int_equal(verdict(&any, "/", "192.0.2.1", NULL, any.cookie, NULL), GUARD_PASS);
	assert_int_equal(verdict(&any, "/", "[2001:db8::1]:80", NULL, any.cookie, NULL),
			 GUARD_PASS);
	assert_int_equal(verdict(&any, "/", "192.0.2.1.evil", NULL, any.cookie, NULL),
			 GUARD_CROSS_SITE);
	assert_int_equal(verdict(&any, "/", NULL, NULL, any.cookie, NULL), GUARD_CROSS_SITE);
}

/* ---- the page ---- */

#define PAGE                                                                                       \
	"<script type=\"application/json\" id=\"heapgauge-data\">null</script>"                    \
	"<script nonce=\"__HEAPGAUGE_NONCE__\">go</script><b>__HEAPGAUGE_NONCE__</b>"

static char *filled(const char *page, const char *data)
{
	struct buffer out = BUFFER_INIT;
	bool done =
		page_fill_in(&out, span_of(page, strlen(page)), "N", span_of(data, strlen(data)));

	assert_int_equal(done, out.size != 0);
	return done ? buffer_take_string(&out) : NULL;
}

static void data_stand_in_the_page_and_cannot_leave_their_element(void **state)
{
	(void)state;
	AUTO_FREE char *plain = filled(PAGE, "{\"a<b\":1}");

	assert_string_equal(
		plain,
		"<script type=\"application/json\" id=\"heapgauge-data\">{\"a<b\":1}</script>"
		"<script nonce=\"N\">go</script><b>N</b>");
	AUTO_FREE char *hostile =
		filled(PAGE, "[\"</script><script>evil()\",\"<!--<script\",\"<\"]");

	assert_non_null(strstr(hostile, "[\"\\u003c/script><script>evil()\",\"\\u003c!--<script\","
					"\"<\"]</script>"));
	AUTO_FREE char *word = filled(PAGE, "\"__HEAPGAUGE_NONCE__\"");

	assert_non_null(strstr(word, ">\"__HEAPGAUGE_NONCE__\"</script>"));
	assert_null(filled("<p>no place for data</p>", "1"));
	assert_null(filled("<script type=\"application/json\" id=\"heapgauge-data\">nul", "1"));
	assert_null(filled("", "1"));
	/* This build's own, if it has one. */
	struct buffer built = BUFFER_INIT;

	assert_int_equal(page_fill(&built, "N", span_of("1", 1)), page_is_built());
	buffer_release(&built);
}

/* ---- what is kept ---- */

static char *question(const char *path, size_t count, ...)
{
	struct serve_param params[4];
	va_list args;

	va_start(args, count);
	for (size_t i = 0; i < count; i++) {
		params[i].name = va_arg(args, const char *);
		params[i].value = va_arg(args, const char *);
	}
	va_end(args);
	return response_cache_key(&(struct serve_request){ path, params, count, NULL });
}

static void the_same_question_in_another_order_is_the_same(void **state)
{
	(void)state;
	AUTO_FREE char *a = question("/x", 3, "b", "1", "a", "2", "a", "3");
	AUTO_FREE char *b = question("/x", 3, "a", "2", "b", "1", "a", "3");
	AUTO_FREE char *c = question("/x", 3, "a", "3", "b", "1", "a", "2");
	AUTO_FREE char *d = question("/y", 3, "b", "1", "a", "2", "a", "3");
	AUTO_FREE char *e = question("/x", 1, "a", "1\n1:b=1:1");
	AUTO_FREE char *f = question("/x", 2, "a", "1", "b", "1");

	assert_string_equal(a, b);
	assert_string_not_equal(a, c);
	assert_string_not_equal(a, d);
	assert_string_not_equal(e, f);
}

static struct reply made_reply(size_t bytes)
{
	struct buffer body = BUFFER_INIT;
	struct reply reply;

	buffer_fill(&body, 'x', bytes);
	assert_int_equal(http_load(NULL), 0);
	assert_true(reply_make(&reply, 200, reply_json, NULL, &body));
	return reply;
}

static bool is_kept(const struct response_cache *kept, const char *asked)
{
	for (size_t i = 0; i < kept->list.count; i++)
		if (strcmp(kept->list.at[i].question, asked) == 0)
			return true;
	return false;
}

static void what_was_not_asked_for_longest_goes_first(void **state)
{
	struct response_cache kept;
	struct reply one = made_reply(40), two = made_reply(40), three = made_reply(40),
		     again = made_reply(40), huge = made_reply(1000);
	enum MHD_Result result;

	(void)state;
	response_cache_init(&kept, 100);
	response_cache_add(&kept, "one", &one);
	response_cache_add(&kept, "two", &two);
	response_cache_add(&kept, "one", &again);
	assert_int_equal(kept.list.count, 2);
	/* Without a connection nothing can be sent, but it was asked for. */
	assert_true(response_cache_send(&kept, "one", NULL, NULL, &result));
	response_cache_add(&kept, "three", &three);
	assert_true(is_kept(&kept, "one") && is_kept(&kept, "three") && !is_kept(&kept, "two"));
	assert_false(response_cache_send(&kept, "two", NULL, NULL, &result));
	response_cache_add(&kept, "huge", &huge);
	assert_int_equal(kept.list.count, 0);
	response_cache_release(&kept);
}

/* ---- a server ---- */

struct counted {
	atomic_int calls, inside, most; /* of the handler; any thread */
};

static void count_calls(void *context, const struct serve_request *request,
			struct serve_answer *answer)
{
	struct counted *c = context;
	int inside = atomic_fetch_add(&c->inside, 1) + 1;

	if (inside > atomic_load(&c->most))
		atomic_store(&c->most, inside);
	atomic_fetch_add(&c->calls, 1);
	usleep(2000);
	answer->keep = strcmp(request->path, "/kept") == 0;
	if (strcmp(request->path, "/wrong") == 0)
		serve_refuse(answer, 400, "no \"%s\"", "such thing");
	else
		buffer_printf(&answer->body, "\"%s %zu\"", request->path, request->param_count);
	atomic_fetch_sub(&c->inside, 1);
}

/* What the server sends back for one request. The caller's. */
static char *ask(uint16_t port, const char *text)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct buffer got = BUFFER_INIT;
	ssize_t more = 1;

	assert_true(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	while (more > 0) {
		char *room = buffer_reserve(&got, 4096);

		more = recv(fd, room, 4096, 0);
		got.size += more > 0 ? (size_t)more : 0;
	}
	return buffer_take_string(&got);
}

struct visitor {
	struct server *server;
	char cookie[128];
	const char *path;
};

static char *visit(const struct visitor *v)
{
	char text[512];

	snprintf(text, sizeof text,
		 "GET %s HTTP/1.1\r\nHost: localhost\r\nCookie: %s\r\nConnection: close\r\n\r\n",
		 v->path, v->cookie);
	return ask(serve_port(v->server), text);
}

static struct visitor let_in(struct server *server)
{
	struct visitor v = { .server = server };
	char text[256];

	snprintf(text, sizeof text,
		 "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		 strstr(serve_url(server), "/?token="));
	AUTO_FREE char *got = ask(serve_port(server), text);
	const char *cookie = strstr(got, "Set-Cookie: ");

	assert_non_null(cookie);
	cookie += strlen("Set-Cookie: ");
	snprintf(v.cookie, sizeof v.cookie, "%.*s", (int)strcspn(cookie, ";"), cookie);
	return v;
}

static struct server *started(struct counted *counted)
{
	struct error error = ERROR_INIT;
	struct server *server = serve_start(
		&(struct serve_options){ .handler = count_calls, .context = counted }, &error);

	if (!server)
		fail_msg("%s", error.message);
	return server;
}

static void *visit_often(void *context)
{
	static const char *const paths[] = { "/kept", "/new", "/kept?a=1", "/wrong" };
	struct visitor v = *(struct visitor *)context;

	for (size_t i = 0; i < 20; i++) {
		v.path = paths[i % ARRAY_SIZE(paths)];
		AUTO_FREE char *got = visit(&v);

		assert_non_null(strstr(got, i % 4 == 3 ? " 400 " : " 200 "));
	}
	return NULL;
}

static void many_visitors_ask_the_handler_one_by_one_and_what_is_kept_once(void **state)
{
	enum { VISITORS = 8 };
	struct counted counted = { 0 };
	struct server *server = started(&counted);
	struct visitor v = let_in(server);
	pthread_t threads[VISITORS];

	(void)state;
	for (size_t i = 0; i < VISITORS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, visit_often, &v), 0);
	for (size_t i = 0; i < VISITORS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(counted.most, 1);
	/* Two that are kept, and each time those that are not. */
	assert_int_equal(counted.calls, 2 + VISITORS * 10);
	serve_stop(server);
}

static void what_the_handler_says_is_sent(void **state)
{
	struct counted counted = { 0 };
	struct server *server = started(&counted);
	struct visitor v = let_in(server);

	(void)state;
	v.path = "/some%20where?a=1&b&a=%26";
	AUTO_FREE char *right = visit(&v);

	assert_non_null(strstr(right, "\r\n\r\n\"/some where 3\""));
	v.path = "/wrong";
	AUTO_FREE char *wrong = visit(&v);

	assert_non_null(strstr(wrong, "\"error\": \"no \\\"such thing\\\"\""));
	snprintf(v.cookie, sizeof v.cookie, "none");
	AUTO_FREE char *unauthenticated = visit(&v);

	assert_non_null(strstr(unauthenticated, "HTTP/1.1 403 "));
	assert_int_equal(counted.calls, 2);
	serve_stop(server);
}

static void a_taken_port_is_an_error(void **state)
{
	struct counted counted = { 0 };
	struct server *server = started(&counted);
	struct error error = ERROR_INIT;

	(void)state;
	assert_null(serve_start(&(struct serve_options){ .port = serve_port(server),
							 .handler = count_calls,
							 .context = &counted },
				&error));
	assert_non_null(strstr(error.message, "is in use"));
	serve_stop(server);
}

/* H12 */
static void the_oldest_unauthenticated_connection_is_closed_when_there_are_too_many(void **state)
{
	struct unauthenticated list;
	struct unauthenticated_connection *entries[3];
	int pairs[3][2];
	char byte;

	(void)state;
	unauthenticated_init(&list, 2);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pairs[i]), 0);
	entries[0] = unauthenticated_add(&list, pairs[0][0]);
	entries[1] = unauthenticated_add(&list, pairs[1][0]);
	unauthenticated_admit(&list, entries[0]);
	entries[2] = unauthenticated_add(&list, pairs[2][0]);
	assert_int_equal(read(pairs[1][1], &byte, 1), -1); /* nobody has gone yet */
	struct unauthenticated_connection *last = unauthenticated_add(&list, pairs[0][1]);

	assert_int_equal(read(pairs[1][1], &byte, 1), 0); /* the oldest that is not known */
	assert_int_equal(read(pairs[2][1], &byte, 1), -1);
	unauthenticated_remove(&list, last);
	for (size_t i = 0; i < 3; i++) {
		unauthenticated_remove(&list, entries[i]);
		close(pairs[i][0]);
		close(pairs[i][1]);
	}
	assert_int_equal(list.count, 0);
	unauthenticated_release(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(secrets_are_all_different),
		cmocka_unit_test(a_cookie_passes_and_a_token_enters),
		cmocka_unit_test(a_token_for_once_is_spent_by_its_own_visitor_only),
		cmocka_unit_test(names_are_ours_or_foreign),
		cmocka_unit_test(data_stand_in_the_page_and_cannot_leave_their_element),
		cmocka_unit_test(the_same_question_in_another_order_is_the_same),
		cmocka_unit_test(what_was_not_asked_for_longest_goes_first),
		cmocka_unit_test(what_the_handler_says_is_sent),
		cmocka_unit_test(many_visitors_ask_the_handler_one_by_one_and_what_is_kept_once),
		cmocka_unit_test(a_taken_port_is_an_error),
		cmocka_unit_test(
			the_oldest_unauthenticated_connection_is_closed_when_there_are_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
