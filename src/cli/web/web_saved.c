/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page as a file that opens from disk: the same page, with the responses to its requests embedded, and all sites
 * for what filters select (web_sites.c).
 *
 * The queries are a list, the most useful first. They are spelled as the page spells them (view first, then sorted
 * by name), because the page looks them up by text; for the limit it accepts whatever is there. They are compressed,
 * to a tenth. Responses that would make the file too large to mail are left out, and the page says so where they are
 * missing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "analysis/result/imported.h"
#include "base/compiler.h"
#include "cli/web/web.h"
#include "model/image/reach.h"
#include "serve/guard.h"
#include "serve/page.h"
#include "util/cleanup.h"
#include "util/text/base64.h"
#include "util/text/json.h"

enum {
	DATA_MAX_BYTES = 16000000,
	SITES_MAX_BYTES = 40000000,
	PARAMS_MAX = 8,
	QUESTION_MAX_BYTES = 128
};

static const char *const questions[] = {
	"view=summary",
	"view=sites&cost=peak&kind=heap&limit=300",
	"view=functions&by=own&cost=peak&limit=20",
	"view=functions&by=own&cost=leaked&limit=20",
	"view=functions&by=own&cost=calls&limit=20",
	"view=functions&by=own&cost=temporary&limit=20",
	"view=functions&by=own&cost=max&kind=mmap&limit=20",
	"view=flame&cost=peak&fold-libraries=1&limit=300",
	"view=timeline&limit=400",
	"view=snapshots",
	"view=advice",
	"view=memory",
	"view=growth&limit=100",
	"view=sites&cost=leaked&kind=heap&limit=300",
	"view=sites&cost=calls&kind=heap&limit=300",
	"view=sites&cost=temporary&kind=heap&limit=300",
	"view=sites&cost=total&kind=heap&limit=300",
	"view=sites&cost=max&kind=mmap&limit=300",
	"view=health",
	"view=modules",
	"view=globals&limit=100",
	"view=processes",
	"view=threads",
	"view=tags&cost=peak",
	"view=tags&cost=leaked",
	"view=tags&cost=total",
	"view=tags&cost=calls",
	"view=pools",
	"view=sizes&cost=calls&limit=200",
	"view=lifetimes&limit=60",
	"view=reallocs&limit=60",
	"view=history&cost=peak&limit=40",
	"view=history&by=own&cost=peak&limit=9",
	"view=functions&by=thread&limit=100",
	"view=functions&by=thread&cost=peak&limit=100",
	"view=functions&by=thread&cost=leaked&limit=100",
	"view=functions&by=size&cost=calls&limit=100",
	"view=sizes&cost=total&limit=200",
	"view=sizes&cost=waste&limit=200",
	"view=sizes&cost=live&limit=200",
	"view=threads&cost=calls",
	"view=threads&cost=total",
	"view=history&by=own&cost=leaked&limit=9",
	"view=history&by=own&cost=total&limit=9",
	"view=history&by=own&cost=calls&limit=9",
	"view=history&by=own&cost=temporary&limit=9",
	/* refused, and so skipped, by a recording without pages or timed calls */
	"view=pages&limit=300",
	"view=sites&cost=time&kind=heap&limit=300",
	"view=flame&cost=time&limit=3000",
	"view=functions&by=own&cost=time&limit=300",
	"view=functions&by=function&cost=time&limit=300",
	"view=threads&cost=time",
	"view=map&limit=5000",
};

