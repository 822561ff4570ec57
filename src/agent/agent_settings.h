/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of the agent: one INI file, checked as a whole. docs/how-to/agent.md explains each. */
#ifndef AGENT_AGENT_SETTINGS_H
#define AGENT_AGENT_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/arena.h"
#include "util/error.h"
#include "util/vector.h"

struct agent_label {
	const char *key;
	const char *value; /* a text, "env:NAME" of the process, or "file:PATH" of the agent */
};

struct agent_settings {
	struct arena arena; /* owns all texts */
	const char *path;   /* of the file; NULL: none, all defaults */

	/* [agent] */
	const char *listen; /* "ADDRESS:PORT" or "unix:PATH"; "none": no server */
	const char
		*token_file; /* NULL: none; then only this user and root may ask, on this machine */
	const char *state;   /* folder for queue and baselines; NULL: none, which pushing needs */
	uint64_t interval_ns; /* between two readings of a process */
	bool names;	      /* look up the names of functions */
	uint64_t reader_uid;  /* who reads the processes of root */
	uint64_t max_processes;
	uint64_t max_series; /* of processes, in /metrics */

	VECTOR(struct agent_label) labels; /* [labels] */

	/* [pyroscope] */
	const char *url; /* NULL: no push */
	const char *push_token_file, *user, *password_file, *tenant;
	const char *ca_file, *certificate_file, *key_file;
	uint64_t timeout_ns;
	uint64_t batch_bytes; /* of a request with several profiles; 0: each has its own */

	/* [files] */
	const char *folder; /* NULL: no files */
	uint64_t folder_bytes;

	/* [symbols] */
	const char *symbols; /* folder for the files that name functions; NULL: none */
	uint64_t symbols_bytes;

	/* [queue] */
	uint64_t queue_bytes, queue_age_ns;

	/* [ended] */
	const char *leftovers; /* the HEAPGAUGE_DIR of processes, separated by ':'; NULL: none */
	const char *keep;      /* folder for recordings of killed processes; NULL: none */
	uint64_t keep_bytes;
};

/* Reads the file; a NULL path gives the defaults. -1 with the error set ("agent.ini:3: ..."). Release in either case. */
int agent_settings_read(struct agent_settings *ret, const char *path, struct error *error);
void agent_settings_release(struct agent_settings *settings);

/* The first line of a file, without the newline, for tokens and passwords; at most 4 KiB. The file must not be readable by
 * others. The caller frees it; NULL with the error set, which never has the content. */
char *agent_secret_read(const char *path, struct error *error);

#endif
