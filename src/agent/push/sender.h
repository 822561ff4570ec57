/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends what is queued, in a thread of its own, until the store has accepted it. What cannot be delivered now stays queued, and is
 * tried again after a growing delay with jitter, so that a fleet of agents does not return all at once. An item that the store
 * refuses for what it contains is dropped and counted.
 *
 * A batch that fails is sent again item by item. The store may have accepted a part of it, and then gets that part twice, because
 * its answer does not tell: with one item for each request (batch_bytes 0) this cannot happen.
 */
#ifndef AGENT_PUSH_SENDER_H
#define AGENT_PUSH_SENDER_H

#include <stddef.h>
#include <stdint.h>

#include "agent/push/http_client.h"
#include "agent/push/queue.h"
#include "util/error.h"

/* How a request ended, as in metrics. */
enum sender_class {
	SENDER_OK,
	SENDER_NETWORK,	     /* not connected, or no answer in time */
	SENDER_TLS,	     /* certificates */
	SENDER_LOCAL,	     /* a token, password or certificate file cannot be read */
	SENDER_UNAUTHORIZED, /* 401, 403: kept, because tokens are rotated */
	SENDER_LIMITED,	     /* 429 */
	SENDER_UNAVAILABLE,  /* 408, 5xx */
	SENDER_REFUSED,	     /* 400, 413, 422: what was sent is not acceptable */
	SENDER_UNEXPECTED,   /* any other answer: probably not the URL of a store */
	SENDER_CLASSES,
};
const char *sender_class_name(enum sender_class class);

enum sender_action {
	SENDER_DELETE, /* delivered */
	SENDER_DROP,   /* never acceptable */
	SENDER_SINGLY, /* send again at once, item by item */
	SENDER_RETRY,  /* the same, later */
	SENDER_OTHERS, /* later, others first: may be due to this item */
};

struct sender_decision {
	enum sender_class class;
	enum sender_action action;
	uint64_t wait_ns; /* before the next request */
};

/*
 * What to do after a request with `items` items was answered so. `failures`: consecutive ones, with this one; `random` makes the
 * jitter. A pure function.
 */
struct sender_decision sender_decide(const struct http_reply *reply, size_t items,
				     unsigned failures, uint64_t random);

struct sender_options {
	struct http_client_options http;
	/* Maximum of a request with several items; 0: one item for each request. The store's limits count uncompressed bytes. */
	size_t batch_bytes;
};

struct sender_counters {
	uint64_t requests[SENDER_CLASSES];
	uint64_t sent_items, sent_bytes; /* accepted */
	uint64_t last_success_ns;	 /* wall-clock time; 0: none */
	uint64_t last_error_ns;		 /* 0: none */
	char last_error[HTTP_REPLY_BYTES + 64];
};

struct sender;

/* Starts the thread. The queue and the texts of the options must outlive it. Returns NULL with err set. */
struct sender *sender_start(struct queue *queue, const struct sender_options *options,
			    struct error *err);
/* Something was queued: send it now, unless a failure is being waited out. Any thread. */
void sender_wake(struct sender *sender);
/* Any thread. */
struct sender_counters sender_counters(struct sender *sender);
/* Stops the thread within two seconds and releases it; what is not delivered stays queued. NULL is fine. */
void sender_stop(struct sender *sender);

#endif