/* Those that a page with all sites answers itself, and better: these have fewer rows. */
static const char *const summed_questions[] = {
	"view=flame&cost=peak&limit=3000",
	"view=functions&by=label&cost=peak",
	"view=types&cost=peak&limit=100",
	"view=functions&by=function&cost=peak&limit=300",
	"view=functions&by=module&cost=peak&limit=100",
	"view=functions&by=line&cost=peak&limit=300",
	"view=flame&cost=leaked&limit=3000",
	"view=flame&cost=total&limit=3000",
	"view=functions&by=function&cost=leaked&limit=300",
	"view=functions&by=function&cost=total&limit=300",
	"view=functions&by=function&cost=calls&limit=300",
	"view=functions&by=function&cost=temporary&limit=300",
	"view=functions&by=type&cost=peak&limit=100",
	"view=functions&by=file&cost=peak&limit=100",
	"view=functions&by=process&cost=peak&limit=100",
	"view=functions&by=module&cost=total&limit=100",
	"view=functions&by=module&cost=calls&limit=100",
	"view=flame&cost=calls&limit=2000",
	"view=flame&cost=temporary&limit=2000",
};

/* The page of a heap profile of another tool asks for live memory where that of a recording asks for the peak. */
static const char *const imported_questions[] = {
	"view=flame&cost=leaked&fold-libraries=1&limit=300",
	"view=functions&by=own&cost=leaked&limit=300",
	"view=functions&by=line&cost=leaked&limit=300",
	"view=functions&by=file&cost=leaked&limit=100",
	"view=functions&by=module&cost=leaked&limit=100",
	"view=functions&by=type&cost=leaked&limit=100",
	"view=functions&by=language&cost=leaked&limit=100",
	"view=sites&at=end&cost=blocks&kind=heap&limit=300",
	"view=flame&at=end&cost=blocks&limit=3000",
};

static const char *const image_questions[] = {
	"view=leaks&limit=300",
};

/* With several processes, Start shows the one that was started: these queries are repeated for it alone. */
static const char *const started_questions[] = {
	"view=summary",
	"view=timeline&limit=400",
	"view=snapshots",
	"view=history&by=own&cost=peak&limit=9",
	"view=flame&cost=peak&fold-libraries=1&limit=300",
	"view=functions&by=own&cost=peak&limit=20",
	"view=functions&by=own&cost=leaked&limit=20",
	"view=functions&by=own&cost=calls&limit=20",
	"view=functions&by=own&cost=temporary&limit=20",
	"view=functions&by=own&cost=max&kind=mmap&limit=20",
	"view=sites&cost=peak&kind=heap&limit=300",
	"view=memory",
	"view=advice",
	"view=growth&limit=100",
	"view=sites&cost=leaked&kind=heap&limit=300",
	"view=sites&cost=calls&kind=heap&limit=300",
	"view=sites&cost=temporary&kind=heap&limit=300",
	"view=sites&cost=max&kind=mmap&limit=300",
};

/* Splits "a=b&c=d" into parameters; the values above need no decoding. */
static size_t cut(char *question, struct serve_param params[PARAMS_MAX])
{
	size_t count = 0;
	char *rest = question;

	while (rest && count < PARAMS_MAX) {
		char *word = strsep(&rest, "&"), *value = strchr(word, '=');

		ASSERT(value);
		*value = '\0';
		params[count++] = (struct serve_param){ word, value + 1 };
	}
	return count;
}

/* Appends the JSON without whitespace between tokens. */
static void append_packed(struct buffer *out, struct span json)
{
	bool inside = false; /* inside a string */

	for (size_t i = 0; i < json.size; i++) {
		char c = (char)json.data[i];

		if (inside && c == '\\' && i + 1 < json.size) {
			buffer_append(out, &json.data[i++], 2);
			continue;
		}
		if (c == '"')
			inside = !inside;
		if (inside || (c != ' ' && c != '\n'))
			buffer_char(out, c);
	}
}

/* Skips a query that does not apply to this recording: the page shows the error that the server would send. */
static void add_answer(struct web *web, const char *question, struct buffer *data)
{
	AUTO(buffer_release) struct buffer answer = BUFFER_INIT;
	struct serve_param params[PARAMS_MAX];
	char words[QUESTION_MAX_BYTES];
	size_t before = data->size;

	memccpy(words, question, '\0', sizeof words);
	if (web_result(web, params, cut(words, params), &answer, NULL) < 0)
		return;
	if (data->data[before - 1] != '{')
		buffer_char(data, ',');
	buffer_printf(data, "\"%s\":", question);
	append_packed(data, buffer_span(&answer));
	if (data->size > DATA_MAX_BYTES)
		data->size = before;
}

