/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP server on libmicrohttpd: see serve.h.
 *
 * Each connection has its own thread, so that cached responses are sent while another is being computed. The
 * handler runs under a lock; a thread that waited for the lock checks the cache again first. Every request passes
 * the guard before the handler sees it.
 */
#include "serve/serve.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/guard.h"
#include "serve/http.h"
#include "serve/response_cache.h"
#include "serve/listen.h"
#include "serve/peer.h"
#include "serve/reply.h"
#include "serve/unauthenticated.h"
#include "util/cleanup.h"
#include "util/text/json.h"
#include "util/vector.h"

enum {
	CONNECTIONS = 256,
	UNAUTHENTICATED_MAX = 64,  /* of these, connections without a valid token or cookie */
	REQUEST_BYTES = 64 * 1024, /* URL and headers */
	SILENCE_SECONDS = 600,	   /* idle timeout: longer than any response takes */
	RESPONSE_CACHE_BYTES = 256 * 1024 * 1024 /* of cached responses */
};

typedef VECTOR(struct serve_param) param_vector;

struct server {
	struct MHD_Daemon *daemon;
	struct guard guard;
	serve_handler *handler;
	void *context;
	pthread_mutex_t handling; /* held while the handler runs */
	struct response_cache kept;
	struct unauthenticated unauthenticated;
	bool is_api;
	const char *public_path;
	uint16_t port;
	enum listen_reach reach;
	char *host, *socket_path;
	char *url, *url_once;
};

void serve_refuse(struct serve_answer *answer, unsigned status, const char *format, ...)
{
	struct error reason = ERROR_INIT;
	struct json j = json_to(&answer->body, JSON_PRETTY);
	va_list args;

	va_start(args, format);
	vsnprintf(reason.message, sizeof reason.message, format, args);
	va_end(args);
	answer->status = status;
	answer->type = NULL;
	answer->keep = false;
	buffer_clear(&answer->body);
	json_object(&j);
	json_field_schema(&j);
	json_field_string(&j, "error", reason.message);
	json_end_object(&j);
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
	return http.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static enum MHD_Result send_once(struct MHD_Connection *connection, struct reply *reply)
{
	enum MHD_Result result =
		reply_send(reply, connection, header(connection, "Accept-Encoding"));

	reply_release(reply);
	return result;
}

/* Sends an error: as text where the page would be, else as JSON for a script. */
static enum MHD_Result refuse(struct MHD_Connection *connection, const char *path, unsigned status,
			      const char *sentence)
{
	struct serve_answer answer = { 0 };
	struct reply reply;
	bool person = strcmp(path, "/") == 0;

	if (person) {
		buffer_text(&answer.body, sentence);
		buffer_char(&answer.body, '\n');
	} else {
		serve_refuse(&answer, status, "%s", sentence);
	}
	if (!reply_make(&reply, status, person ? reply_text : reply_json, NULL, &answer.body))
		return MHD_NO;
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		reply_header(&reply, "Allow", "GET, HEAD");
	return send_once(connection, &reply);
}

/* Leaves a string that contains %00 escaped: decoded, it would be truncated to another string. */
static size_t unescape(void *context, struct MHD_Connection *connection, char *text)
{
	(void)context;
	(void)connection;
	return strstr(text, "%00") ? strlen(text) : http.MHD_http_unescape(text);
}

struct gathered {
	param_vector params;
	bool failed;
};

static enum MHD_Result gather(void *context, enum MHD_ValueKind kind, const char *name,
			      const char *value)
{
	struct gathered *g = context;
	const struct serve_param param = { name, value ? value : "" };

	(void)kind;
	if (!vector_push(&g->params, param))
		g->failed = true;
	return MHD_YES;
}

static void append_encoded(struct buffer *out, const char *text)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789-._~";

	for (; *text; text++) {
		if (strchr(plain, *text))
			buffer_char(out, *text);
		else
			buffer_printf(out, "%%%02X", (unsigned char)*text);
	}
}

/* Sets the cookie and redirects to the URL without the token, so that the token stays in no history. */
static enum MHD_Result let_in(struct server *server, struct MHD_Connection *connection,
			      const param_vector *params)
{
	AUTO(buffer_release) struct buffer to = BUFFER_INIT;
	AUTO(buffer_release) struct buffer cookie = BUFFER_INIT;
	struct buffer nothing = BUFFER_INIT;
	struct reply reply;
	char separator = '?';

	buffer_char(&to, '/');
	for (size_t i = 0; i < params->count; i++) {
		if (strcmp(params->at[i].name, "token") == 0)
			continue;
		buffer_char(&to, separator);
		separator = '&';
		append_encoded(&to, params->at[i].name);
		buffer_char(&to, '=');
		append_encoded(&to, params->at[i].value);
	}
	buffer_printf(&cookie, "%s=%s; HttpOnly; SameSite=Strict; Path=/",
		      server->guard.cookie_name, server->guard.cookie);
	const char *location = buffer_string(&to), *set = buffer_string(&cookie);

	if (!location || !set ||
	    !reply_make(&reply, MHD_HTTP_SEE_OTHER, reply_text, NULL, &nothing))
		return MHD_NO;
	if (reply_header(&reply, "Location", location) && reply_header(&reply, "Set-Cookie", set))
		return send_once(connection, &reply);
	reply_release(&reply);
	return MHD_NO;
}

