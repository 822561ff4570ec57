/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `heapgauge record` prints on stderr while the program runs and when it lets processes go: the progress line, which is
 * redrawn in place, and sentences, which erase it first.
 *
 * Owns nothing but the terminal's current line. The collector calls these functions, in its thread.
 * Invariant: what is printed leaves no half-drawn progress line behind.
 */
#include "cli/record_messages.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/commands.h"
#include "util/terminal.h"
#include "util/text/units.h"

void progress_line_draw(void *context, const struct collect_progress *progress)
{
	struct progress_line *line = context;
	unsigned columns = terminal_of(STDERR_FILENO).columns;
	char text[256];
	int length;

	length = snprintf(text, sizeof text, "  %s   live %s   peak %s   %s allocs/s   RSS %s",
			  units_duration(progress->elapsed_ns).text,
			  units_bytes(progress->live_bytes).text,
			  units_bytes(progress->peak_bytes).text,
			  units_count_short(progress->calls_per_second).text,
			  units_bytes(progress->rss_bytes).text);
	if (progress->processes > 1 && length > 0 && (size_t)length < sizeof text)
		snprintf(text + length, sizeof text - (size_t)length, "   %llu processes%s",
			 (unsigned long long)progress->processes,
			 progress->first_ended ? " still running" : "");
	else if (progress->first_ended && length > 0 && (size_t)length < sizeof text)
		snprintf(text + length, sizeof text - (size_t)length,
			 "   a descendant is still running");
	/* A line that wraps cannot be erased. */
	fprintf(stderr, "\r%.*s\033[K", columns > 1 ? (int)columns - 1 : 0, text);
	fflush(stderr);
	line->shown = true;
}

void progress_line_erase(const struct progress_line *line)
{
	if (line->shown) {
		fputs("\r\033[K", stderr);
		fflush(stderr);
	}
}

/* "2 descendants are still running: gpg-agent (4711), dirmngr (4713)" */
static void put_survivors(const struct collect_survivors *who, const char *one, const char *many)
{
	enum { SHOWN = 8 };

	fprintf(stderr, "%zu %s still running: ", who->count, who->count == 1 ? one : many);
	for (size_t i = 0; i < who->count && i < SHOWN; i++)
		fprintf(stderr, "%s%s (%d)", i > 0 ? ", " : "", who->at[i].name,
			(int)who->at[i].pid);
	if (who->count > SHOWN)
		fprintf(stderr, " and %zu more", who->count - SHOWN);
}

/* Printed once, with or without a terminal: otherwise the user does not know why we still wait. */
void progress_line_lives_on(void *context, pid_t program, const struct collect_survivors *who)
{
	const struct progress_line *line = context;

	progress_line_erase(line);
	fprintf(stderr, "heapgauge: pid %d has ended, ", (int)program);
	put_survivors(who, "descendant is", "descendants are");
	fprintf(stderr, ".\n  Recording continues until %s",
		who->count == 1 ? "it ends" : "they end");
	if (line->wait_ns != COLLECT_WAIT_ALL)
		fprintf(stderr, ", for at most %s", units_duration(line->wait_ns).text);
	fputs("; press Ctrl-C twice to stop.\n", stderr);
}

/* Names the processes that are no longer recorded. */
void record_print_let_go(const struct collect_result *result)
{
	const struct collect_survivors *who = &result->survivors;
	bool one = who->count == 1;

	if (who->count == 0)
		return;
	fputs("heapgauge: ", stderr);
	if (result->end == COLLECT_LEFT)
		put_survivors(who, "process is", "processes are");
	else
		put_survivors(who, "descendant is", "descendants are");
	fprintf(stderr, ".\n  %s current state is in the recording; %s no longer recorded.%s\n",
		one ? "Its" : "Their", one ? "it is" : "they are",
		result->end == COLLECT_LEFT ? ""
					    : " '--wait all' records until the last has ended.");
}

/* Problems are printed even with --quiet. */
void progress_line_print(void *context, bool problem, const char *sentence)
{
	const struct progress_line *line = context;

	if (line->quiet && !problem)
		return;
	progress_line_erase(line);
	cli_error("%s", sentence);
}

void record_print_elsewhere(const struct collect_result *result)
{
	if (result->path)
		cli_error("%s. The recording is %s instead: move it to a folder with free space",
			  result->not_written, result->path);
	else
		cli_error("%s, and there is no space in TMPDIR, /var/tmp, /tmp, HOME or /dev/shm: "
			  "the recording is lost; free space or name another folder with -o",
			  result->not_written);
}