static void add_answers(struct web *web, const char *const *list, size_t count, struct buffer *data)
{
	for (size_t i = 0; i < count; i++)
		add_answer(web, list[i], data);
}

static void add_started(struct web *web, struct buffer *data)
{
	const struct profile *profile = web->files.at[0].profile;
	char question[QUESTION_MAX_BYTES];

	for (size_t i = 0; profile->process_count > 1 && i < ARRAY_SIZE(started_questions); i++) {
		snprintf(question, sizeof question, "%s&process=%u", started_questions[i],
			 profile->processes[0].pid);
		add_answer(web, question, data);
	}
}

static void append_compressed(struct buffer *out, const struct buffer *json)
{
	AUTO(buffer_release) struct buffer packed = BUFFER_INIT;
	uLongf size = compressBound(json->size);
	uint8_t *room = buffer_reserve(&packed, size);

	if (json->failed || !room ||
	    compress2(room, &size, json->data, json->size, Z_BEST_COMPRESSION) != Z_OK)
		out->failed = true;
	else
		base64_append(out, span_of(room, size));
}

/* Appends all responses, compressed. */
static void append_results(struct web *web, bool has_sites, struct buffer *out)
{
	AUTO(buffer_release) struct buffer results = BUFFER_INIT;

	buffer_char(&results, '{');
	add_started(web, &results);
	add_answers(web, questions, ARRAY_SIZE(questions), &results);
	if (!has_sites)
		add_answers(web, summed_questions, ARRAY_SIZE(summed_questions), &results);
	if (profile_is_imported(web->files.at[0].profile))
		add_answers(web, imported_questions, ARRAY_SIZE(imported_questions), &results);
	if (profile_any_reach(web->files.at[0].profile))
		add_answers(web, image_questions, ARRAY_SIZE(image_questions), &results);
	buffer_char(&results, '}');
	append_compressed(out, &results);
}

/* Makes the sites. Returns why the page cannot have them; NULL: it has them. */
static const char *make_sites(struct web *web, struct buffer *sites)
{
	const char *missing = web_sites_missing(web);

	if (missing)
		return missing;
	if (web_sites(web, sites, NULL) < 0)
		sites->failed = true;
	return sites->size > SITES_MAX_BYTES ? "the recording has too many stacks" : NULL;
}

static void append_sites(struct buffer *out, const struct buffer *sites, const char *missing)
{
	if (missing) {
		buffer_printf(out, ",\"sites_missing\":\"%s\"", missing);
		return;
	}
	buffer_text(out, ",\"sites_zlib\":\"");
	append_compressed(out, sites);
	buffer_char(out, '"');
}

int web_save(struct web *web, struct buffer *out, struct error *error)
{
	AUTO(buffer_release) struct buffer data = BUFFER_INIT;
	AUTO(buffer_release) struct buffer about = BUFFER_INIT, sites = BUFFER_INIT;
	char nonce[GUARD_SECRET_BYTES];

	web_about(web, &about);
	buffer_text(&data, "{\"saved\":true,\"about\":");
	append_packed(&data, buffer_span(&about));
	buffer_text(&data, ",\"results_zlib\":\"");
	const char *missing = make_sites(web, &sites);

	append_results(web, !missing, &data);
	buffer_char(&data, '"');
	append_sites(&data, &sites, missing);
	buffer_char(&data, '}');
	if (!guard_secret(nonce) || data.failed)
		return error_set(error, "out of memory");
	if (!page_fill(out, nonce, buffer_span(&data)))
		return error_set(error, WEB_NO_PAGE);
	return out->failed ? error_set(error, "out of memory") : 0;
}
