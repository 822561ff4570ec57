/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One easy handle for each client, which keeps its connection between requests. All options are set again for each request, since
 * the files that they name may have changed. Secrets are only in `struct request`, which is overwritten at its end, and in libcurl.
 *
 * Owns the table of functions, which is filled by the first http_client_new and never changes afterwards.
 */
#include "agent/push/http_client.h"

#define CURL_DISABLE_TYPECHECK /* its macros cannot call the functions of a table */
#include <curl/curl.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/text/printable.h"

enum { SECRET_MAX = 64 << 10, ANSWER_MAX = 1 << 20, CONNECT_MS = 10000, TOTAL_MS = 30000 };

#define CURL_FUNCTIONS(FUNCTION)                                                                   \
	FUNCTION(curl_easy_cleanup)                                                                \
	FUNCTION(curl_easy_getinfo)                                                                \
	FUNCTION(curl_easy_init)                                                                   \
	FUNCTION(curl_easy_perform)                                                                \
	FUNCTION(curl_easy_reset)                                                                  \
	FUNCTION(curl_easy_setopt)                                                                 \
	FUNCTION(curl_easy_strerror)                                                               \
	FUNCTION(curl_slist_append)                                                                \
	FUNCTION(curl_slist_free_all)                                                              \
	FUNCTION(curl_global_init)

#define CURL_MEMBER(name) __typeof__(name) *name;
static struct {
	CURL_FUNCTIONS(CURL_MEMBER)
} curl;

struct http_client {
	struct http_client_options options;
	CURL *handle;
};

/* What one request refers to while it runs. */
struct request {
	struct buffer secret; /* NUL-terminated */
	struct buffer body;   /* of the answer, at most HTTP_REPLY_BYTES */
	size_t body_bytes;    /* all that was received */
	struct curl_slist *headers;
	char error[CURL_ERROR_SIZE];
	const atomic_bool *stop;
	bool failed; /* an option could not be set, or out of memory */
};

/* ---- loading ---- */

