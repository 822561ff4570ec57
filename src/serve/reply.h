/* SPDX-License-Identifier: Apache-2.0 */
/* An answer as it is sent: its bytes, plain and packed, with the headers that keep a page harmless. One thread at a time. */
#ifndef SERVE_REPLY_H
#define SERVE_REPLY_H

#include <microhttpd.h>
#include <stdbool.h>

#include "base/span.h"
#include "util/buffer.h"

struct reply {
	struct MHD_Response *plain;
	struct MHD_Response *packed; /* NULL: not asked for yet, or it does not help */
	struct span body;	     /* of plain, which owns it */
	size_t packed_bytes;
	unsigned status;
	const char *type; /* a literal */
	char *policy;	  /* what the page may do: Content-Security-Policy */
};

extern const char reply_json[], reply_page[], reply_text[];

/* Takes the body. A nonce is needed for a page only. False, and nothing is made, if out of memory. */
bool reply_make(struct reply *reply, unsigned status, const char *type, const char *nonce,
		struct buffer *body);
/* One more header. */
bool reply_header(struct reply *reply, const char *name, const char *value);
/* Hands it to the connection; the reply may go right after. `accepts` is the request's Accept-Encoding, or NULL. */
enum MHD_Result reply_send(struct reply *reply, struct MHD_Connection *connection,
			   const char *accepts);
void reply_release(struct reply *reply);

#endif
