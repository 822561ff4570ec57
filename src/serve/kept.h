/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers that are kept, by what was asked, up to a limit of memory: the one not asked for longest goes
 * first. Any thread.
 */
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
	uint64_t clock; /* counts uses */
};

void kept_init(struct kept_answers *kept, size_t limit_bytes);
void kept_release(struct kept_answers *kept);

/*
 * What was asked, as one text: the same for parameters in another order, as long as those of one name are in
 * theirs. The caller's (free); NULL if out of memory.
 */
char *kept_question(const struct serve_request *request);

/* Sends the answer. False: there is none. */
bool kept_send(struct kept_answers *kept, const char *question, struct MHD_Connection *connection,
	       const char *accepts, enum MHD_Result *ret);
/* Takes the reply. */
void kept_add(struct kept_answers *kept, const char *question, struct reply *reply);

#endif