/* Converts a void pointer to a function pointer, for which ISO C has no cast. */
#define FIND(name)                                                                                 \
	do {                                                                                       \
		void *found_ = dlsym(library, #name);                                              \
                                                                                                   \
		if (!found_)                                                                       \
			return error_set(err, CURL_LIBRARY " has no " #name);                      \
		memcpy(&curl.name, &found_, sizeof found_);                                        \
	} while (0);

static int load(struct error *err)
{
	void *library;

	if (curl.curl_global_init)
		return 0;
	library = dlopen(CURL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return error_set(err,
				 "pushing profiles needs " CURL_LIBRARY
				 ", which cannot be loaded (%s): install libcurl4",
				 dlerror());
	CURL_FUNCTIONS(FIND) /* the last one found is what tells that all were */
	if (curl.curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return error_set(err, CURL_LIBRARY " cannot be initialized");
	return 0;
}

/* ---- options ---- */

/* Whether the text can be part of a header or URL. */
static bool is_plain(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return false;
	return true;
}

static int check_url(const char *url, struct error *err)
{
	const char *host = NULL;

	if (strncmp(url, "http://", 7) == 0)
		host = url + 7;
	else if (strncmp(url, "https://", 8) == 0)
		host = url + 8;
	if (!host || !is_plain(url) || strchr(url, ' '))
		return error_set(err, "not a URL of http or https");
	if (memchr(host, '@', strcspn(host, "/?#")))
		return error_set(err,
				 "the URL contains a user or password: use the options for it");
	if (strcspn(host, "/?#:") == 0)
		return error_set(err, "the URL has no host");
	return 0;
}

static int check_options(const struct http_client_options *o, struct error *err)
{
	if (check_url(o->url, err) < 0)
		return -1;
	if (o->tenant && !is_plain(o->tenant))
		return error_set(err, "the tenant contains control characters");
	if (o->user && (!is_plain(o->user) || strchr(o->user, ':')))
		return error_set(err, "the user contains characters that are not allowed");
	if (!o->user != !o->password_file)
		return error_set(err, "a user needs a password file, and the reverse");
	if (o->user && o->token_file)
		return error_set(err, "either a token file or a user, not both");
	if (o->key_file && !o->certificate_file)
		return error_set(err, "a key file needs a certificate file");
	return 0;
}

struct http_client *http_client_new(const struct http_client_options *options, struct error *err)
{
	struct http_client *client;

	if (check_options(options, err) < 0 || load(err) < 0)
		return NULL;
	client = calloc(1, sizeof *client);
	if (client) {
		client->options = *options;
		client->handle = curl.curl_easy_init();
		if (client->handle)
			return client;
	}
	free(client);
	error_set(err, "out of memory");
	return NULL;
}

void http_client_free(struct http_client *client)
{
	if (!client)
		return;
	curl.curl_easy_cleanup(client->handle);
	free(client);
}

/* ---- a request ---- */

static size_t keep_body(char *data, size_t size, size_t count, void *context)
{
	struct request *r = context;
	size_t room = HTTP_REPLY_BYTES - r->body.size;

	buffer_append(&r->body, data, MIN(room, size * count));
	r->body_bytes += size * count;
	return r->body_bytes > ANSWER_MAX ? 0 : size * count; /* 0: abort */
}

static int progress(void *context, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
		    curl_off_t up)
{
	const struct request *r = context;

	(void)down_total, (void)down, (void)up_total, (void)up;
	return atomic_load(r->stop); /* not 0: abort */
}

static void add_header(struct request *r, const char *name, const char *value)
{
	AUTO(buffer_release) struct buffer header = BUFFER_INIT;
	struct curl_slist *longer = NULL;
	const char *text;

	buffer_printf(&header, "%s%s", name, value);
	text = buffer_string(&header);
	if (text)
		longer = curl.curl_slist_append(r->headers, text);
	if (longer)
		r->headers = longer;
	r->failed |= !longer;
	if (header.data)
		explicit_bzero(header.data, header.capacity);
}

static void release_request(struct request *r)
{
	for (struct curl_slist *h = r->headers; h; h = h->next)
		explicit_bzero(h->data, strlen(h->data));
	curl.curl_slist_free_all(r->headers);
	if (r->secret.data)
		explicit_bzero(r->secret.data, r->secret.capacity);
	buffer_release(&r->secret);
	buffer_release(&r->body);
}

/* Reads a token or password without the newline at its end. */
static int read_secret(struct request *r, const char *path, struct error *err)
{
	char *text;

	if (file_read(path, SECRET_MAX, &r->secret, err) < 0)
		return -1;
	while (r->secret.size && strchr("\r\n", r->secret.data[r->secret.size - 1]))
		r->secret.size--;
	text = buffer_string(&r->secret);
	if (!text)
		return error_set(err, "read %s: out of memory", path);
	if (r->secret.size == 0)
		return error_set(err, "%s is empty", path);
	if (strlen(text) != r->secret.size || !is_plain(text))
		return error_set(err, "%s contains control characters", path);
	return 0;
}

#define SET(option, value) (r->failed |= curl.curl_easy_setopt(h, option, value) != CURLE_OK)
/* For options that an older library does not have. */
#define TRY(option, value) ((void)curl.curl_easy_setopt(h, option, value))

static void set_transfer(CURL *h, const struct http_client_options *o, struct span body,
			 struct request *r)
{
	SET(CURLOPT_URL, o->url);
#if LIBCURL_VERSION_NUM >= 0x075500
	TRY(CURLOPT_PROTOCOLS_STR, "http,https"); /* check_url ensures it too */
#endif
	SET(CURLOPT_FOLLOWLOCATION, 0L);
	SET(CURLOPT_PROXY, o->proxy ? o->proxy : "");
	SET(CURLOPT_NOPROXY, "");
	SET(CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
	TRY(CURLOPT_QUICK_EXIT, 1L); /* does not wait for a name server when stopped */
#endif
	SET(CURLOPT_USERAGENT, "heapgauge");
	SET(CURLOPT_CONNECTTIMEOUT_MS,
	    (long)(o->connect_timeout_ms ? o->connect_timeout_ms : CONNECT_MS));
	SET(CURLOPT_TIMEOUT_MS, (long)(o->timeout_ms ? o->timeout_ms : TOTAL_MS));
	SET(CURLOPT_POSTFIELDS, (const char *)body.data);
	SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.size);
	SET(CURLOPT_ERRORBUFFER, r->error);
	SET(CURLOPT_WRITEFUNCTION, keep_body);
	SET(CURLOPT_WRITEDATA, r);
	SET(CURLOPT_XFERINFOFUNCTION, progress);
	SET(CURLOPT_XFERINFODATA, r);
	SET(CURLOPT_NOPROGRESS, 0L);
}

static void set_tls(CURL *h, const struct http_client_options *o, struct request *r)
{
	TRY(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	SET(CURLOPT_SSL_VERIFYPEER, 1L);
	SET(CURLOPT_SSL_VERIFYHOST, 2L);
	if (o->ca_file)
		SET(CURLOPT_CAINFO, o->ca_file);
	if (o->certificate_file)
		SET(CURLOPT_SSLCERT, o->certificate_file);
	if (o->key_file)
		SET(CURLOPT_SSLKEY, o->key_file);
}

static int set_headers(CURL *h, const struct http_client_options *o, struct request *r,
		       struct error *err)
{
	add_header(r, "Content-Type: ", o->content_type);
	add_header(r, "Expect:", ""); /* do not wait for "100 Continue" */
	if (o->tenant)
		add_header(r, "X-Scope-OrgID: ", o->tenant);
	if (o->token_file) {
		if (read_secret(r, o->token_file, err) < 0)
			return -1;
		add_header(r, "Authorization: Bearer ", (const char *)r->secret.data);
	}
	if (o->user) {
		if (read_secret(r, o->password_file, err) < 0)
			return -1;
		SET(CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
		SET(CURLOPT_USERNAME, o->user);
		SET(CURLOPT_PASSWORD, (const char *)r->secret.data);
	}
	SET(CURLOPT_HTTPHEADER, r->headers);
	return 0;
}

static enum http_outcome outcome_of(CURLcode code)
{
	switch (code) {
	case CURLE_OK:
		return HTTP_ANSWERED;
	case CURLE_ABORTED_BY_CALLBACK:
		return HTTP_STOPPED;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CIPHER:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
	case CURLE_SSL_INVALIDCERTSTATUS:
		return HTTP_TLS;
	default:
		return HTTP_NETWORK;
	}
}

/* Keeps what fits, without a part of a character at its end. */
static void set_message(struct http_reply *reply, const char *text)
{
	AUTO(buffer_release) struct buffer shown = BUFFER_INIT;
	size_t size;

	buffer_printable(&shown, text, false);
	size = MIN(shown.size, sizeof reply->message - 1);
	while (size && size < shown.size && (shown.data[size] & 0xc0) == 0x80)
		size--;
	if (size)
		memcpy(reply->message, shown.data, size);
	reply->message[size] = '\0';
}

static struct http_reply perform(CURL *h, struct request *r)
{
	CURLcode code = curl.curl_easy_perform(h);
	struct http_reply reply = { .outcome = outcome_of(code) };
	curl_off_t retry_after = 0;
	const char *text;
	long status = 0;

	if (code != CURLE_OK) {
		set_message(&reply, r->error[0] ? r->error : curl.curl_easy_strerror(code));
		return reply;
	}
	curl.curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &status);
	curl.curl_easy_getinfo(h, CURLINFO_RETRY_AFTER, &retry_after);
	reply.status = (int)status;
	reply.retry_after_s = retry_after > 0 ? (uint64_t)retry_after : 0;
	text = buffer_string(&r->body);
	/* A proxy may repeat the request that it refuses. */
	if (text && !(r->secret.size && strstr(text, (const char *)r->secret.data)))
		set_message(&reply, text);
	return reply;
}

struct http_reply http_client_post(struct http_client *client, struct span body,
				   const atomic_bool *stop)
{
	AUTO(release_request) struct request r = { .stop = stop };
	struct http_reply reply = { .outcome = HTTP_LOCAL };
	struct error err = ERROR_INIT;

	curl.curl_easy_reset(client->handle); /* keeps the connection */
	set_transfer(client->handle, &client->options, body, &r);
	set_tls(client->handle, &client->options, &r);
	if (set_headers(client->handle, &client->options, &r, &err) < 0)
		set_message(&reply, err.message);
	else if (r.failed)
		set_message(&reply, "the options of the request cannot be set");
	else
		reply = perform(client->handle, &r);
	curl.curl_easy_reset(client->handle); /* refers to `r` no more */
	return reply;
}