static enum MHD_Result ask_handler(struct server *server, struct MHD_Connection *connection,
				   const struct serve_request *request, const char *question)
{
	struct serve_answer answer = { .status = MHD_HTTP_OK };
	struct reply reply;

	server->handler(server->context, request, &answer);
	if (!reply_make(&reply, answer.status, answer.type ? answer.type : reply_json,
			request->nonce, &answer.body))
		return refuse(connection, request->path, MHD_HTTP_INTERNAL_SERVER_ERROR,
			      "out of memory");
	if (!answer.keep)
		return send_once(connection, &reply);
	enum MHD_Result result =
		reply_send(&reply, connection, header(connection, "Accept-Encoding"));

	response_cache_add(&server->kept, question, &reply);
	return result;
}

static enum MHD_Result answer_question(struct server *server, struct MHD_Connection *connection,
				       const struct serve_request *request)
{
	AUTO_FREE char *question = response_cache_key(request);
	const char *accepts = header(connection, "Accept-Encoding");
	enum MHD_Result result = MHD_NO;

	if (server->is_api)
		return ask_handler(server, connection, request, question);
	if (!question || response_cache_send(&server->kept, question, connection, accepts, &result))
		return result;
	pthread_mutex_lock(&server->handling);
	if (!response_cache_send(&server->kept, question, connection, accepts, &result))
		result = ask_handler(server, connection, request, question);
	pthread_mutex_unlock(&server->handling);
	return result;
}

/* Whether the client runs as this user or root, on this machine. */
static bool is_own_user(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		http.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	uid_t uid;

	return info && peer_user(info->connect_fd, &uid) && (uid == 0 || uid == geteuid());
}

static bool is_public(const struct server *server, const char *path)
{
	return server->public_path && strcmp(path, server->public_path) == 0;
}

static enum guard_verdict check_api(struct server *server, struct MHD_Connection *connection,
				    const char *path)
{
	if (is_public(server, path))
		return GUARD_PASS;
	return guard_check_api(&server->guard,
			       &(struct guard_request){
				       .path = path,
				       .host = header(connection, "Host"),
				       .origin = header(connection, "Origin"),
				       .fetch_site = header(connection, "Sec-Fetch-Site"),
				       .authorization = header(connection, "Authorization"),
				       .own_user = is_own_user(connection),
			       });
}

static enum guard_verdict check(struct server *server, struct MHD_Connection *connection,
				const char *path)
{
	if (server->is_api)
		return check_api(server, connection, path);
	return guard_check(&server->guard,
			   &(struct guard_request){
				   .path = path,
				   .host = header(connection, "Host"),
				   .origin = header(connection, "Origin"),
				   .fetch_site = header(connection, "Sec-Fetch-Site"),
				   .cookie = http.MHD_lookup_connection_value(
					   connection, MHD_COOKIE_KIND, server->guard.cookie_name),
				   .token = http.MHD_lookup_connection_value(
					   connection, MHD_GET_ARGUMENT_KIND, "token"),
			   });
}

static void note_connection(void *context, struct MHD_Connection *connection, void **socket_context,
			    enum MHD_ConnectionNotificationCode code)
{
	struct server *server = context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		*socket_context = unauthenticated_add(
			&server->unauthenticated,
			http.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)
				->connect_fd);
	else
		unauthenticated_remove(&server->unauthenticated, *socket_context);
}

/* A connection that passed the guard is never closed to make room for others. */
static void welcome(struct server *server, struct MHD_Connection *connection)
{
	unauthenticated_admit(
		&server->unauthenticated,
		http.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
			->socket_context);
}

static enum MHD_Result answer_get(struct server *server, struct MHD_Connection *connection,
				  const char *path, const param_vector *params)
{
	char nonce[GUARD_SECRET_BYTES];
	const char *accept = header(connection, "Accept");

	switch (check(server, connection, path)) {
	case GUARD_ENTER:
		welcome(server, connection);
		return let_in(server, connection, params);
	case GUARD_NO_COOKIE:
		return refuse(
			connection, path,
			server->is_api ? MHD_HTTP_UNAUTHORIZED : MHD_HTTP_FORBIDDEN,
			server->is_api
				? "Not authorized: send 'Authorization: Bearer TOKEN' with the token of the "
				  "agent's token-file, or ask as its user or root on its machine."
				: "Not authorized: open the whole URL that 'heapgauge view' printed, with "
				  "its token.");
	case GUARD_CROSS_SITE:
		return refuse(
			connection, path, MHD_HTTP_FORBIDDEN,
			server->is_api
				? "Request refused, wrong Host, or from a web page: send the agent's token."
				: "Request refused, wrong Host or Origin: open the URL that 'heapgauge view' "
				  "printed.");
	case GUARD_PASS:
		/* What anybody may ask says nothing about who asks. */
		if (!is_public(server, path))
			welcome(server, connection);
	}
	if (!guard_secret(nonce))
		return MHD_NO;
	return answer_question(server, connection,
			       &(struct serve_request){ path, params->at, params->count, nonce,
							accept ? accept : "" });
}

