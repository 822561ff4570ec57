/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The summary at the end of a run: the view `summary` of the file just written, and its path. Computed from the
 * rows in memory, or from the file if there were too many to keep; a later report of the file shows the same
 * (test_record.py).
 */
#include "cli/summary.h"

#include <string.h>
#include <sys/stat.h>

#include "cli/open.h"
#include "model/build.h"
#include "serve/page.h"
#include "util/buffer.h"
#include "util/cleanup.h"
#include "util/text/printable.h"
#include "util/terminal.h"
#include "util/text/units.h"

enum { SUMMARY_PROCESSES = 8 };

static int print_end(FILE *out, const char *path, struct error *error)
{
	AUTO(buffer_release) struct buffer view = BUFFER_INIT;
	struct stat status;

	if (stat(path, &status) != 0)
		return error_errno(error, "stat %s", path);
	if (page_is_built()) {
		buffer_text(&view, "   picture -> heapgauge view ");
		append_shell_word(&view, path);
	}
	const char *picture = buffer_string(&view);

	fputs("\n  wrote ", out);
	print_printable(out, path);
	fprintf(out, " (%s)", units_bytes((uint64_t)status.st_size).text);
	print_printable(out, picture ? picture : "");
	fputc('\n', out);
	return 0;
}

int summary_print(FILE *out, const char *path, struct recording *recording, struct error *error)
{
	struct profile *profile;

	if (recording->process_count > 0)
		profile = profile_new(recording, error);
	else if (path)
		profile = recording_open(path, error);
	else
		return 0;
	if (!profile)
		return -1;
	struct terminal terminal = terminal_of(fileno(out));
	AUTO_FREE char *again = path ? report_again(path, 0) : strdup("");
	const struct query query = { .file = path, .again = again, .limit = SUMMARY_PROCESSES };
	const struct show show = {
		.view = analysis_find("summary"),
		.renderer = renderer_find("text"),
		.query = &query,
		.names = { .use_symbols = true, .use_store = true, .style = NAMES_SHORT },
		.render = { .columns = terminal.columns_given ? terminal.columns : 0,
			    .colours = terminal.colours,
			    .utf8 = terminal.utf8,
			    .terminal = terminal.is_tty },
	};

	fputs("heapgauge: ", out);
	int status = show_profile(out, profile, &show, error);

	profile_free(profile);
	return status < 0 || !path ? status : print_end(out, path, error);
}
