/* SPDX-License-Identifier: Apache-2.0 */
/* Data passed between collector and recorder besides the profile: the hidden environment variable with the settings, and the
 * messages on the collector's socket. Compiled into both: no libc, no allocation. */
#ifndef FORMAT_LIVE_LIVE_HANDOVER_H
#define FORMAT_LIVE_LIVE_HANDOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/live/live_hooks.h"
#include "format/wraps.h"

/* doc: live_ticket: names one entry of a process' fork and exec log. Whoever starts a program gives it the entry's ticket, and
 * the program's own profile repeats it. */
struct live_ticket {
	uint64_t profile; /* live_own.id of the process that wrote the entry; 0 = no ticket */
	uint32_t serial;  /* of the entry */
	uint32_t pad;
};

struct live_secret {
	uint64_t word[2];
};

/* doc: live_settings: how a process is to be recorded. */
enum { LIVE_SOCKET_BYTES = 96, LIVE_FOLDER_BYTES = 256, LIVE_RANKS_BYTES = 512 };
enum { LIVE_OTEL_BYTES = 256, LIVE_OTEL_KEYS = 8 };
struct live_settings {
	struct live_secret secret; /* a process that presents it belongs to this recording */
	uint64_t mode, mode_on;	   /* enum live_mode; see live_control */
	uint64_t interval, depth_limit, cpu_millionths;
	uint64_t budget_bytes, budget_limit_bytes; /* until the collector updates them */
	uint64_t stack_least_bytes, stack_most_bytes;
	uint64_t follow_fork, follow_exec, exact_peak;
	uint64_t python_domains; /* record the allocators of Python as pools */
	uint64_t python_tasks;	 /* label allocations with their asyncio task */
	uint64_t free_sites;	 /* record the stacks that free blocks */
	uint64_t time_calls;	 /* time one call of the allocator in this many; 0 = none */
	uint64_t hold_exit;	 /* wait at exit for the collector, which takes an image */
	uint64_t core;		 /* make the profile part of core files */
	uint64_t total_bytes;	 /* maximum size of the profile; 0 = LIVE_TOTAL_DEFAULT */
	struct live_hooks hooks;
	char collector
		[LIVE_SOCKET_BYTES]; /* its socket, "@PATH": the abstract socket, with a fallback to the file of that name */
	char folder[LIVE_FOLDER_BYTES]; /* for profiles that cannot be sent; "" = none */
	char ranks
		[LIVE_RANKS_BYTES]; /* ranks of a parallel job to record, "0-0;3-5;"; "" = all of them */
	char otel_labels
		[LIVE_OTEL_BYTES]; /* keys of OpenTelemetry's thread context, "http.route;tenant"; at most LIVE_OTEL_KEYS; "" = none */
	char wraps[WRAPS_TEXT_MAX + 1];
};

/* The environment variable. The collector appends LD_PRELOAD (its own library before the previous value) and this as the last
 * two entries: ld.so uses the last one. The recorder removes both from the program's environment at start-up and passes them to
 * programs that it starts, with a ticket each. Its value is the ticket, in LIVE_TICKET_TEXT digits, and the settings as written
 * by live_settings_write. */
#define LIVE_ENV_HANDOVER "HEAPGAUGE_HANDOVER"
enum {
	LIVE_TICKET_TEXT = 24, /* 16 hexadecimal digits of the profile, 8 of the serial */
	LIVE_SETTINGS_NUMBERS = 40,
	LIVE_TIME_CALLS_MAX = 1 << 16,
	LIVE_SETTINGS_TEXT = LIVE_SETTINGS_NUMBERS * 17 + LIVE_SOCKET_BYTES + LIVE_FOLDER_BYTES +
			     LIVE_RANKS_BYTES + LIVE_OTEL_BYTES + WRAPS_TEXT_MAX + 4,
};
void live_ticket_write(char to[static LIVE_TICKET_TEXT], struct live_ticket ticket);
/* False: not LIVE_TICKET_TEXT digits. */
bool live_ticket_read(const char *from, struct live_ticket *ret);
/* Writes the settings as zero-terminated text. Neither name may contain a comma. */
void live_settings_write(char to[static LIVE_SETTINGS_TEXT + 1],
			 const struct live_settings *settings);
/* False: not written by live_settings_write; *ret is undefined then. */
bool live_settings_read(const char *from, struct live_settings *ret);

/* doc: live_hello: the one message that a recorder sends to the collector's socket (SOCK_SEQPACKET). It carries the descriptor
 * of the profile by SCM_RIGHTS; where there is none, the process' memory has to be read. Nobody answers. */
#define LIVE_HELLO_MAGIC "HGHELLO2"
#define LIVE_HELLO_MAGIC_CHARS                                                                     \
	{                                                                                          \
		'H', 'G', 'H', 'E', 'L', 'L', 'O', '2'                                             \
	}
struct live_hello {
	char magic[8];
	struct live_secret secret;
	uint64_t at; /* address of the profile in the process, if no descriptor is sent; else 0 */
	struct live_ticket
		ticket; /* its own; with neither descriptor nor `at`: it is not recorded, by intention */
};

/* doc: live_request: what another process requests from the collector over the same socket, and the answer. */
#define LIVE_REQUEST_MAGIC "HGSNAP02"
enum { LIVE_REQUEST_NAME = 64 };
struct live_request {
	char magic[8];
	struct live_secret secret;
	uint32_t pid;		      /* of a recorded process; 0 = all of them */
	char name[LIVE_REQUEST_NAME]; /* of the snapshot; zero-terminated */
	uint32_t pad;
};
struct live_answer {
	char magic[8];	  /* LIVE_REQUEST_MAGIC */
	uint64_t granted; /* 1: it will be done */
};

/* Variables in which launchers of parallel jobs store a process' rank, each with one that must be set too (NULL: none). The
 * first match counts. */
#define LIVE_RANK_VARIABLES                                                                        \
	{ "PMIX_RANK", NULL }, { "OMPI_COMM_WORLD_RANK", NULL }, { "PMI_RANK", NULL },             \
	{                                                                                          \
		"SLURM_PROCID", "SLURM_STEP_ID"                                                    \
	}

/* In constant time. */
static inline bool live_secret_equal(const struct live_secret *a, const struct live_secret *b)
{
	return ((a->word[0] ^ b->word[0]) | (a->word[1] ^ b->word[1])) == 0;
}
#endif
