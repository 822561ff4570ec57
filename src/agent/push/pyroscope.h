/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes profiles for Pyroscope's push API (push.v1.PushRequest, POST to PYROSCOPE_PATH as application/proto). A request is
 * `repeated series`, so a batch of requests is their concatenation. Any thread.
 */
#ifndef AGENT_PUSH_PYROSCOPE_H
#define AGENT_PUSH_PYROSCOPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "util/buffer.h"
#include "util/error.h"

#define PYROSCOPE_PATH "/push.v1.PusherService/Push"
#define PYROSCOPE_CONTENT_TYPE "application/proto"

/* Limits that the store enforces by default. */
enum {
	PYROSCOPE_LABELS_MAX = 30,
	PYROSCOPE_LABEL_NAME_MAX = 1024,  /* bytes */
	PYROSCOPE_LABEL_VALUE_MAX = 2048, /* bytes */
};

struct pyroscope_label {
	const char *name, *value;
};

/* Identifies one profile of one process. */
struct pyroscope_source {
	const char
		*machine; /* boot id or host: pids repeat on other machines and after a restart */
	uint64_t pid, start_time, serial;
};

/* A UUID as text. */
struct pyroscope_id {
	char text[37];
};

/* Equal for equal sources: an item that is sent twice can be recognized. */
struct pyroscope_id pyroscope_id(const struct pyroscope_source *source);

/*
 * Appends the request for one gzipped pprof profile. The labels may be in any order. Adds __name__ and __delta__, which the caller
 * must not; omits labels with an empty value. A value that is too long is truncated, and what is not UTF-8 in it is replaced,
 * because values come from other programs. Fails, with out unchanged, if a name is not valid or not unique, if there are too many
 * labels, or if service_name is missing.
 */
int pyroscope_encode(const struct pyroscope_label *labels, size_t count, struct pyroscope_id id,
		     struct span profile, struct buffer *out, struct error *err);

#endif
