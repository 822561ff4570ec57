/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent answers over HTTP. */
#ifndef AGENT_ENDPOINTS_H
#define AGENT_ENDPOINTS_H

#include "agent/agent.h"
#include "serve/serve.h"

#define ENDPOINT_HEALTH "/healthz"

serve_handler endpoints_answer; /* context: the agent */

/* "127.0.0.1:9464", "[::1]:9464", "unix:/run/x.sock" -> serve options; the host is malloc'd into *ret_host. -1 with the error
 * set. */
int endpoints_listen(const char *listen, struct serve_options *ret, char **ret_host,
		     struct error *error);

#endif
