/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of a running process. The process is read only while a page polls, at most once a second and for at most
 * a twentieth of the time. The last reading is kept, even after the process has ended.
 *
 * Owns the watch. One thread at a time, like the rest of web.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "cli/commands.h"
#include "cli/web/web.h"
#include "collect/attach/watch.h"
#include "model/build.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/text/json.h"

#define LEAST_INTERVAL_NS                                                                          \
	(NS_PER_S - NS_PER_S / 20) /* a little less than a page's polling interval of one second */
enum { READ_SHARE = 20 };

struct web_live {
	struct watch *watch;
	uint64_t reading; /* number of the current reading, from 1 */
	uint64_t read_real_ns, due_ns;
	bool ended;
	struct error problem; /* of the last attempt; "": none */
};

void web_live_free(struct web_live *live)
{
	if (!live)
		return;
	watch_free(live->watch);
	free(live);
}

static void replace_profile(struct web *web, struct profile *profile)
{
	struct web_file *file = &web->files.at[0];

	web_forget_names(web);
	profile_free(file->profile);
	file->profile = profile;
	web->sources_known = false;
}

/* Keeps the last reading if no new one can be taken. */
static int take_reading(struct web *web, struct error *error)
{
	struct web_live *live = web->live;
	uint64_t began_ns = clock_monotonic_ns();
	struct recording recording = { 0 };
	struct profile *profile = NULL;

	if (watch_take(live->watch, HEAPGAUGE_VERSION, &recording, &live->ended, error) == 0)
		profile = profile_new(&recording, error);
	uint64_t took_ns = clock_monotonic_ns() - began_ns;

	live->due_ns = began_ns + MAX(LEAST_INTERVAL_NS, took_ns * READ_SHARE);
	if (!profile)
		return -1;
	replace_profile(web, profile);
	live->reading++;
	live->read_real_ns = clock_real_ns();
	return 0;
}

int web_watch(struct web *web, pid_t pid, const char *before_path, struct error *error)
{
	struct web_file file = { .pid = pid };

	web->live = calloc(1, sizeof *web->live);
	if (!web->live || asprintf(&file.path, "process %d", (int)pid) < 0)
		return error_set(error, "out of memory");
	if (!vector_push(&web->files, file)) {
		free(file.path);
		return error_set(error, "out of memory");
	}
	web->live->watch = watch_new(pid, error);
	if (!web->live->watch || take_reading(web, error) < 0)
		return -1;
	return before_path ? web_open_file(&web->before, before_path, error) : 0;
}

static void print_state(const struct web_live *live, struct buffer *out)
{
	struct json j = json_to(out, JSON_COMPACT);

	json_object(&j);
	json_field_schema(&j);
	json_field_u64(&j, "reading", live->reading);
	json_field_u64(&j, "read_real_ns", live->read_real_ns);
	json_field_bool(&j, "ended", live->ended);
	json_field_string(&j, "problem", live->problem.message[0] ? live->problem.message : NULL);
	json_end_object(&j);
}

void web_live(struct web *web, const struct serve_request *request, struct serve_answer *answer)
{
	struct web_live *live = web->live;

	(void)request;
	if (!live) {
		serve_refuse(answer, 404, "not live: this is a recording, not a running process");
		return;
	}
	if (!live->ended && clock_monotonic_ns() >= live->due_ns) {
		live->problem = ERROR_INIT;
		(void)take_reading(web, &live->problem);
	}
	print_state(live, &answer->body);
}
