/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of libmicrohttpd that the server needs, loaded when a server starts: the library depends on a TLS
 * library, whose start-up would cost every other command more than its own.
 */
#ifndef SERVE_HTTP_H
#define SERVE_HTTP_H

#include <microhttpd.h>

#include "util/error.h"

#define HTTP_FUNCTIONS(FUNCTION)                                                                   \
	FUNCTION(MHD_add_response_header)                                                          \
	FUNCTION(MHD_create_response_from_buffer)                                                  \
	FUNCTION(MHD_destroy_response)                                                             \
	FUNCTION(MHD_get_connection_info)                                                          \
	FUNCTION(MHD_get_connection_values)                                                        \
	FUNCTION(MHD_http_unescape)                                                                \
	FUNCTION(MHD_lookup_connection_value)                                                      \
	FUNCTION(MHD_queue_response)                                                               \
	FUNCTION(MHD_start_daemon)                                                                 \
	FUNCTION(MHD_stop_daemon)

#define HTTP_MEMBER(name) __typeof__(name) *name;
struct http {
	HTTP_FUNCTIONS(HTTP_MEMBER)
};
extern struct http http;

/* Call before any of them; repeated calls do nothing. Returns -1 with the error set. */
int http_load(struct error *error);

#endif
