/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Responses as they are sent: see reply.h.
 *
 * All have the same headers: browsers must not store a response, frame it, guess its type, or send its address to
 * other sites. A page may run scripts that carry its nonce and make requests to this server; nothing else.
 * Compression uses zlib's fastest level: the client is usually on the same machine, at worst behind ssh.
 */
#include "serve/reply.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "serve/http.h"
#include "util/cleanup.h"
#include "util/gzip.h"

const char reply_json[] = "application/json";
const char reply_page[] = "text/html; charset=utf-8";
const char reply_text[] = "text/plain; charset=utf-8";
const char reply_pprof[] = "application/octet-stream"; /* gzipped already */
const char reply_metrics[] = "text/plain; version=0.0.4; charset=utf-8";
const char reply_openmetrics[] = "application/openmetrics-text; version=1.0.0; charset=utf-8";

enum { PACK_FROM_BYTES = 16 * 1024 };

static const char *const harmless_headers[][2] = {
	{ "Cache-Control", "no-store" },
	{ "X-Content-Type-Options", "nosniff" },
	{ "X-Frame-Options", "DENY" },
	{ "Referrer-Policy", "no-referrer" },
	{ "Cross-Origin-Opener-Policy", "same-origin" },
	{ "Cross-Origin-Resource-Policy", "same-origin" },
};

static char *policy_of(const char *type, const char *nonce)
{
	struct buffer out = BUFFER_INIT;

	buffer_text(&out, "default-src 'none'; base-uri 'none'; form-action 'none'; "
			  "frame-ancestors 'none'");
	if (type == reply_page)
		buffer_printf(&out,
			      "; script-src 'nonce-%s'; style-src 'nonce-%s'; connect-src 'self'; "
			      "img-src 'self' data:",
			      nonce, nonce);
	return buffer_take_string(&out);
}

static bool add_headers(struct MHD_Response *response, const char *type, const char *policy)
{
	bool added = http.MHD_add_response_header(response, "Content-Type", type) &&
		     http.MHD_add_response_header(response, "Content-Security-Policy", policy);

	for (size_t i = 0; i < ARRAY_SIZE(harmless_headers) && added; i++)
		added = http.MHD_add_response_header(response, harmless_headers[i][0],
						     harmless_headers[i][1]);
	return added;
}

/* Returns a response that owns the body. Frees the body and returns NULL if out of memory. */
static struct MHD_Response *response_of(struct buffer *body, const char *type, const char *policy)
{
	struct buffer taken = *body;
	struct MHD_Response *response;

	*body = BUFFER_INIT;
	response =
		http.MHD_create_response_from_buffer(taken.size, taken.data, MHD_RESPMEM_MUST_FREE);
	if (!response) {
		buffer_release(&taken);
		return NULL;
	}
	if (add_headers(response, type, policy))
		return response;
	http.MHD_destroy_response(response);
	return NULL;
}

bool reply_make(struct reply *reply, unsigned status, const char *type, const char *nonce,
		struct buffer *body)
{
	*reply = (struct reply){ .status = status,
				 .type = type,
				 .policy = policy_of(type, nonce),
				 .body = buffer_span(body) };
	if (!body->failed && reply->policy)
		reply->plain = response_of(body, type, reply->policy);
	buffer_release(body);
	if (!reply->plain)
		reply_release(reply);
	return reply->plain;
}

bool reply_header(struct reply *reply, const char *name, const char *value)
{
	return http.MHD_add_response_header(reply->plain, name, value) == MHD_YES;
}

static void make_packed(struct reply *reply)
{
	AUTO(buffer_release) struct buffer packed = BUFFER_INIT;
	size_t bytes;

	if (reply->packed || reply->type == reply_pprof || reply->body.size < PACK_FROM_BYTES ||
	    !gzip_append(&packed, reply->body, GZIP_FASTEST))
		return;
	bytes = packed.size;
	reply->packed = response_of(&packed, reply->type, reply->policy);
	if (!reply->packed)
		return;
	if (http.MHD_add_response_header(reply->packed, "Content-Encoding", "gzip") == MHD_YES) {
		reply->packed_bytes = bytes;
		return;
	}
	http.MHD_destroy_response(reply->packed);
	reply->packed = NULL;
}

enum MHD_Result reply_send(struct reply *reply, struct MHD_Connection *connection,
			   const char *accepts)
{
	if (accepts && strstr(accepts, "gzip"))
		make_packed(reply);
	return http.MHD_queue_response(
		connection, reply->status,
		reply->packed && accepts && strstr(accepts, "gzip") ? reply->packed : reply->plain);
}

void reply_release(struct reply *reply)
{
	if (reply->plain)
		http.MHD_destroy_response(reply->plain);
	if (reply->packed)
		http.MHD_destroy_response(reply->packed);
	free(reply->policy);
	*reply = (struct reply){ 0 };
}
