/* SPDX-License-Identifier: Apache-2.0 */
/* A cache of responses, keyed by request, with a memory limit and LRU eviction. Any thread. */
#ifndef SERVE_KEPT_H
#define SERVE_KEPT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "serve/reply.h"
#include "serve/serve.h"
#include "util/vector.h"

struct kept_answer {
	char *question;
	struct reply reply;
	uint64_t used_at;
};

struct kept_answers {
	pthread_mutex_t lock; /* protects the rest */
	size_t limit_bytes;
	VECTOR(struct kept_answer) list;
	uint64_t clock; /* counts uses, for LRU */
};

void kept_init(struct kept_answers *kept, size_t limit_bytes);
void kept_release(struct kept_answers *kept);

/*
 * Returns the request as one text, the cache key: it does not depend on the order of parameters, except among those
 * of the same name. The caller frees it; NULL if out of memory.
 */
char *kept_question(const struct serve_request *request);

/* Sends the cached response. Returns false if there is none. */
bool kept_send(struct kept_answers *kept, const char *question, struct MHD_Connection *connection,
	       const char *accepts, enum MHD_Result *ret);
/* Takes ownership of the reply. */
void kept_add(struct kept_answers *kept, const char *question, struct reply *reply);

#endif