static enum MHD_Result take_request(void *context, struct MHD_Connection *connection,
				    const char *path, const char *method, const char *version,
				    const char *upload, size_t *upload_bytes, void **state)
{
	struct server *server = context;
	struct gathered g = { 0 };
	enum MHD_Result result;

	(void)version;
	(void)upload;
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return refuse(connection, path, MHD_HTTP_METHOD_NOT_ALLOWED,
			      "Only GET is supported.");
	/* The first call has only the headers; a request body, which is ignored, comes in later calls. */
	if (!*state) {
		*state = server;
		return MHD_YES;
	}
	if (*upload_bytes) {
		*upload_bytes = 0;
		return MHD_YES;
	}
	http.MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, gather, &g);
	result = g.failed ? MHD_NO : answer_get(server, connection, path, &g.params);
	vector_release(&g.params);
	return result;
}

static char *url_of(const struct server *server, const char *token)
{
	struct buffer out = BUFFER_INIT;
	const char *host = server->host;

	if (host && strchr(host, ':'))
		buffer_printf(&out, "http://[%s]:%u", host, server->port);
	else if (host)
		buffer_printf(&out, "http://%s:%u", host, server->port);
	buffer_printf(&out, "/?token=%s", token);
	return buffer_take_string(&out);
}

static int open_socket(struct server *server, const struct serve_options *o, struct error *error)
{
	const char *host = o->host ? o->host : "127.0.0.1";

	if (o->socket_path) {
		server->socket_path = strdup(o->socket_path);
		return server->socket_path ? listen_unix(o->socket_path, error)
					   : error_set(error, "out of memory");
	}
	int fd = listen_tcp(host, o->port, &server->port, &server->reach, error);

	if (fd >= 0)
		server->host = strdup(server->reach == LISTEN_ANY ? "localhost" : host);
	return fd;
}

/* Takes ownership of the descriptor. With poll(), because select() cannot wait for descriptors from 1,024 on, which the agent has. */
static int start_daemon(struct server *server, int fd, struct error *error)
{
	server->daemon = http.MHD_start_daemon(
		MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_THREAD_PER_CONNECTION, 0, NULL, NULL,
		take_request, server, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENCE_SECONDS,
		MHD_OPTION_NOTIFY_CONNECTION, note_connection, server, MHD_OPTION_STRICT_FOR_CLIENT,
		1, MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL, MHD_OPTION_END);
	if (server->daemon)
		return 0;
	close(fd);
	return error_set(error, "the web server did not start: out of memory or threads");
}

struct server *serve_start(const struct serve_options *options, struct error *error)
{
	struct server *server = http_load(error) == 0 ? calloc(1, sizeof *server) : NULL;

	if (!http.MHD_start_daemon)
		return NULL;
	if (!server) {
		error_set(error, "out of memory");
		return NULL;
	}
	server->handler = options->handler;
	server->context = options->context;
	server->is_api = options->is_api;
	server->public_path = options->public_path;
	pthread_mutex_init(&server->handling, NULL);
	response_cache_init(&server->kept, RESPONSE_CACHE_BYTES);
	unauthenticated_init(&server->unauthenticated, UNAUTHENTICATED_MAX);
	int fd = open_socket(server, options, error);

	if (fd >= 0 && !guard_init(&server->guard, server->host, server->reach == LISTEN_ANY)) {
		close(fd);
		fd = error_set(error, "cannot generate a token: no random numbers");
	}
	server->guard.bearer = options->bearer;
	if (fd >= 0) {
		server->url = url_of(server, server->guard.token);
		server->url_once = url_of(server, server->guard.once);
	}
	if (fd >= 0 && start_daemon(server, fd, error) == 0) {
		if (server->url && server->url_once)
			return server;
		error_set(error, "out of memory");
	}
	serve_stop(server);
	return NULL;
}

void serve_stop(struct server *server)
{
	if (server->daemon)
		http.MHD_stop_daemon(server->daemon);
	if (server->daemon && server->socket_path)
		unlink(server->socket_path);
	response_cache_release(&server->kept);
	unauthenticated_release(&server->unauthenticated);
	pthread_mutex_destroy(&server->handling);
	free(server->socket_path);
	free(server->host);
	free(server->url);
	free(server->url_once);
	free(server);
}

const char *serve_url(const struct server *server)
{
	return server->url;
}

const char *serve_url_once(const struct server *server)
{
	return server->url_once;
}

uint16_t serve_port(const struct server *server)
{
	return server->port;
}

bool serve_is_public(const struct server *server)
{
	return server->reach != LISTEN_HERE;
}
