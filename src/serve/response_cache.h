/* SPDX-License-Identifier: Apache-2.0 */
/* A cache of responses, keyed by request, with a memory limit and LRU eviction. Any thread. */
#ifndef SERVE_RESPONSE_CACHE_H
#define SERVE_RESPONSE_CACHE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "serve/reply.h"
#include "serve/serve.h"
#include "util/vector.h"

struct cached_response {
	char *question;
	struct reply reply;
	uint64_t used_at;
};

struct response_cache {
	pthread_mutex_t lock; /* protects the rest */
	size_t limit_bytes;
	VECTOR(struct cached_response) list;
	uint64_t clock; /* counts uses, for LRU */
};

void response_cache_init(struct response_cache *kept, size_t limit_bytes);
void response_cache_release(struct response_cache *kept);

/*
 * Returns the request as one text, the cache key: it does not depend on the order of parameters, except among those
 * of the same name. The caller frees it; NULL if out of memory.
 */
char *response_cache_key(const struct serve_request *request);

/* Sends the cached response. Returns false if there is none. */
bool response_cache_send(struct response_cache *kept, const char *question,
			 struct MHD_Connection *connection, const char *accepts,
			 enum MHD_Result *ret);
/* Takes ownership of the reply. */
void response_cache_add(struct response_cache *kept, const char *question, struct reply *reply);

#endif
