/* SPDX-License-Identifier: Apache-2.0 */
/* A response as it is sent: its bytes, plain and compressed, with security headers. One thread at a time. */
#ifndef SERVE_REPLY_H
#define SERVE_REPLY_H

#include <microhttpd.h>
#include <stdbool.h>

#include "base/span.h"
#include "util/buffer.h"

struct reply {
	struct MHD_Response *plain;
	struct MHD_Response *packed; /* compressed; NULL: not needed yet, or not smaller */
	struct span body;	     /* owned by `plain` */
	size_t packed_bytes;
	unsigned status;
	const char *type; /* a literal */
	char *policy;	  /* the Content-Security-Policy of the page */
};

extern const char reply_json[], reply_page[], reply_text[], reply_pprof[], reply_metrics[],
	reply_openmetrics[];

/* Takes ownership of the body. Only a page needs a nonce. Returns false, with nothing made, if out of memory. */
bool reply_make(struct reply *reply, unsigned status, const char *type, const char *nonce,
		struct buffer *body);
/* Adds a header. */
bool reply_header(struct reply *reply, const char *name, const char *value);
/* Queues the response; the reply may be released right after. `accepts` is the request's Accept-Encoding, or
 * NULL. */
enum MHD_Result reply_send(struct reply *reply, struct MHD_Connection *connection,
			   const char *accepts);
void reply_release(struct reply *reply);

#endif
